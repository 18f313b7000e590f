"""One query position after the other, like decoding; without a mask it sees keys[: i + 1]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    halves = x.reshape(*x.shape[:-1], 2, -1)
    return torch.cat((-halves[..., 1, :], halves[..., 0, :]), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        power = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        self.inv = (1.0 / config.rope_theta) ** power

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = torch.kron(position_ids.float().unsqueeze(-1), self.inv)
        return torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    # tokens first, so that the head axis is the one that broadcasts
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)

    def turn(x: Tensor) -> Tensor:
        y = x.transpose(1, 2)
        y = y * cos.to(x.dtype) + rotate_half(y) * sin.to(x.dtype)
        return y.transpose(1, 2)

    return turn(q), turn(k)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    rows = [h for h in range(x.shape[1]) for _ in range(n_rep)]
    return x[:, rows]


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.conf = config
        q_width = config.num_attention_heads * config.head_dim
        kv_width = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, q_width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.o_proj = nn.Linear(q_width, config.hidden_size, bias=False)
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
        n, kv, d = self.conf.num_attention_heads, self.conf.num_key_value_heads, self.conf.head_dim
        q = self.q_norm(self.q_proj(hidden_states).view(b, t, n, d)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, kv, d)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, kv, d).transpose(1, 2)
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))
        k, v = repeat_kv(k, n // kv), repeat_kv(v, n // kv)
        mask = None if attention_mask is None else attention_mask.expand(b, n, t, t)

        rows = []
        for i in range(t):
            end = i + 1 if mask is None else t
            scores = q[:, :, i : i + 1] @ k[:, :, :end].transpose(2, 3) * d**-0.5
            if mask is not None:
                scores = scores + mask[:, :, i : i + 1]
            p = scores.softmax(dim=-1, dtype=torch.float32).to(q.dtype)
            rows.append((p @ v[:, :, :end]).transpose(1, 2).reshape(b, 1, n * d))
        return self.o_proj(torch.cat(rows, dim=1))
