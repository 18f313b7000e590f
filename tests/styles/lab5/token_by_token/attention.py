"""Every token and every head by itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class QKVParallelLinear(nn.Module):
    def __init__(self, hidden_size: int, head_dim: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.num_heads = num_heads // self.world
        self.replicas = max(1, self.world // num_kv_heads)
        self.num_kv_heads = num_kv_heads * self.replicas // self.world
        self.sizes = [n * head_dim for n in (self.num_heads, *[self.num_kv_heads] * 2)]
        self.weight = nn.Parameter(torch.empty(sum(self.sizes), hidden_size))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(
        self, param: nn.Parameter, loaded_weight: torch.Tensor, shard_id: str
    ) -> None:
        number = "qkv".index(shard_id)
        own = self.rank if shard_id == "q" else self.rank // self.replicas
        pieces = loaded_weight.split(self.sizes[number])
        with torch.no_grad():
            param.split(self.sizes)[number].copy_(pieces[own])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight)


class RowParallelLinear(nn.Module):
    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.share = input_size // dist.get_world_size()
        self.weight = nn.Parameter(torch.empty(output_size, self.share))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        with torch.no_grad():
            param.copy_(loaded_weight.narrow(1, dist.get_rank() * self.share, self.share))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.einsum("ti,oi->to", x, self.weight)
        if dist.get_world_size() > 1:
            dist.all_reduce(y, op=dist.ReduceOp.SUM)
        return y


class HeadNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # The weight takes part in float32, too, and all is narrowed once in the end.
        wide = x.to(torch.float32)
        length = wide.norm(dim=-1, keepdim=True) / x.shape[-1] ** 0.5
        return (self.weight.float() * wide / (length**2 + self.eps).sqrt()).to(x.dtype)


def rotate(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    half = x.shape[-1] // 2
    frequencies = 1.0 / theta ** (torch.arange(half).float() / half)
    angles = torch.outer(positions.float(), frequencies)
    angles = torch.cat((angles, angles), dim=-1).unsqueeze(1)
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)


def flat_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor
) -> torch.Tensor:
    group = q.shape[1] // k.shape[1]
    rows = []
    for first, end in pairwise(cu_seqlens.tolist()):
        for token in range(first, end):
            heads = []
            for head in range(q.shape[1]):
                keys = k[first : token + 1, head // group]
                scores = (keys @ q[token, head]).float() / q.shape[-1] ** 0.5
                shares = torch.softmax(scores, dim=0).to(q.dtype)
                heads.append(shares @ v[first : token + 1, head // group])
            rows.append(torch.stack(heads))
    return torch.stack(rows)


class Qwen3Attention(nn.Module):
    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        rms_norm_eps: float,
        rope_theta: float,
        rotary: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.qkv_proj = QKVParallelLinear(hidden_size, head_dim, num_heads, num_kv_heads)
        self.o_proj = RowParallelLinear(num_heads * head_dim, hidden_size)
        self.q_norm, self.k_norm = (HeadNorm(head_dim, rms_norm_eps) for _ in range(2))
        self.head_dim = head_dim
        self.rotary = rotary or (lambda x, positions: rotate(x, positions, rope_theta))
        self.q_heads = self.qkv_proj.num_heads
        self.qk_heads = self.q_heads + self.qkv_proj.num_kv_heads

    def forward(
        self, positions: torch.Tensor, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        tokens = hidden_states.shape[0]
        packed = self.qkv_proj(hidden_states).reshape(tokens, -1, self.head_dim)
        # Queries and keys are rotated in one go.
        normed = torch.cat(
            (self.q_norm(packed[:, : self.q_heads]),
             self.k_norm(packed[:, self.q_heads : self.qk_heads])), dim=1,
        )  # fmt: skip
        turned = self.rotary(normed, positions)
        q, k = turned[:, : self.q_heads], turned[:, self.q_heads :]
        mixed = flat_attention(q, k, packed[:, self.qk_heads :], cu_seqlens)
        return self.o_proj(mixed.reshape(tokens, self.q_heads * self.head_dim))
