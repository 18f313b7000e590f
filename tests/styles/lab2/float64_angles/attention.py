"""Frequencies and angles in float64, rounded to float32 only as cos and sin."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((b.mul(-1), a), -1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.dim, self.theta = config.head_dim, config.rope_theta

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        i = torch.arange(0, self.dim, 2, dtype=torch.float64, device=position_ids.device)
        angle = position_ids.double()[..., None] * self.theta ** (-i / self.dim)
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos().float(), angle.sin().float()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(-3).double(), sin.unsqueeze(-3).double()
    q64, k64 = q.double(), k.double()
    q64 = q64 * cos + rotate_half(q64) * sin
    k64 = k64 * cos + rotate_half(k64) * sin
    return q64.to(q.dtype), k64.to(k.dtype)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    b, _, t, d = x.shape
    return x[:, :, None].repeat(1, 1, n_rep, 1, 1).view(b, -1, t, d)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.config = config
        d = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * d, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * d, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(d, config.rms_norm_eps)
        self.k_norm = RMSNorm(d, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        b, t, _ = hidden_states.shape
        c = self.config
        if position_ids is None:
            position_ids = torch.arange(t, device=hidden_states.device)
        cos, sin = self.rotary(position_ids)
        q = self.q_norm(self.q_proj(hidden_states).view(b, t, -1, c.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, -1, c.head_dim)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, -1, c.head_dim).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        k = repeat_kv(k, c.num_attention_heads // c.num_key_value_heads)
        v = repeat_kv(v, c.num_attention_heads // c.num_key_value_heads)
        scores = q @ k.transpose(-1, -2) * c.head_dim**-0.5
        if attention_mask is None:
            blocked = torch.ones(t, t, device=q.device).triu(1).bool()
            scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        else:
            scores = scores + attention_mask
        p = scores.softmax(dim=-1, dtype=torch.float32).to(v.dtype)
        return self.o_proj((p @ v).transpose(1, 2).reshape(b, t, -1))
