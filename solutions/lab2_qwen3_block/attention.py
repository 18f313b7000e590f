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
    # BEGIN SOLUTION lab2.rotate_half
    first, second = x.chunk(2, dim=-1)  # each [..., d/2]
    return torch.cat((-second, first), dim=-1)
    # END SOLUTION


class RotaryEmbedding(nn.Module):
    """The cos and sin tables of rotary position embedding (Su et al. 2021)."""

    def __init__(self, config: Qwen3Config) -> None:
        """Prepare one frequency per pair: ``theta ** (-2i / head_dim)``, i < head_dim / 2."""
        super().__init__()
        # BEGIN SOLUTION lab2.rotary_embedding
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        # A plain attribute, not a buffer: `.to(bfloat16)` would round a buffer.
        self.inv_freq = 1.0 / config.rope_theta**exponents  # [head_dim/2]
        # END SOLUTION

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Look up the angle of every position.

        Args:
            position_ids: ``[T]`` or ``[B, T]``, integers.

        Returns:
            ``(cos, sin)``, each float32 ``[..., T, head_dim]``, made of two equal halves.
        """
        # BEGIN SOLUTION lab2.rotary_embedding
        inv_freq = self.inv_freq.to(position_ids.device)
        angles = position_ids[..., None].float() * inv_freq  # [..., T, head_dim/2]
        angles = torch.cat((angles, angles), dim=-1)  # [..., T, head_dim]
        return angles.cos(), angles.sin()
        # END SOLUTION


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
    # BEGIN SOLUTION lab2.apply_rotary
    # One angle serves all heads of a token: [..., 1, T, head_dim] broadcasts over them.
    cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)
    q_rotated = q * cos.to(q.dtype) + rotate_half(q) * sin.to(q.dtype)
    k_rotated = k * cos.to(k.dtype) + rotate_half(k) * sin.to(k.dtype)
    return q_rotated, k_rotated
    # END SOLUTION


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Give every query head its key/value head: ``0 0 0 1 1 1``, not ``0 1 0 1 0 1``.

    Args:
        x: ``[B, kv_heads, T, head_dim]``.
        n_rep: query heads per key/value head, at least 1.

    Returns:
        ``[B, kv_heads * n_rep, T, head_dim]``.
    """
    # BEGIN SOLUTION lab2.repeat_kv
    return x.repeat_interleave(n_rep, dim=1)
    # END SOLUTION


class Qwen3Attention(nn.Module):
    """Grouped-query attention with QK-norm and rotary positions.

    Parameters, named as in Hugging Face, without biases: ``q_proj k_proj v_proj o_proj``
    (``nn.Linear``), ``q_norm k_norm`` (``RMSNorm`` over ``head_dim``).
    """

    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        """Make the layers; ``head_dim`` comes from the config, never from hidden // heads."""
        super().__init__()
        # BEGIN SOLUTION lab2.attention
        hidden, head_dim = config.hidden_size, config.head_dim
        self.num_heads = config.num_attention_heads
        self.num_kv_heads = config.num_key_value_heads
        self.head_dim = head_dim
        self.q_proj = nn.Linear(hidden, self.num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.num_kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(self.num_heads * head_dim, hidden, bias=False)
        self.q_norm = RMSNorm(head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(head_dim, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)
        # END SOLUTION

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
        # BEGIN SOLUTION lab2.attention
        batch, seq, _ = hidden_states.shape
        heads = (batch, seq, -1, self.head_dim)

        # [B, T, heads, head_dim] -> [B, heads, T, head_dim]; the norm is over head_dim.
        q = self.q_norm(self.q_proj(hidden_states).view(heads)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(heads)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(heads).transpose(1, 2)

        if position_ids is None:
            position_ids = torch.arange(seq, device=hidden_states.device)
        cos, sin = self.rotary(position_ids)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)

        group = self.num_heads // self.num_kv_heads
        k, v = repeat_kv(k, group), repeat_kv(v, group)  # [B, heads, T, head_dim]

        scores = q @ k.transpose(-1, -2) * self.head_dim**-0.5  # [B, heads, T, T]
        if attention_mask is None:
            future = torch.ones(seq, seq, dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        else:
            scores = scores + attention_mask
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(q.dtype)

        mixed = (weights @ v).transpose(1, 2).reshape(batch, seq, -1)  # [B, T, heads*head_dim]
        return self.o_proj(mixed)
        # END SOLUTION
