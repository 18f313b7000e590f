"""Cases of weights to quantise, and of weights that are quantised already.

The largest number of a row is negative in every other row, and rows differ in size, so that one
scale for all, or the largest without its sign, shows.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.config import Qwen3Config

ROWS = ((6, 22), (7, 18), (5, 26))  # out, in
GROUPED = ((7, 24, 8), (5, 36, 12), (9, 40, 10))  # out, in, group_size
SIGNS = torch.tensor([1.0, -1.0])

# hidden, intermediate, layers, heads; 8 kv heads, head_dim 128, vocabulary 151,936
PUBLISHED = {
    "Qwen3-0.6B": (1024, 3072, 28, 16),
    "Qwen3-1.7B": (2048, 6144, 28, 16),
    "Qwen3-4B": (2560, 9728, 36, 32),
    "Qwen3-8B": (4096, 12288, 36, 32),
    "Qwen3-14B": (5120, 17408, 40, 40),
    "Qwen3-32B": (5120, 25600, 64, 64),
}


def _words(kind: Text, *sizes: int) -> Text:
    listed = " × ".join(map(str, sizes[:2]))
    group = f", group_size {sizes[2]}" if len(sizes) > 2 else ""
    return Text(f"{kind.en}, {listed}{group}", f"{kind.zh}，{listed}{group}")


def _rows(draw: Draw) -> torch.Tensor:
    """Rows of different sizes, a tiny one first, a large one last; their peaks have either sign."""
    out, width = draw.pick(ROWS)
    weight = draw.normal(out, width).clamp(-2, 2) * draw.uniform(out, 1, low=0.3, high=3.0)
    weight[0] *= 1e-7
    weight[-1] *= 2000
    peaks = 1.1 * weight.abs().amax(dim=1) * SIGNS.repeat(out)[1 : out + 1]
    weight[torch.arange(out), draw.permutation(width)[:out]] = peaks
    return weight


@recipe(hidden=2)
def channel(draw: Draw) -> Draft:
    weight = _rows(draw)
    about = _words(Text("rows of different sizes", "各行大小不同"), *weight.shape)
    return draft(about, {"w": weight})


@recipe()
def channel_zero_row(draw: Draw) -> Draft:
    weight = _rows(draw)
    row = draw.integer(1, len(weight) - 1)
    weight[row] = 0.0
    about = Text(f"row {row}, counted from 0, is all zeros", f"第 {row} 行（从 0 计数）全为零")
    return draft(_words(about, *weight.shape), {"w": weight}, row=row)


@recipe()
def channel_bfloat16(draw: Draw) -> Draft:
    weight = _rows(draw).bfloat16()
    return draft(_words(Text("a bfloat16 weight", "bfloat16 权重"), *weight.shape), {"w": weight})


def _grouped(draw: Draw) -> tuple[torch.Tensor, int]:
    """Groups that differ in size, in where they begin and in where they end; 0 lies inside.

    Those of the first row are tiny, those of the last row large.
    """
    out, width, size = draw.pick(GROUPED)
    groups = draw.uniform(out, width // size, size, low=-1.0, high=1.0)
    groups *= draw.uniform(out, width // size, 1, low=0.3, high=3.0)
    groups[..., 1] = -draw.uniform(out, width // size, low=3.2, high=5.0)
    groups[..., 2] = draw.uniform(out, width // size, low=6.0, high=9.0)
    groups[0] *= 1e-8
    groups[-1] *= 20
    return groups.flatten(1), size


def _draft(kind: Text, weight: torch.Tensor, size: int, **values: Any) -> Draft:
    return draft(_words(kind, *weight.shape, size), {"w": weight}, size=size, **values)


@recipe(hidden=2)
def groups(draw: Draw) -> Draft:
    return _draft(Text("0 inside every group's range", "每组的范围都包含 0"), *_grouped(draw))


@recipe()
def groups_one_sided(draw: Draw) -> Draft:
    """All numbers of a group have one sign, far from 0; those of the first two are equal."""
    out, width, size = draw.pick(GROUPED)
    groups = draw.uniform(out, width // size, size, low=1.0, high=2.0)
    groups[0, :2] = groups[0, :2, :1]
    groups *= SIGNS.repeat(out * (width // size))[: out * (width // size)].view(out, -1, 1)
    return _draft(Text("one sign per group", "每组的数符号相同"), groups.flatten(1), size)


@recipe()
def groups_ties(draw: Draw) -> Draft:
    """From -1.5 to 13.5 in steps of 1: the zero point, and both ends, lie between two codes."""
    out, width, size = draw.pick(GROUPED)
    groups = draw.uniform(out, width // size, size, low=-1.4, high=13.4)
    ends = draw.permutation(size)[:2]
    groups[..., ends] = torch.tensor([-1.5, 13.5])
    about = Text("both ends halfway between two codes", "两端都恰在两个编码的正中间")
    return _draft(about, groups.flatten(1), size)


@recipe()
def groups_near_ties(draw: Draw) -> Draft:
    """Zero points of 7.497 and 7.503 before they are rounded: digits that are lost show."""
    out, width, size = draw.pick(GROUPED)
    groups = draw.uniform(out, width // size, size, low=-7.4, high=7.4)
    first, last = draw.permutation(size)[:2]
    groups[..., first] = -7.5 + 0.003 * SIGNS.repeat(out)[:out, None]
    groups[..., last] = groups[..., first] + 15
    groups *= draw.uniform(out, width // size, 1, low=0.5, high=3.0)
    about = Text("both ends almost halfway between two codes", "两端都几乎在两个编码的正中间")
    return _draft(about, groups.flatten(1), size)


@recipe()
def groups_zero(draw: Draw) -> Draft:
    weight, size = _grouped(draw)
    row, group = draw.integer(0, len(weight) - 1), draw.integer(0, 1)
    weight[row, group * size : (group + 1) * size] = 0.0
    about = Text(
        f"group {group} of row {row} is all zeros (both counted from 0)",
        f"第 {row} 行第 {group} 组（都从 0 计数）全为零",
    )
    return _draft(about, weight, size, row=row, group=group)


@recipe()
def groups_bfloat16(draw: Draw) -> Draft:
    weight, size = _grouped(draw)
    return _draft(Text("a bfloat16 weight", "bfloat16 权重"), weight.bfloat16(), size)


@recipe()
def groups_uneven(draw: Draw) -> Draft:
    weight, _ = _grouped(draw)
    about = Text("a group size that does not divide the columns", "group_size 不能整除列数")
    return _draft(about, weight, 14)


def coded(draw: Draw, out: int, width: int, size: int) -> tuple[torch.Tensor, ...]:
    """Codes ``[out, in]`` of which each group uses 0 and 15, scales, and zero points of 1 to 14."""
    codes = (draw.uniform(out, width // size, size, low=0, high=16)).floor().clamp(max=15)
    codes[..., 1], codes[..., size - 2] = 15, 0
    scales = draw.uniform(out, width // size, low=0.05, high=0.4)
    zeros = draw.uniform(out, width // size, low=1, high=15).floor()
    return codes.flatten(1), scales, zeros


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Two codes in a byte, the even column's low."""
    return (codes[:, 0::2] + 16 * codes[:, 1::2]).to(torch.uint8)


def widened(
    codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, size: int
) -> torch.Tensor:
    """The weight that codes stand for, in float64."""
    by_column = [part.double().repeat_interleave(size, dim=1) for part in (scales, zeros)]
    return (codes.double() - by_column[1]) * by_column[0]


@recipe()
def groups_packing(draw: Draw) -> Draft:
    """A weight that lies on whole steps (a power of two), so that there is one right byte."""
    sizes = draw.pick(GROUPED)
    codes, scales, zeros = coded(draw, *sizes)
    scales = 2.0 ** (10 * scales).round() / 16
    weight = widened(codes, scales, zeros, sizes[2]).float()
    about = _words(Text("weights that are whole steps", "权重恰为整数步"), *sizes)
    return draft(about, {"w": weight, "packed": packed(codes)}, size=sizes[2])


def _dequantized(draw: Draw, kind: Text, *, zero: bool) -> Draft:
    sizes = draw.pick(GROUPED)
    codes, scales, zeros = coded(draw, *sizes)
    zeros = zeros * (0 if zero else 1)
    scales[-1] *= 20
    tensors = {
        "packed": packed(codes),
        "scales": scales,
        "zeros": zeros.to(torch.uint8),
        "y": widened(codes, scales, zeros, sizes[2]),
    }
    return draft(_words(kind, *sizes), tensors, size=sizes[2])


@recipe()
def dequantize(draw: Draw) -> Draft:
    kind = Text("zero points from 1 to 14", "零点在 1 到 14 之间")
    return _dequantized(draw, kind, zero=False)


@recipe()
def dequantize_at_zero(draw: Draw) -> Draft:
    """Nothing to take away: only bytes and scales count."""
    return _dequantized(draw, Text("all zero points 0", "零点都是 0"), zero=True)


@recipe(hidden=0)
def published(draw: Draw) -> Draft:
    configs = [
        asdict(Qwen3Config(151_936, hidden, inner, layers, heads, 8, 128))
        for hidden, inner, layers, heads in PUBLISHED.values()
    ]
    about = Text("the published dense models", "已发布的稠密模型")
    return draft(about, names=list(PUBLISHED), configs=configs, size=128)


@recipe(hidden=2)
def odd_model(draw: Draw) -> Draft:
    """A small model in which no two terms are equal, and heads are not the hidden size."""
    size = 4
    hidden, inner, heads, kv_heads, head_dim = draw.pick(
        ((40, 52, 6, 2, 12), (48, 76, 4, 1, 20), (36, 64, 9, 3, 8))
    )
    layers = draw.integer(3, 5)
    config = asdict(Qwen3Config(97, hidden, inner, layers, heads, kv_heads, head_dim))
    name = f"hidden {hidden}, intermediate {inner}, layers {layers}, heads {heads}/{kv_heads}"
    about = Text(f"a small model: {name} of {head_dim}", f"一个小模型：{name}，每头 {head_dim}")
    return draft(about, names=[name], configs=[config], size=size)
