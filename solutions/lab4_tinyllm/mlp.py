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
        # BEGIN SOLUTION lab4.mlp
        hidden, intermediate = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., hidden]`` to ``[..., hidden]``, in the dtype of ``x``."""
        # BEGIN SOLUTION lab4.mlp
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        # END SOLUTION
