# Generated from the course's sources (stub 49691e7b4272): fill in the TODOs.
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
