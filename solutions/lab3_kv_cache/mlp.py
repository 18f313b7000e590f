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
    # BEGIN SOLUTION lab3.feed_forward_size
    hidden = 2 * 4 * dim // 3
    if ffn_dim_multiplier is not None:
        hidden = int(ffn_dim_multiplier * hidden)
    return -(-hidden // multiple_of) * multiple_of  # rounds up, in whole numbers
    # END SOLUTION


class FeedForward(nn.Module):
    """``w2(silu(w1(x)) * w3(x))``, three ``nn.Linear`` without biases."""

    def __init__(self, dim: int, hidden_dim: int) -> None:
        """Make ``w1``, ``w3`` (dim to hidden_dim) and ``w2`` (back)."""
        super().__init__()
        # BEGIN SOLUTION lab3.feed_forward
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., dim]`` to ``[..., dim]``, in the dtype of ``x``."""
        # BEGIN SOLUTION lab3.feed_forward
        return self.w2(F.silu(self.w1(x)) * self.w3(x))
        # END SOLUTION


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
    # BEGIN SOLUTION lab3.convert_hf_mlp
    names = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
    whole = {f"{old}.weight": f"{new}.weight" for old, new in names.items()}
    converted = {}
    for name, weight in state_dict.items():
        parts = name.split(".")
        own = ".".join(parts[-2:])  # what stands behind the prefix
        converted[".".join([*parts[:-2], whole.get(own, own)])] = weight
    return converted
    # END SOLUTION


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
    # BEGIN SOLUTION lab3.flops
    query_width = config.num_attention_heads * config.head_dim
    kv_width = config.num_key_value_heads * config.head_dim
    keys = past + tokens
    counts = {
        "projections": 2 * tokens * config.hidden_size * 2 * (query_width + kv_width),
        "attention": 2 * 2 * tokens * keys * query_width,
        "mlp": 2 * tokens * 3 * config.hidden_size * config.intermediate_size,
    }
    return counts | {"total": sum(counts.values())}
    # END SOLUTION


def prefill_flops(config: Qwen3Config, tokens: int) -> int:
    """Count the operations of a whole model that reads a prompt of ``tokens`` tokens at once.

    All layers, and logits for the last token only; the embedding is a look-up and costs nothing.
    """
    # BEGIN SOLUTION lab3.flops
    head = 2 * config.hidden_size * config.vocab_size
    return config.num_hidden_layers * layer_flops(config, tokens, 0)["total"] + head
    # END SOLUTION
