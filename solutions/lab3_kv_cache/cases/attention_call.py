"""An attention call with its expected result."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft
from labs.given.config import Qwen3Config
from solutions.reference import interleaved, oracle

from .sizes import Weights, prefixed

SPARE = 5  # rows of the table beyond what a case needs


def tables(positions: torch.Tensor, config: Qwen3Config) -> dict[str, torch.Tensor]:
    """Real and imaginary part of the rows that belong to ``positions``."""
    table = interleaved.freqs_cis(positions, config.head_dim, config.rope_theta)
    return {"cos": table.real, "sin": table.imag}


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
    start: int = 0,
    **values: Any,
) -> Draft:
    """All tokens at once, from ``start`` on, and the output expected.

    ``weights`` are under the names of Hugging Face. ``positions`` are those of the tokens where
    the table that students get is not the plain one.
    """
    x = draw.normal(batch, tokens, config.hidden_size) if x is None else x
    plain = torch.arange(start + tokens + SPARE)
    own = plain[start : start + tokens] if positions is None else positions
    tensors = {
        "x": x,
        "y": oracle.attention(config, weights, x, mask, own),
        **tables(plain if positions is None or positions.ndim == 2 else positions, config),
        **prefixed(interleaved.of_hugging_face(weights, config.head_dim)),
    }
    if mask is not None:
        tensors["mask"] = mask.to(x.dtype)
    return draft(about, tensors, asdict(config), start=start, **values)
