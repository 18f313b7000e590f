# Generated from the course's sources (stub 81fc19280eac): fill in the TODOs.
"""Lab 3, part 2: the gated MLP under Llama's names, its size, weights, and what a layer costs.

Fill in every TODO.
Source: ``llama/model.py`` of Meta's Llama; Shazeer 2020 for the gated unit.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

from labs.given.config import Qwen3Config


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
        other entries as they were, also ones like ``gate_proj.weight_scale`` and
        ``gate_up_proj.weight``. ``state_dict`` itself is left as it was.
    """
    # TODO lab3.convert_hf_mlp: Rename the weights
    raise NotImplementedError("TODO lab3.convert_hf_mlp: to be written")


def layer_flops(config: Qwen3Config, tokens: int, past: int) -> dict[str, int]:
    """Count the operations of one decoder layer on new tokens of one sequence.

    Only matrix products count: ``[m, k]`` times ``[k, n]`` takes ``2 * m * k * n`` operations, a
    multiplication and an addition each. Every new token is compared with every key, also with
    those that the mask hides.

    Args:
        config: sizes of the model.
        tokens: how many new ones go through the layer at once.
        past: tokens before them, whose keys and values come from the cache.

    Returns:
        Whole numbers under the keys ``projections, attention, mlp, total``: ``projections`` are
        ``wq wk wv wo``; ``attention`` is queries times keys, and weights times values.
    """
    # TODO lab3.flops: What a layer costs
    raise NotImplementedError("TODO lab3.flops: to be written")


def prefill_flops(config: Qwen3Config, tokens: int) -> int:
    """Count the operations of a whole model that reads a prompt of ``tokens`` tokens at once.

    All layers, and logits for the last token only; the embedding is a look-up and costs nothing.
    """
    # TODO lab3.flops: What a layer costs
    raise NotImplementedError("TODO lab3.flops: to be written")
