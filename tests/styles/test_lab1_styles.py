"""The right solutions of lab 1 under ``tests/styles/lab1`` are right, and really different.

They guard the promise that every right style scores full marks, so each must agree with the
reference solution, and no two may ask torch for the same multiset of operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.styles import solutions
from tests.styles.solutions import OperatorCounter, Student, error, load, numbers

STYLES = solutions.STYLES / "lab1"
REFERENCE = solutions.SOLUTIONS / "lab1_foundations"
FOLDERS = solutions.styles("lab1")
BATCH, HEADS, SEQ, HEAD_DIM, HIDDEN, INNER = 4, 3, 7, 8, 20, 36

X = numbers(BATCH, SEQ, HIDDEN, seed=1)
Q, K = numbers(2, HEADS, 5, 8, seed=2), numbers(2, HEADS, SEQ, 8, seed=3)
V = numbers(2, HEADS, SEQ, 6, seed=4)
CAUSAL = torch.ones(SEQ, SEQ, dtype=torch.bool).tril()
HOLES = CAUSAL[2:].clone()
HOLES[1] = False  # a query that sees nothing


def modules(student: Student, dtype: torch.dtype = torch.float32) -> dict[str, nn.Module]:
    """The four modules with spread weights."""
    made = {
        "attention": student.attention.MultiHeadAttention(HIDDEN, HEADS, HEAD_DIM),
        "layer_norm": student.mlp.LayerNorm(HIDDEN, eps=1e-3),
        "rms_norm": student.mlp.RMSNorm(HIDDEN, eps=1e-3),
        "feed_forward": student.mlp.FeedForward(HIDDEN, INNER),
    }
    for module in made.values():
        for i, (_, p) in enumerate(sorted(module.named_parameters())):
            values = numbers(*p.shape, seed=100 + i)
            spread = values / p.shape[-1] ** 0.5 if p.ndim == 2 else 1 + 0.6 * values
            p.data.copy_(spread)
    return {name: module.to(dtype) for name, module in made.items()}


def answers(student: Student, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """What everything answers to a fixed programme, after looking that no input changes."""
    made, a, m = modules(student, dtype), student.attention, student.mlp
    x, q, k, v = (t.to(dtype) for t in (X, Q, K, V))
    bias = numbers(5, SEQ, seed=6).masked_fill(~HOLES, -torch.inf).to(dtype)
    inputs = {"x": x, "q": q, "k": k, "v": v, "bias": bias}
    before = {name: tensor.clone() for name, tensor in inputs.items()}
    with torch.no_grad():
        found = {
            "softmax": a.softmax(x, -1),
            "softmax, first axis": a.softmax(x, 0),
            "plain": a.scaled_dot_product_attention(q, k, v),
            "bool": a.scaled_dot_product_attention(q, k, v, HOLES),
            "additive": a.scaled_dot_product_attention(q, k, v, bias),
            "silu": m.silu(x * 5),
            "all see all": made["attention"](x),
            "causal": made["attention"](x, CAUSAL),
        }
        found |= {name: made[name](x) for name in ("layer_norm", "rms_norm", "feed_forward")}
    for name, tensor in inputs.items():
        assert torch.equal(tensor, before[name]), f"{name} was changed in place"
    assert {tensor.dtype for tensor in found.values()} == {dtype}
    return found


REF = load(REFERENCE)


@cache
def right() -> dict[str, Tensor]:
    """What the reference answers to the programme, in float32."""
    return answers(REF)


@cache
def operators(folder: Path) -> Counter[str]:
    """The multiset of operators of the programme."""
    counter = OperatorCounter()
    with counter:
        answers(load(folder))
    return counter.seen


def all_of_them() -> Iterator[Path]:
    yield REFERENCE
    yield from (STYLES / name for name in FOLDERS)


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest) -> Path:
    return STYLES / str(request.param)


def test_there_are_enough_styles() -> None:
    assert len(FOLDERS) >= 9


def test_operators_differ_from_every_other_style(folder: Path) -> None:
    assert operators(folder), "no operator was seen"
    twins = [p.name for p in all_of_them() if p != folder and operators(p) == operators(folder)]
    assert not twins, f"{folder.name} dispatches the same operators as {', '.join(twins)}"


def test_float32_agrees_with_the_reference(folder: Path) -> None:
    actual = answers(load(folder))
    for name, expected in right().items():
        assert error(actual[name], expected) <= 2e-6, name


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 3e-2), (torch.float16, 5e-3)])
def test_half_precision_runs(folder: Path, dtype: torch.dtype, limit: float) -> None:
    actual = answers(load(folder), dtype)
    for name, expected in right().items():
        assert error(actual[name], expected) <= limit, name


def test_a_query_that_sees_nothing_gets_zeros(folder: Path) -> None:
    found = answers(load(folder))
    for name in ("bool", "additive"):
        assert not found[name][..., 1, :].any()
        assert found[name][..., 2, :].any()


@pytest.mark.parametrize(("q_len", "kv_len"), [(5, 5), (3, 7), (1, 6), (1, 1)])
def test_masks_are_equal(folder: Path, q_len: int, kv_len: int) -> None:
    mask = load(folder).attention.causal_mask(q_len, kv_len)
    assert mask.dtype == torch.bool
    assert torch.equal(mask, REF.attention.causal_mask(q_len, kv_len))


def test_gradients_agree_with_the_reference(folder: Path) -> None:
    def gradients(student: Student) -> list[Tensor]:
        made, x = modules(student), X.clone().requires_grad_()
        y = made["attention"](made["layer_norm"](x), CAUSAL)
        y = y + made["feed_forward"](made["rms_norm"](x + y))
        y.mul(numbers(*X.shape, seed=7)).sum().backward()
        grads = [x.grad, *(p.grad for n in sorted(made) for p in made[n].parameters())]
        return [grad for grad in grads if grad is not None]

    expected, actual = gradients(REF), gradients(load(folder))
    assert len(actual) == len(expected) == 11
    for a, e in zip(actual, expected, strict=True):
        assert error(a, e) <= 1e-5
