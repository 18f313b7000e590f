"""Queries carry a group axis, keys and values broadcast over it: no copy of any head."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    x_left, x_right = x.split(x.shape[-1] // 2, dim=-1)
    return torch.cat((-x_right, x_left), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        rates = [
            config.rope_theta ** (-2 * i / config.head_dim) for i in range(config.head_dim // 2)
        ]
        self.rates = torch.tensor(rates, dtype=torch.float32)

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        turns = position_ids.unsqueeze(-1) * self.rates
        turns = turns.repeat((1,) * (turns.ndim - 1) + (2,))
        return torch.cos(turns), torch.sin(turns)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    c, s = cos[..., None, :, :], sin[..., None, :, :]
    q_new = torch.addcmul(q.float() * c, rotate_half(q).float(), s)
    k_new = torch.addcmul(k.float() * c, rotate_half(k).float(), s)
    return q_new.to(q.dtype), k_new.to(k.dtype)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    b, kv, t, d = x.shape
    return x.view(b, kv, 1, t, d).expand(-1, -1, n_rep, -1, -1).reshape(b, kv * n_rep, t, d)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.kv_heads, self.width = config.num_key_value_heads, config.head_dim
        self.group = config.num_attention_heads // config.num_key_value_heads
        q_size = config.num_attention_heads * self.width
        kv_size = self.kv_heads * self.width
        self.q_proj = nn.Linear(config.hidden_size, q_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.width, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.width, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        b, t, _ = hidden_states.shape
        q = self.q_norm(self.q_proj(hidden_states).view(b, t, -1, self.width)).movedim(2, 1)
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, -1, self.width)).movedim(2, 1)
        v = self.v_proj(hidden_states).view(b, t, -1, self.width).movedim(2, 1)
        if position_ids is None:
            position_ids = torch.arange(t)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))

        q = q.view(b, self.kv_heads, self.group, t, self.width)
        scores = torch.matmul(q, k[:, :, None].mT) / math.sqrt(self.width)  # [B, kv, group, T, T]
        if attention_mask is None:
            seen = torch.ones(t, t, dtype=torch.bool).tril()
            scores = scores.masked_fill(seen.logical_not(), float("-inf"))
        else:
            mask = attention_mask.expand(b, self.kv_heads * self.group, t, t)
            scores = scores + mask.unflatten(1, (self.kv_heads, self.group))
        p = torch.softmax(scores.float(), dim=-1).to(v.dtype)
        mixed = torch.matmul(p, v[:, :, None])  # [B, kv, group, T, d]
        return self.o_proj(mixed.permute(0, 3, 1, 2, 4).reshape(b, t, -1))
