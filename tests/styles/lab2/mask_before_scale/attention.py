"""The mask is added to the raw scores and scaled with them: minus very much stays that."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    rolled = torch.roll(x, shifts=half, dims=-1)
    sign = torch.ones(2 * half, dtype=x.dtype, device=x.device)
    sign[:half] = -1
    return rolled * sign


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        half = config.head_dim // 2
        i = torch.arange(config.head_dim).remainder(half)
        self.omega = config.rope_theta ** (-i.float() / half)  # every frequency twice

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids.to(torch.float32)[..., None] * self.omega
        return torch.cos(angle), torch.sin(angle)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    if cos.dim() == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    cos, sin = cos.to(q.dtype), sin.to(q.dtype)
    return cos * q + sin * rotate_half(q), cos * k + sin * rotate_half(k)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    b, kv, t, d = x.shape
    return x.repeat(1, 1, n_rep, 1).view(b, kv * n_rep, t, d)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.n_heads, self.n_kv = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.head_dim
        size = config.hidden_size
        self.q_proj = nn.Linear(size, self.head_dim * self.n_heads, bias=False)
        self.k_proj = nn.Linear(size, self.head_dim * self.n_kv, bias=False)
        self.v_proj = nn.Linear(size, self.head_dim * self.n_kv, bias=False)
        self.o_proj = nn.Linear(self.head_dim * self.n_heads, size, bias=False)
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        b, t, _ = hidden_states.shape
        q = self.q_norm(self.q_proj(hidden_states).view(b, t, self.n_heads, -1)).swapaxes(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, self.n_kv, -1)).swapaxes(1, 2)
        v = self.v_proj(hidden_states).view(b, t, self.n_kv, -1).swapaxes(1, 2)
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        cos, sin = self.rotary(position_ids)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        k = repeat_kv(k, self.n_heads // self.n_kv)
        v = repeat_kv(v, self.n_heads // self.n_kv)

        if attention_mask is None:
            attention_mask = hidden_states.new_full((t, t), torch.finfo(q.dtype).min).triu(1)
        scores = (torch.matmul(q, k.swapaxes(-1, -2)) + attention_mask) * self.head_dim**-0.5
        p = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(p, v).swapaxes(1, 2).reshape(b, t, -1))
