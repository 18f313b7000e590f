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


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    """Count the parameters of a whole Qwen3 model.

    Returns:
        Whole numbers under the keys ``embedding, attention, mlp, norm, lm_head, total``:
        ``attention`` holds the four projections of all layers; ``norm`` every RMSNorm, q_norm
        and k_norm among them; a tied head (``tie_word_embeddings``) counts 0.
    """
    # BEGIN SOLUTION lab4.mlp
    layers, hidden, head_dim = config.num_hidden_layers, config.hidden_size, config.head_dim
    query_width = config.num_attention_heads * head_dim
    kv_width = config.num_key_value_heads * head_dim
    embedding = config.vocab_size * hidden
    counts = {
        "embedding": embedding,
        "attention": layers * 2 * hidden * (query_width + kv_width),  # q and o, k and v
        "mlp": layers * 3 * hidden * config.intermediate_size,
        "norm": layers * (2 * hidden + 2 * head_dim) + hidden,  # two a layer, q, k, final
        "lm_head": 0 if config.tie_word_embeddings else embedding,
    }
    return counts | {"total": sum(counts.values())}
    # END SOLUTION


def weight_bytes(config: Qwen3Config, dtype: str) -> int:
    """Bytes that all weights take in ``dtype``: ``"float32"``, ``"float16"``, ``"bfloat16"``."""
    # BEGIN SOLUTION lab4.mlp
    return count_parameters(config)["total"] * getattr(torch, dtype).itemsize
    # END SOLUTION


def kv_cache_bytes(config: Qwen3Config, tokens: int, batch: int, dtype: str) -> int:
    """Bytes that the keys and values of ``tokens`` tokens take, for ``batch`` sequences."""
    # BEGIN SOLUTION lab4.mlp
    kv_width = config.num_key_value_heads * config.head_dim
    values = 2 * config.num_hidden_layers * kv_width * tokens * batch  # keys and values
    return values * getattr(torch, dtype).itemsize
    # END SOLUTION
