"""Qwen3 attention, my version (Erin)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    mid = x.shape[-1] // 2
    out[..., :mid] = -x[..., mid:]
    out[..., mid:] = x[..., :mid]
    return out


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.base = float(config.rope_theta)
        self.size = config.head_dim

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        j = torch.arange(self.size // 2, device=position_ids.device)
        omega = self.base ** (-2.0 * j.float() / self.size)
        angles = position_ids.float()[..., None] * torch.cat((omega, omega))
        return torch.cos(angles), torch.sin(angles)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    rotated = []
    for x in (q, k):
        c = cos.to(x.dtype).unsqueeze(-3)
        s = sin.to(x.dtype).unsqueeze(-3)
        rotated.append(x * c + rotate_half(x) * s)
    return rotated[0], rotated[1]


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    index = torch.arange(x.shape[1] * n_rep, device=x.device) // n_rep
    return x[:, index]


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.n_rep = config.num_attention_heads // config.num_key_value_heads
        self.d = config.head_dim
        wide = config.num_attention_heads * self.d
        narrow = config.num_key_value_heads * self.d
        self.q_proj = nn.Linear(config.hidden_size, wide, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.o_proj = nn.Linear(wide, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.d, eps=config.rms_norm_eps)
        self.k_norm = RMSNorm(self.d, eps=config.rms_norm_eps)
        self.rotary_emb = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        b, t = hidden_states.shape[:2]
        q = self.q_proj(hidden_states).reshape(b, t, -1, self.d)
        k = self.k_proj(hidden_states).reshape(b, t, -1, self.d)
        v = self.v_proj(hidden_states).reshape(b, t, -1, self.d)
        q, k, v = self.q_norm(q).swapaxes(1, 2), self.k_norm(k).swapaxes(1, 2), v.swapaxes(1, 2)

        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        cos, sin = self.rotary_emb(position_ids)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        k, v = repeat_kv(k, self.n_rep), repeat_kv(v, self.n_rep)

        scores = q @ k.swapaxes(-1, -2) / self.d**0.5
        if attention_mask is not None:
            scores = scores + attention_mask
        p = scores.softmax(dim=-1, dtype=torch.float32).to(q.dtype)
        y = (p @ v).swapaxes(1, 2).flatten(2)
        return self.o_proj(y)
