"""Lab 2, attention. Alice."""

from __future__ import annotations

import math

import torch
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        d = config.head_dim
        i = torch.arange(d // 2).float()
        # kept out of the buffers on purpose, so .to(torch.bfloat16) leaves it alone
        self.freqs = torch.pow(torch.tensor(config.rope_theta), -2.0 * i / d)

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angle = position_ids.float().unsqueeze(-1) * self.freqs.to(position_ids.device)
        both = torch.cat([angle, angle], dim=-1)
        return torch.cos(both), torch.sin(both)


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if cos.dim() == 3:  # one row of positions per sequence: make room for the heads
        cos, sin = cos[:, None], sin[:, None]

    def turn(x: torch.Tensor) -> torch.Tensor:
        return (x * cos + rotate_half(x) * sin).to(x.dtype)

    return turn(q), turn(k)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    b, kv, t, d = x.shape
    return x[:, :, None].expand(b, kv, n_rep, t, d).reshape(b, kv * n_rep, t, d)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.cfg = config
        q_size = config.num_attention_heads * config.head_dim
        kv_size = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, q_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.rope = RotaryEmbedding(config)

    def split(self, x: torch.Tensor, n: int) -> torch.Tensor:
        """[B, T, n * head_dim] -> [B, n, T, head_dim]"""
        return x.reshape(x.shape[0], x.shape[1], n, self.cfg.head_dim).permute(0, 2, 1, 3)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        b, t, _ = hidden_states.shape
        n_q, n_kv = self.cfg.num_attention_heads, self.cfg.num_key_value_heads
        q = self.q_norm(self.split(self.q_proj(hidden_states), n_q))
        k = self.k_norm(self.split(self.k_proj(hidden_states), n_kv))
        v = self.split(self.v_proj(hidden_states), n_kv)

        if position_ids is None:
            position_ids = torch.arange(t, device=hidden_states.device)
        q, k = apply_rotary_pos_emb(q, k, *self.rope(position_ids))
        k = repeat_kv(k, n_q // n_kv)
        v = repeat_kv(v, n_q // n_kv)

        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.cfg.head_dim)
        if attention_mask is None:
            blocked = torch.full((t, t), torch.finfo(scores.dtype).min, device=scores.device)
            attention_mask = torch.triu(blocked, diagonal=1).to(scores.dtype)
        probs = torch.softmax((scores + attention_mask).float(), dim=-1).to(v.dtype)
        out = torch.matmul(probs, v).permute(0, 2, 1, 3).reshape(b, t, n_q * self.cfg.head_dim)
        return self.o_proj(out)
