"""Lab 2 - attention - Frank

The rotary part follows the RoFormer paper: dimension 2i is paired with dimension 2i + 1.
"""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    even = x[..., 0::2]
    odd = x[..., 1::2]
    return torch.stack((-odd, even), dim=-1).flatten(-2)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32)
        self.theta_i = config.rope_theta ** (-exponent / config.head_dim)

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        m_theta = position_ids.to(torch.float32).unsqueeze(-1) * self.theta_i
        m_theta = m_theta.repeat_interleave(2, dim=-1)
        return m_theta.cos(), m_theta.sin()


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos = cos.unsqueeze(-3).to(q.dtype)
    sin = sin.unsqueeze(-3).to(q.dtype)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    return x.unsqueeze(2).expand(-1, -1, n_rep, -1, -1).flatten(1, 2)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        n, kv, d = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, n * d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv * d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv * d, bias=False)
        self.o_proj = nn.Linear(n * d, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(d, config.rms_norm_eps)
        self.k_norm = RMSNorm(d, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        batch, length, _ = hidden_states.shape
        d = self.config.head_dim

        def project(layer: nn.Linear) -> torch.Tensor:
            return layer(hidden_states).view(batch, length, -1, d).transpose(1, 2)

        query = self.q_norm(project(self.q_proj))
        key = self.k_norm(project(self.k_proj))
        value = project(self.v_proj)
        if position_ids is None:
            position_ids = torch.arange(length, device=hidden_states.device)
        cos, sin = self.rotary(position_ids)
        query, key = apply_rotary_pos_emb(query, key, cos, sin)

        n_rep = query.shape[1] // key.shape[1]
        key, value = repeat_kv(key, n_rep), repeat_kv(value, n_rep)
        logits = query @ key.transpose(2, 3) / d**0.5
        if attention_mask is None:
            minus = torch.finfo(logits.dtype).min
            attention_mask = torch.full_like(logits[0, 0], minus).triu(1)
        logits = logits + attention_mask
        attention = torch.softmax(logits, -1, dtype=torch.float32).to(query.dtype)
        heads = attention @ value
        return self.o_proj(heads.transpose(1, 2).reshape(batch, length, -1))
