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
    # BEGIN SOLUTION lab7.per_channel
    weight = weight.float()
    scales = weight.abs().amax(dim=1) / 127  # [out]
    scales = torch.where(scales > 0, scales, 1.0)
    return (weight / scales[:, None]).round().to(torch.int8), scales
    # END SOLUTION


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
        # BEGIN SOLUTION lab7.quantized_linear
        self.block_rows = block_rows
        self.register_buffer("weight", torch.zeros(out_features, in_features, dtype=torch.int8))
        self.register_buffer("scales", torch.ones(out_features))
        # END SOLUTION

    @classmethod
    def from_float(cls, weight: torch.Tensor, block_rows: int = 64) -> QuantizedLinear:
        """Quantise ``weight`` ``[out, in]`` with :func:`quantize_per_channel`."""
        # BEGIN SOLUTION lab7.quantized_linear
        linear = cls(weight.shape[1], weight.shape[0], block_rows)
        linear.weight, linear.scales = quantize_per_channel(weight)
        return linear
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply, one block of rows after the other.

        Products and sums are in float32. At no time is more of the weight wide than a block.

        Args:
            x: ``[..., in_features]`` of any floating dtype.

        Returns:
            ``[..., out_features]`` in the dtype of ``x``.
        """
        # BEGIN SOLUTION lab7.quantized_linear
        wide, made = x.float(), []
        for start in range(0, len(self.weight), self.block_rows):
            rows = slice(start, start + self.block_rows)
            block = self.weight[rows].float() * self.scales[rows, None]  # [block_rows, in]
            made.append(F.linear(wide, block).to(x.dtype))
        return torch.cat(made, dim=-1)
        # END SOLUTION


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
    # BEGIN SOLUTION lab7.groups
    if weight.shape[1] % group_size:
        raise ValueError(f"group_size {group_size} does not divide {weight.shape[1]} columns")
    groups = weight.float().reshape(len(weight), -1, group_size)  # [out, groups, size]
    low = groups.amin(dim=2).clamp(max=0)  # [out, groups]
    high = groups.amax(dim=2).clamp(min=0)
    scales = (high - low) / 15
    scales = torch.where(scales > 0, scales, 1.0)
    zeros = (-low / scales).round()
    codes = (groups / scales[..., None]).round() + zeros[..., None]
    codes = codes.clamp(0, 15).to(torch.uint8).flatten(1)  # [out, in]
    packed = codes[:, 0::2] | codes[:, 1::2] << 4
    return packed, scales, zeros.to(torch.uint8)
    # END SOLUTION


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
    # BEGIN SOLUTION lab7.groups
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1).float()  # [out, in]
    distance = codes.view(*scales.shape, group_size) - zeros[..., None]
    return (distance * scales[..., None]).flatten(1)
    # END SOLUTION


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
        # BEGIN SOLUTION lab7.group_linear
        if in_features % group_size:
            raise ValueError(f"group_size {group_size} does not divide {in_features} columns")
        self.group_size, self.block_rows = group_size, block_rows
        groups = in_features // group_size
        packed = torch.zeros(out_features, in_features // 2, dtype=torch.uint8)
        self.register_buffer("packed", packed)
        self.register_buffer("scales", torch.ones(out_features, groups))
        self.register_buffer("zeros", torch.zeros(out_features, groups, dtype=torch.uint8))
        # END SOLUTION

    @classmethod
    def from_float(
        cls, weight: torch.Tensor, group_size: int, block_rows: int = 64
    ) -> GroupQuantizedLinear:
        """Quantise ``weight`` ``[out, in]`` with :func:`quantize_groups`."""
        # BEGIN SOLUTION lab7.group_linear
        linear = cls(weight.shape[1], weight.shape[0], group_size, block_rows)
        linear.packed, linear.scales, linear.zeros = quantize_groups(weight, group_size)
        return linear
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply, one block of rows after the other, as :class:`QuantizedLinear` does.

        Args:
            x: ``[..., in_features]`` of any floating dtype.

        Returns:
            ``[..., out_features]`` in the dtype of ``x``, products and sums in float32.
        """
        # BEGIN SOLUTION lab7.group_linear
        wide, made = x.float(), []
        for first in range(0, len(self.packed), self.block_rows):
            rows = slice(first, first + self.block_rows)
            parts = self.packed[rows], self.scales[rows], self.zeros[rows]
            block = dequantize_groups(*parts, self.group_size)  # [block_rows, in]
            made.append(F.linear(wide, block).to(x.dtype))
        return torch.cat(made, dim=-1)
        # END SOLUTION


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

        # BEGIN SOLUTION lab7.mlp
        def linear(width: int, out: int) -> nn.Module:
            if group_size is None:
                return QuantizedLinear(width, out, block_rows)
            return GroupQuantizedLinear(width, out, group_size, block_rows)

        self.gate_proj = linear(hidden_size, intermediate_size)
        self.up_proj = linear(hidden_size, intermediate_size)
        self.down_proj = linear(intermediate_size, hidden_size)
        # END SOLUTION

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
        # BEGIN SOLUTION lab7.mlp
        intermediate_size, hidden_size = weights["gate_proj.weight"].shape
        mlp = cls(hidden_size, intermediate_size, group_size, block_rows)
        for name in ("gate_proj", "up_proj", "down_proj"):
            weight = weights[f"{name}.weight"]
            if group_size is None:
                setattr(mlp, name, QuantizedLinear.from_float(weight, block_rows))
            else:
                made = GroupQuantizedLinear.from_float(weight, group_size, block_rows)
                setattr(mlp, name, made)
        return mlp
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., hidden]`` to ``[..., hidden]`` in the dtype of ``x``."""
        # BEGIN SOLUTION lab7.mlp
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        # END SOLUTION


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
    # BEGIN SOLUTION lab7.weight_bytes
    hidden, inner = config.hidden_size, config.intermediate_size
    queries = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    shapes = [(queries, hidden), (keys, hidden), (keys, hidden), (hidden, queries)]
    shapes += [(inner, hidden), (inner, hidden), (hidden, inner)]
    total = 0
    for out, width in shapes:
        if bits == 16:
            total += 2 * out * width
        elif bits == 8:
            total += out * width + 4 * out
        elif bits == 4 and group_size:
            total += out * width // 2 + (4 + 1) * (out * width // group_size)
        else:
            raise ValueError(f"bits is {bits}, group_size {group_size}: bits are 16, 8 or 4")
    return config.num_hidden_layers * total
    # END SOLUTION
