"""Weights as exp(score - logsumexp); the scale sits in the weight of q_norm's output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return torch.stack((-second, first), dim=-2).flatten(-2)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        pairs = config.head_dim // 2
        self.freq = torch.logspace(0, 1 / pairs - 1, pairs, base=config.rope_theta)

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = torch.tensordot(position_ids.float().unsqueeze(-1), self.freq.unsqueeze(0), dims=1)
        table = torch.stack((angle, angle), dim=-2).flatten(-2)
        return table.cos(), table.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    half = cos.shape[-1] // 2
    c, s = cos[..., :half].unsqueeze(-3), sin[..., :half].unsqueeze(-3)

    def turn(x: Tensor) -> Tensor:
        x1, x2 = x[..., :half], x[..., half:]
        return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), dim=-1).to(x.dtype)

    return turn(q), turn(k)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    b, kv, t, d = x.shape
    index = torch.arange(kv, device=x.device).repeat_interleave(n_rep)
    return torch.gather(x, 1, index.view(1, -1, 1, 1).expand(b, -1, t, d))


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        n, kv, d = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.d, self.rep = d, n // kv
        self.q_proj = nn.Linear(config.hidden_size, n * d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv * d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv * d, bias=False)
        self.o_proj = nn.Linear(n * d, config.hidden_size, bias=False)
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
        q = self.q_norm(self.q_proj(hidden_states).view(b, t, -1, self.d)) * self.d**-0.5
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, -1, self.d))
        v = self.v_proj(hidden_states).view(b, t, -1, self.d)
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        tables = self.rotary(position_ids)
        q, k = apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), *tables)
        k, v = repeat_kv(k, self.rep), repeat_kv(v.transpose(1, 2), self.rep)
        if attention_mask is None:
            attention_mask = torch.full((t, t), torch.finfo(q.dtype).min).triu(1).to(q.dtype)
        scores = (q @ k.mT + attention_mask).float()
        p = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True)).to(v.dtype)
        return self.o_proj((p @ v).transpose(1, 2).reshape(b, t, -1))
