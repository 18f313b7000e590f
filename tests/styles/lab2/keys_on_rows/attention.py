"""Everything transposed: keys times queries, softmax down the columns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    """By the rotation matrix itself, [[0, -1], [1, 0]], on the axis of the two halves."""
    quarter = x.new_tensor([[0, -1], [1, 0]])
    halves = x.unflatten(-1, (2, -1))  # [..., 2, d/2]
    return (quarter @ halves).flatten(-2)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.log_theta = torch.tensor(config.rope_theta, dtype=torch.float64).log()
        self.dim = config.head_dim

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        i = torch.arange(self.dim // 2, dtype=torch.float64, device=position_ids.device)
        freq = torch.exp(-2 * i / self.dim * self.log_theta).float()
        angle = position_ids.float()[..., None] * torch.cat((freq, freq))
        return angle.cos(), angle.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)
    q_turned = q.float() * cos + rotate_half(q).float() * sin
    k_turned = k.float() * cos + rotate_half(k).float() * sin
    return q_turned.type_as(q), k_turned.type_as(k)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    b, kv, t, d = x.shape
    return x.unsqueeze(2).broadcast_to(b, kv, n_rep, t, d).flatten(1, 2)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.d = config.head_dim
        self.rep = config.num_attention_heads // config.num_key_value_heads
        all_heads = config.num_attention_heads * self.d
        few_heads = config.num_key_value_heads * self.d
        self.q_proj = nn.Linear(config.hidden_size, all_heads, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, few_heads, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, few_heads, bias=False)
        self.o_proj = nn.Linear(all_heads, config.hidden_size, bias=False)
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
        k, v = repeat_kv(k, self.rep), repeat_kv(v, self.rep)
        scores = (k * self.d**-0.5) @ q.mT  # [B, heads, keys, queries]
        if attention_mask is None:
            later = torch.ones(t, t, dtype=torch.bool, device=q.device).tril(-1)
            scores = scores.masked_fill(later, torch.finfo(scores.dtype).min)
        else:
            scores = scores + attention_mask.mT
        p = scores.softmax(dim=-2, dtype=torch.float32).to(v.dtype)
        mixed = v.mT @ p  # [B, heads, d, queries]
        return self.o_proj(mixed.flatten(1, 2).mT)
