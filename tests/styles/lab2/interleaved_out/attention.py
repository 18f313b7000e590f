"""Half-split in, interleaved out: q and k are permuted alike, so q.k does not notice."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    mid = x.shape[-1] // 2
    return torch.cat((-x.narrow(-1, mid, mid), x.narrow(-1, 0, mid)), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        half = config.head_dim // 2
        self.freq = torch.exp2(
            torch.arange(half).float() / -half * torch.log2(torch.tensor(config.rope_theta))
        )

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids.float().unsqueeze(-1) * self.freq
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs (x_i, x_{i+d/2}); they come out side by side at 2i and 2i+1."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    half = q.shape[-1] // 2
    cos, sin = cos[..., :half].unsqueeze(-3), sin[..., :half].unsqueeze(-3)
    return turn(q, cos, sin), turn(k, cos, sin)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    b, kv, t, d = x.shape
    out = x.new_empty(b, kv, n_rep, t, d)
    out[:] = x.unsqueeze(2)
    return out.view(b, kv * n_rep, t, d)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.c = config
        q_out = config.head_dim * config.num_attention_heads
        kv_out = config.head_dim * config.num_key_value_heads
        self.q_proj = nn.Linear(config.hidden_size, q_out, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_out, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_out, bias=False)
        self.o_proj = nn.Linear(q_out, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        b, t, _ = hidden_states.shape
        n, kv, d = self.c.num_attention_heads, self.c.num_key_value_heads, self.c.head_dim
        q = self.q_proj(hidden_states).view(b, t, n, d).permute(0, 2, 1, 3)
        k = self.k_proj(hidden_states).view(b, t, kv, d).permute(0, 2, 1, 3)
        v = self.v_proj(hidden_states).view(b, t, kv, d).permute(0, 2, 1, 3)
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        q, k = apply_rotary_pos_emb(self.q_norm(q), self.k_norm(k), *self.rotary(position_ids))
        k, v = repeat_kv(k, n // kv), repeat_kv(v, n // kv)

        scores = (q @ k.mT).float() * d**-0.5
        if attention_mask is None:
            ahead = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(ahead, float("-inf"))
        else:
            scores = scores + attention_mask
        mixed = (scores.softmax(dim=-1).to(v.dtype) @ v).permute(0, 2, 1, 3)
        return self.o_proj(mixed.contiguous().view(b, t, n * d))
