# Generated from the course's sources (stub 37e2493abd5b): fill in the TODOs.
"""Lab 4, carried over: the MLP of lab 2.

Bring yours with ``make carry FROM=2 TO=4``.
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
        # TODO lab4.mlp: Your MLP of lab 2 (make carry FROM=2 TO=4)
        raise NotImplementedError("TODO lab4.mlp: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., hidden]`` to ``[..., hidden]``, in the dtype of ``x``."""
        # TODO lab4.mlp: Your MLP of lab 2 (make carry FROM=2 TO=4)
        raise NotImplementedError("TODO lab4.mlp: to be written")


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    """Count the parameters of a whole Qwen3 model.

    Returns:
        Whole numbers under the keys ``embedding, attention, mlp, norm, lm_head, total``:
        ``attention`` holds the four projections of all layers; ``norm`` every RMSNorm, q_norm
        and k_norm among them; a tied head (``tie_word_embeddings``) counts 0.
    """
    # TODO lab4.mlp: Your MLP of lab 2 (make carry FROM=2 TO=4)
    raise NotImplementedError("TODO lab4.mlp: to be written")


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    """Bytes that all weights take in ``dtype``: ``"float32"``, ``"float16"``, ``"bfloat16"``."""
    # TODO lab4.mlp: Your MLP of lab 2 (make carry FROM=2 TO=4)
    raise NotImplementedError("TODO lab4.mlp: to be written")


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    """Bytes that the keys and values of ``tokens`` tokens take, for ``batch`` sequences."""
    # TODO lab4.mlp: Your MLP of lab 2 (make carry FROM=2 TO=4)
    raise NotImplementedError("TODO lab4.mlp: to be written")
