# Generated from the course's sources (stub a38e1f4e86d5): fill in the TODOs.
"""Lab 2, part 1: the attention of Qwen3.

Fill in every TODO. Shapes are written as ``[batch, heads, seq, head_dim]``.
Source: ``transformers/models/qwen3/modeling_qwen3.py``.
"""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    """Turn each pair ``(x_i, x_{i + d/2})`` by a quarter: it becomes ``(-x_{i + d/2}, x_i)``.

    Args:
        x: ``[..., d]`` with an even ``d``, any dtype.

    Returns:
        ``[..., d]`` in the dtype of ``x``.
    """
    # TODO lab2.rotate_half: Rotate half
    raise NotImplementedError("TODO lab2.rotate_half: to be written")


class RotaryEmbedding(nn.Module):
    """The cos and sin tables of rotary position embedding (Su et al. 2021)."""

    def __init__(self, config: Qwen3Config) -> None:
        """Prepare one frequency per pair: ``theta ** (-2i / head_dim)``, i < head_dim / 2."""
        super().__init__()
        # TODO lab2.rotary_embedding: Rotary embedding tables
        raise NotImplementedError("TODO lab2.rotary_embedding: to be written")

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Look up the angle of every position.

        Args:
            position_ids: ``[T]`` or ``[B, T]``, integers.

        Returns:
            ``(cos, sin)``, each float32 ``[..., T, head_dim]``, made of two equal halves.
        """
        # TODO lab2.rotary_embedding: Rotary embedding tables
        raise NotImplementedError("TODO lab2.rotary_embedding: to be written")


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate queries and keys by the angle of their position.

    Args:
        q: ``[B, heads, T, head_dim]``.
        k: ``[B, kv_heads, T, head_dim]``.
        cos: ``[T, head_dim]`` or ``[B, T, head_dim]``, float32.
        sin: like ``cos``.

    Returns:
        The rotated ``(q, k)``, in the dtypes of ``q`` and ``k``.
    """
    # TODO lab2.apply_rotary: Apply the rotation
    raise NotImplementedError("TODO lab2.apply_rotary: to be written")


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Give every query head its key/value head: ``0 0 0 1 1 1``, not ``0 1 0 1 0 1``.

    Args:
        x: ``[B, kv_heads, T, head_dim]``.
        n_rep: query heads per key/value head, at least 1.

    Returns:
        ``[B, kv_heads * n_rep, T, head_dim]``.
    """
    # TODO lab2.repeat_kv: Repeat key/value heads
    raise NotImplementedError("TODO lab2.repeat_kv: to be written")


class Qwen3Attention(nn.Module):
    """Grouped-query attention with QK-norm and rotary positions.

    Parameters, named as in Hugging Face, without biases: ``q_proj k_proj v_proj o_proj``
    (``nn.Linear``), ``q_norm k_norm`` (``RMSNorm`` over ``head_dim``).
    """

    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        """Make the layers; ``head_dim`` comes from the config, never from hidden // heads."""
        super().__init__()
        # TODO lab2.attention: Qwen3Attention
        raise NotImplementedError("TODO lab2.attention: to be written")

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Let every token gather from the tokens it may see.

        Args:
            hidden_states: ``[B, T, hidden]``.
            attention_mask: None means causal. Otherwise additive, in the dtype of
                ``hidden_states``: 0 where a query may look and ``finfo(dtype).min`` where not,
                broadcastable to ``[B, heads, T, T]``; causality is already in it.
            position_ids: ``[T]`` or ``[B, T]``; None means ``0 … T-1``.

        Returns:
            ``[B, T, hidden]`` in the dtype of ``hidden_states``.
        """
        # TODO lab2.attention: Qwen3Attention
        raise NotImplementedError("TODO lab2.attention: to be written")
