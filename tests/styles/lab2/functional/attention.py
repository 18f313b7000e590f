"""Another right attention: grouped heads on five axes, einsum, everything written by hand.

Axes: b batch, t queries, s keys, n kv heads, g query heads of one kv head, d features of a head,
p pairs of features (d / 2). Queries are ``[b, n, g, t, d]``; keys and values have ``g = 1`` and
are never copied. Nothing of the reference's way is used: the scale goes into the queries, the
causal triangle comes of comparing indices, blocked scores are replaced by ``torch.where``, the
softmax and the norm are spelt out, and pairs are turned by their angles without wide tables.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    swapped = x.roll(half, dims=-1)
    return torch.cat((swapped[..., :half].neg(), swapped[..., half:]), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        pair = torch.arange(config.head_dim // 2, dtype=torch.float64)
        self.speed = (config.rope_theta ** (-2 * pair / config.head_dim)).float()  # [p]

    def angles(self, position_ids: Tensor) -> Tensor:
        """``[..., t]`` -> ``[..., t, p]``: how far each pair is turned."""
        return torch.einsum("...t,p->...tp", position_ids.float(), self.speed)

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        wide = self.angles(position_ids).tile(2)  # [..., t, d]
        return torch.cos(wide), torch.sin(wide)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    def turned(x: Tensor) -> Tensor:
        c, s = (table.unsqueeze(-3).to(x.dtype) for table in (cos, sin))
        return torch.addcmul(x * c, rotate_half(x), s)

    return turned(q), turned(k)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    source = torch.arange(x.shape[1] * n_rep, device=x.device) // n_rep
    return x.index_select(1, source)


class HeadNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:  # [b, n, g, t, d]
        wide = x.to(torch.float32)
        power = torch.einsum("...d,...d->...", wide, wide)[..., None] / wide.shape[-1]
        unit = wide / torch.sqrt(power + self.eps)
        return unit.to(x.dtype) * self.weight


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.kv_heads, self.d = config.num_key_value_heads, config.head_dim
        self.group = config.num_attention_heads // config.num_key_value_heads
        self.scale = config.head_dim**-0.5
        q_rows = self.kv_heads * self.group * self.d
        kv_rows = self.kv_heads * self.d
        self.rows = [q_rows, kv_rows, kv_rows]
        self.q_proj = nn.Linear(config.hidden_size, q_rows, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_rows, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_rows, bias=False)
        self.o_proj = nn.Linear(q_rows, config.hidden_size, bias=False)
        self.q_norm = HeadNorm(self.d, config.rms_norm_eps)
        self.k_norm = HeadNorm(self.d, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def turned(self, x: Tensor, angles: Tensor) -> Tensor:
        """Turn the pairs ``(x_i, x_{i + p})`` of ``[b, n, g, t, d]`` by ``[..., t, p]``."""
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        left, right = x.unflatten(-1, (2, -1)).unbind(-2)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        b, t, _ = hidden_states.shape
        n, g, d = self.kv_heads, self.group, self.d

        # One product for all three: [b, t, rows of q, of k, of v].
        joined = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight))
        q, k, v = F.linear(hidden_states, joined).split(self.rows, dim=-1)
        q = q.unflatten(-1, (n, g, d)).permute(0, 2, 3, 1, 4)
        k = k.unflatten(-1, (n, 1, d)).permute(0, 2, 3, 1, 4)
        v = v.unflatten(-1, (n, 1, d)).permute(0, 2, 3, 1, 4)
        q = self.q_norm(q)
        k = self.k_norm(k)

        if position_ids is None:
            position_ids = torch.arange(t, device=hidden_states.device)
        angles = self.rotary.angles(position_ids)[..., None, None, :, :]
        q = self.turned(q, angles) * self.scale
        k = self.turned(k, angles)

        scores = torch.einsum("bngtd,bngsd->bngts", q, k)
        lowest = scores.new_full((), torch.finfo(scores.dtype).min)
        if attention_mask is None:
            step = torch.arange(t, device=hidden_states.device)
            visible = step[:, None] >= step  # [t, s]
            scores = torch.where(visible, scores, lowest)
        else:
            mask = attention_mask.expand(b, n * g, t, t).unflatten(1, (n, g))
            scores = scores + mask

        scores = scores.float()
        power = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        share = (power / power.sum(dim=-1, keepdim=True)).to(q.dtype)

        mixed = torch.einsum("bngts,bngsd->bngtd", share, v)
        mixed = mixed.permute(0, 3, 1, 2, 4).reshape(b, t, n * g * d)
        return torch.einsum("btr,hr->bth", mixed, self.o_proj.weight)
