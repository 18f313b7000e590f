"""Cases of the two norms."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle

SIZES = ((9, 6, 14), (7, 4, 18), (11, 3, 10))  # tokens, heads, features
EPS = 1e-6


def _head_norm(draw: Draw, about: Text, dtype: torch.dtype, *, scale: float, eps: float) -> Draft:
    x = draw.normal(*draw.pick(SIZES), scale=scale).to(dtype)
    weight = draw.uniform(x.shape[-1], low=0.4, high=2.2).to(dtype)
    tensors = {"x": x, "y": oracle.rms_norm(x, weight, eps), "w.weight": weight}
    return draft(about, tensors, eps=eps, dtype=str(dtype).removeprefix("torch."))


@recipe()
def head_norm(draw: Draw) -> Draft:
    about = Text("random numbers and weights", "随机的数值与权重")
    return _head_norm(draw, about, torch.float32, scale=1.0, eps=EPS)


@recipe()
def head_norm_tiny(draw: Draw) -> Draft:
    about = Text("inputs of 1e-2, eps 3e-4", "输入约为 1e-2，eps 为 3e-4")
    return _head_norm(draw, about, torch.float32, scale=1e-2, eps=3e-4)


@recipe()
def head_norm_float16(draw: Draw) -> Draft:
    about = Text("float16, inputs x 300", "float16，输入乘以 300")
    return _head_norm(draw, about, torch.float16, scale=300.0, eps=EPS)


def _norm(draw: Draw, about: Text, dtype: torch.dtype, *, scale: float, eps: float) -> Draft:
    tokens, _, width = draw.pick(SIZES)
    x = draw.normal(tokens, width, scale=scale).to(dtype)
    x[0, 0] = 5 * scale  # far from all others: whoever cuts off what is large is seen
    residual = draw.normal(tokens, width, scale=2 * scale).to(dtype)
    weight = draw.uniform(width, low=0.4, high=2.2).to(dtype)
    both = x + residual  # rounded to the dtype, as the residual stream is
    tensors = {
        "x": x,
        "residual": residual,
        "first": oracle.rms_norm(x, weight, eps),
        "y": oracle.rms_norm(both, weight, eps),
        "sum": both,
        "w.weight": weight,
    }
    return draft(about, tensors, eps=eps, dtype=str(dtype).removeprefix("torch."))


@recipe()
def norm(draw: Draw) -> Draft:
    about = Text("random numbers and weights", "随机的数值与权重")
    return _norm(draw, about, torch.float32, scale=1.0, eps=EPS)


@recipe()
def norm_tiny(draw: Draw) -> Draft:
    about = Text("inputs of 1e-2, eps 3e-4", "输入约为 1e-2，eps 为 3e-4")
    return _norm(draw, about, torch.float32, scale=1e-2, eps=3e-4)


@recipe()
def norm_float16(draw: Draw) -> Draft:
    about = Text("float16, inputs x 300", "float16，输入乘以 300")
    return _norm(draw, about, torch.float16, scale=300.0, eps=EPS)
