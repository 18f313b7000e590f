"""Cases of the gated MLP."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle

from .sizes import Weights, config_of, prefixed


def _mlp_weights(draw: Draw, hidden: int, intermediate: int) -> Weights:
    return {
        "gate_proj.weight": draw.normal(intermediate, hidden, scale=1.5 * hidden**-0.5),
        "up_proj.weight": draw.normal(intermediate, hidden, scale=hidden**-0.5),
        "down_proj.weight": draw.normal(hidden, intermediate, scale=intermediate**-0.5),
    }


def drafted_mlp(
    draw: Draw, x: torch.Tensor, weights: Weights, en: str = "", zh: str = "", **values: Any
) -> Draft:
    intermediate, hidden = weights["gate_proj.weight"].shape
    config = config_of(hidden, 6, 2, 16, intermediate_size=intermediate)
    about = Text(
        f"{en}hidden {hidden}, intermediate {intermediate}, x {list(x.shape)}",
        f"{zh}hidden {hidden}，intermediate {intermediate}，x {list(x.shape)}",
    )
    tensors = {"x": x, "y": oracle.mlp(weights, x)} | prefixed(weights)
    return draft(about, tensors, asdict(config), **values)


def _mlp_sizes(draw: Draw) -> tuple[int, int]:
    hidden, intermediate = draw.pick(((40, 72), (24, 100), (52, 60), (36, 90)))
    return hidden, intermediate


@recipe()
def mlp_core(draw: Draw) -> Draft:
    hidden, intermediate = _mlp_sizes(draw)
    return drafted_mlp(draw, draw.normal(3, 7, hidden), _mlp_weights(draw, hidden, intermediate))


@recipe()
def mlp_flat(draw: Draw) -> Draft:
    hidden, intermediate = _mlp_sizes(draw)
    return drafted_mlp(draw, draw.normal(5, hidden), _mlp_weights(draw, hidden, intermediate))


@recipe()
def mlp_curve(draw: Draw) -> Draft:
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
    x = draw.uniform(2, 5, hidden, low=-8, high=8)
    x[..., 0] = 1
    return drafted_mlp(draw, x, weights, "one gate per feature: ", "每个特征一个门：")


@recipe()
def mlp_outlier(draw: Draw) -> Draft:
    """One token a thousand times larger: every token is judged by itself."""
    hidden, intermediate = _mlp_sizes(draw)
    x = draw.normal(2, 6, hidden)
    x[1, 3] *= 1000
    weights = _mlp_weights(draw, hidden, intermediate)
    return drafted_mlp(draw, x, weights, "one token x 1000: ", "一个 token 乘以 1000：")


@recipe()
def mlp_bfloat16(draw: Draw) -> Draft:
    hidden, intermediate = _mlp_sizes(draw)
    weights = _mlp_weights(draw, hidden, intermediate)
    weights = {name: weight.bfloat16() for name, weight in weights.items()}
    x = draw.normal(3, 7, hidden).bfloat16()
    return drafted_mlp(draw, x, weights, "bfloat16: ", "bfloat16：", dtype="bfloat16")
