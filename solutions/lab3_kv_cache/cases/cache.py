"""Cases of the KV cache by itself."""

from __future__ import annotations

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe

# batch, tokens, kv heads, head_dim, tokens the cache can hold beyond those, pieces
SIZES = (
    (4, 11, 2, 16, 3, (5, 3, 3)),
    (3, 13, 2, 10, 5, (2, 7, 4)),
    (5, 7, 3, 8, 4, (4, 1, 2)),
    (2, 10, 3, 14, 7, (1, 8, 1)),
)


def _drafted(draw: Draw) -> Draft:
    batch, tokens, kv_heads, head_dim, spare, pieces = draw.pick(SIZES)
    shape = batch, tokens, kv_heads, head_dim
    about = Text(
        f"a cache of {batch} x {tokens + spare} tokens, {kv_heads} kv heads of {head_dim}, "
        f"{' + '.join(map(str, pieces))} tokens put in",
        f"缓存 {batch} x {tokens + spare} 个 token，{kv_heads} 个键值头，head_dim {head_dim}，"
        f"依次放入 {' + '.join(map(str, pieces))} 个 token",
    )
    tensors = {"k": draw.normal(*shape), "v": draw.normal(*shape)}
    size = [batch, tokens + spare, kv_heads, head_dim]
    return draft(about, tensors, size=size, pieces=list(pieces))


@recipe()
def keys_and_values(draw: Draw) -> Draft:
    """Keys and values in three pieces, all sizes distinct, and room for more."""
    return _drafted(draw)


# What a cache has to put together lies whole in the arguments of other checks: not in these.


@recipe()
def cache_pieces(draw: Draw) -> Draft:
    return _drafted(draw)


@recipe()
def cache_steps(draw: Draw) -> Draft:
    return _drafted(draw)


@recipe()
def cache_rewinds(draw: Draw) -> Draft:
    return _drafted(draw)


@recipe()
def cache_two(draw: Draw) -> Draft:
    return _drafted(draw)
