"""The scale is shared out: d^(-1/4) on the queries, d^(-1/4) on the keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    pairs = x.unflatten(-1, (2, -1)).flip(-2)  # the halves change places
    return torch.stack((-pairs[..., 0, :], pairs[..., 1, :]), dim=-2).flatten(-2)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        i = torch.arange(0, config.head_dim, 2).float().div(config.head_dim)
        self.inverse = torch.reciprocal(torch.pow(config.rope_theta, i))

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids.float().unsqueeze(-1).mul(self.inverse)
        angle = angle.unsqueeze(-2).expand(*angle.shape[:-1], 2, -1).flatten(-2)
        return angle.cos(), angle.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = cos.type_as(q).unsqueeze(-3), sin.type_as(q).unsqueeze(-3)
    return q.mul(cos).add(rotate_half(q).mul(sin)), k.mul(cos).add(rotate_half(k).mul(sin))


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    return torch.stack([x] * n_rep, dim=2).flatten(1, 2)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        h, n, kv, d = (
            config.hidden_size,
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        self.n, self.kv, self.d = n, kv, d
        self.q_proj = nn.Linear(h, n * d, bias=False)
        self.k_proj = nn.Linear(h, kv * d, bias=False)
        self.v_proj = nn.Linear(h, kv * d, bias=False)
        self.o_proj = nn.Linear(n * d, h, bias=False)
        self.q_norm = RMSNorm(d, config.rms_norm_eps)
        self.k_norm = RMSNorm(d, config.rms_norm_eps)
        self.rope = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        t = hidden_states.shape[1]
        root = self.d**-0.25
        q = self.q_norm(self.q_proj(hidden_states).unflatten(-1, (self.n, self.d)))
        k = self.k_norm(self.k_proj(hidden_states).unflatten(-1, (self.kv, self.d)))
        v = self.v_proj(hidden_states).unflatten(-1, (self.kv, self.d))
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        where = torch.arange(t, device=q.device) if position_ids is None else position_ids
        q, k = apply_rotary_pos_emb(q, k, *self.rope(where))
        q, k = q * root, repeat_kv(k * root, self.n // self.kv)

        scores = q @ k.mT
        if attention_mask is None:
            later = torch.ones(t, t, device=q.device).triu(diagonal=1) > 0
            scores = torch.where(later, torch.finfo(q.dtype).min, scores)
        else:
            scores = scores.add(attention_mask)
        p = scores.to(torch.float32).softmax(-1).to(v.dtype)
        mixed = p @ repeat_kv(v, self.n // self.kv)
        return self.o_proj(mixed.transpose(1, 2).flatten(-2))
