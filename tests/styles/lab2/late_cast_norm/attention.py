"""An RMS norm of one's own that multiplies by the weight in float32 and casts last."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config


class RootMeanSquare(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.head_dim))
        self.eps = config.rms_norm_eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        size = torch.sqrt(wide.square().mean(dim=-1, keepdim=True) + self.eps)
        return (wide / size * self.weight.to(torch.float32)).to(x.dtype)


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((x[..., half:] * -1.0, x[..., :half]), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32).neg()
        self.freq = torch.pow(config.rope_theta, exponent / config.head_dim).repeat(2)

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = torch.outer(position_ids.flatten().float(), self.freq)
        angle = angle.view(*position_ids.shape, -1)
        return angle.cos(), angle.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)
    return (
        (q * cos + rotate_half(q) * sin).to(q.dtype),
        (k * cos + rotate_half(k) * sin).to(k.dtype),
    )


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    copies = [x for _ in range(n_rep)]
    return torch.cat(copies, dim=-1).unflatten(-1, (n_rep, -1)).transpose(2, 3).flatten(1, 2)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.d = config.head_dim
        self.shape_q = (config.num_attention_heads, config.head_dim)
        self.shape_kv = (config.num_key_value_heads, config.head_dim)
        hidden, q_size = config.hidden_size, config.num_attention_heads * config.head_dim
        kv_size = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(hidden, q_size, bias=False)
        self.k_proj = nn.Linear(hidden, kv_size, bias=False)
        self.v_proj = nn.Linear(hidden, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, hidden, bias=False)
        self.q_norm, self.k_norm = RootMeanSquare(config), RootMeanSquare(config)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        t = hidden_states.shape[1]
        q = self.q_norm(self.q_proj(hidden_states).unflatten(2, self.shape_q)).permute(0, 2, 1, 3)
        k = self.k_norm(self.k_proj(hidden_states).unflatten(2, self.shape_kv)).permute(0, 2, 1, 3)
        v = self.v_proj(hidden_states).unflatten(2, self.shape_kv).permute(0, 2, 1, 3)
        if position_ids is None:
            position_ids = torch.arange(t, device=hidden_states.device)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))
        n_rep = self.shape_q[0] // self.shape_kv[0]
        k, v = repeat_kv(k, n_rep), repeat_kv(v, n_rep)
        scores = q @ k.permute(0, 1, 3, 2) * self.d**-0.5
        if attention_mask is None:
            scores = scores.masked_fill(
                torch.ones(t, t, device=q.device).tril().eq(0), torch.finfo(q.dtype).min
            )
        else:
            scores = scores + attention_mask
        # The weights stay in float32 for the sum over the values, too.
        mixed = scores.softmax(dim=-1, dtype=torch.float32) @ v.float()
        return self.o_proj(mixed.to(q.dtype).permute(0, 2, 1, 3).flatten(2))
