"""Batch and heads as one axis; mask, product and scale in a single baddbmm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    left, right = torch.split(x, [x.shape[-1] // 2] * 2, dim=-1)
    return torch.cat((torch.negative(right), left), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.slow = config.rope_theta ** (torch.arange(0, config.head_dim, 2) / config.head_dim)

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids.float()[..., None] / self.slow
        return torch.cat((angle.cos(),) * 2, dim=-1), torch.cat((angle.sin(),) * 2, dim=-1)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    c, s = cos.unsqueeze(-3), sin.unsqueeze(-3)
    q_turned = torch.lerp(torch.zeros_like(c), q.float(), c) + rotate_half(q.float()) * s
    k_turned = torch.lerp(torch.zeros_like(c), k.float(), c) + rotate_half(k.float()) * s
    return q_turned.to(q.dtype), k_turned.to(k.dtype)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    b, kv, t, d = x.shape
    return x.reshape(b, kv, 1, t * d).expand(b, kv, n_rep, t * d).reshape(b, kv * n_rep, t, d)


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
        rep = self.n // self.kv
        flat_k = repeat_kv(k, rep).reshape(b * self.n, t, self.d)
        flat_v = repeat_kv(v, rep).reshape(b * self.n, t, self.d)

        if attention_mask is None:
            attention_mask = q.new_full((t, t), torch.finfo(q.dtype).min).triu(1)
        bias = attention_mask.expand(b, self.n, t, t).reshape(b * self.n, t, t)
        flat_q = q.reshape(b * self.n, t, self.d)
        scores = torch.baddbmm(bias, flat_q, flat_k.mT, alpha=self.d**-0.5)
        p = torch.softmax(scores, dim=-1, dtype=torch.float32).to(flat_v.dtype)
        mixed = torch.bmm(p, flat_v).view(b, self.n, t, self.d).transpose(1, 2)
        return self.o_proj(mixed.reshape(b, t, -1))
