# Generated from the course's sources (stub 959a46790be0): fill in the TODOs.
"""Lab 6, part 1: attention that never holds a table of all queries by all keys.

Fill in every TODO. Queries, keys and values are ``[batch, heads, seq, head_dim]``.
Sources: Milakov and Gimelshein 2018 for the running softmax, Dao et al. 2022 for the tiles;
the numbers are those of ``torch.nn.functional.scaled_dot_product_attention``.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


def online_softmax(blocks: Iterable[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Maximum and sum of a softmax over scores that come in blocks, each looked at once.

    With ``scores`` all blocks side by side, ``softmax(scores) = exp(scores - maximum) / total``.

    Args:
        blocks: tensors ``[..., n]``, at least one; n may differ from block to block. A score of
            ``-inf`` counts for nothing. No copy of a block is kept once the next one is looked at.

    Returns:
        ``(maximum, total)``, each float32 ``[...]``: the largest score, and the sum of
        ``exp(score - maximum)``. Where all scores are ``-inf``: ``-inf`` and 0.
    """
    # TODO lab6.online_softmax: A softmax in one pass
    raise NotImplementedError("TODO lab6.online_softmax: to be written")


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    block_q: int,
    block_k: int,
) -> torch.Tensor:
    """Scaled dot-product attention, tile by tile, with memory that grows with the length only.

    Scores, maximum, sum and accumulated output are float32, whatever the dtype of ``q``. Tiles
    that causality hides altogether are not computed.

    Args:
        q: ``[B, heads, q_len, head_dim]``.
        k: ``[B, kv_heads, kv_len, head_dim]``. Query head ``h`` looks at kv head
            ``h // (heads // kv_heads)``.
        v: like ``k``.
        causal: whether keys are hidden: the last query sees all of them, the one before it all
            but the last one, and so on. ``kv_len`` is at least ``q_len``.
        block_q: queries in a tile; lengths need not be multiples.
        block_k: keys in a tile.

    Returns:
        ``[B, heads, q_len, head_dim]`` in the dtype of ``q``; scores are divided by the root of
        ``head_dim``.
    """
    # TODO lab6.flash_attention: FlashAttention
    raise NotImplementedError("TODO lab6.flash_attention: to be written")
