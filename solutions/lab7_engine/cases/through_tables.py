"""Cases of attention that reads through block tables, each blind to what other families miss.

A pool is full of large numbers wherever no token of the case lies; its blocks are handed out in
random order. Queries of zero average the values, whatever scores and softmax do.
"""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_moe

# heads, kv heads, head_dim, tokens in a block, (queries, context) of each sequence: decoding,
# a chunk, decoding with a full last block, a whole prompt
SIZES = (
    (6, 2, 10, 4, ((1, 9), (5, 13), (1, 8), (3, 3))),
    (9, 3, 8, 5, ((4, 11), (1, 10), (1, 7), (6, 6))),
    (8, 2, 12, 3, ((1, 6), (1, 4), (7, 11), (2, 2))),
    (10, 2, 14, 6, ((2, 2), (1, 12), (8, 20), (1, 3))),
)
Sizes = tuple[int, int, int, int, tuple[tuple[int, int], ...]]
SPARE = 3  # blocks of nobody


def _drafted(
    draw: Draw,
    size: Sizes,
    en: str = "",
    zh: str = "",
    *,
    scale: float = 1.0,
    average: bool = False,
    one_kv_head: int | None = None,
    dtype: str = "float32",
    lift: float = 0.0,
    rising: bool = False,
    **values: Any,
) -> Draft:
    heads, kv_heads, head_dim, block, sequences = size
    counts = [-(-context // block) for _, context in sequences]
    order = draw.permutation(sum(counts) + SPARE)
    pool = {name: draw.normal(len(order), block, kv_heads, head_dim, scale=30.0) for name in "kv"}
    tables = torch.full((len(sequences), max(counts)), -1)
    queries, wanted, at = [], [], 0
    for row, ((new, context), count) in enumerate(zip(sequences, counts, strict=True)):
        own = order[at : at + count]
        own = own.sort().values if rising else own
        tables[row, :count] = own
        at += count
        q = draw.normal(new, heads, head_dim, scale=scale) * (not average)
        k, v = (draw.normal(context, kv_heads, head_dim) for _ in "kv")
        if one_kv_head is not None:  # of zeros; values are alike
            k[:, one_kv_head] = 0
            v = v[:, :1].repeat(1, kv_heads, 1)
        if lift:  # added to every score
            q[..., 0], k[..., 0] = 8.0, lift * head_dim**0.5 / 8
        places = torch.arange(context)
        for name, tensor in (("k", k), ("v", v)):
            pool[name][own[places // block], places % block] = tensor
        q, k, v = (t.to(getattr(torch, dtype)) for t in (q, k, v))
        y = oracle_moe.attention(*(t.transpose(0, 1)[None] for t in (q, k, v)), causal=True)
        queries.append(q)
        wanted.append(y[0].transpose(0, 1))
    ends = torch.tensor([new for new, _ in sequences]).cumsum(0)
    listed = ", ".join(f"{new}/{context}" for new, context in sequences)
    about = Text(
        f"{en}{heads} heads, {kv_heads} kv heads of {head_dim}, blocks of {block}, new tokens and "
        f"context {listed}",
        f"{zh}{heads} 个头，{kv_heads} 个键值头，head_dim {head_dim}，每块 {block} 个 token，"
        f"新 token 数与上下文长度 {listed}",
    )
    tensors = {
        "q": torch.cat(queries),
        **{name: tensor.to(getattr(torch, dtype)) for name, tensor in pool.items()},
        "tables": tables,
        "contexts": torch.tensor([context for _, context in sequences]),
        "cu": torch.cat((torch.zeros(1, dtype=torch.int64), ends)).to(torch.int32),
        "y": torch.cat(wanted),
    }
    return draft(about, tensors, dtype=dtype, **values)


def _unshared(size: Sizes) -> Sizes:
    """As many kv heads as heads."""
    return size[1], size[1], *size[2:]


def _decoding(size: Sizes, *, full: bool) -> Sizes:
    """One query each; contexts end with a block, or within one."""
    block = size[3]
    contexts = (2 * block, block, 3 * block) if full else (block + 1, 1, 3 * block - 1)
    return *size[:4], tuple((1, context) for context in contexts)


@recipe(public=2, hidden=2)
def paged_core(draw: Draw) -> Draft:
    """Everything at once."""
    return _drafted(draw, draw.pick(SIZES), scale=2.0)


@recipe()
def paged_partial(draw: Draw) -> Draft:
    """Averages over contexts that end within a block."""
    size = _decoding(_unshared(draw.pick(SIZES)), full=False)
    return _drafted(draw, size, "queries of zero, ", "查询全为零，", average=True)


@recipe()
def paged_full(draw: Draw) -> Draft:
    """Averages over contexts that end with a block."""
    size = _decoding(_unshared(draw.pick(SIZES)), full=True)
    return _drafted(draw, size, "queries of zero, ", "查询全为零，", average=True)


@recipe()
def paged_chunk(draw: Draw) -> Draft:
    """Averages over what each query of a chunk may see, in full blocks with rising numbers."""
    heads, kv_heads, head_dim, block, _ = _unshared(draw.pick(SIZES))
    sequences = (3, 2 * block), (2, block), (block + 1, 3 * block)
    size = heads, kv_heads, head_dim, block, sequences
    return _drafted(draw, size, "queries of zero, ", "查询全为零，", average=True, rising=True)


@recipe()
def paged_scores(draw: Draw) -> Draft:
    """Nothing shared, one query each, full blocks: products, scale and softmax."""
    size = _decoding(_unshared(draw.pick(SIZES)), full=True)
    return _drafted(draw, size, scale=2.0)


@recipe()
def paged_value_heads(draw: Draw) -> Draft:
    """Which query head gets which value head."""
    size = _decoding(draw.pick(SIZES), full=True)
    return _drafted(draw, size, "queries of zero, ", "查询全为零，", average=True)


@recipe()
def paged_key_heads(draw: Draw) -> Draft:
    """One key head of zeros, values alike: the heads of its group average."""
    size = _decoding(draw.pick(SIZES), full=True)
    group, chosen = size[0] // size[1], draw.integer(0, size[1] - 1)
    return _drafted(
        draw, size, f"key head {chosen} of zeros, ", f"第 {chosen} 个键头全为零，",
        scale=2.0, one_kv_head=chosen, first=chosen * group, last=(chosen + 1) * group,
    )  # fmt: skip


@recipe()
def paged_large(draw: Draw) -> Draft:
    """Scores of hundreds overflow a softmax without its maximum."""
    size = _decoding(_unshared(draw.pick(SIZES)), full=True)
    return _drafted(draw, size, "scores of hundreds, ", "数百大小的分数，", scale=120.0)


@recipe()
def paged_bfloat16(draw: Draw) -> Draft:
    """Scores near 96, which bfloat16 holds to a half only: it would weigh by rounding."""
    heads, kv_heads, head_dim, block, _ = draw.pick(SIZES)
    size = (heads, kv_heads, head_dim, block, ((1, 9 * block), (3, 2 * block + 1)))
    return _drafted(draw, size, "bfloat16, ", "bfloat16，", scale=1.5, dtype="bfloat16", lift=96)


@recipe()
def paged_memory(draw: Draw) -> Draft:
    """Decoding in float16, to be asked with more sequences and with a larger pool."""
    size = (6, 2, 16, draw.pick((16, 14, 18, 20)), ((1, 128), (1, 128), (1, 128)))
    return _drafted(draw, size, "float16, ", "float16，", dtype="float16")
