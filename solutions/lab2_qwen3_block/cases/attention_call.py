"""An attention call with its expected result."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft
from labs.given.config import Qwen3Config
from solutions.reference import oracle

from .sizes import Weights, prefixed


def drafted(
    draw: Draw,
    config: Qwen3Config,
    tokens: int,
    batch: int,
    about: Text,
    *,
    weights: Weights,
    x: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    positions: torch.Tensor | None = None,
    **values: Any,
) -> Draft:
    """An attention call with its expected result; absent mask and positions are not passed."""
    x = draw.normal(batch, tokens, config.hidden_size) if x is None else x
    tensors = {"x": x, "y": oracle.attention(config, weights, x, mask, positions)}
    if mask is not None:
        tensors["mask"] = mask.to(x.dtype)
    if positions is not None:
        tensors["positions"] = positions
    return draft(about, tensors | prefixed(weights), asdict(config), **values)
