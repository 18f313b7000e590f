"""One block-diagonal additive mask."""

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
        return torch.einsum("th,oh->to", x, self.weight)


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
        y = x @ self.weight.T
        dist.all_reduce(y)
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
    lengths = torch.diff(cu_seqlens).tolist()
    seen = torch.block_diag(*(torch.ones(n, n).tril() for n in lengths))
    hide = torch.where(seen > 0, 0.0, torch.finfo(q.dtype).min).to(q.dtype)
    group = q.shape[1] // k.shape[1]
    k = k[:, :, None].expand(-1, -1, group, -1).flatten(1, 2).transpose(0, 1)
    v = v[:, :, None].expand(-1, -1, group, -1).flatten(1, 2).transpose(0, 1)
    scores = torch.baddbmm(
        hide.expand(q.shape[1], -1, -1), q.transpose(0, 1), k.transpose(1, 2),
        alpha=q.shape[-1] ** -0.5,
    )  # fmt: skip
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.bmm(weights, v).transpose(0, 1)


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
