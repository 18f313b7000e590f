"""Cases of LayerNorm and RMSNorm."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle
from solutions.reference import oracle_foundations as foundations

SHAPES = ((3, 5, 12), (4, 2, 14), (2, 6, 10), (5, 3, 16))
WIDE = ((3, 5, 24), (4, 2, 28), (2, 6, 32))


def _layer_norm(
    about: Text, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float, **more: Any
) -> Draft:
    tensors = {"x": x, "y": foundations.layer_norm(x, weight, bias, eps)}
    tensors |= {"w.weight": weight, "w.bias": bias}
    return draft(about, tensors, size=weight.shape[0], eps=eps, **more)


def _rms_norm(about: Text, x: torch.Tensor, weight: torch.Tensor, eps: float, **more: Any) -> Draft:
    tensors = {"x": x, "y": oracle.rms_norm(x, weight, eps), "w.weight": weight}
    return draft(about, tensors, size=weight.shape[0], eps=eps, **more)


def _about(x: torch.Tensor, en: str = "", zh: str = "") -> Text:
    return Text(f"{en}x {list(x.shape)}", f"{zh}x {list(x.shape)}")


def _affine(draw: Draw, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight and a bias, no two entries equal."""
    return draw.uniform(size, low=0.4, high=2.2), draw.uniform(size, low=-1.5, high=1.5)


def _spread(draw: Draw) -> torch.Tensor:
    """Tokens of different size and mean: what is averaged over the wrong axis shows."""
    x = draw.normal(*draw.pick(SHAPES))
    sizes = draw.uniform(*x.shape[:-1], 1, low=0.5, high=3.0)
    return (x + 1.5) * sizes


def _outstanding(draw: Draw) -> torch.Tensor:
    """One feature of every token stands out by so much that it stays beyond 4 when normed."""
    x = draw.normal(*draw.pick(WIDE)) + 1.5
    x[..., draw.integer(0, x.shape[-1] - 1)] = 25
    return x * draw.uniform(*x.shape[:-1], 1, low=0.5, high=3.0)


@recipe()
def layer_norm_core(draw: Draw) -> Draft:
    x = _spread(draw)
    return _layer_norm(_about(x), x, *_affine(draw, x.shape[-1]), 1e-5)


@recipe()
def layer_norm_plain(draw: Draw) -> Draft:
    x = _outstanding(draw)
    ones, zeros = torch.ones(x.shape[-1]), torch.zeros(x.shape[-1])
    about = _about(x, "weight 1, bias 0: ", "weight 为 1，bias 为 0：")
    return _layer_norm(about, x, ones, zeros, 1e-5)


@recipe()
def layer_norm_tiny(draw: Draw) -> Draft:
    """Inputs of 0.01 and an eps of 1e-4: eps decides the size of the result."""
    x = draw.normal(*draw.pick(SHAPES), scale=1e-2)
    about = _about(x, "inputs of 0.01, eps 1e-4: ", "输入约 0.01，eps 1e-4：")
    return _layer_norm(about, x, *_affine(draw, x.shape[-1]), 1e-4)


@recipe()
def layer_norm_float16(draw: Draw) -> Draft:
    """A mean that float16 rounds to a multiple of 16, and squares that it has no room for."""
    x = (draw.normal(*draw.pick(SHAPES), scale=300.0) + 20_000).half()
    weight, bias = (t.half() for t in _affine(draw, x.shape[-1]))
    about = _about(x, "float16, inputs of 20,000 ± 300: ", "float16，输入为 20,000 ± 300：")
    return _layer_norm(about, x, weight, bias, 1e-5, dtype="float16")


@recipe()
def layer_norm_bfloat16(draw: Draw) -> Draft:
    x = _spread(draw).bfloat16()
    weight, bias = (t.bfloat16() for t in _affine(draw, x.shape[-1]))
    return _layer_norm(
        _about(x, "bfloat16: ", "bfloat16："), x, weight, bias, 1e-5, dtype="bfloat16"
    )


@recipe()
def rms_norm_core(draw: Draw) -> Draft:
    x = _spread(draw)
    return _rms_norm(_about(x), x, _affine(draw, x.shape[-1])[0], 1e-6)


@recipe()
def rms_norm_plain(draw: Draw) -> Draft:
    x = _outstanding(draw)
    about = _about(x, "weight 1: ", "weight 为 1：")
    return _rms_norm(about, x, torch.ones(x.shape[-1]), 1e-6)


@recipe()
def rms_norm_tiny(draw: Draw) -> Draft:
    """Inputs of 0.01 and an eps of 1e-4: eps decides the size of the result."""
    x = draw.normal(*draw.pick(SHAPES), scale=1e-2)
    about = _about(x, "inputs of 0.01, eps 1e-4: ", "输入约 0.01，eps 1e-4：")
    return _rms_norm(about, x, _affine(draw, x.shape[-1])[0], 1e-4)


@recipe()
def rms_norm_float16(draw: Draw) -> Draft:
    x = draw.normal(*draw.pick(SHAPES), scale=300.0).half()
    weight = _affine(draw, x.shape[-1])[0].half()
    about = _about(x, "float16, inputs x 300: ", "float16，输入乘以 300：")
    return _rms_norm(about, x, weight, 1e-6, dtype="float16")


@recipe()
def rms_norm_bfloat16(draw: Draw) -> Draft:
    x = _spread(draw).bfloat16()
    weight = _affine(draw, x.shape[-1])[0].bfloat16()
    return _rms_norm(_about(x, "bfloat16: ", "bfloat16："), x, weight, 1e-6, dtype="bfloat16")
