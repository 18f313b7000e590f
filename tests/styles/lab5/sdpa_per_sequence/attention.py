"""torch does the attention of every sequence."""

from __future__ import annotations

from collections.abc import Callable

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
        dist.all_reduce(y)
        return y


class HeadNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], None, self.eps).to(x.dtype) * self.weight


def rotate(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    size = x.shape[-1]
    table = torch.arange(int(positions.max()) + 1).float()[:, None]
    table = table * (1.0 / theta ** (torch.arange(0, size, 2).float() / size))
    cos, sin = (t[positions].unsqueeze(1).to(x.dtype) for t in (table.cos(), table.sin()))
    out = torch.empty_like(x)
    out[..., : size // 2] = x[..., : size // 2] * cos - x[..., size // 2 :] * sin
    out[..., size // 2 :] = x[..., size // 2 :] * cos + x[..., : size // 2] * sin
    return out


def flat_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor
) -> torch.Tensor:
    group, lengths = q.shape[1] // k.shape[1], cu_seqlens.diff().tolist()
    outputs = []
    for qs, ks, vs in zip(q.split(lengths), k.split(lengths), v.split(lengths), strict=True):
        ks, vs = (t.repeat_interleave(group, dim=1) for t in (ks, vs))
        qs, ks, vs = (t.transpose(0, 1)[None] for t in (qs, ks, vs))
        mixed = F.scaled_dot_product_attention(qs, ks, vs, is_causal=True)
        outputs.append(mixed[0].transpose(0, 1))
    return torch.cat(outputs)


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
