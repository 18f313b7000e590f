"""Lab 2 attention, Henry."""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    d = x.shape[-1]
    return torch.cat((-x.narrow(-1, d // 2, d // 2), x.narrow(-1, 0, d // 2)), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        steps = torch.linspace(0, config.head_dim - 2, config.head_dim // 2)
        self.rates = 1.0 / torch.pow(config.rope_theta, steps / config.head_dim)

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = position_ids[..., None].float() * self.rates
        a = torch.cat([a] * 2, -1)
        return a.cos(), a.sin()


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    c, s = cos.unsqueeze(-3), sin.unsqueeze(-3)
    new_q = torch.addcmul(q * c, rotate_half(q), s)
    new_k = torch.addcmul(k * c, rotate_half(k), s)
    return new_q.to(q.dtype), new_k.to(k.dtype)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    b, h, t, d = x.shape
    return x.reshape(b, h, 1, t, d).repeat(1, 1, n_rep, 1, 1).reshape(b, h * n_rep, t, d)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.head_count = config.num_attention_heads
        self.kv_count = config.num_key_value_heads
        self.head_size = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, self.head_count * self.head_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.kv_count * self.head_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.kv_count * self.head_size, bias=False)
        self.o_proj = nn.Linear(self.head_count * self.head_size, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.head_size, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_size, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        b, t, _ = hidden_states.shape
        if position_ids is None:
            position_ids = torch.arange(t, device=hidden_states.device)
        if attention_mask is None:
            lowest = torch.finfo(hidden_states.dtype).min
            attention_mask = hidden_states.new_full((t, t), lowest).triu(diagonal=1)

        q = self.q_norm(self.q_proj(hidden_states).view(b, t, self.head_count, -1))
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, self.kv_count, -1))
        v = self.v_proj(hidden_states).view(b, t, self.kv_count, -1)
        cos, sin = self.rotary(position_ids)
        q, k = apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
        k = repeat_kv(k, self.head_count // self.kv_count)
        v = repeat_kv(v.transpose(1, 2), self.head_count // self.kv_count)
        s = torch.matmul(q, k.mT).div(self.head_size**0.5).add(attention_mask)
        s = s.float().softmax(-1).to(hidden_states.dtype)
        return self.o_proj(torch.matmul(s, v).transpose(1, 2).flatten(-2))
