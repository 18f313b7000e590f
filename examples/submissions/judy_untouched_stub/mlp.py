# Generated from the course's sources (stub e78d9cf5697f): fill in the TODOs.
"""Lab 2, part 2: the MLP of Qwen3, and what a model costs.

Fill in every TODO.
Source: ``transformers/models/qwen3/modeling_qwen3.py``; Shazeer 2020 for the gated unit.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from labs.given.config import Qwen3Config


class Qwen3MLP(nn.Module):
    """``down_proj(silu(gate_proj(x)) * up_proj(x))``, three ``nn.Linear`` without biases."""

    def __init__(self, config: Qwen3Config) -> None:
        """Make ``gate_proj``, ``up_proj`` (hidden to intermediate) and ``down_proj`` (back)."""
        super().__init__()
        # TODO lab2.mlp: Qwen3MLP
        raise NotImplementedError("TODO lab2.mlp: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., hidden]`` to ``[..., hidden]``, in the dtype of ``x``."""
        # TODO lab2.mlp: Qwen3MLP
        raise NotImplementedError("TODO lab2.mlp: to be written")


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    """Count the parameters of a whole Qwen3 model.

    Returns:
        Whole numbers under the keys ``embedding, attention, mlp, norm, lm_head, total``:
        ``attention`` holds the four projections of all layers; ``norm`` every RMSNorm, q_norm
        and k_norm among them; a tied head (``tie_word_embeddings``) counts 0.
    """
    # TODO lab2.count_parameters: Count the parameters
    raise NotImplementedError("TODO lab2.count_parameters: to be written")


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    """Bytes that all weights take in ``dtype``: ``"float32"``, ``"float16"``, ``"bfloat16"``."""
    # TODO lab2.weight_bytes: Bytes of the weights
    raise NotImplementedError("TODO lab2.weight_bytes: to be written")


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    """Bytes that the keys and values of ``tokens`` tokens take, for ``batch`` sequences."""
    # TODO lab2.kv_cache_bytes: Bytes of the KV cache
    raise NotImplementedError("TODO lab2.kv_cache_bytes: to be written")
