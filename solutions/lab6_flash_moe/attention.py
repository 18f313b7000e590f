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
    # BEGIN SOLUTION lab6.online_softmax
    maximum, total = torch.tensor(-torch.inf), torch.tensor(0.0)
    for block in blocks:
        scores = block.float()
        new = torch.maximum(maximum, scores.amax(-1))
        # Where nothing has been seen yet, -inf - (-inf) would be NaN.
        shift = new.masked_fill(new == -torch.inf, 0.0)
        # What was summed up before was measured from the old maximum.
        total = total * (maximum - shift).exp() + (scores - shift[..., None]).exp().sum(-1)
        maximum = new
    return maximum, total
    # END SOLUTION


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
    # BEGIN SOLUTION lab6.flash_attention
    _, heads, q_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1:3]
    group = heads // kv_heads
    offset = kv_len - q_len  # query i stands where key i + offset stands
    out = torch.empty_like(q)

    for first in range(0, q_len, block_q):
        last = min(first + block_q, q_len)
        queries = q[:, :, first:last].float() * head_dim**-0.5  # [B, heads, rows, head_dim]
        maximum = queries.new_full((*queries.shape[:3], 1), -torch.inf)
        total = torch.zeros_like(maximum)
        mixed = torch.zeros_like(queries)

        end = last + offset if causal else kv_len  # no query of this tile sees further
        for start in range(0, end, block_k):
            stop = min(start + block_k, end)
            keys = k[:, :, start:stop].float().repeat_interleave(group, dim=1)
            values = v[:, :, start:stop].float().repeat_interleave(group, dim=1)

            scores = queries @ keys.transpose(-1, -2)  # [B, heads, rows, columns]
            if causal and stop - 1 > first + offset:
                row = torch.arange(first, last, device=q.device)[:, None] + offset
                column = torch.arange(start, stop, device=q.device)
                scores = scores.masked_fill(column > row, -torch.inf)

            # The first tile holds a key that every query sees: no maximum stays at -inf.
            new = torch.maximum(maximum, scores.amax(-1, keepdim=True))
            weights = (scores - new).exp()
            rescale = (maximum - new).exp()
            total = total * rescale + weights.sum(-1, keepdim=True)
            mixed = mixed * rescale + weights @ values
            maximum = new

        out[:, :, first:last] = (mixed / total).to(q.dtype)
    return out
    # END SOLUTION
