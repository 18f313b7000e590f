"""Cases of the pool by itself: only sizes, all of them distinct."""

from __future__ import annotations

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe

# blocks, tokens in a block, kv heads, head_dim
SIZES = ((7, 4, 2, 10), (9, 5, 3, 8), (8, 3, 2, 12), (11, 6, 4, 5))
Sizes = tuple[int, int, int, int]


def about_pool(size: Sizes, en: str = "", zh: str = "") -> Text:
    """A pool in words."""
    blocks, tokens, kv_heads, head_dim = size
    return Text(
        f"{en}{blocks} blocks of {tokens} tokens, {kv_heads} kv heads of {head_dim}",
        f"{zh}{blocks} 个块，每块 {tokens} 个 token，{kv_heads} 个键值头，head_dim {head_dim}",
    )


@recipe()
def pool(draw: Draw) -> Draft:
    size = draw.pick(SIZES)
    return draft(about_pool(size), size=list(size), first=draw.integer(2, 3))
