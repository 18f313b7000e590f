"""One mask for all sequences; the ranks gather and add by themselves."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn


class QKVParallelLinear(nn.Module):
    def __init__(self, hidden_size: int, head_dim: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.num_heads = num_heads // self.world
        self.replicas = max(1, self.world // num_kv_heads)
        self.num_kv_heads = num_kv_heads * self.replicas // self.world
        self.sizes = [n * head_dim for n in (self.num_heads, *[self.num_kv_heads] * 2)]
        self.weight = nn.Parameter(torch.ones(sum(self.sizes), hidden_size))
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
        self.weight = nn.Parameter(torch.ones(output_size, self.share))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        with torch.no_grad():
            param.copy_(loaded_weight.narrow(1, dist.get_rank() * self.share, self.share))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.weight.T
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y)
        return torch.stack(parts).sum(0)


class HeadNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * (wide.square().mean(-1, True) + self.eps).rsqrt()).to(x.dtype) * self.weight


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
        self.head_dim, self.theta, self.rotary = head_dim, rope_theta, rotary
        self.q_norm = HeadNorm(head_dim, rms_norm_eps)
        self.k_norm = HeadNorm(head_dim, rms_norm_eps)
        self.qkv_proj = QKVParallelLinear(hidden_size, head_dim, num_heads, num_kv_heads)
        self.o_proj = RowParallelLinear(head_dim * num_heads, hidden_size)

    def forward(
        self, positions: torch.Tensor, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        heads, kv_heads = self.qkv_proj.num_heads, self.qkv_proj.num_kv_heads
        packed = self.qkv_proj(hidden_states).view(len(hidden_states), -1, self.head_dim)
        q, k, v = packed.split((heads, kv_heads, kv_heads), dim=1)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary is None:
            q, k = rotate(q, positions, self.theta), rotate(k, positions, self.theta)
        else:
            q, k = (self.rotary(t, positions) for t in (q, k))
        mixed = flat_attention(q, k, v, cu_seqlens)
        return self.o_proj(mixed.reshape(len(hidden_states), -1))
