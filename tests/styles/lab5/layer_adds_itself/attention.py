"""The layer adds by itself and hands zeros on."""

from __future__ import annotations

from collections.abc import Callable

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
        return x.matmul(self.weight.t())


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
        y = F.linear(x, self.weight)
        dist.all_reduce(y, op=dist.ReduceOp.AVG)
        return y * dist.get_world_size()


class HeadNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], None, self.eps).to(x.dtype) * self.weight


def rotate(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    tokens, heads, size = x.shape
    exponents = torch.arange(0, size, 2).float() / size
    angles = positions[:, None].float() / theta**exponents
    points = torch.complex(*x.float().view(tokens, heads, 2, size // 2).unbind(2))
    points = points * torch.polar(torch.ones_like(angles), angles)[:, None]
    return torch.cat((points.real, points.imag), dim=-1).to(x.dtype)


def flat_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor
) -> torch.Tensor:
    places = torch.arange(len(q))
    # The number of borders at or before a token is the number of its sequence.
    own = torch.bucketize(places, cu_seqlens, right=True)
    seen = (own[:, None] == own) & (places[:, None] >= places)
    group = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    weights = scores.float().masked_fill(~seen, float("-inf")).softmax(-1).to(q.dtype)
    return torch.einsum("hqk,khd->qhd", weights, v)


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
