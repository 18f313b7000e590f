"""Attention written for one head of one sequence; torch.vmap adds the two other axes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    d = x.shape[-1]
    swapped = torch.roll(x, d // 2, dims=-1)
    return torch.where(torch.arange(d, device=x.device) < d // 2, -swapped, swapped)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        half = config.head_dim // 2
        self.rate = config.rope_theta ** (torch.arange(half).float() / half).neg()

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids.float()[..., None] * self.rate
        angle = torch.cat((angle, angle), dim=-1)
        return torch.cos(angle), torch.sin(angle)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    def one_sequence(x: Tensor, c: Tensor, s: Tensor) -> Tensor:  # [heads, T, d]
        return x * c.to(x.dtype) + rotate_half(x) * s.to(x.dtype)

    rows = 0 if cos.ndim == 3 else None
    over_batch = torch.vmap(one_sequence, in_dims=(0, rows, rows))
    return over_batch(q, cos, sin), over_batch(k, cos, sin)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    return torch.vmap(lambda y: y.repeat_interleave(n_rep, dim=0))(x)


def one_head(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """[T, d] three times and [T, T] -> [T, d]."""
    scores = q @ k.T * q.shape[-1] ** -0.5 + mask
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype) @ v


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.n, self.kv = config.num_attention_heads, config.num_key_value_heads
        self.d = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, self.n * self.d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=False)
        self.o_proj = nn.Linear(self.n * self.d, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.d, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.d, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        b, t, _ = hidden_states.shape
        q = self.q_norm(self.q_proj(hidden_states).view(b, t, self.n, self.d)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, self.kv, self.d)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, self.kv, self.d).transpose(1, 2)
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))
        k, v = repeat_kv(k, self.n // self.kv), repeat_kv(v, self.n // self.kv)
        if attention_mask is None:
            attention_mask = q.new_full((t, t), torch.finfo(q.dtype).min).triu(1)
        mask = attention_mask.expand(b, self.n, t, t)
        mixed = torch.vmap(torch.vmap(one_head))(q, k, v, mask)
        return self.o_proj(mixed.transpose(1, 2).reshape(b, t, -1))
