"""The right solutions of lab 3 under ``tests/styles/lab3`` are right, and really different.

They guard the promise that every right style scores full marks, so each must agree with the
reference solution, and no two may ask torch for the same multiset of operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.styles import solutions
from tests.styles.solutions import OperatorCounter, Student, error, load, numbers

STYLES = solutions.STYLES / "lab3"
REFERENCE = solutions.SOLUTIONS / "lab3_kv_cache"
FOLDERS = solutions.styles("lab3")
BATCH, SEQ, DIM, HEADS, KV_HEADS, SIZE, INNER = 3, 11, 44, 6, 2, 16, 60
PIECES = (5, 3, 2, 1)
REF = load(REFERENCE)
X = numbers(BATCH, SEQ, DIM, seed=1)
TABLE = REF.attention.precompute_freqs_cis(SIZE, 20, 1e6)


def modules(student: Student, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Cache, attention and MLP with spread weights."""
    cache = student.attention.KVCache(BATCH, SEQ + 2, KV_HEADS, SIZE, dtype)
    attention = student.attention.GroupedQueryAttention(DIM, HEADS, KV_HEADS, SIZE, 3e-4, cache)
    mlp = student.mlp.FeedForward(DIM, INNER)
    for module in (attention, mlp):
        for number, (_, p) in enumerate(sorted(module.named_parameters())):
            values = numbers(*p.shape, seed=100 + number)
            spread = values / p.shape[-1] ** 0.5 if p.ndim == 2 else 1 + 0.6 * values
            p.data.copy_(spread)
    return cache, attention.to(dtype), mlp.to(dtype)


def padding(dtype: torch.dtype) -> Tensor:
    """Causal ``[B, 1, T, T]``; row 1 is padded on the left, a padded query sees itself."""
    mask = torch.full((BATCH, 1, SEQ, SEQ), torch.finfo(dtype).min, dtype=dtype).triu(1)
    mask[1, :, :, :3] = torch.finfo(dtype).min
    mask[1].diagonal(dim1=-2, dim2=-1).zero_()
    return mask


def answers(student: Student, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """A prompt at once, the same in pieces, padded rows in pieces, and the MLP."""
    cache, attention, mlp = modules(student, dtype)
    x, mask = X.to(dtype), padding(dtype)

    def in_pieces(mask: Tensor | None) -> Tensor:
        cache.reset()
        found, first = [], 0
        for count in PIECES:
            end = first + count
            own = None if mask is None else mask[..., first:end, :end]
            found.append(attention(x[:, first:end], first, TABLE, own))
            first = end
        return torch.cat(found, dim=1)

    with torch.no_grad():
        return {
            "at once": attention(x, 0, TABLE),
            "pieces": in_pieces(None),
            "padded": in_pieces(mask),
            "mlp": mlp(x),
        }


@cache
def right() -> dict[str, Tensor]:
    """What the reference answers to the programme, in float32."""
    return answers(REF)


@cache
def operators(folder: Path) -> Counter[str]:
    """The multiset of operators of a fixed programme."""
    student, counter = load(folder), OperatorCounter()
    with counter:
        answers(student)
        student.attention.precompute_freqs_cis(SIZE, 5, 1e6)
        student.attention.permute_for_complex(X[0, :8], 2, 4)
    return counter.seen


def all_of_them() -> Iterator[Path]:
    yield REFERENCE
    yield from (STYLES / name for name in FOLDERS)


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest) -> Path:
    return STYLES / str(request.param)


def test_there_are_enough_styles() -> None:
    assert len(FOLDERS) >= 8


def test_operators_differ_from_every_other_style(folder: Path) -> None:
    assert operators(folder), "no operator was seen"
    twins = [p.name for p in all_of_them() if p != folder and operators(p) == operators(folder)]
    assert not twins, f"{folder.name} dispatches the same operators as {', '.join(twins)}"


def test_the_reference_agrees_with_itself() -> None:
    found = right()
    assert error(found["pieces"], found["at once"]) <= 2e-6
    assert error(found["padded"], found["at once"]) > 0.01


def test_float32_agrees_with_the_reference(folder: Path) -> None:
    actual = answers(load(folder))
    for name, expected in right().items():
        assert actual[name].dtype == torch.float32
        assert error(actual[name], expected) <= 2e-6, name


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 3e-2), (torch.float16, 5e-3)])
def test_half_precision_runs(folder: Path, dtype: torch.dtype, limit: float) -> None:
    actual = answers(load(folder), dtype)
    for name, expected in right().items():
        assert actual[name].dtype == dtype
        assert error(actual[name], expected) <= limit, name


def test_functions_agree_with_the_reference(folder: Path) -> None:
    mine, ref = load(folder), REF
    table = mine.attention.precompute_freqs_cis(SIZE, 300, 1e6)
    assert table.dtype == torch.complex64
    expected = ref.attention.precompute_freqs_cis(SIZE, 300, 1e6)
    # float32 angles near 300 are themselves only good to about 1e-5.
    assert error(torch.view_as_real(table), torch.view_as_real(expected)) <= 1e-5
    for shape, heads in (((24, 5), 3), ((8,), 1)):
        weight = numbers(*shape, seed=7)
        moved = mine.attention.permute_for_complex(weight, heads, 8)
        assert torch.equal(moved, ref.attention.permute_for_complex(weight, heads, 8))
    for size in ((4096, 256, None), (8192, 4096, 1.3), (48, 64, None), (2048, 256, 1.5)):
        assert mine.mlp.feed_forward_size(*size) == ref.mlp.feed_forward_size(*size)
    state = {"a.mlp.gate_proj.weight": X, "a.mlp.down_proj.weight": X, "norm.weight": X}
    assert mine.mlp.convert_hf_mlp(state).keys() == ref.mlp.convert_hf_mlp(state).keys()


def test_a_cache_refuses_and_forgets(folder: Path) -> None:
    store = load(folder).attention.KVCache(1, 4, 1, 2, torch.float32)
    k = torch.ones(1, 3, 1, 2)
    for wrong in ((k, 2), (k, 1)):  # too many, and a gap
        with pytest.raises(ValueError):
            store.update(wrong[0], wrong[0], wrong[1])
    assert [t.shape[1] for t in store.update(k, k, 0)] == [3, 3]
    assert [t.shape[1] for t in store.update(k[:, :1], k[:, :1], 1)] == [2, 2]
    store.reset()
    assert [t.shape[1] for t in store.update(k[:, :1], k[:, :1], 0)] == [1, 1]
