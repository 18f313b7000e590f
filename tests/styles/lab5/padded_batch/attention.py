"""Sequences become a padded batch and come back."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
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
        parts = y.new_empty(dist.get_world_size() * y.shape[0], y.shape[1])
        dist.all_gather_into_tensor(parts, y)
        return parts.view(-1, *y.shape).sum(dim=0)


class HeadNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * (wide.square().mean(-1, True) + self.eps).rsqrt()).to(x.dtype) * self.weight


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
    lengths = cu_seqlens.diff().tolist()
    group = q.shape[1] // k.shape[1]
    q, k, v = (nn.utils.rnn.pad_sequence(t.split(lengths), batch_first=True) for t in (q, k, v))
    k, v = k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)  # [B, heads, T, size]
    scores = q @ k.mT * q.shape[-1] ** -0.5
    # Padding stands last, so causality alone hides it from every token that counts.
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(future, torch.finfo(scores.dtype).min).float().softmax(-1)
    mixed = (weights.to(v.dtype) @ v).transpose(1, 2)
    return torch.cat([row[:length] for row, length in zip(mixed, lengths, strict=True)])


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
