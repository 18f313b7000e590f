"""RoPE as multiplication by e^(i angle): the two halves become real and imaginary part."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def to_complex(x: Tensor) -> Tensor:
    """[..., d] -> complex64 [..., d/2]; half-split layout, so no view_as_complex."""
    re, im = x.float().chunk(2, dim=-1)
    return torch.complex(re, im)


def to_real(z: Tensor) -> Tensor:
    return torch.cat((z.real, z.imag), dim=-1)


def rotate_half(x: Tensor) -> Tensor:
    return to_real(to_complex(x) * 1j).to(x.dtype)  # a quarter turn is i


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        index = torch.arange(config.head_dim // 2, dtype=torch.float32)
        self.freq = config.rope_theta ** (index * (-2 / config.head_dim))

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids[..., None].float() * self.freq
        turn = torch.polar(torch.ones_like(angle), angle)
        return torch.cat((turn.real,) * 2, dim=-1), torch.cat((turn.imag,) * 2, dim=-1)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    half = cos.shape[-1] // 2
    turn = torch.complex(cos[..., :half].contiguous(), sin[..., :half].contiguous())
    turn = turn.unsqueeze(-3)
    q_turned, k_turned = to_complex(q) * turn, to_complex(k) * turn
    return to_real(q_turned).type_as(q), to_real(k_turned).type_as(k)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    owner = torch.arange(x.shape[1] * n_rep, device=x.device).div(n_rep, rounding_mode="floor")
    return x.index_select(1, owner)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.config = config
        inner = config.num_attention_heads * config.head_dim
        kv_inner = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_inner, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_inner, bias=False)
        self.o_proj = nn.Linear(inner, config.hidden_size, bias=False)
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
        d = self.config.head_dim

        def split(x: Tensor) -> Tensor:
            return x.reshape(b, t, -1, d).permute(0, 2, 1, 3)

        q = split(self.q_proj(hidden_states))
        k = split(self.k_proj(hidden_states))
        v = split(self.v_proj(hidden_states))
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        q, k = apply_rotary_pos_emb(self.q_norm(q), self.k_norm(k), *self.rotary(position_ids))
        n_rep = self.config.num_attention_heads // self.config.num_key_value_heads
        k, v = repeat_kv(k, n_rep), repeat_kv(v, n_rep)

        if attention_mask is None:
            lowest = torch.finfo(q.dtype).min
            attention_mask = torch.zeros(t, t, dtype=q.dtype).masked_fill(
                torch.arange(t)[None, :] > torch.arange(t)[:, None], lowest
            )
        logits = q.matmul(k.transpose(-2, -1)) * d**-0.5 + attention_mask
        p = torch.softmax(logits, dim=-1, dtype=torch.float32).type_as(q)
        return self.o_proj(p.matmul(v).permute(0, 2, 1, 3).flatten(2))
