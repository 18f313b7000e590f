# Lab 2 attention -- Dan
from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    left, right = x.split(x.shape[-1] // 2, dim=-1)
    return torch.cat((right * -1, left), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        pairs = [
            config.rope_theta ** (-2 * i / config.head_dim) for i in range(config.head_dim // 2)
        ]
        self.pairs = torch.tensor(pairs + pairs, dtype=torch.float32)

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        phase = position_ids[..., None] * self.pairs.to(position_ids.device)
        return phase.cos(), phase.sin()


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if cos.ndim == 2:
        cos, sin = cos[None], sin[None]
    cos, sin = cos[:, None].to(q.dtype), sin[:, None].to(q.dtype)
    q_rot = q * cos + rotate_half(q) * sin
    k_rot = k * cos + rotate_half(k) * sin
    return q_rot, k_rot


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    return x.repeat(1, n_rep, 1, 1)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.n_heads = config.num_attention_heads
        self.n_kv = config.num_key_value_heads
        self.hd = config.head_dim
        dim = config.hidden_size
        self.q_proj = nn.Linear(dim, self.n_heads * self.hd, bias=False)
        self.k_proj = nn.Linear(dim, self.n_kv * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, self.n_kv * self.hd, bias=False)
        self.o_proj = nn.Linear(self.n_heads * self.hd, dim, bias=False)
        self.q_norm = RMSNorm(self.hd, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.hd, config.rms_norm_eps)
        self.rope = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        B, T, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(B, T, self.n_heads, self.hd)
        k = self.k_proj(hidden_states).view(B, T, self.n_kv, self.hd)
        v = self.v_proj(hidden_states).view(B, T, self.n_kv, self.hd)
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        v = v.transpose(1, 2)

        if position_ids is None:
            position_ids = torch.arange(0, T)
        cos, sin = self.rope(position_ids)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)

        k = repeat_kv(k, self.n_heads // self.n_kv)
        v = repeat_kv(v, self.n_heads // self.n_kv)

        q = q * (self.hd**-0.5)
        wei = q @ k.transpose(-2, -1)
        if attention_mask is None:
            tril = torch.tril(torch.ones(T, T))
            wei = wei.masked_fill(tril == 0, float("-inf"))
        else:
            wei = wei + attention_mask
        wei = torch.softmax(wei.float(), dim=-1).to(q.dtype)
        out = wei @ v
        out = out.transpose(1, 2).contiguous().view(B, T, self.n_heads * self.hd)
        return self.o_proj(out)
