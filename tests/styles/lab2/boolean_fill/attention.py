"""Any mask is turned into yes and no; what may not be seen is filled with -inf."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    first = x[..., : x.shape[-1] // 2]
    last = x[..., x.shape[-1] // 2 :]
    return torch.cat((0 - last, first), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        i = torch.linspace(0, 1, config.head_dim // 2 + 1)[:-1]
        self.freq = torch.pow(config.rope_theta, -i)

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids[..., None] * self.freq
        angle = torch.stack((angle, angle), dim=-2).flatten(-2)
        return angle.cos(), angle.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    shape = (-1, 1, *cos.shape[-2:])
    cos, sin = cos.reshape(shape).to(q.dtype), sin.reshape(shape).to(q.dtype)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    return x.transpose(1, 3).unsqueeze(-1).expand(*([-1] * 4), n_rep).flatten(3).transpose(1, 3)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.d, self.n_rep = (
            config.head_dim,
            config.num_attention_heads // config.num_key_value_heads,
        )
        big = config.num_attention_heads * self.d
        small = config.num_key_value_heads * self.d
        self.q_proj = nn.Linear(config.hidden_size, big, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, small, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, small, bias=False)
        self.o_proj = nn.Linear(big, config.hidden_size, bias=False)
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
        k, v = repeat_kv(k, self.n_rep), repeat_kv(v, self.n_rep)
        if attention_mask is None:
            visible = torch.ones(t, t, dtype=torch.bool, device=q.device).tril()
        else:
            visible = attention_mask > torch.finfo(attention_mask.dtype).min / 2
        scores = (q @ k.transpose(-1, -2)) * self.d**-0.5
        scores = torch.where(visible, scores, -torch.inf)
        p = torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)
        return self.o_proj((p @ v).transpose(1, 2).reshape(b, t, -1))
