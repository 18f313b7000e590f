"""Keys are repeated to all heads before norm and RoPE: both work on each head alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    front, back = torch.chunk(x, chunks=2, dim=-1)
    return torch.concat([torch.neg(back), front], dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        d = config.head_dim
        self.inv = torch.tensor([config.rope_theta ** -(i / d) for i in range(0, d, 2)])

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = torch.multiply(position_ids[..., None].float(), self.inv)
        both = torch.concat([angle, angle], dim=-1)
        return torch.cos(both), torch.sin(both)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    if cos.ndim == 2:
        cos, sin = cos[None], sin[None]
    c, s = cos[:, None].to(q.dtype), sin[:, None].to(q.dtype)
    return q * c + rotate_half(q) * s, k * c + rotate_half(k) * s


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep == 1:
        return x
    return x[:, :, None].expand(-1, -1, n_rep, -1, -1).flatten(1, 2)


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
        rep = self.n // self.kv
        q = self.q_proj(hidden_states).view(b, t, self.n, self.d).transpose(1, 2)
        k = self.k_proj(hidden_states).view(b, t, self.kv, self.d).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, self.kv, self.d).transpose(1, 2)
        q, k, v = self.q_norm(q), self.k_norm(repeat_kv(k, rep)), repeat_kv(v, rep)
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))

        scores = torch.matmul(q, k.mT) / self.d**0.5
        if attention_mask is None:
            causal = torch.full((t, t), torch.finfo(scores.dtype).min, dtype=scores.dtype)
            scores = scores + torch.triu(causal, 1)
        else:
            scores = scores + attention_mask
        p = torch.softmax(scores.to(torch.float32), dim=-1).to(v.dtype)
        mixed = torch.matmul(p, v).transpose(1, 2).reshape(b, t, self.n * self.d)
        return self.o_proj(mixed)
