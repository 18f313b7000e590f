"""Cases of the rotation and of attention over flat tokens."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_parallel

from .sizes import flat, listed

# heads, kv heads, head_dim, lengths of the sequences
SIZES = (
    (6, 2, 16, (3, 7, 1)),
    (9, 3, 10, (1, 5, 2, 4)),
    (10, 2, 12, (6, 3)),
    (12, 4, 8, (4, 1, 8)),
)


def _about(
    heads: int, kv_heads: int, size: int, lengths: tuple[int, ...], en: str, zh: str
) -> Text:
    all_lengths = listed(lengths)
    return Text(
        f"{en}{heads} query and {kv_heads} kv heads of {size}, "
        f"sequences of {all_lengths.en} tokens",
        f"{zh}{heads} 个查询头、{kv_heads} 个键值头，head_dim {size}，序列长度为 {all_lengths.zh}",
    )


def _drafted(
    draw: Draw,
    size: tuple[int, int, int, tuple[int, ...]],
    en: str = "",
    zh: str = "",
    *,
    zero_keys: bool = False,
    same_values: bool = False,
    turned_away: bool = False,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> Draft:
    heads, kv_heads, head_dim, lengths = size
    tokens = sum(lengths)
    q = draw.normal(tokens, heads, head_dim, scale=scale)
    k = draw.normal(tokens, kv_heads, head_dim, scale=scale)
    v = draw.normal(tokens, kv_heads, head_dim)
    k = torch.zeros_like(k) if zero_keys else k
    v = v[:, :1].expand_as(v).contiguous() if same_values else v
    cu = flat(lengths)["cu"]
    if turned_away:
        first = cu[:-1]
        k[first] = -q[first].view(-1, kv_heads, heads // kv_heads, head_dim).mean(2)
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    tensors = {"q": q, "k": k, "v": v, "cu": cu}
    tensors["y"] = oracle_parallel.flat_attention(q, k, v, cu)
    name = str(dtype).removeprefix("torch.")
    return draft(_about(heads, kv_heads, head_dim, lengths, en, zh), tensors, dtype=name)


@recipe()
def flat_core(draw: Draw) -> Draft:
    return _drafted(draw, draw.pick(SIZES))


@recipe()
def flat_one(draw: Draw) -> Draft:
    """A single sequence, one kv head: neither borders nor heads matter."""
    heads, _, size, lengths = draw.pick(SIZES)
    made = (heads, 1, size, (sum(lengths),))
    return _drafted(draw, made, "a single sequence: ", "单个序列：")


@recipe()
def flat_uniform(draw: Draw) -> Draft:
    """Keys of zero: every token averages what it may see, whatever the scores."""
    made = draw.pick(SIZES)
    return _drafted(draw, made, "keys of zeros: ", "键全为零：", zero_keys=True, same_values=True)


@recipe()
def flat_single_tokens(draw: Draw) -> Draft:
    """Sequences of one token each: every token is its own value, for the right kv head."""
    heads, kv_heads, size, lengths = draw.pick(SIZES)
    made = (heads, kv_heads, size, (1,) * (len(lengths) + 2))
    return _drafted(draw, made, "one token each: ", "每个序列一个 token：")


@recipe()
def flat_large(draw: Draw) -> Draft:
    """Scores in the hundreds overflow a softmax without its maximum.

    What the first token of a sequence may see, itself, scores less than -100.
    """
    en, zh = "large q and k: ", "q 与 k 很大："
    return _drafted(draw, draw.pick(SIZES), en, zh, turned_away=True, scale=9.0)


@recipe()
def flat_bfloat16(draw: Draw) -> Draft:
    return _drafted(draw, draw.pick(SIZES), "bfloat16: ", "bfloat16：", dtype=torch.bfloat16)


@recipe()
def flat_float16(draw: Draw) -> Draft:
    """The largest number is 65504."""
    return _drafted(draw, draw.pick(SIZES), "float16: ", "float16：", dtype=torch.float16)


@recipe()
def rotation(draw: Draw) -> Draft:
    """Queries and keys of one kv head, at positions that begin anew."""
    tokens = draw.pick((9, 12, 7))
    heads, size = draw.pick(((4, 14), (3, 10), (5, 18)))
    theta = draw.pick((1e6, 5e6, 2e5))
    firsts = (0, draw.integer(30, 50))
    positions = flat((tokens - 4, 4), firsts)["positions"]
    q, k = draw.normal(tokens, heads, size), draw.normal(tokens, 2, size)
    turned = (oracle_parallel.rotate(x, positions, theta) for x in (q, k))
    scores = torch.einsum("qhd,kgd->hgqk", *turned)
    about = Text(
        f"{tokens} tokens at positions from 0 and from {firsts[1]}, head_dim {size}",
        f"{tokens} 个 token，位置从 0 与 {firsts[1]} 开始，head_dim {size}",
    )
    return draft(about, {"q": q, "k": k, "positions": positions, "y": scores}, theta=theta)


def _far(draw: Draw, dtype: torch.dtype) -> Draft:
    """Positions beyond those of the training: angles below float32 would be coarse."""
    tokens, heads, size = 8, 3, draw.pick((12, 16, 10))
    positions = torch.arange(tokens) + draw.integer(41000, 42000)
    q, k = (draw.normal(tokens, count, size).to(dtype) for count in (heads, 2))
    turned = (oracle_parallel.rotate(x.float(), positions, 1e6) for x in (q, k))
    scores = torch.einsum("qhd,kgd->hgqk", *turned)
    name = str(dtype).removeprefix("torch.")
    first = int(positions[0])
    about = Text(f"{name}, positions from {first}", f"{name}，位置从 {first} 开始")
    tensors = {"q": q, "k": k, "positions": positions, "y": scores}
    return draft(about, tensors, theta=1e6, dtype=name)


@recipe()
def rotation_far(draw: Draw) -> Draft:
    return _far(draw, torch.float32)


@recipe()
def rotation_far_bfloat16(draw: Draw) -> Draft:
    return _far(draw, torch.bfloat16)
