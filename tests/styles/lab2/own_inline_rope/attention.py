"""Small functions; the module only holds the weights. One boolean mask says who is blocked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def _angles(positions: Tensor, dim: int, base: float) -> Tensor:
    """[..., T] -> [..., T, dim/2]"""
    i = torch.arange(dim // 2, dtype=torch.float32, device=positions.device)
    speeds = torch.pow(float(base), -2.0 * i / dim)
    return positions.unsqueeze(-1).to(torch.float32) * speeds


def _rope(x: Tensor, angles: Tensor) -> Tensor:
    """x [B, n, T, d], angles [T, d/2] or [B, T, d/2]"""
    c = angles.cos().unsqueeze(-3).to(x.dtype)
    s = angles.sin().unsqueeze(-3).to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


def _split(x: Tensor, n: int) -> Tensor:
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _blocked(mask: Tensor | None, t: int, device: torch.device) -> Tensor:
    """True where a query must not look."""
    if mask is not None:
        return mask < 0
    i = torch.arange(t, device=device)
    return i[None, :] > i[:, None]


def _attend(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor) -> Tensor:
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
    probs = torch.softmax(scores.to(torch.float32), dim=-1)
    return probs.to(v.dtype) @ v


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    h = x.size(-1) // 2
    return torch.cat((-x.narrow(-1, h, h), x.narrow(-1, 0, h)), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.config = config

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        phi = _angles(position_ids, self.config.head_dim, self.config.rope_theta)
        both = torch.cat((phi, phi), dim=-1)
        return torch.cos(both), torch.sin(both)


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    def turn(x: Tensor) -> Tensor:
        c = cos.unsqueeze(-3).to(x.dtype)
        s = sin.unsqueeze(-3).to(x.dtype)
        return x * c + rotate_half(x) * s

    return turn(q), turn(k)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    heads = torch.arange(x.shape[1] * n_rep, device=x.device)
    return x[:, heads // n_rep]


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.config = config
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        hd = config.head_dim

        def linear(n_in: int, n_out: int) -> nn.Linear:
            return nn.Linear(n_in, n_out, bias=False)

        self.q_proj = linear(config.hidden_size, self.heads * hd)
        self.k_proj = linear(config.hidden_size, self.kv_heads * hd)
        self.v_proj = linear(config.hidden_size, self.kv_heads * hd)
        self.o_proj = linear(self.heads * hd, config.hidden_size)
        self.q_norm = RMSNorm(hd, eps=config.rms_norm_eps)
        self.k_norm = RMSNorm(hd, eps=config.rms_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        t, device = hidden_states.shape[1], hidden_states.device
        if position_ids is None:
            position_ids = torch.arange(t, device=device)
        angles = _angles(position_ids, self.config.head_dim, self.config.rope_theta)

        q = _rope(self.q_norm(_split(self.q_proj(hidden_states), self.heads)), angles)
        k = _rope(self.k_norm(_split(self.k_proj(hidden_states), self.kv_heads)), angles)
        v = _split(self.v_proj(hidden_states), self.kv_heads)

        group = self.heads // self.kv_heads
        blocked = _blocked(attention_mask, t, device)
        y = _attend(q, repeat_kv(k, group), repeat_kv(v, group), blocked)
        return self.o_proj(_join(y))
