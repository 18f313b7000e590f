"""Grouped attention: query heads keep an axis of their own for the group, no copies of k and v."""

from __future__ import annotations

import torch
from torch import einsum, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    left, right = torch.chunk(x, 2, dim=-1)
    return torch.cat([right.neg(), left], -1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.dim = config.head_dim
        self.base = float(config.rope_theta)
        # python floats, one per pair
        self.speeds = [self.base ** (-2.0 * i / self.dim) for i in range(self.dim // 2)]

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        omega = torch.tensor(self.speeds, dtype=torch.float32, device=position_ids.device)
        phi = einsum("...t,f->...tf", position_ids.to(torch.float32), omega)
        cos, sin = phi.cos(), phi.sin()
        return torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if cos.dim() == 2:
        cos, sin = cos[None], sin[None]
    cos, sin = cos[:, None], sin[:, None]  # [B or 1, 1, T, d]
    rotated = []
    for x in (q, k):
        rotated.append(x * cos.to(x) + rotate_half(x) * sin.to(x))
    return rotated[0], rotated[1]


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    return x.repeat_interleave(n_rep, dim=1)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        H, K, d = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        D = config.hidden_size
        self.H, self.K, self.G, self.d = H, K, H // K, d
        self.q_proj = nn.Linear(D, H * d, bias=False)
        self.k_proj = nn.Linear(D, K * d, bias=False)
        self.v_proj = nn.Linear(D, K * d, bias=False)
        self.o_proj = nn.Linear(H * d, D, bias=False)
        self.q_norm = RMSNorm(d, config.rms_norm_eps)
        self.k_norm = RMSNorm(d, config.rms_norm_eps)
        self.rope = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        x = hidden_states
        B, T, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(B, T, self.H, self.d)).permute(0, 2, 1, 3)
        k = self.k_norm(self.k_proj(x).view(B, T, self.K, self.d)).permute(0, 2, 1, 3)
        v = self.v_proj(x).view(B, T, self.K, self.d).permute(0, 2, 1, 3)

        pos = torch.arange(T, device=x.device) if position_ids is None else position_ids
        cos, sin = self.rope(pos)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)

        q = q.reshape(B, self.K, self.G, T, self.d) * self.d**-0.5
        s = einsum("bkgid,bkjd->bkgij", q, k)
        s = s.reshape(B, self.H, T, T)
        if attention_mask is not None:
            s = s + attention_mask
        else:
            future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
            s = s.masked_fill(future, torch.finfo(s.dtype).min)
        p = s.float().softmax(dim=-1).to(v.dtype)
        p = p.reshape(B, self.K, self.G, T, T)
        y = einsum("bkgij,bkjd->bikgd", p, v)
        return self.o_proj(y.reshape(B, T, self.H * self.d))
