"""Cases of attention on which costs are counted; nothing but the shape of the answer matters."""

from __future__ import annotations

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe


def _long(draw: Draw, heads: int, q_len: int, kv_len: int, about: Text, blocks: list[int]) -> Draft:
    tensors = {
        "q": draw.normal(1, heads, q_len, 8),
        "k": draw.normal(1, 1, kv_len, 8),
        "v": draw.normal(1, 1, kv_len, 8),
    }
    return draft(about, tensors, blocks=blocks)


@recipe()
def flash_growth(draw: Draw) -> Draft:
    """Handed over as it is, and four times as long."""
    q_len, kv_len = draw.pick(((192, 320), (160, 256), (224, 352), (176, 304)))
    about = Text(
        f"{q_len} queries and {kv_len} keys against {4 * q_len} and {4 * kv_len}, blocks of 64, "
        "causal",
        f"{q_len} 个查询、{kv_len} 个键，对比 {4 * q_len} 个与 {4 * kv_len} 个，每块 64 个，因果",
    )
    return _long(draw, 1, q_len, kv_len, about, [64, 64])


@recipe()
def flash_skips(draw: Draw) -> Draft:
    q_len, kv_len = draw.pick(((96, 112), (112, 128), (128, 144), (112, 144)))
    about = Text(
        f"{q_len} queries, {kv_len} keys, blocks of 16, causal",
        f"{q_len} 个查询，{kv_len} 个键，每块 16 个，因果",
    )
    return _long(draw, 2, q_len, kv_len, about, [16, 16])


@recipe(hidden=0)  # it takes longest, and its numbers decide nothing
def flash_cap(draw: Draw) -> Draft:
    """Repeated to 1024 queries and 16384 keys: their table alone has 64 MiB."""
    about = Text(
        "1024 queries, 16384 keys, blocks of 64 and 2048",
        "1024 个查询，16384 个键，每块 64 个与 2048 个",
    )
    # Few blocks of keys: whoever goes row by row, and by them, is not to be stopped by the clock.
    return _long(draw, 1, 128, 512, about, [64, 2048])
