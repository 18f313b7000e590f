"""Products, maxima and sums written out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class QKVParallelLinear(nn.Linear):
    def __init__(self, hidden_size: int, head_dim: int, num_heads: int, num_kv_heads: int) -> None:
        world = dist.get_world_size()
        own = num_heads // world
        kv_own = num_kv_heads // world if num_kv_heads >= world else 1
        super().__init__(hidden_size, (own + 2 * kv_own) * head_dim, bias=False)
        self.num_heads, self.num_kv_heads, self.head_dim = own, kv_own, head_dim
        self.all_kv_heads = num_kv_heads
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(
        self, param: nn.Parameter, loaded_weight: torch.Tensor, shard_id: str
    ) -> None:
        rank, world = dist.get_rank(), dist.get_world_size()
        if shard_id == "q":
            place, count, begin = 0, self.num_heads, rank * self.num_heads
        else:
            place = self.num_heads + (self.num_kv_heads if shard_id == "v" else 0)
            count, begin = self.num_kv_heads, rank * self.all_kv_heads // world
        target = param.data.narrow(0, place * self.head_dim, count * self.head_dim)
        target.copy_(loaded_weight.narrow(0, begin * self.head_dim, count * self.head_dim))


class RowParallelLinear(nn.Linear):
    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__(input_size // dist.get_world_size(), output_size, bias=False)
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        param.data.copy_(loaded_weight.chunk(dist.get_world_size(), dim=1)[dist.get_rank()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y)
        return torch.stack(parts).sum(0)


class HeadNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], None, self.eps).to(x.dtype) * self.weight


def rotate(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    half = x.shape[-1] // 2
    angles = positions.float()[:, None] * theta ** -(torch.arange(half).float() / half)
    cos, sin = angles.cos(), angles.sin()
    # One 2 x 2 matrix per token and pair.
    turn = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
    pairs = torch.stack(x.split(half, dim=-1), dim=-1)  # [tokens, heads, half, 2]
    turned = torch.einsum("tjab,thjb->thaj", turn.to(x.dtype), pairs)
    return turned.flatten(-2)


def flat_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor
) -> torch.Tensor:
    group = q.shape[1] // k.shape[1]
    of = torch.arange(q.shape[1]) // group  # the kv head of every query head
    parts = []
    for first, end in pairwise(cu_seqlens.tolist()):
        qs, ks, vs = q[first:end].float(), k[first:end, of].float(), v[first:end, of]
        scores = (qs[:, None] * ks[None]).sum(-1) / q.shape[-1] ** 0.5  # [queries, keys, heads]
        seen = torch.ones(end - first, end - first).tril()[..., None]
        scores = torch.where(seen > 0, scores, -torch.inf)
        scores = scores - scores.amax(dim=1, keepdim=True)
        shares = scores.exp()
        shares = (shares / shares.sum(dim=1, keepdim=True)).to(v.dtype)
        parts.append((shares[..., None] * vs[None]).sum(1))
    return torch.cat(parts)


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
