# Generated from the course's sources (stub 7a7f8ed762bc): fill in the TODOs.
"""Lab 7, part 2: weights in eight and in four bits, which are made wide again block by block.

Fill in every TODO. A *code* is a small whole number that stands for a weight; a *scale* is the
distance between the weights of two consecutive codes (a *step*). Codes, scales and zero
points are buffers: nobody learns them. The MLP's parts have the names of Hugging Face.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

from labs.given.config import Qwen3Config


def quantize_per_channel(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Give every row of a weight eight-bit codes and a scale of its own, symmetric about 0.

    The number of largest magnitude in a row gets the code 127 or -127; every other number gets
    the nearest code. A row of zeros has scale 1.

    Args:
        weight: ``[out, in]`` of any floating dtype; all arithmetic is in float32.

    Returns:
        ``(codes int8 [out, in], scales float32 [out])``, so that ``codes * scales`` is nowhere
        further than half a step from ``weight``.
    """
    # TODO lab7.per_channel: Eight bits per row
    raise NotImplementedError("TODO lab7.per_channel: to be written")


class QuantizedLinear(nn.Module):
    """``x @ weight.T`` without a bias, the weight in eight bits.

    Buffers: ``weight`` int8 ``[out_features, in_features]`` and ``scales`` float32
    ``[out_features]``. The module keeps no other form of the weight.
    """

    weight: torch.Tensor
    scales: torch.Tensor

    def __init__(self, in_features: int, out_features: int, block_rows: int = 64) -> None:
        """Make both buffers; their values are loaded later.

        Args:
            in_features: columns of the weight.
            out_features: rows of the weight.
            block_rows: how many rows are made wide at a time; need not divide their number.
        """
        super().__init__()
        # TODO lab7.quantized_linear: A linear layer on codes
        raise NotImplementedError("TODO lab7.quantized_linear: to be written")

    @classmethod
    def from_float(cls, weight: torch.Tensor, block_rows: int = 64) -> QuantizedLinear:
        """Quantise ``weight`` ``[out, in]`` with :func:`quantize_per_channel`."""
        # TODO lab7.quantized_linear: A linear layer on codes
        raise NotImplementedError("TODO lab7.quantized_linear: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply, one block of rows after the other.

        Products and sums are in float32. At no time is more of the weight wide than a block.

        Args:
            x: ``[..., in_features]`` of any floating dtype.

        Returns:
            ``[..., out_features]`` in the dtype of ``x``.
        """
        # TODO lab7.quantized_linear: A linear layer on codes
        raise NotImplementedError("TODO lab7.quantized_linear: to be written")


def quantize_groups(
    weight: torch.Tensor, group_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give every ``group_size`` numbers side by side in a row four-bit codes, from 0 to 15.

    The range of a group goes from its least to its largest number and always contains 0. The
    scale is a fifteenth of this range, a *step*. The *zero point* is the code that stands for 0
    itself: a whole number from 0 to 15. A weight's code is its distance from 0 in steps, rounded,
    plus the zero point, kept within 0 and 15. A group of zeros has scale 1, zero point 0 and
    codes 0.

    Args:
        weight: ``[out, in]`` of any floating dtype; all arithmetic is in float32.
        group_size: an even number that divides ``in``; odd ones are never asked for.

    Returns:
        ``(packed uint8 [out, in // 2], scales float32 [out, in // group_size], zeros uint8
        [out, in // group_size])``. A byte holds two neighbours of a row: the low four bits the
        one in the even column, the high four bits the next one (columns are counted from 0).

    Raises:
        ValueError: ``group_size`` does not divide ``in``; the text names ``group_size``.
    """
    # TODO lab7.groups: Four bits in groups
    raise NotImplementedError("TODO lab7.groups: to be written")


def dequantize_groups(
    packed: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, group_size: int
) -> torch.Tensor:
    """Make the weight wide again: the code's distance from the zero point, times the scale.

    Args:
        packed: uint8 ``[out, in // 2]``, see :func:`quantize_groups`.
        scales: float32 ``[out, in // group_size]``.
        zeros: uint8 ``[out, in // group_size]``.
        group_size: numbers of a row that share a scale and a zero point.

    Returns:
        float32 ``[out, in]``.
    """
    # TODO lab7.groups: Four bits in groups
    raise NotImplementedError("TODO lab7.groups: to be written")


class GroupQuantizedLinear(nn.Module):
    """``x @ weight.T`` without a bias, the weight in four bits.

    Buffers: ``packed`` uint8 ``[out_features, in_features // 2]``, ``scales`` float32 and ``zeros``
    uint8, both ``[out_features, in_features // group_size]``. It keeps no other form of the weight.
    """

    packed: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor

    def __init__(
        self, in_features: int, out_features: int, group_size: int, block_rows: int = 64
    ) -> None:
        """Make the three buffers; their values are loaded later. See :class:`QuantizedLinear`.

        Raises:
            ValueError: ``group_size`` does not divide ``in_features``; the text names
                ``group_size``.
        """
        super().__init__()
        # TODO lab7.group_linear: A linear layer on four bits
        raise NotImplementedError("TODO lab7.group_linear: to be written")

    @classmethod
    def from_float(
        cls, weight: torch.Tensor, group_size: int, block_rows: int = 64
    ) -> GroupQuantizedLinear:
        """Quantise ``weight`` ``[out, in]`` with :func:`quantize_groups`."""
        # TODO lab7.group_linear: A linear layer on four bits
        raise NotImplementedError("TODO lab7.group_linear: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply, one block of rows after the other, as :class:`QuantizedLinear` does.

        Args:
            x: ``[..., in_features]`` of any floating dtype.

        Returns:
            ``[..., out_features]`` in the dtype of ``x``, products and sums in float32.
        """
        # TODO lab7.group_linear: A linear layer on four bits
        raise NotImplementedError("TODO lab7.group_linear: to be written")


class Qwen3MLP(nn.Module):
    """Qwen3's MLP, ``down_proj(silu(gate_proj(x)) * up_proj(x))``, on quantised linear layers.

    ``gate_proj``, ``up_proj`` and ``down_proj`` are :class:`QuantizedLinear`, or
    :class:`GroupQuantizedLinear` where a ``group_size`` is given.
    """

    gate_proj: nn.Module
    up_proj: nn.Module
    down_proj: nn.Module

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        group_size: int | None = None,
        block_rows: int = 64,
    ) -> None:
        """Make the three layers; their buffers are loaded later."""
        super().__init__()

        # TODO lab7.mlp: The MLP on codes
        raise NotImplementedError("TODO lab7.mlp: to be written")

    @classmethod
    def from_float(
        cls,
        weights: Mapping[str, torch.Tensor],
        group_size: int | None = None,
        block_rows: int = 64,
    ) -> Qwen3MLP:
        """Quantise the weights of a Qwen3 MLP.

        Args:
            weights: ``gate_proj.weight`` and ``up_proj.weight`` ``[intermediate, hidden]``,
                ``down_proj.weight`` ``[hidden, intermediate]``.
            group_size: None for eight bits per channel, else four bits in groups.
            block_rows: see :class:`QuantizedLinear`.
        """
        # TODO lab7.mlp: The MLP on codes
        raise NotImplementedError("TODO lab7.mlp: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., hidden]`` to ``[..., hidden]`` in the dtype of ``x``."""
        # TODO lab7.mlp: The MLP on codes
        raise NotImplementedError("TODO lab7.mlp: to be written")


def weight_bytes(config: Qwen3Config, bits: int, group_size: int | None = None) -> int:
    """Count the bytes of all linear layers of a model's decoder layers.

    These are the four projections of attention and the three of the MLP; neither norms nor the
    embedding nor the output head. Scales and zero points are counted, too, in the
    dtypes of this file's buffers.

    Args:
        config: sizes of the model.
        bits: 16 (bfloat16, nothing beside it), 8 (per channel) or 4 (in groups).
        group_size: for 4 bits; it divides the columns of every weight.

    Raises:
        ValueError: other ``bits``; the text names ``bits``.
    """
    # TODO lab7.weight_bytes: What it saves
    raise NotImplementedError("TODO lab7.weight_bytes: to be written")
