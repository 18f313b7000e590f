# Generated from the course's sources (stub 1dffb37538d4): fill in the TODOs.
"""Lab 7, part 1: keys and values in blocks, block tables, and attention that reads through them.

Fill in every TODO. Tokens of all sequences lie side by side, ``[tokens, heads, head_dim]``, as in
lab 5; keys and values lie in a pool of blocks, ``[num_blocks, block_size, kv_heads, head_dim]``.
Source: Kwon et al. 2023 (PagedAttention) for the blocks, ``vllm/v1/core/block_pool.py`` of vLLM
for their owners, ``transformers/models/qwen3/modeling_qwen3.py`` for the numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from labs.given.norm import RMSNorm


class OutOfBlocks(RuntimeError):
    """The pool does not have as many blocks left as were asked for."""


class BlockPool:
    """Keys and values of one layer, in blocks of equal size, and who owns which block.

    A block can have several owners: sequences that begin alike. It is available when it has none.

    Attributes: ``keys`` and ``values``, ``[num_blocks, block_size, kv_heads, head_dim]``, zeros at
    first: all sizes can be read there. Blocks are referred to by number, from 0 on; nobody owns any
    other number, such as -1.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        kv_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Make ``num_blocks`` blocks for ``block_size`` tokens each, all of them available."""
        # TODO lab7.block_pool: A pool of blocks
        raise NotImplementedError("TODO lab7.block_pool: to be written")

    @property
    def available(self) -> int:
        """How many blocks nobody owns."""
        # TODO lab7.block_pool: A pool of blocks
        raise NotImplementedError("TODO lab7.block_pool: to be written")

    def allocate(self, count: int = 1) -> list[int]:
        """Give away ``count`` available blocks, in any order; each has one owner then.

        Args:
            count: 0 or more.

        Raises:
            OutOfBlocks: there are not so many; then none is given away. The text says how many
                were asked for.
        """
        # TODO lab7.block_pool: A pool of blocks
        raise NotImplementedError("TODO lab7.block_pool: to be written")

    def share(self, block: int) -> None:
        """Give a block one more owner.

        Raises:
            ValueError: nobody owns it.
        """
        # TODO lab7.block_pool: A pool of blocks
        raise NotImplementedError("TODO lab7.block_pool: to be written")

    def free(self, block: int) -> None:
        """Take one owner from a block; when it has none left, it is available again.

        Raises:
            ValueError: nobody owns it.
        """
        # TODO lab7.block_pool: A pool of blocks
        raise NotImplementedError("TODO lab7.block_pool: to be written")

    def references(self, block: int) -> int:
        """How many owners a block has."""
        # TODO lab7.block_pool: A pool of blocks
        raise NotImplementedError("TODO lab7.block_pool: to be written")


class BlockTable:
    """The blocks of one sequence, in the order of its tokens.

    Attributes: ``pool``, ``blocks`` (a list of numbers, as many as the tokens need, no more) and
    ``length`` (tokens stored). Token ``t`` lies in block ``blocks[t // block_size]``, at place
    ``t % block_size``.
    """

    def __init__(self, pool: BlockPool) -> None:
        """Make a table without tokens, which owns no block."""
        # TODO lab7.block_table: A sequence in a block table
        raise NotImplementedError("TODO lab7.block_table: to be written")

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store tokens behind those stored so far: first in what the last block has left.

        No block is taken before a token needs it. Where the first of these tokens would go into a
        block that has other owners, too, it goes into a copy of that block instead, which this
        table then owns in its place (copy on write). Nothing else is ever copied.

        Args:
            k: ``[tokens, kv_heads, head_dim]`` in the pool's dtype; tokens may be 0.
            v: like ``k``.

        Raises:
            OutOfBlocks: the pool has not enough blocks; then table and pool are as before.
        """
        # TODO lab7.block_table: A sequence in a block table
        raise NotImplementedError("TODO lab7.block_table: to be written")

    def fork(self) -> BlockTable:
        """Return a table with the same tokens that owns the same blocks, too; none is copied."""
        # TODO lab7.block_table: A sequence in a block table
        raise NotImplementedError("TODO lab7.block_table: to be written")

    def free(self) -> None:
        """Give all blocks back (other owners keep theirs); the table is without tokens then."""
        # TODO lab7.block_table: A sequence in a block table
        raise NotImplementedError("TODO lab7.block_table: to be written")


def paged_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    cu_seqlens: torch.Tensor,
) -> torch.Tensor:
    """Causal attention of new tokens over keys and values that lie in blocks.

    The queries of a sequence are its last tokens: all of them (a prompt), some (a chunk of one) or
    one (decoding), in one call side by side. Scores and softmax are float32. At no time are the
    keys of more than one sequence gathered, nor is more of the pool converted or repeated.

    Args:
        q: ``[tokens, heads, head_dim]``, the queries of all sequences.
        keys: ``[num_blocks, block_size, kv_heads, head_dim]`` in the dtype of ``q``;
            ``heads / kv_heads`` neighbours share a kv head. Places that hold none of a sequence's
            tokens may hold any finite numbers.
        values: like ``keys``.
        block_tables: int64 ``[sequences, most blocks]``: the blocks of each sequence in the order
            of its tokens, then -1.
        context_lens: whole numbers ``[sequences]``: tokens of each sequence, the new ones
            included.
        cu_seqlens: whole numbers ``[sequences + 1]``, from 0 to tokens: the queries of sequence
            ``i`` are those from ``cu_seqlens[i]`` up to, and without, ``cu_seqlens[i + 1]``. Each
            sequence has at least one; its last query is the last of its tokens.

    Returns:
        ``[tokens, heads, head_dim]`` in the dtype of ``q``; scores are divided by the root of
        ``head_dim``.
    """
    # TODO lab7.paged_attention: Attention through block tables
    raise NotImplementedError("TODO lab7.paged_attention: to be written")


def rotate(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    """Rotate the pairs ``(x_j, x_{j + head_dim/2})`` of every head; in lab 5 you wrote the same.

    Args:
        x: ``[tokens, heads, head_dim]``.
        positions: ``[tokens]``; at position ``p`` the angle of pair ``j`` is
            ``p * theta ** (-2j / head_dim)``, in float32 whatever the dtype of ``x``.
        theta: base of the frequencies.

    Returns:
        Like ``x``, which is left as it was.
    """
    # TODO lab7.attention: Qwen3 on pages
    raise NotImplementedError("TODO lab7.attention: to be written")


class Qwen3Attention(nn.Module):
    """Attention of Qwen3 on flat tokens whose keys and values are kept in blocks.

    Modules, by the names of Hugging Face: ``q_proj k_proj v_proj o_proj`` (``nn.Linear`` without
    bias), ``q_norm k_norm`` (the given ``RMSNorm`` over ``head_dim``).
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        rms_norm_eps: float,
        rope_theta: float,
    ) -> None:
        """Make the modules."""
        super().__init__()
        # TODO lab7.attention: Qwen3 on pages
        raise NotImplementedError("TODO lab7.attention: to be written")

    @torch.no_grad()
    def forward(
        self,
        positions: torch.Tensor,
        x: torch.Tensor,
        tables: Sequence[BlockTable],
        cu_seqlens: torch.Tensor,
    ) -> torch.Tensor:
        """Store keys and values of the new tokens, and let them gather from all before them.

        Args:
            positions: ``[tokens]``, by which queries and keys are rotated.
            x: ``[tokens, hidden_size]``, the new tokens of all sequences.
            tables: one for each sequence, with the tokens of earlier calls, all of one pool, which
                has blocks enough for the new ones. They hold these, too, when the call returns.
                Anything with the ``pool``, ``blocks``, ``length`` and ``append`` of a
                :class:`BlockTable` will do.
            cu_seqlens: ``[sequences + 1]``, as in :func:`paged_attention`.

        Returns:
            ``[tokens, hidden_size]`` in the dtype of ``x``.
        """
        # TODO lab7.attention: Qwen3 on pages
        raise NotImplementedError("TODO lab7.attention: to be written")
