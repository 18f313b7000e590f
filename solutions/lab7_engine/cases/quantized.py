"""Cases of linear layers whose weights are quantised already, and of the MLP made of them."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle

from .weights import coded, packed, widened

# out, in, group_size, block_rows, batch, tokens; block_rows never divides out
SIZES = ((11, 24, 8, 4, 2, 3), (14, 30, 10, 5, 3, 2), (17, 36, 6, 7, 2, 5))
MLPS = ((12, 20, 4, 5), (18, 30, 6, 4), (20, 28, 4, 3))  # hidden, intermediate, group, block_rows

State = dict[str, torch.Tensor]


def _codes(draw: Draw, out: int, width: int) -> torch.Tensor:
    """Eight-bit codes of which each row uses 127 or -127."""
    codes = draw.uniform(out, width, low=-127, high=127).round()
    codes[:, draw.integer(0, width - 1)] = 127.0 * torch.tensor([-1, 1]).repeat(out)[:out]
    return codes


def eight(draw: Draw, out: int, width: int, *, whole: bool = False) -> tuple[State, torch.Tensor]:
    """Buffers in eight bits, and the weight that they stand for; ``whole``: some above 4."""
    codes = _codes(draw, out, width)
    scales = draw.uniform(out, low=0.004, high=0.02)
    if whole:
        scales = 1.3 * 2.0 ** -(5 + (500 * scales).round() % 3)
    state = {"weight": codes.to(torch.int8), "scales": scales}
    return state, codes.double() * scales.double()[:, None]


def four(
    draw: Draw, out: int, width: int, size: int, *, whole: bool = False
) -> tuple[State, torch.Tensor]:
    """Buffers in four bits, and the weight that they stand for."""
    codes, scales, zeros = coded(draw, out, width, size)
    if whole:
        scales = 1.3 * 2.0 ** -(1 + (100 * scales).round() % 3)
    state = {"packed": packed(codes), "scales": scales, "zeros": zeros.to(torch.uint8)}
    return state, widened(codes, scales, zeros, size)


def _quantized(
    draw: Draw, bits: int, out: int, width: int, size: int, *, whole: bool
) -> tuple[State, torch.Tensor]:
    if bits == 8:
        return eight(draw, out, width, whole=whole)
    return four(draw, out, width, size, whole=whole)


def _linear(draw: Draw, bits: int, en: str, zh: str, **options: Any) -> Draft:
    """A layer of 8 or 4 bits on some tokens."""
    out, width, size, block, batch, tokens = draw.pick(SIZES)
    whole, lead = options.pop("whole", False), options.pop("lead", False)
    dtype = getattr(torch, options.get("dtype", "float32"))
    state, weight = _quantized(draw, bits, out, width, size, whole=whole)
    x = draw.normal(*((batch, tokens) if lead else (tokens,)), width).to(dtype)
    tensors = {"x": x, "y": x.double() @ weight.T, **{f"w.{k}": v for k, v in state.items()}}
    if whole:
        tensors["float"] = weight.float()
    group = f", group_size {size}" if bits == 4 else ""
    kind = f"in {width}, out {out}, block_rows {block}{group}"
    about = Text(f"{en}{kind}", f"{zh}{kind}")
    return draft(about, tensors, sizes=[width, out], block=block, group=size, **options)


@recipe(hidden=2)
def linear(draw: Draw) -> Draft:
    return _linear(draw, 8, "", "")


@recipe()
def linear_lead(draw: Draw) -> Draft:
    return _linear(draw, 8, "x with a batch: ", "x 带批次：", lead=True)


@recipe()
def linear_whole(draw: Draw) -> Draft:
    """A weight that is whole steps: every right quantiser gives these codes."""
    return _linear(draw, 8, "weights that are whole steps: ", "权重恰为整数步：", whole=True)


@recipe()
def linear_bfloat16(draw: Draw) -> Draft:
    """Neighbours nearly cancel, so that weights rounded to bfloat16 show."""
    out, width, _, block, _, tokens = draw.pick(SIZES)
    codes = draw.uniform(out, width, low=97, high=120).round()
    codes[:, 1::2] = codes[:, 0::2] + draw.uniform(out, width // 2, low=1, high=5).round()
    scales = draw.uniform(out, low=0.004, high=0.02)
    x = draw.normal(tokens, width // 2).abs().repeat_interleave(2, dim=1).bfloat16()
    x[:, 1::2] *= -1
    tensors = {
        "x": x,
        "y": x.double() @ (codes.double() * scales.double()[:, None]).T,
        "w.weight": codes.to(torch.int8),
        "w.scales": scales,
    }
    about = Text(
        f"bfloat16, neighbours nearly cancel: in {width}, out {out}",
        f"bfloat16，相邻两项几乎抵消：in {width}, out {out}",
    )
    return draft(about, tensors, sizes=[width, out], block=block, dtype="bfloat16")


@recipe()
def linear_float16(draw: Draw) -> Draft:
    """Sums of codes times x do not fit into float16, those of weights times x do."""
    made = _linear(draw, 8, "float16, large x: ", "float16，x 很大：", dtype="float16")
    x = (300 + 10 * made.tensors["x"].abs()).half()
    codes, scales = made.tensors["w.weight"].double().abs(), made.tensors["w.scales"].double()
    y = x.double() @ (codes * scales[:, None]).T
    tensors = {**made.tensors, "x": x, "y": y, "w.weight": codes.to(torch.int8)}
    return draft(made.about, tensors, **made.values)


@recipe()
def linear_cost(draw: Draw) -> Draft:
    """Small, to be repeated: 768 rows in blocks of 16."""
    state, _ = eight(draw, 48, 192)
    about = Text("in 192, out 768, block_rows 16", "in 192, out 768, block_rows 16")
    tensors = {"x": draw.normal(5, 192), **{f"w.{k}": v for k, v in state.items()}}
    return draft(about, tensors, sizes=[192, 768], block=16)


@recipe()
def linear_rows(draw: Draw) -> Draft:
    """64 rows, the default, are far more than the eight asked for."""
    return _rows(draw, 8)


@recipe(hidden=2)
def grouped(draw: Draw) -> Draft:
    return _linear(draw, 4, "", "")


@recipe()
def grouped_lead(draw: Draw) -> Draft:
    return _linear(draw, 4, "x with a batch: ", "x 带批次：", lead=True)


@recipe()
def grouped_whole(draw: Draw) -> Draft:
    return _linear(draw, 4, "weights that are whole steps: ", "权重恰为整数步：", whole=True)


@recipe()
def grouped_bfloat16(draw: Draw) -> Draft:
    return _linear(draw, 4, "bfloat16: ", "bfloat16：", dtype="bfloat16")


@recipe()
def grouped_cost(draw: Draw) -> Draft:
    state, _ = four(draw, 48, 192, 32)
    kind = "in 192, out 768, block_rows 16, group_size 32"
    tensors = {"x": draw.normal(5, 192), **{f"w.{k}": v for k, v in state.items()}}
    return draft(Text(kind, kind), tensors, sizes=[192, 768], block=16, group=32)


@recipe()
def grouped_rows(draw: Draw) -> Draft:
    return _rows(draw, 4)


def _rows(draw: Draw, bits: int) -> Draft:
    """Small, to be repeated: 384 rows of 64."""
    state, weight = _quantized(draw, bits, 8, 32, 16, whole=False)
    kind = "in 64, out 384, block_rows 8" + (", group_size 16" if bits == 4 else "")
    tensors = {"x": draw.normal(1, 64), "float": weight.float()}
    tensors |= {f"w.{k}": v for k, v in state.items()}
    return draft(Text(kind, kind), tensors, sizes=[64, 384], block=8, group=16)


def _mlp(draw: Draw, bits: int, en: str, zh: str, *, whole: bool = False, **options: Any) -> Draft:
    hidden, inner, size, block = draw.pick(MLPS)
    dtype = getattr(torch, options.get("dtype", "float32"))
    tensors: State = {}
    weights: State = {}
    for name, out, width in (
        ("gate_proj", inner, hidden),
        ("up_proj", inner, hidden),
        ("down_proj", hidden, inner),
    ):
        made = _quantized(draw, bits, out, width, size, whole=whole)
        tensors |= {f"w.{name}.{key}": value for key, value in made[0].items()}
        weights[f"{name}.weight"] = made[1]
        if whole:
            tensors[f"float.{name}.weight"] = made[1].float()
    x = draw.normal(2, 3, hidden, scale=2.0 if whole else 0.6).to(dtype)
    tensors |= {"x": x, "y": oracle.mlp(weights, x.double())}
    kind = f"hidden {hidden}, intermediate {inner}, " + (
        f"group_size {size}" if bits == 4 else "int8"
    )
    about = Text(f"{en}{kind}", f"{zh}{kind}")
    group = size if bits == 4 else None
    return draft(about, tensors, sizes=[hidden, inner], block=block, group=group, **options)


@recipe()
def mlp_eight(draw: Draw) -> Draft:
    return _mlp(draw, 8, "", "")


@recipe()
def mlp_four(draw: Draw) -> Draft:
    return _mlp(draw, 4, "", "")


@recipe()
def mlp_eight_whole(draw: Draw) -> Draft:
    return _mlp(draw, 8, "weights that are whole steps: ", "权重恰为整数步：", whole=True)


@recipe()
def mlp_four_whole(draw: Draw) -> Draft:
    return _mlp(draw, 4, "weights that are whole steps: ", "权重恰为整数步：", whole=True)


@recipe()
def mlp_bfloat16(draw: Draw) -> Draft:
    return _mlp(draw, 8, "bfloat16: ", "bfloat16：", dtype="bfloat16")


@recipe()
def mlp_rows_eight(draw: Draw) -> Draft:
    """Small, to be repeated: 64 rows are far more than the four asked for."""
    return _mlp_rows(draw, 8)


@recipe()
def mlp_rows_four(draw: Draw) -> Draft:
    return _mlp_rows(draw, 4)


def _mlp_rows(draw: Draw, bits: int) -> Draft:
    hidden, inner, block = 64, 96, 4
    tensors: State = {"x": draw.normal(1, hidden)}
    for name in ("gate_proj", "up_proj", "down_proj"):
        state, weight = _quantized(draw, bits, 8, 32, 16, whole=False)
        tensors |= {f"w.{name}.{key}": value for key, value in state.items()}
        tensors[f"float.{name}.weight"] = weight.float()
    group = 16 if bits == 4 else None
    kind = f"hidden {hidden}, intermediate {inner}, block_rows {block}" + (
        f", group_size {group}" if group else ", int8"
    )
    return draft(Text(kind, kind), tensors, sizes=[hidden, inner], block=block, group=group)
