"""Grace, lab 2, attention."""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    x_first, x_last = torch.chunk(x, 2, dim=-1)
    return torch.hstack((-x_last, x_first)) if x.dim() == 1 else torch.cat((-x_last, x_first), -1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        dims = torch.arange(0, config.head_dim, step=2).float()
        self.speeds = torch.exp(-dims / config.head_dim * torch.tensor(config.rope_theta).log())

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = position_ids.unsqueeze(-1).float() * self.speeds
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = cos[..., None, :, :], sin[..., None, :, :]
    q_out = q * cos + rotate_half(q) * sin
    k_out = k * cos + rotate_half(k) * sin
    return q_out.to(q.dtype), k_out.to(k.dtype)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    heads = [x[:, h] for h in range(x.shape[1]) for _ in range(n_rep)]
    return torch.stack(heads, dim=1)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.nh, self.nkv = config.num_attention_heads, config.num_key_value_heads
        self.hs = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, self.nh * self.hs, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.nkv * self.hs, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.nkv * self.hs, bias=False)
        self.o_proj = nn.Linear(self.nh * self.hs, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.hs, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.hs, config.rms_norm_eps)
        self.rope = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        b, t, _ = hidden_states.shape
        q = self.q_proj(hidden_states).reshape(b, t, self.nh, self.hs).transpose(1, 2)
        k = self.k_proj(hidden_states).reshape(b, t, self.nkv, self.hs).transpose(1, 2)
        v = self.v_proj(hidden_states).reshape(b, t, self.nkv, self.hs).transpose(1, 2)
        q = self.q_norm(q)
        k = self.k_norm(k)
        if position_ids is None:
            position_ids = torch.arange(t)
        q, k = apply_rotary_pos_emb(q, k, *self.rope(position_ids))
        k = repeat_kv(k, self.nh // self.nkv)
        v = repeat_kv(v, self.nh // self.nkv)
        weights = torch.einsum("bhid,bhjd->bhij", q, k) * self.hs**-0.5
        if attention_mask is None:
            i = torch.arange(t)
            weights = torch.where(i[:, None] >= i, weights, torch.finfo(weights.dtype).min)
        else:
            weights = weights + attention_mask
        weights = torch.softmax(weights.float(), -1).to(v.dtype)
        out = torch.einsum("bhij,bhjd->bihd", weights, v)
        return self.o_proj(out.reshape(b, t, -1))
