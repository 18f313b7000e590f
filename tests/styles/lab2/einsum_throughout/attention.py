"""Every contraction, the projections included, is an einsum; no head is ever repeated."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    half = x.size(-1) // 2
    return torch.cat([x[..., half:].neg(), x[..., :half]], dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.theta, self.dim = config.rope_theta, config.head_dim

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.arange(0, self.dim, 2, dtype=torch.float32, device=position_ids.device)
        freq = torch.pow(self.theta, -steps / self.dim)
        angle = torch.einsum("...t,i->...ti", position_ids.float(), freq)
        return torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    def rotate(x: Tensor) -> Tensor:
        c, s = cos.to(x.dtype), sin.to(x.dtype)
        if c.ndim == 2:
            c, s = c.expand(x.size(0), -1, -1), s.expand(x.size(0), -1, -1)
        kept = torch.einsum("bhtd,btd->bhtd", x, c)
        return kept + torch.einsum("bhtd,btd->bhtd", rotate_half(x), s)

    return rotate(q), rotate(k)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    spread = torch.einsum("bhtd,g->bhgtd", x, x.new_ones(n_rep))
    return spread.flatten(1, 2)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.heads, self.kv = config.num_attention_heads, config.num_key_value_heads
        self.d = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, self.heads * self.d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=False)
        self.o_proj = nn.Linear(self.heads * self.d, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.d, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.d, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        t = hidden_states.size(1)
        w_q = self.q_proj.weight.unflatten(0, (self.heads, self.d))
        w_k = self.k_proj.weight.unflatten(0, (self.kv, self.d))
        w_v = self.v_proj.weight.unflatten(0, (self.kv, self.d))
        q = self.q_norm(torch.einsum("btc,hdc->bhtd", hidden_states, w_q))
        k = self.k_norm(torch.einsum("btc,hdc->bhtd", hidden_states, w_k))
        v = torch.einsum("btc,hdc->bhtd", hidden_states, w_v)
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))

        groups = (self.kv, self.heads // self.kv)
        scores = torch.einsum("bhgqd,bhkd->bhgqk", q.unflatten(1, groups), k) * self.d**-0.5
        scores = scores.flatten(1, 2)
        if attention_mask is None:
            lowest = torch.finfo(q.dtype).min
            attention_mask = torch.full((t, t), lowest, dtype=q.dtype, device=q.device).triu(1)
        p = torch.softmax(scores + attention_mask, -1, dtype=torch.float32).to(q.dtype)
        mixed = torch.einsum("bhgqk,bhkd->bqhgd", p.unflatten(1, groups), v).flatten(2, 4)
        return torch.einsum("btc,hc->bth", mixed, self.o_proj.weight)
