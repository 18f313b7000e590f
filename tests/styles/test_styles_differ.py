"""The right solutions of lab 2 under ``tests/styles/lab2`` are right, and really different.

They guard the promise that every right style scores full marks, so each must agree with the
reference solution, and no two may ask torch for the same multiset of operators: a second copy
of the same computation would guard nothing.
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

from labs.given.config import Qwen3Config
from tests.styles import solutions
from tests.styles.solutions import OperatorCounter, Student, error, load, numbers

STYLES = solutions.STYLES / "lab2"
REFERENCE = solutions.SOLUTIONS / "lab2_qwen3_block"
FOLDERS = solutions.styles("lab2")

# Every size differs from every other, and heads * head_dim is not hidden.
CONFIG = Qwen3Config(
    vocab_size=97,
    hidden_size=40,
    intermediate_size=56,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=16,
    rms_norm_eps=3e-4,
)
UNTIED = Qwen3Config(151_936, 4096, 12_288, 36, 32, 8, 128, tie_word_embeddings=False)
BATCH, SEQ, PAD = 4, 11, 3


def weights_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """N(0, 1/fan_in) matrices; norm weights spread, so that equal halves hide nothing."""
    drawn = {}
    for i, (name, p) in enumerate(sorted(module.state_dict().items())):
        values = numbers(*p.shape, seed=100 + i)
        drawn[name] = values / p.shape[-1] ** 0.5 if p.ndim == 2 else 1 + 0.6 * values
    return drawn


REF = load(REFERENCE)
X = numbers(BATCH, SEQ, CONFIG.hidden_size, seed=1)
WEIGHTS = {
    "attention": weights_of(REF.attention.Qwen3Attention(CONFIG)),
    "mlp": weights_of(REF.mlp.Qwen3MLP(CONFIG)),
}
PLAIN = torch.arange(SEQ)
BATCHED = torch.stack((PLAIN, (PLAIN - PAD).clamp(min=0), PLAIN + 7, PLAIN + 300))


def modules(student: Student, dtype: torch.dtype) -> tuple[Any, Any]:
    attention, mlp = student.attention.Qwen3Attention(CONFIG, 0), student.mlp.Qwen3MLP(CONFIG)
    attention.load_state_dict(WEIGHTS["attention"])
    mlp.load_state_dict(WEIGHTS["mlp"])
    return attention.to(dtype), mlp.to(dtype)


def left_padding(dtype: torch.dtype) -> Tensor:
    """Causal ``[B, 1, T, T]``; row 1 is padded on the left, a padded query sees itself."""
    lowest = torch.finfo(dtype).min
    mask = torch.full((BATCH, 1, SEQ, SEQ), lowest, dtype=dtype).triu(1)
    mask[1, :, :, :PAD] = lowest
    mask[1].diagonal(dim1=-2, dim2=-1).zero_()
    return mask


def outputs(student: Student, dtype: torch.dtype, scale: float = 1.0) -> dict[str, Tensor]:
    """What the two modules answer, after making sure that they leave their inputs alone."""
    attention, mlp = modules(student, dtype)
    x, mask, positions = (X * scale).to(dtype), left_padding(dtype), BATCHED.clone()
    before = [t.clone() for t in (x, mask, positions)]
    with torch.no_grad():
        answers = {
            "causal": attention(x),
            "shifted": attention(x, position_ids=PLAIN + 300),
            "padded": attention(x, attention_mask=mask, position_ids=positions),
            "2-D mask": attention(x, attention_mask=mask[0, 0]),
        }
        if scale == 1.0:  # gate * up of large fp16 inputs overflows for good reason
            answers["mlp"] = mlp(x)
    for old, new in zip(before, (x, mask, positions), strict=True):
        assert torch.equal(old, new), "an input was changed in place"
    return answers


@cache
def right(scale: float = 1.0) -> dict[str, Tensor]:
    """What the reference answers in float32."""
    return outputs(REF, torch.float32, scale)


@cache
def operators(folder: Path) -> Counter[str]:
    """The multiset of operators of a fixed programme: two attentions and one MLP."""
    attention, mlp = modules(load(folder), torch.float32)
    mask, counter = left_padding(torch.float32), OperatorCounter()
    with torch.no_grad(), counter:
        attention(X)
        attention(X, attention_mask=mask, position_ids=BATCHED)
        mlp(X)
    return counter.seen


def all_of_them() -> Iterator[Path]:
    yield REFERENCE
    yield from (STYLES / name for name in FOLDERS)


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest) -> Path:
    return STYLES / str(request.param)


def test_there_are_enough_styles() -> None:
    assert len(FOLDERS) >= 14


def test_operators_differ_from_every_other_style(folder: Path) -> None:
    assert operators(folder), "no operator was seen"
    twins = [p.name for p in all_of_them() if p != folder and operators(p) == operators(folder)]
    assert not twins, f"{folder.name} dispatches the same operators as {', '.join(twins)}"


def test_the_counter_sees_through_names() -> None:
    """The same computation in other words counts the same: the comparison can fail."""
    a, b = OperatorCounter(), OperatorCounter()
    with torch.no_grad(), a:
        torch.matmul(X, X.transpose(1, 2))
    with torch.no_grad(), b:
        X @ X.swapaxes(-1, -2)
    assert a.seen == b.seen != Counter()


def test_float32_agrees_with_the_reference(folder: Path) -> None:
    actual = outputs(load(folder), torch.float32)
    for name, expected in right().items():
        assert actual[name].dtype == torch.float32
        assert error(actual[name], expected) <= 2e-6, name


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 3e-2), (torch.float16, 5e-3)])
def test_half_precision_runs(folder: Path, dtype: torch.dtype, limit: float) -> None:
    actual = outputs(load(folder), dtype)
    for name, expected in right().items():
        assert actual[name].dtype == dtype
        assert error(actual[name], expected) <= limit, name


def test_large_float16_inputs_do_not_overflow(folder: Path) -> None:
    actual = outputs(load(folder), torch.float16, scale=300.0)
    for name, expected in right(300.0).items():
        assert error(actual[name], expected) <= 5e-3, name


def test_gradients_agree_with_the_reference(folder: Path) -> None:
    def gradients(student: Student) -> list[Tensor]:
        attention, mlp = modules(student, torch.float32)
        x = X.clone().requires_grad_()
        y = attention(x, attention_mask=left_padding(torch.float32), position_ids=BATCHED)
        (attention(x) + mlp(y)).mul(numbers(*X.shape, seed=2)).sum().backward()
        named = sorted([*attention.named_parameters(), *mlp.named_parameters()])
        return [p.grad for p in (x, *(p for _, p in named)) if p.grad is not None]

    expected, actual = gradients(REF), gradients(load(folder))
    assert len(actual) == len(expected) == 10
    for a, e in zip(actual, expected, strict=True):
        assert error(a, e) <= 1e-5


def test_functions_agree_with_the_reference(folder: Path) -> None:
    mine, ref = load(folder).attention, REF.attention
    q, k = numbers(BATCH, 6, SEQ, 16, seed=3), numbers(BATCH, 2, SEQ, 16, seed=4)
    assert torch.equal(mine.rotate_half(q), ref.rotate_half(q))
    assert torch.equal(mine.repeat_kv(k, 3), ref.repeat_kv(k, 3))
    assert torch.equal(mine.repeat_kv(k, 1), k)
    for positions in (PLAIN, BATCHED):
        tables = ref.RotaryEmbedding(CONFIG)(positions)
        for actual, expected in zip(mine.RotaryEmbedding(CONFIG)(positions), tables, strict=True):
            assert actual.dtype == torch.float32
            assert actual.shape == expected.shape
            # float32 angles near 300 are themselves only good to about 1e-5.
            assert error(actual, expected) <= 1e-5
        for dtype, limit in ((torch.float32, 2e-6), (torch.bfloat16, 3e-2)):
            turned = mine.apply_rotary_pos_emb(q.to(dtype), k.to(dtype), *tables)
            assert [t.dtype for t in turned] == [dtype, dtype]
            right = ref.apply_rotary_pos_emb(q, k, *tables)
            # The pairs may come out in another order: only products and lengths are judged.
            for a, e in zip(_products(*turned), _products(*right), strict=True):
                assert error(a, e) <= limit


def _products(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, k = q.float(), k.float()
    return q @ k.repeat_interleave(3, dim=1).mT, q.norm(dim=-1), k.norm(dim=-1)


def test_accounting_agrees_with_the_reference(folder: Path) -> None:
    mine, ref = load(folder).mlp, REF.mlp
    for config in (CONFIG, UNTIED):
        counts = mine.count_parameters(config)
        assert counts == ref.count_parameters(config)
        assert {type(n) for n in counts.values()} == {int}
        for dtype in ("float32", "float16", "bfloat16"):
            assert mine.weight_bytes(config, dtype) == ref.weight_bytes(config, dtype)
            expected = ref.kv_cache_bytes(config, 77, 5, dtype)
            assert mine.kv_cache_bytes(config, 77, 5, dtype) == expected
