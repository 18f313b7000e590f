"""Cases of the packed projections: rows and columns, on one rank and on several."""

from __future__ import annotations

from dataclasses import asdict

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.config import Qwen3Config
from solutions.reference import oracle_parallel

from .sizes import (
    RANK_SIZES,
    RANKS,
    SIZES,
    WIDE_SIZES,
    about_sizes,
    attention_weights,
    config_of,
    prefixed,
)

FAR = 5.0  # one number far from all others: whoever cuts off what is large is seen


def _qkv(
    draw: Draw, config: Qwen3Config, tokens: int, about: Text, ranks: tuple[int, ...]
) -> Draft:
    weights = attention_weights(draw, config)
    weights["q_proj.weight"][0, 0] = FAR
    whole = {name: weights[f"{name}_proj.weight"] for name in "qkv"}
    x = draw.normal(tokens, config.hidden_size)
    tensors = {"x": x, **prefixed(whole, "")}
    for world in ranks:
        for rank in range(world):
            shard = oracle_parallel.attention_shard(config, weights, rank, world)
            rows = shard["qkv_proj.weight"]
            tensors[f"{world}.{rank}.weight"] = rows
            tensors[f"{world}.{rank}.y"] = x.double() @ rows.double().T
    return draft(about, tensors, asdict(config))


def _qkv_alone(draw: Draw) -> Draft:
    hidden, heads, kv_heads, head_dim, lengths = draw.pick(SIZES)
    config = config_of(hidden, heads, kv_heads, head_dim)
    return _qkv(draw, config, sum(lengths), about_sizes(config, lengths), (1,))


def _qkv_own(draw: Draw) -> Draft:
    hidden, heads, kv_heads, head_dim, lengths = draw.pick(WIDE_SIZES)
    config = config_of(hidden, heads, kv_heads, head_dim)
    return _qkv(draw, config, sum(lengths), about_sizes(config, lengths), RANKS)


@recipe()
def qkv_alone(draw: Draw) -> Draft:
    return _qkv_alone(draw)


@recipe()
def qkv_alone_loading(draw: Draw) -> Draft:
    """The same for the loader: what it has to make is given to whoever projects above."""
    return _qkv_alone(draw)


@recipe()
def qkv_own(draw: Draw) -> Draft:
    """As many kv heads as ranks, or more: every rank has its own."""
    return _qkv_own(draw)


@recipe()
def qkv_own_loading(draw: Draw) -> Draft:
    return _qkv_own(draw)


@recipe()
def qkv_shared(draw: Draw) -> Draft:
    """Fewer kv heads than ranks: neighbours hold the same one."""
    hidden, heads, kv_heads, head_dim, lengths = draw.pick(RANK_SIZES)
    config = config_of(hidden, heads, kv_heads, head_dim)
    en, zh = "4 ranks share 2 kv heads: ", "4 个 rank 共用 2 个键值头："
    return _qkv(draw, config, sum(lengths), about_sizes(config, lengths, en, zh), (4,))


@recipe()
def qkv_single(draw: Draw) -> Draft:
    """One kv head for all: here ranks per kv head and kv heads are different numbers."""
    hidden, heads, _, head_dim, lengths = draw.pick(RANK_SIZES)
    config = config_of(hidden, heads, 1, head_dim)
    en, zh = "all ranks share 1 kv head: ", "所有 rank 共用 1 个键值头："
    return _qkv(draw, config, sum(lengths), about_sizes(config, lengths, en, zh), RANKS)


# tokens, input, output
_ROW_SIZES = ((5, 24, 14), (7, 36, 10), (3, 20, 26))


def _about_row(tokens: int, inner: int, outer: int, en: str = "", zh: str = "") -> Text:
    return Text(
        f"{en}{tokens} tokens, {inner} features in, {outer} out",
        f"{zh}{tokens} 个 token，输入 {inner} 个特征，输出 {outer} 个",
    )


def _row(draw: Draw) -> Draft:
    tokens, inner, outer = draw.pick(_ROW_SIZES)
    weight, x = draw.normal(outer, inner, scale=inner**-0.5), draw.normal(tokens, inner)
    weight[0, 0] = FAR
    tensors = {"x": x, "weight": weight, "y": x.double() @ weight.double().T}
    for world in RANKS:
        for rank in range(world):
            tensors[f"{world}.{rank}.weight"] = oracle_parallel.columns(weight, rank, world)
            tensors[f"{world}.{rank}.x"] = oracle_parallel.columns(x, rank, world)
    return draft(_about_row(tokens, inner, outer), tensors, sizes=[inner, outer])


@recipe()
def row(draw: Draw) -> Draft:
    """A projection whose input is split, and its whole result."""
    return _row(draw)


@recipe()
def row_loading(draw: Draw) -> Draft:
    return _row(draw)


@recipe()
def row_bfloat16(draw: Draw) -> Draft:
    """The same in bfloat16: the result keeps its dtype on the way through the ranks."""
    tokens, inner, outer = draw.pick(_ROW_SIZES)
    weight = draw.normal(outer, inner, scale=inner**-0.5).bfloat16()
    x = draw.normal(tokens, inner).bfloat16()
    tensors = {"x": x, "weight": weight, "y": x.double() @ weight.double().T}
    for rank in range(2):
        tensors[f"2.{rank}.weight"] = oracle_parallel.columns(weight, rank, 2)
        tensors[f"2.{rank}.x"] = oracle_parallel.columns(x, rank, 2)
    about = _about_row(tokens, inner, outer, "bfloat16: ", "bfloat16：")
    return draft(about, tensors, sizes=[inner, outer], dtype="bfloat16")


def _merged(draw: Draw) -> Draft:
    tokens, hidden, inner = draw.pick(((5, 14, 24), (7, 10, 36), (3, 26, 20)))
    parts = [draw.normal(inner, hidden, scale=hidden**-0.5) for _ in range(2)]
    parts[0][0, 0] = FAR
    x = draw.normal(tokens, hidden)
    tensors = {"x": x, "gate": parts[0], "up": parts[1]}
    for world in (1, *RANKS):
        for rank in range(world):
            rows = torch.cat([part.chunk(world)[rank] for part in parts])
            tensors[f"{world}.{rank}.weight"] = rows
            tensors[f"{world}.{rank}.y"] = x.double() @ rows.double().T
    about = Text(
        f"{tokens} tokens, hidden {hidden}, {inner} rows of gate and of up",
        f"{tokens} 个 token，hidden {hidden}，gate 与 up 各 {inner} 行",
    )
    return draft(about, tensors, sizes=[hidden, inner])


@recipe()
def merged(draw: Draw) -> Draft:
    """Gate and up, and what every rank holds of them."""
    return _merged(draw)


@recipe()
def merged_loading(draw: Draw) -> Draft:
    return _merged(draw)
