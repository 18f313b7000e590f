"""Cases of softmax and of the causal mask."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_foundations as oracle

INFINITE = float("inf")
SHAPES = ((3, 5, 7), (4, 2, 9), (6, 3, 5), (2, 7, 4))


def _drafted(x: torch.Tensor, en: str, zh: str) -> Draft:
    shape = list(x.shape)
    about = Text(f"{en}x {shape}, dim -1", f"{zh}x {shape}，dim -1")
    return draft(about, {"x": x, "y": oracle.softmax(x, -1)})


@recipe()
def softmax_last(draw: Draw) -> Draft:
    return _drafted(draw.normal(*draw.pick(SHAPES), scale=2.0), "", "")


def _every_axis(x: torch.Tensor) -> Draft:
    about = Text(f"x {list(x.shape)}, every dim", f"x {list(x.shape)}，每个 dim")
    results = {f"y{dim}": oracle.softmax(x, dim) for dim in range(x.ndim)}
    return draft(about, {"x": x} | results)


@recipe()
def softmax_axes(draw: Draw) -> Draft:
    """Every axis, counted from both ends."""
    return _every_axis(draw.normal(*draw.pick(SHAPES), scale=2.0))


@recipe()
def softmax_line(draw: Draw) -> Draft:
    """A single axis."""
    return _every_axis(draw.normal(draw.pick((7, 5, 9)), scale=2.0))


@recipe()
def softmax_thin(draw: Draw) -> Draft:
    """Four axes, two of them of length one, which have to stay."""
    rows, columns = draw.pick(((3, 5), (4, 7), (2, 6)))
    return _every_axis(draw.normal(rows, 1, columns, 1, scale=2.0))


@recipe()
def softmax_large(draw: Draw) -> Draft:
    """Rows around +10,000 and around -10,000: each needs the maximum of its own row."""
    rows, columns = draw.pick(((4, 7), (6, 5), (3, 9)))
    x = draw.normal(2, rows, columns, scale=2.0)
    x[0, ::2] += 1e4
    x[0, 1::2] -= 1e4
    x[1, 0] = draw.uniform(columns, low=-1e4, high=1e4)
    return _drafted(x, "logits of ±10,000: ", "logits 为 ±10,000：")


@recipe()
def softmax_blocked(draw: Draw) -> Draft:
    """Some logits are -inf, at least one of each row is not."""
    x = draw.normal(*draw.pick(SHAPES))
    blocked = draw.uniform(*x.shape, low=0, high=1) < 0.4
    blocked[..., draw.integer(0, x.shape[-1] - 1)] = False
    return _drafted(
        x.masked_fill(blocked, -INFINITE), "some logits -inf: ", "部分 logits 为 -inf："
    )


def _narrow(draw: Draw, dtype: torch.dtype) -> Draft:
    name = str(dtype).removeprefix("torch.")
    x = draw.normal(*draw.pick(SHAPES), scale=2.0).to(dtype)
    made = _drafted(x, f"{name}: ", f"{name}：")
    return draft(made.about, made.tensors, dtype=name)


@recipe()
def softmax_bfloat16(draw: Draw) -> Draft:
    return _narrow(draw, torch.bfloat16)


@recipe()
def softmax_float16(draw: Draw) -> Draft:
    return _narrow(draw, torch.float16)


def _ahead(draw: Draw, dtype: torch.dtype) -> Draft:
    """One logit of a row above 4, all others below -4, and no difference that the dtype holds.

    From 4 to 8 a narrow dtype holds every multiple of a step, from 8 to 16 every second one. So
    an even number of steps and an odd one differ by what lies halfway between two of its numbers:
    rounded, a weight is off by 4 eps of the dtype. No weight is below the normal numbers of
    float16, even if all rows share one sum.
    """
    rows, columns = draw.pick(((3, 5), (2, 7), (3, 6), (2, 4)))
    step = 4 * torch.finfo(dtype).eps
    count = 0.125 / step  # up to 4.25 there are twice as many steps
    x = -4 - step * (2 * draw.uniform(rows, columns, low=0, high=count).floor() + 1)
    top = 4 + step * (2 * draw.uniform(rows, low=0, high=count).floor() + 2)
    x[torch.arange(rows), draw.permutation(columns)[:rows]] = top
    name = str(dtype).removeprefix("torch.")
    made = _drafted(x.to(dtype), f"{name}, one logit far ahead: ", f"{name}，一个 logit 遥遥领先：")
    return draft(made.about, dict(made.tensors) | {"small": x < 0}, dtype=name)


@recipe()
def softmax_ahead_bfloat16(draw: Draw) -> Draft:
    return _ahead(draw, torch.bfloat16)


@recipe()
def softmax_ahead_float16(draw: Draw) -> Draft:
    return _ahead(draw, torch.float16)


def _mask(q_len: int, kv_len: int) -> Draft:
    queries = "1 query" if q_len == 1 else f"{q_len} queries"
    about = Text(
        f"{queries}, {kv_len} {'key' if kv_len == 1 else 'keys'}",
        f"{q_len} 个查询（query），{kv_len} 个键（key）",
    )
    allowed = oracle.causal_mask(q_len, kv_len)
    return draft(about, {"allowed": allowed}, q_len=q_len, kv_len=kv_len)


@recipe()
def mask_square(draw: Draw) -> Draft:
    length = draw.pick((5, 7, 11, 4))
    return _mask(length, length)


@recipe()
def mask_rectangular(draw: Draw) -> Draft:
    """Fewer queries than keys: the queries are the last ones."""
    q_len, kv_len = draw.pick(((3, 7), (2, 9), (5, 6), (4, 11)))
    return _mask(q_len, kv_len)


@recipe()
def mask_single(draw: Draw) -> Draft:
    return _mask(1, draw.pick((6, 1, 9, 13)))


@recipe()
def mask_long(draw: Draw) -> Draft:
    """More keys than any table made beforehand, or any window, is likely to have."""
    return _mask(2, draw.pick((150, 170, 190)))
