"""torch's own RMS norm in place of the given one; the state dict does not change."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config


def rotate_half(x: Tensor) -> Tensor:
    lower, upper = x.unflatten(-1, (2, -1)).unbind(-2)
    return torch.cat((-upper, lower), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        idx = torch.arange(config.head_dim // 2).to(torch.float32)
        self.freq = 1 / (config.rope_theta ** (2 * idx / config.head_dim))

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_ids.float().unsqueeze(-1) * torch.cat((self.freq, self.freq))
        return angle.cos(), angle.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos = cos.unsqueeze(-3)
    sin = sin.unsqueeze(-3)
    turned = [x.float() * cos + rotate_half(x.float()) * sin for x in (q, k)]
    return turned[0].to(q.dtype), turned[1].to(k.dtype)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    return x.unsqueeze(2).tile(1, 1, n_rep, 1, 1).flatten(1, 2)


class TorchNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        n, kv, d = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.n, self.kv, self.d = n, kv, d
        self.q_proj = nn.Linear(config.hidden_size, n * d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv * d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv * d, bias=False)
        self.o_proj = nn.Linear(n * d, config.hidden_size, bias=False)
        self.q_norm = TorchNorm(d, config.rms_norm_eps)
        self.k_norm = TorchNorm(d, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        b, t, _ = hidden_states.shape
        q = self.q_norm(self.q_proj(hidden_states).view(b, t, self.n, self.d)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(b, t, self.kv, self.d)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, self.kv, self.d).transpose(1, 2)
        if position_ids is None:
            position_ids = torch.arange(t, device=hidden_states.device)
        cos, sin = self.rotary(position_ids)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        k, v = repeat_kv(k, self.n // self.kv), repeat_kv(v, self.n // self.kv)
        scores = torch.matmul(q, k.transpose(2, 3)) * (self.d**-0.5)
        if attention_mask is None:
            lower = torch.ones(t, t, device=q.device).tril()
            scores = scores.masked_fill(lower == 0, float("-inf"))
        else:
            scores = scores + attention_mask
        p = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        mixed = torch.matmul(p, v).transpose(1, 2).contiguous()
        return self.o_proj(mixed.view(b, t, self.n * self.d))
