# Generated from the course's sources (stub 10d1e33b7c11): fill in the TODOs.
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
        # TODO lab5.qkv: Packed queries, keys and values
        raise NotImplementedError("TODO lab5.qkv: to be written")

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
        # TODO lab5.qkv: Packed queries, keys and values
        raise NotImplementedError("TODO lab5.qkv: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Project ``[tokens, hidden_size]`` to ``[tokens, rows of weight]``."""
        # TODO lab5.qkv: Packed queries, keys and values
        raise NotImplementedError("TODO lab5.qkv: to be written")


class RowParallelLinear(nn.Module):
    """A projection of which a rank holds the columns for its part of the input.

    Parameter: ``weight``, ``[output_size, input_size / ranks]``, no bias.
    ``weight.weight_loader`` is :meth:`weight_loader`.
    """

    def __init__(self, input_size: int, output_size: int) -> None:
        """Make the weight of this rank; ``input_size`` is that of all ranks together."""
        super().__init__()
        # TODO lab5.row: A projection that adds up
        raise NotImplementedError("TODO lab5.row: to be written")

    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        """Copy the columns of this rank out of a whole weight.

        Args:
            param: ``self.weight``.
            loaded_weight: ``[output_size, input_size]``.
        """
        # TODO lab5.row: A projection that adds up
        raise NotImplementedError("TODO lab5.row: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Project this rank's part, and add the parts of all ranks: one collective call.

        Args:
            x: ``[tokens, input_size / ranks]``, the features of this rank.

        Returns:
            ``[tokens, output_size]`` in the dtype of ``x``, the same on every rank.
        """
        # TODO lab5.row: A projection that adds up
        raise NotImplementedError("TODO lab5.row: to be written")


class HeadNorm(nn.Module):
    """RMSNorm over ``head_dim``, for the heads of queries or keys.

    Parameter: ``weight``, ``[size]``: one vector for all heads.
    """

    def __init__(self, size: int, eps: float) -> None:
        """Make the weight, of ones."""
        super().__init__()
        # TODO lab5.head_norm: The norm of a head
        raise NotImplementedError("TODO lab5.head_norm: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Norm every head by itself, with statistics in float32.

        Args:
            x: ``[tokens, heads, size]``.

        Returns:
            ``x / sqrt(mean(x^2) + eps) * weight`` over the last dimension, in the dtype of ``x``.
        """
        # TODO lab5.head_norm: The norm of a head
        raise NotImplementedError("TODO lab5.head_norm: to be written")


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
    # TODO lab5.rotate: Rotation by positions
    raise NotImplementedError("TODO lab5.rotate: to be written")


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
    # TODO lab5.flat_attention: Attention over flat tokens
    raise NotImplementedError("TODO lab5.flat_attention: to be written")


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
        # TODO lab5.attention: Qwen3Attention
        raise NotImplementedError("TODO lab5.attention: to be written")

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
        # TODO lab5.attention: Qwen3Attention
        raise NotImplementedError("TODO lab5.attention: to be written")
