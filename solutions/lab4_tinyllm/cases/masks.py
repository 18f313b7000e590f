"""Cases of the attention mask and of positions: which tokens are padding."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_model

from .sizes import left_padded

# batch, keys, queries
SIZES = ((4, 7, 3), (3, 9, 2), (5, 6, 1), (2, 8, 4))


def _drafted(keep: torch.Tensor, queries: int, en: str, zh: str) -> Draft:
    batch, keys = keep.shape
    about = Text(
        f"{en}attention_mask [{batch}, {keys}], {queries} queries",
        f"{zh}attention_mask [{batch}, {keys}]，{queries} 个查询",
    )
    blocked = oracle_model.mask_of(keep, queries) < 0
    positions = oracle_model.positions_of(keep)[:, -queries:]
    tensors = {
        "keep": keep,
        "blocked": blocked.float(),
        "positions": positions,
        "real": keep[:, -queries:],
    }
    return draft(about, tensors, queries=queries)


@recipe()
def masks_plain(draw: Draw) -> Draft:
    batch, keys, _ = draw.pick(SIZES)
    keep = torch.ones(batch, keys, dtype=torch.int64)
    return _drafted(keep, keys, "no padding: ", "无填充：")


@recipe()
def masks_left(draw: Draw) -> Draft:
    batch, keys, _ = draw.pick(SIZES)
    return _drafted(left_padded(draw, batch, keys), keys, "padded on the left: ", "左侧填充：")


@recipe()
def masks_right(draw: Draw) -> Draft:
    batch, keys, _ = draw.pick(SIZES)
    keep = left_padded(draw, batch, keys).flip(-1)
    return _drafted(keep, keys, "padded on the right: ", "右侧填充：")


@recipe()
def masks_cached(draw: Draw) -> Draft:
    """Fewer queries than keys: the others are in a cache."""
    batch, keys, queries = draw.pick(SIZES)
    keep = left_padded(draw, batch, keys)
    return _drafted(keep, queries, "after a cache: ", "缓存之后：")


@recipe()
def masks_cached_right(draw: Draw) -> Draft:
    """The same with padding on the right: some of the queries are padding themselves."""
    batch, keys, queries = draw.pick(SIZES)
    keep = left_padded(draw, batch, keys).flip(-1)
    return _drafted(keep, queries, "after a cache, padded on the right: ", "缓存之后，右侧填充：")
