"""Cases of attention tile by tile, each blind to what other families get wrong."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_moe

# batch, heads, kv heads, q_len, kv_len, head_dim, block_q, block_k
SIZES = (
    (3, 6, 2, 13, 21, 10, 4, 5),
    (2, 8, 2, 11, 26, 12, 3, 7),
    (4, 6, 3, 15, 19, 8, 7, 4),
    (2, 10, 2, 14, 23, 9, 5, 6),
)
# The same with lengths that are multiples of the blocks: no tile is cut.
EVEN = (
    (3, 6, 2, 12, 20, 10, 4, 5),
    (2, 8, 2, 9, 28, 12, 3, 7),
    (4, 6, 3, 14, 24, 8, 7, 4),
    (2, 10, 2, 15, 30, 9, 5, 6),
)
Sizes = tuple[int, ...]


def _qkv(draw: Draw, sizes: Sizes, *, scale: float = 1.0) -> tuple[torch.Tensor, ...]:
    batch, heads, kv_heads, q_len, kv_len, head_dim, *_ = sizes
    q = draw.normal(batch, heads, q_len, head_dim, scale=scale)
    k, v = (draw.normal(batch, kv_heads, kv_len, head_dim) for _ in "kv")
    return q, k, v


def _unshared(sizes: Sizes) -> Sizes:
    """As many kv heads as heads: nothing is shared."""
    return sizes[0], sizes[2], sizes[2], *sizes[3:]


def _drafted(
    en: str,
    zh: str,
    qkv: tuple[torch.Tensor, ...],
    blocks: tuple[int, ...],
    *,
    causal: bool,
    **values: Any,
) -> Draft:
    q, k, v = qkv
    (_, heads, q_len, size), (_, kv_heads, kv_len, _) = q.shape, k.shape
    kind = Text("causal", "因果") if causal else Text("not causal", "非因果")
    about = Text(
        f"{en}{kind.en}, {heads} heads, {kv_heads} kv heads of {size}, {q_len} queries in "
        f"blocks of {blocks[0]}, {kv_len} keys in blocks of {blocks[1]}",
        f"{zh}{kind.zh}，{heads} 个头，{kv_heads} 个键值头，head_dim {size}，{q_len} 个查询"
        f"每块 {blocks[0]} 个，{kv_len} 个键每块 {blocks[1]} 个",
    )
    tensors = {"q": q, "k": k, "v": v, "y": oracle_moe.attention(q, k, v, causal=causal)}
    return draft(about, tensors, causal=causal, blocks=list(blocks), **values)


@recipe(public=2, hidden=2)
def flash_core(draw: Draw) -> Draft:
    """Everything at once; every other case is not causal."""
    sizes = draw.pick(SIZES)
    causal = draw.integer(0, 1) == 1
    return _drafted("", "", _qkv(draw, sizes, scale=2.0), sizes[6:], causal=causal)


@recipe()
def flash_causal(draw: Draw) -> Draft:
    """Everything, causally."""
    sizes = draw.pick(SIZES)
    return _drafted("", "", _qkv(draw, sizes, scale=2.0), sizes[6:], causal=True)


@recipe()
def flash_one_tile(draw: Draw) -> Draft:
    """One tile, nothing shared, nothing hidden: scale and softmax."""
    sizes = _unshared(draw.pick(SIZES))
    return _drafted("one tile: ", "只有一块：", _qkv(draw, sizes), sizes[3:5], causal=False)


@recipe()
def flash_tiles(draw: Draw) -> Draft:
    """Whole tiles, scores that vary: maximum and sum have to follow."""
    sizes = _unshared(draw.pick(EVEN))
    return _drafted("", "", _qkv(draw, sizes, scale=3.0), sizes[6:], causal=False)


def _sloped(draw: Draw, slope: float, en: str, zh: str) -> Draft:
    """Scores that rise or fall from block to block, for every query."""
    sizes = _unshared(draw.pick(EVEN))
    q, k, v = _qkv(draw, sizes)
    q, k = q * 0.3, k * 0.3
    q[..., 0] = sizes[5] ** 0.5
    k[..., 0] = slope * torch.arange(sizes[4]) / sizes[7]
    return _drafted(en, zh, (q, k, v), sizes[6:], causal=False)


@recipe()
def flash_rising(draw: Draw) -> Draft:
    return _sloped(draw, 1.0, "scores rise with the keys: ", "分数随键上升：")


@recipe()
def flash_falling(draw: Draw) -> Draft:
    return _sloped(draw, -1.0, "scores fall with the keys: ", "分数随键下降：")


def _averaged(draw: Draw, sizes: Sizes, en: str, zh: str, *, causal: bool) -> Draft:
    """Queries of zero: averages of the values that are seen."""
    q, k, v = _qkv(draw, sizes)
    qkv = torch.zeros_like(q), k, v
    return _drafted(f"all queries zero, {en}", f"查询全为零，{zh}", qkv, sizes[6:], causal=causal)


@recipe()
def flash_ragged(draw: Draw) -> Draft:
    """Tiles that are cut at both ends of the lengths."""
    return _averaged(draw, _unshared(draw.pick(SIZES)), "", "", causal=False)


@recipe()
def flash_even_mask(draw: Draw) -> Draft:
    """As many queries as keys, whole tiles: the mask within a tile."""
    size, block_q, block_k = draw.pick(((12, 4, 3), (20, 5, 4), (18, 3, 6), (24, 6, 8)))
    v = draw.normal(3, 2, size, size)
    # Query i and key j: 0 where j is seen, and 200 where it is not, so that a maximum that is
    # taken before the mask leaves nothing of what is seen.
    q = 200 * size**0.5 * torch.ones(size, size).triu(1).expand(3, 2, size, size).contiguous()
    k = torch.eye(size).expand(3, 2, size, size).contiguous()
    en, zh = "visible scores equal, hidden ones far larger, ", "可见的分数都相等，被屏蔽的大得多，"
    return _drafted(en, zh, (q, k, v), (block_q, block_k), causal=True)


@recipe()
def flash_offset(draw: Draw) -> Draft:
    """More keys than queries: where the diagonal lies."""
    return _averaged(draw, _unshared(draw.pick(EVEN)), "", "", causal=True)


@recipe()
def flash_last_query(draw: Draw) -> Draft:
    """A single query, as in decoding: it sees all keys."""
    sizes = draw.pick(EVEN)
    sizes = (sizes[0], sizes[2], sizes[2], 1, *sizes[4:])
    return _averaged(draw, sizes, "", "", causal=True)


@recipe()
def flash_value_heads(draw: Draw) -> Draft:
    """Which query head gets which value head."""
    return _averaged(draw, draw.pick(EVEN), "", "", causal=False)


@recipe()
def flash_key_heads(draw: Draw) -> Draft:
    """One key head of zeros, values alike: the heads of its group average."""
    sizes = draw.pick(EVEN)
    q, k, v = _qkv(draw, sizes, scale=2.0)
    group, chosen = sizes[1] // sizes[2], draw.integer(0, sizes[2] - 1)
    k[:, chosen] = 0
    v = v[:, :1].repeat(1, sizes[2], 1, 1)
    en, zh = f"key head {chosen} of zeros: ", f"第 {chosen} 个键头全为零："
    first = chosen * group
    return _drafted(en, zh, (q, k, v), sizes[6:], causal=False, first=first, last=first + group)


@recipe()
def flash_large(draw: Draw) -> Draft:
    """Scores of hundreds overflow a softmax without its maximum."""
    sizes = _unshared(draw.pick(EVEN))
    qkv = _qkv(draw, sizes, scale=120.0)
    return _drafted("scores of hundreds: ", "数百大小的分数：", qkv, sizes[6:], causal=False)


@recipe()
def flash_low(draw: Draw) -> Draft:
    """All scores -400: below any number that a maximum may be begun with in place of -inf."""
    sizes = _unshared(draw.pick(EVEN))
    q, k, v = _qkv(draw, sizes)
    q, k = torch.zeros_like(q), torch.zeros_like(k)
    q[..., 0], k[..., 0] = 20 * sizes[5] ** 0.5, -20
    return _drafted("all scores -400: ", "分数都是 -400：", (q, k, v), sizes[6:], causal=False)


@recipe()
def flash_deep(draw: Draw) -> Draft:
    """All scores -90000: what hides a key has to lie lower still."""
    sizes = _unshared(draw.pick(SIZES))
    q, k, v = _qkv(draw, sizes)
    q, k = torch.zeros_like(q), torch.zeros_like(k)
    q[..., 0], k[..., 0] = 300 * sizes[5] ** 0.5, -300
    return _drafted("all scores -90000: ", "分数都是 -90000：", (q, k, v), sizes[6:], causal=True)


@recipe()
def flash_bfloat16(draw: Draw) -> Draft:
    """2048 keys in blocks of 4: sums in bfloat16 come to rest long before the end.

    Values lie near 0.85, so that the output is a sum that grows, too, and is rounded down.
    """
    sizes = (2, 2, 2, 3, 2048, 8, 3, 4)
    q, k, v = _qkv(draw, sizes)
    qkv = tuple(t.bfloat16() for t in (torch.zeros_like(q), k, 0.85 + 0.05 * v))
    name = "bfloat16"
    return _drafted(f"{name}: ", f"{name}：", qkv, sizes[6:], causal=False, dtype=name)


@recipe()
def flash_float16(draw: Draw) -> Draft:
    """Products beyond what float16 holds, unless they are widened or scaled first."""
    sizes = _unshared(draw.pick(EVEN))
    q, k, v = _qkv(draw, sizes)
    # All entries of one sign: every product is near 100 * 100 * head_dim, beyond 65504.
    q, k = (100 * (1 + 0.004 * t) for t in (q, k))
    qkv = tuple(t.half() for t in (q, k, v))
    name = "float16"
    return _drafted(f"{name}: ", f"{name}：", qkv, sizes[6:], causal=True, dtype=name)
