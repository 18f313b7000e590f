"""bob: everything as einsum, heads kept as [batch, seq, kv, group, dim]"""

from __future__ import annotations

import torch
from torch import Tensor, einsum, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    a, b = x.tensor_split(2, dim=-1)
    return torch.concat((b.neg(), a), -1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.dim = config.head_dim
        self.theta = config.rope_theta

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        even = torch.arange(0, self.dim, 2, device=position_ids.device, dtype=torch.float32)
        freq = 1 / (self.theta ** (even / self.dim))
        ang = einsum("...t,f->...tf", position_ids.to(torch.float32), freq)
        return ang.cos().repeat((1,) * (ang.ndim - 1) + (2,)), torch.cat((ang, ang), -1).sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    c = cos.unsqueeze(-3)
    s = sin.unsqueeze(-3)
    q2 = q.float() * c + rotate_half(q.float()) * s
    k2 = k.float() * c + rotate_half(k.float()) * s
    return q2.type_as(q), k2.type_as(k)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    return torch.stack([x] * n_rep, dim=2).flatten(1, 2)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        h, d = config.hidden_size, config.head_dim
        self.n, self.kv, self.d = config.num_attention_heads, config.num_key_value_heads, d
        self.q_proj = nn.Linear(h, self.n * d, bias=False)
        self.k_proj = nn.Linear(h, self.kv * d, bias=False)
        self.v_proj = nn.Linear(h, self.kv * d, bias=False)
        self.o_proj = nn.Linear(self.n * d, h, bias=False)
        self.q_norm = RMSNorm(d, config.rms_norm_eps)
        self.k_norm = RMSNorm(d, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        B, T, _ = hidden_states.shape
        wq = self.q_proj.weight.view(self.n, self.d, -1)
        wk = self.k_proj.weight.view(self.kv, self.d, -1)
        wv = self.v_proj.weight.view(self.kv, self.d, -1)
        q = self.q_norm(einsum("btc,ndc->bntd", hidden_states, wq))
        k = self.k_norm(einsum("btc,mdc->bmtd", hidden_states, wk))
        v = einsum("btc,mdc->bmtd", hidden_states, wv)

        pos = torch.arange(T, device=q.device) if position_ids is None else position_ids
        cos, sin = self.rotary(pos)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)

        # no repeat: query head n belongs to kv head n // group
        q = q.unflatten(1, (self.kv, -1))
        att = einsum("bmgqd,bmkd->bmgqk", q, k) / self.d**0.5
        if attention_mask is None:
            see = torch.tril(torch.ones(T, T, dtype=torch.bool, device=q.device))
            att = att.masked_fill(~see, float("-inf"))
        else:
            full = attention_mask.expand(B, self.n, T, T).unflatten(1, (self.kv, -1))
            att = att + full
        att = torch.softmax(att, dim=-1, dtype=torch.float32).to(v.dtype)
        mix = einsum("bmgqk,bmkd->bqmgd", att, v).flatten(2)
        return self.o_proj(mix)
