# Generated from the course's sources (stub fc8c30cf2bbb): fill in the TODOs.
"""Lab 3, part 2: the gated MLP under Llama's names, its size, and weights carried over.

Fill in every TODO.
Source: ``llama/model.py`` of Meta's Llama; Shazeer 2020 for the gated unit.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn


def feed_forward_size(dim: int, multiple_of: int, ffn_dim_multiplier: float | None) -> int:
    """Width of the hidden layer, as Llama's configs give it.

    Two thirds of ``4 * dim``, times the multiplier if there is one, rounded *down* to a whole
    number after each of these two steps; then up to the next multiple of ``multiple_of``.

    Args:
        dim: width of the model.
        multiple_of: at least 1.
        ffn_dim_multiplier: None means 1.
    """
    # TODO lab3.feed_forward_size: Width of the MLP
    raise NotImplementedError("TODO lab3.feed_forward_size: to be written")


class FeedForward(nn.Module):
    """``w2(silu(w1(x)) * w3(x))``, three ``nn.Linear`` without biases."""

    def __init__(self, dim: int, hidden_dim: int) -> None:
        """Make ``w1``, ``w3`` (dim to hidden_dim) and ``w2`` (back)."""
        super().__init__()
        # TODO lab3.feed_forward: FeedForward
        raise NotImplementedError("TODO lab3.feed_forward: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., dim]`` to ``[..., dim]``, in the dtype of ``x``."""
        # TODO lab3.feed_forward: FeedForward
        raise NotImplementedError("TODO lab3.feed_forward: to be written")


def convert_hf_mlp(state_dict: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename the weights of a Hugging Face MLP for :class:`FeedForward`.

    Args:
        state_dict: holds ``gate_proj.weight up_proj.weight down_proj.weight``, each possibly
            behind a prefix (``model.layers.0.mlp.gate_proj.weight``), and maybe other entries.

    Returns:
        A new dict: the three under ``w1.weight w2.weight w3.weight`` behind the same prefix, all
        other entries as they were. ``state_dict`` itself is left as it was.
    """
    # TODO lab3.convert_hf_mlp: Rename the weights
    raise NotImplementedError("TODO lab3.convert_hf_mlp: to be written")
