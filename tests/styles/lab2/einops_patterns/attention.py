"""Axes by their names, as einops has them."""

from __future__ import annotations

import torch
from einops import einsum, rearrange, repeat
from einops.layers.torch import Rearrange
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    first, second = rearrange(x, "... (two half) -> two ... half", two=2)
    return rearrange([-second, first], "two ... half -> ... (two half)")


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        half = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        self.register_buffer("frequencies", config.rope_theta**-half, persistent=False)

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # Buffers follow a module to its dtype: what is counted in positions stays in float32.
        frequencies = self.frequencies.float()
        angles = einsum(position_ids.float(), frequencies, "... seq, half -> ... seq half")
        angles = repeat(angles, "... half -> ... (two half)", two=2)
        return angles.cos(), angles.sin()


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if cos.ndim == 2:
        cos, sin = (rearrange(x, "seq d -> 1 seq d") for x in (cos, sin))
    cos, sin = (rearrange(x, "b seq d -> b 1 seq d").to(q.dtype) for x in (cos, sin))
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    return repeat(x, "b kv seq d -> b (kv group) seq d", group=n_rep)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        d, hidden = config.head_dim, config.hidden_size
        self.group = config.num_attention_heads // config.num_key_value_heads
        self.q_proj = nn.Linear(hidden, config.num_attention_heads * d, bias=False)
        self.k_proj = nn.Linear(hidden, config.num_key_value_heads * d, bias=False)
        self.v_proj = nn.Linear(hidden, config.num_key_value_heads * d, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * d, hidden, bias=False)
        self.q_norm, self.k_norm = (RMSNorm(d, config.rms_norm_eps) for _ in range(2))
        self.split = Rearrange("b seq (heads d) -> b heads seq d", d=d)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        seq = hidden_states.shape[1]
        q = self.q_norm(self.split(self.q_proj(hidden_states)))
        k = self.k_norm(self.split(self.k_proj(hidden_states)))
        v = self.split(self.v_proj(hidden_states))
        if position_ids is None:
            position_ids = rearrange(torch.arange(seq), "seq -> 1 seq")
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))
        k, v = repeat_kv(k, self.group), repeat_kv(v, self.group)
        scores = einsum(q, k, "b h query d, b h key d -> b h query key") * q.shape[-1] ** -0.5
        if attention_mask is None:
            attention_mask = torch.full((seq, seq), float("-inf"), dtype=q.dtype).triu(1)
        weights = (scores + attention_mask).softmax(-1, dtype=torch.float32).to(q.dtype)
        out = einsum(weights, v, "b h query key, b h key d -> b query h d")
        return self.o_proj(rearrange(out, "b seq h d -> b seq (h d)"))
