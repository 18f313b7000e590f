"""Cases of SiLU and of the gated MLP."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle

Weights = dict[str, torch.Tensor]


def _silu(x: torch.Tensor, en: str, zh: str, **values: Any) -> Draft:
    about = Text(f"{en}x {list(x.shape)}", f"{zh}x {list(x.shape)}")
    wide = x.double()
    return draft(about, {"x": x, "y": wide / (1 + (-wide).exp())}, **values)


@recipe()
def silu_curve(draw: Draw) -> Draft:
    x = draw.uniform(*draw.pick(((3, 5, 7), (2, 9), (4, 3, 6))), low=-6, high=6)
    return _silu(x, "between -6 and 6: ", "-6 到 6 之间：")


@recipe()
def silu_far(draw: Draw) -> Draft:
    """Far out, the sigmoid is 0 or 1; exp overflows there if it is asked the wrong way."""
    far = torch.tensor([[-1e4, -300.0, -95.0], [95.0, 300.0, 1e4]])
    x = far * draw.uniform(2, 3, low=0.95, high=1.05)
    return _silu(x, "values of ±10,000: ", "数值为 ±10,000：")


@recipe()
def silu_bfloat16(draw: Draw) -> Draft:
    x = draw.uniform(3, 8, low=-6, high=6).bfloat16()
    return _silu(x, "bfloat16: ", "bfloat16：", dtype="bfloat16")


@recipe()
def silu_float16(draw: Draw) -> Draft:
    x = draw.uniform(3, 8, low=-6, high=6).half()
    return _silu(x, "float16: ", "float16：", dtype="float16")


SIZES = ((20, 36), (12, 50), (26, 30), (18, 45))


def _weights(draw: Draw, hidden: int, intermediate: int) -> Weights:
    return {
        "gate_proj.weight": draw.normal(intermediate, hidden, scale=1.5 * hidden**-0.5),
        "up_proj.weight": draw.normal(intermediate, hidden, scale=hidden**-0.5),
        "down_proj.weight": draw.normal(hidden, intermediate, scale=intermediate**-0.5),
    }


def _drafted(x: torch.Tensor, weights: Weights, en: str = "", zh: str = "", **values: Any) -> Draft:
    intermediate, hidden = weights["gate_proj.weight"].shape
    about = Text(
        f"{en}hidden {hidden}, intermediate {intermediate}, x {list(x.shape)}",
        f"{zh}hidden {hidden}，intermediate {intermediate}，x {list(x.shape)}",
    )
    tensors = {"x": x, "y": oracle.mlp(weights, x)}
    tensors |= {f"w.{name}": weight for name, weight in weights.items()}
    return draft(about, tensors, sizes=[hidden, intermediate], **values)


@recipe()
def feed_forward_core(draw: Draw) -> Draft:
    hidden, intermediate = draw.pick(SIZES)
    x = draw.normal(3, 7, hidden, scale=3.0)
    return _drafted(x, _weights(draw, hidden, intermediate))


@recipe()
def feed_forward_open(draw: Draw) -> Draft:
    """Gates of ±60, where SiLU, GELU and ReLU are one: what is multiplied with what."""
    hidden, intermediate = draw.pick(SIZES)
    weights = _weights(draw, hidden, intermediate)
    x = draw.normal(3, 7, hidden)
    x[..., 0] = 1
    signs = 1 - 2 * (torch.arange(intermediate) % 3 == 1).float()
    weights["gate_proj.weight"] = torch.zeros(intermediate, hidden)
    weights["gate_proj.weight"][:, 0] = signs * draw.uniform(intermediate, low=50, high=70)
    return _drafted(x, weights, "gates of ±60: ", "门为 ±60：")


@recipe()
def feed_forward_curve(draw: Draw) -> Draft:
    """up is one and down picks features: what comes out is the activation of the gate."""
    hidden, intermediate = 12, 20
    weights = {
        "gate_proj.weight": torch.zeros(intermediate, hidden),
        "up_proj.weight": torch.zeros(intermediate, hidden),
        "down_proj.weight": torch.eye(hidden, intermediate),
    }
    for feature in range(1, hidden):
        weights["gate_proj.weight"][feature, feature] = 1
        weights["up_proj.weight"][feature, 0] = 1
    x = draw.uniform(2, 5, hidden, low=-6, high=6)
    x[..., 0] = 1
    return _drafted(x, weights, "one gate per feature: ", "每个特征一个门：")


@recipe()
def feed_forward_bfloat16(draw: Draw) -> Draft:
    hidden, intermediate = draw.pick(SIZES)
    weights = {n: w.bfloat16() for n, w in _weights(draw, hidden, intermediate).items()}
    x = draw.normal(3, 7, hidden).bfloat16()
    return _drafted(x, weights, "bfloat16: ", "bfloat16：", dtype="bfloat16")
