"""Cases of the gated MLP, with a stand-in behind it and with the real projection."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle, oracle_parallel

from .sizes import RANKS, Weights, config_of, mlp_weights, prefixed

SIZES = ((5, 14, 24), (7, 10, 36), (3, 26, 20))  # tokens, hidden, inner


@recipe()
def activation(draw: Draw) -> Draft:
    """Gate and up in one tensor, and their gated product."""
    tokens, _, inner = draw.pick(SIZES)
    x = draw.normal(tokens, 2 * inner, scale=2.0)
    gate, up = x.double().chunk(2, dim=-1)
    about = Text(f"{tokens} tokens, {inner} of gate and of up", f"{tokens} 个 token，各 {inner} 个")
    return draft(about, {"x": x, "y": torch.nn.functional.silu(gate) * up})


@recipe()
def activation_bfloat16(draw: Draw) -> Draft:
    tokens, _, inner = draw.pick(SIZES)
    x = draw.normal(tokens, 2 * inner).bfloat16()
    gate, up = x.double().chunk(2, dim=-1)
    y = torch.nn.functional.silu(gate) * up
    return draft(Text("bfloat16", "bfloat16"), {"x": x, "y": y}, dtype="bfloat16")


def _weights(draw: Draw) -> tuple[int, list[int], Weights]:
    tokens, hidden, inner = draw.pick(SIZES)
    config = config_of(hidden, 4, 2, 6, intermediate_size=inner)
    return tokens, [hidden, inner], mlp_weights(draw, config)


@recipe()
def mlp_standing(draw: Draw) -> Draft:
    """With a stand-in that adds nothing up: the sum over ranks is the whole."""
    tokens, sizes, weights = _weights(draw)
    x = draw.normal(tokens, sizes[0])
    gate, up, down = (weights[f"{name}_proj.weight"] for name in ("gate", "up", "down"))
    tensors = {"x": x, "y": oracle_parallel.stand_in_mlp(gate, up, down, x)}
    for world in (1, *RANKS):
        for rank in range(world):
            shard = oracle_parallel.mlp_shard(weights, rank, world)
            tensors |= prefixed(shard, f"{world}.{rank}.")
    about = Text(
        f"{tokens} tokens, hidden {sizes[0]}, inner {sizes[1]}, a stand-in for down_proj",
        f"{tokens} 个 token，hidden {sizes[0]}，中间宽度 {sizes[1]}，down_proj 由替身代替",
    )
    return draft(about, tensors, sizes=sizes)


@recipe()
def mlp_bfloat16(draw: Draw) -> Draft:
    """The same in bfloat16, on one rank."""
    tokens, sizes, weights = _weights(draw)
    weights = {name: weight.bfloat16() for name, weight in weights.items()}
    x = draw.normal(tokens, sizes[0]).bfloat16()
    gate, up, down = (weights[f"{name}_proj.weight"] for name in ("gate", "up", "down"))
    tensors = {"x": x, "y": oracle_parallel.stand_in_mlp(gate, up, down, x)}
    tensors |= prefixed(oracle_parallel.mlp_shard(weights, 0, 1), "1.0.")
    about = Text(
        "bfloat16, a stand-in for down_proj that keeps its input's dtype",
        "bfloat16，down_proj 由替身代替，它保持输入的数据类型",
    )
    return draft(about, tensors, sizes=sizes, dtype="bfloat16")


@recipe()
def mlp_whole(draw: Draw) -> Draft:
    """With the student's own RowParallelLinear: Hugging Face's MLP."""
    tokens, sizes, weights = _weights(draw)
    x = draw.normal(tokens, sizes[0])
    tensors = {"x": x, "y": oracle.mlp(weights, x)}
    for world in (1, *RANKS):
        for rank in range(world):
            shard = oracle_parallel.mlp_shard(weights, rank, world)
            tensors |= prefixed(shard, f"{world}.{rank}.")
    about = Text(
        f"{tokens} tokens, hidden {sizes[0]}, inner {sizes[1]}",
        f"{tokens} 个 token，hidden {sizes[0]}，中间宽度 {sizes[1]}",
    )
    return draft(about, tensors, sizes=sizes)
