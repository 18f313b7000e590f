"""One matrix for q, k and v, put together at run time from the three parameters."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def fused_linear(x: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
    """[..., in] -> one [..., out] per layer, by a single matmul."""
    rows = [layer.out_features for layer in layers]
    return F.linear(x, torch.cat([layer.weight for layer in layers])).split(rows, dim=-1)


def rotate_half(x: Tensor) -> Tensor:
    a, b = torch.tensor_split(x, 2, dim=-1)
    return torch.cat((b * -1, a), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.base, self.dim = config.rope_theta, config.head_dim

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        i = torch.arange(0, self.dim, 2, device=position_ids.device)
        freq = 1.0 / (self.base ** (i.float() / self.dim))
        angle = position_ids.float().unsqueeze(-1) @ freq.unsqueeze(0)
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos(), angle.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    heads = q.shape[1]
    both = torch.cat((q, k), dim=1)  # turned together, cut apart again
    c, s = cos.to(q.dtype).unsqueeze(-3), sin.to(q.dtype).unsqueeze(-3)
    both = both * c + rotate_half(both) * s
    return both[:, :heads], both[:, heads:]


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    return torch.repeat_interleave(x, n_rep, dim=1)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.cfg = config
        q_rows = config.num_attention_heads * config.head_dim
        kv_rows = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, q_rows, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_rows, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_rows, bias=False)
        self.o_proj = nn.Linear(q_rows, config.hidden_size, bias=False)
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
        d = self.cfg.head_dim
        parts = fused_linear(hidden_states, self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (part.reshape(b, t, -1, d).transpose(1, 2) for part in parts)
        q, k = self.q_norm(q), self.k_norm(k)
        if position_ids is None:
            position_ids = torch.arange(t, device=q.device)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))
        k, v = repeat_kv(torch.stack((k, v)).flatten(0, 1), q.shape[1] // k.shape[1]).chunk(2)

        scores = q @ k.transpose(2, 3) / d**0.5
        if attention_mask is None:
            attention_mask = torch.full_like(scores[0, 0], float("-inf")).triu(1)
        scores = scores + attention_mask
        p = torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)
        return self.o_proj((p @ v).transpose(1, 2).reshape(b, t, -1))
