"""Lab 5, part 1: packed projections, flat tokens, and heads that are split over ranks.

Fill in every TODO. Tokens of all sequences lie side by side: activations are
``[tokens, …]``, and ``cu_seqlens`` says where a sequence ends and the next one begins. A rank
holds its share of every projection; ``torch.distributed`` is initialised when your code is
imported, with as many ranks as there are.
Source: ``vllm/model_executor/layers/linear.py`` and ``models/qwen3.py`` of vLLM for the form,
``transformers/models/qwen3/modeling_qwen3.py`` for the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class QKVParallelLinear(nn.Module):
    """Queries, keys and values in one projection, of which a rank holds its own heads.

    Parameter: ``weight``, ``[(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]`` with the
    numbers of this rank: first the rows of its query heads, then those of its key heads, then of
    its value heads. No bias. ``weight.weight_loader`` is :meth:`weight_loader`.

    Attributes: ``num_heads`` and ``num_kv_heads`` of this rank.
    """

    def __init__(self, hidden_size: int, head_dim: int, num_heads: int, num_kv_heads: int) -> None:
        """Make the weight of this rank; the numbers of heads are those of the whole model.

        ``num_heads`` is a multiple of the number of ranks. Of the kv heads each rank holds its
        share, or, where there are more ranks than kv heads, one: that of its query heads, which
        its neighbours then hold as well.
        """
        super().__init__()
        # BEGIN SOLUTION lab5.qkv
        rank, world = dist.get_rank(), dist.get_world_size()
        self.head_dim = head_dim
        self.num_heads = num_heads // world
        self.num_kv_heads = max(1, num_kv_heads // world)
        # So many neighbours hold the same kv head.
        self.kv_rank = rank // max(1, world // num_kv_heads)
        rows = (self.num_heads + 2 * self.num_kv_heads) * head_dim
        self.weight = nn.Parameter(torch.zeros(rows, hidden_size))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]
        # END SOLUTION

    def weight_loader(
        self, param: nn.Parameter, loaded_weight: torch.Tensor, shard_id: str
    ) -> None:
        """Copy the rows of this rank out of a whole weight to their place.

        Args:
            param: ``self.weight``.
            loaded_weight: ``[all heads * head_dim, hidden_size]``, the weight of Hugging Face's
                ``q_proj``, ``k_proj`` or ``v_proj``.
            shard_id: which of them: ``"q"``, ``"k"`` or ``"v"``.
        """
        # BEGIN SOLUTION lab5.qkv
        q_rows, kv_rows = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        rows = q_rows if shard_id == "q" else kv_rows
        place = {"q": 0, "k": q_rows, "v": q_rows + kv_rows}[shard_id]
        first = (dist.get_rank() if shard_id == "q" else self.kv_rank) * rows
        param.data[place : place + rows].copy_(loaded_weight[first : first + rows])
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Project ``[tokens, hidden_size]`` to ``[tokens, rows of weight]``."""
        # BEGIN SOLUTION lab5.qkv
        return F.linear(x, self.weight)
        # END SOLUTION


class RowParallelLinear(nn.Module):
    """A projection of which a rank holds the columns for its part of the input.

    Parameter: ``weight``, ``[output_size, input_size / ranks]``, no bias.
    ``weight.weight_loader`` is :meth:`weight_loader`.
    """

    def __init__(self, input_size: int, output_size: int) -> None:
        """Make the weight of this rank; ``input_size`` is that of all ranks together."""
        super().__init__()
        # BEGIN SOLUTION lab5.row
        self.weight = nn.Parameter(torch.zeros(output_size, input_size // dist.get_world_size()))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]
        # END SOLUTION

    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        """Copy the columns of this rank out of a whole weight.

        Args:
            param: ``self.weight``.
            loaded_weight: ``[output_size, input_size]``.
        """
        # BEGIN SOLUTION lab5.row
        columns = param.shape[1]
        first = dist.get_rank() * columns
        param.data.copy_(loaded_weight[:, first : first + columns])
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Project this rank's part, and add the parts of all ranks: one collective call.

        Args:
            x: ``[tokens, input_size / ranks]``, the features of this rank.

        Returns:
            ``[tokens, output_size]`` in the dtype of ``x``, the same on every rank.
        """
        # BEGIN SOLUTION lab5.row
        y = F.linear(x, self.weight)
        dist.all_reduce(y)
        return y
        # END SOLUTION


class HeadNorm(nn.Module):
    """RMSNorm over ``head_dim``, for the heads of queries or keys.

    Parameter: ``weight``, ``[size]``: one vector for all heads.
    """

    def __init__(self, size: int, eps: float) -> None:
        """Make the weight, of ones."""
        super().__init__()
        # BEGIN SOLUTION lab5.head_norm
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Norm every head by itself, with statistics in float32.

        Args:
            x: ``[tokens, heads, size]``.

        Returns:
            ``x / sqrt(mean(x^2) + eps) * weight`` over the last dimension, in the dtype of ``x``.
        """
        # BEGIN SOLUTION lab5.head_norm
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)
        # END SOLUTION


def rotate(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    """Rotate every pair ``(x_j, x_{j + head_dim/2})`` by its angle (rotary positions).

    The angle of pair ``j`` at position ``p`` is ``p * theta ** (-2j / head_dim)``, in radians.

    Args:
        x: ``[tokens, heads, head_dim]``.
        positions: ``[tokens]``, whole numbers in any order; angles are taken in float32.
        theta: base of the frequencies.

    Returns:
        Like ``x``, which is left as it was.
    """
    # BEGIN SOLUTION lab5.rotate
    exponents = torch.arange(0, x.shape[-1], 2, dtype=torch.float32) / x.shape[-1]
    angles = positions[:, None].float() * theta**-exponents  # [tokens, head_dim/2]
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    # END SOLUTION


def flat_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor
) -> torch.Tensor:
    """Let every token gather from its own sequence: from itself and what stands before it.

    Args:
        q: ``[tokens, heads, head_dim]``.
        k: ``[tokens, kv_heads, head_dim]``; ``heads / kv_heads`` neighbours share a kv head.
        v: like ``k``.
        cu_seqlens: whole numbers ``[sequences + 1]``, from 0 to tokens: sequence ``i`` is the
            tokens from ``cu_seqlens[i]`` up to but not including ``cu_seqlens[i + 1]``. None is
            empty.

    Returns:
        ``[tokens, heads, head_dim]`` in the dtype of ``q``; softmax in float32.
    """
    # BEGIN SOLUTION lab5.flat_attention
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    mixed = []
    for first, end in pairwise(cu_seqlens.tolist()):
        qs, ks, vs = (t[first:end].transpose(0, 1) for t in (q, k, v))  # [heads, T, head_dim]
        scores = qs @ ks.transpose(-1, -2) * q.shape[-1] ** -0.5  # [heads, T, T]
        future = torch.ones(end - first, end - first, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(q.dtype)
        mixed.append((weights @ vs).transpose(0, 1))
    return torch.cat(mixed)
    # END SOLUTION


class Qwen3Attention(nn.Module):
    """Grouped-query attention of Qwen3 on flat tokens, its heads split over the ranks.

    Modules: ``qkv_proj`` (:class:`QKVParallelLinear`), ``o_proj`` (:class:`RowParallelLinear`),
    ``q_norm`` and ``k_norm`` (:class:`HeadNorm`). The norms are the same on every rank.
    """

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
        """Make the modules; the numbers of heads are those of the whole model.

        ``rotary``, where it is given, is called as ``rotary(x, positions)`` in the place of
        ``rotate(x, positions, rope_theta)``: ``model.py`` hands in another rotation by it.
        """
        super().__init__()
        # BEGIN SOLUTION lab5.attention
        self.qkv_proj = QKVParallelLinear(hidden_size, head_dim, num_heads, num_kv_heads)
        self.o_proj = RowParallelLinear(num_heads * head_dim, hidden_size)
        self.q_norm = HeadNorm(head_dim, rms_norm_eps)
        self.k_norm = HeadNorm(head_dim, rms_norm_eps)
        self.head_dim = head_dim
        self.rotate = partial(rotate, theta=rope_theta) if rotary is None else rotary
        # END SOLUTION

    def forward(
        self, positions: torch.Tensor, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        """Let the tokens of each sequence look at each other.

        Args:
            positions: ``[tokens]``, where each token stands in its sequence, not always from 0 on.
            hidden_states: ``[tokens, hidden_size]``, the same on every rank.
            cu_seqlens: ``[sequences + 1]``, as in :func:`flat_attention`.

        Returns:
            ``[tokens, hidden_size]`` in the dtype of ``hidden_states``, the same on every rank.
        """
        # BEGIN SOLUTION lab5.attention
        heads, kv_heads = self.qkv_proj.num_heads, self.qkv_proj.num_kv_heads
        sizes = [heads * self.head_dim, kv_heads * self.head_dim, kv_heads * self.head_dim]
        q, k, v = self.qkv_proj(hidden_states).split(sizes, dim=-1)
        q, k, v = (t.unflatten(-1, (-1, self.head_dim)) for t in (q, k, v))
        q = self.rotate(self.q_norm(q), positions)
        k = self.rotate(self.k_norm(k), positions)
        mixed = flat_attention(q, k, v, cu_seqlens)  # [tokens, heads of this rank, head_dim]
        return self.o_proj(mixed.flatten(1))
        # END SOLUTION
