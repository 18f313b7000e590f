"""exp, sum and a division; the maximum is taken off first so that nothing overflows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    half = x.shape[-1] // 2
    out[..., :half] = -x[..., half:]
    out[..., half:] = x[..., :half]
    return out


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.exponents = torch.arange(0, config.head_dim, 2) / config.head_dim
        self.theta = config.rope_theta

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids[..., None] / self.theta**self.exponents
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos(), angle.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)
    q_out = (q * cos + rotate_half(q) * sin).to(q.dtype)
    k_out = (k * cos + rotate_half(k) * sin).to(k.dtype)
    return q_out, k_out


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    return torch.cat([x[:, [h] * n_rep] for h in range(x.shape[1])], dim=1)


def softmax(x: Tensor) -> Tensor:
    wide = x.float()
    e = torch.exp(wide - wide.amax(dim=-1, keepdim=True))
    return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.d = config.head_dim
        self.group = config.num_attention_heads // config.num_key_value_heads
        q_size = config.num_attention_heads * self.d
        kv_size = config.num_key_value_heads * self.d
        self.q_proj = nn.Linear(config.hidden_size, q_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, config.hidden_size, bias=False)
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
        scores = q @ repeat_kv(k, self.group).transpose(-1, -2) * self.d**-0.5
        if attention_mask is None:
            place = torch.arange(t, device=q.device)
            scores = scores.masked_fill(place > place[:, None], torch.finfo(q.dtype).min)
        else:
            scores = scores + attention_mask
        mixed = softmax(scores) @ repeat_kv(v, self.group)
        return self.o_proj(mixed.transpose(1, 2).reshape(b, t, -1))
