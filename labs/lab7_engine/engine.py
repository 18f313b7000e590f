# Generated from the course's sources (stub 3da74a8eddbf): fill in the TODOs.
"""Lab 7, part 3: the engine around a model: blocks that are found again, a scheduler, a loop.

Fill in every TODO. Names that begin with ``_`` are suggestions: use them, change them, or leave
them out. A block is a number here: what stands in blocks is the model's business. The sequences of
many requests share one pool of blocks, and every step computes one flat batch of their tokens.
Source: nano-vllm, ``nanovllm/engine/block_manager.py``, ``scheduler.py`` and
``llm_engine.py``; Leviathan et al. 2023, https://arxiv.org/abs/2211.17192, algorithm 1.
"""

from __future__ import annotations

import hashlib
import itertools
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from labs.given.serving import (
    Batch,
    OutOfBlocks,
    Progress,
    Request,
    Work,
    choose,
    probabilities,
    sample,
)


class PrefixCache:
    """Blocks of ``block_size`` tokens, each with a count of its owners; full ones are found again.

    Attributes:
        num_blocks: how many there are, numbered from 0; nobody owns any other number.
        block_size: tokens that a block holds.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        """At first nobody owns a block, and none is known."""
        # TODO lab7.prefix_cache: Blocks that are found again
        raise NotImplementedError("TODO lab7.prefix_cache: to be written")

    def _digests(self, tokens: Sequence[int]) -> Iterator[bytes]:
        """Yield for each full block of a text what it is known by."""
        # TODO lab7.prefix_cache: Blocks that are found again
        raise NotImplementedError("TODO lab7.prefix_cache: to be written")

    @property
    def available(self) -> int:
        """How many blocks nobody owns, known ones included."""
        # TODO lab7.prefix_cache: Blocks that are found again
        raise NotImplementedError("TODO lab7.prefix_cache: to be written")

    def match(self, tokens: Sequence[int]) -> list[int]:
        """Find the blocks that hold the beginning of ``tokens`` already.

        Goes from block to block as far as they are known. At least one token is left over, since
        somebody has to compute the scores of the next one: if a text ends with a full block, that
        last block is not returned.

        Args:
            tokens: ids of a whole text, at least one; signed 64-bit integers. Different
                beginnings are never taken for each other, not even where Python's ``hash`` is
                the same for both.

        Returns:
            The blocks in order, each with one more owner.
        """
        # TODO lab7.prefix_cache: Blocks that are found again
        raise NotImplementedError("TODO lab7.prefix_cache: to be written")

    def allocate(self, count: int) -> list[int]:
        """Take blocks that nobody owns, to be written anew; each then has one owner.

        Blocks that are not known come first. Only when there are no others are known ones taken,
        and forgotten: those without an owner for the longest time first.

        Raises:
            OutOfBlocks: fewer than ``count`` are available; nothing changes then.
        """
        # TODO lab7.prefix_cache: Blocks that are found again
        raise NotImplementedError("TODO lab7.prefix_cache: to be written")

    def fill(self, block: int, tokens: Sequence[int]) -> None:
        """Make a block known that has just become full.

        A beginning that is known already keeps the block it has; ``block`` then stays unknown.

        Args:
            block: the one that holds the last ``block_size`` of ``tokens``; somebody owns it.
            tokens: all ids from the first of the text to the last of this block.
        """
        # TODO lab7.prefix_cache: Blocks that are found again
        raise NotImplementedError("TODO lab7.prefix_cache: to be written")

    def release(self, blocks: Sequence[int]) -> None:
        """Take one owner from each of ``blocks``, a text's blocks in order; nobody names one twice.

        A known block without owners can be found until it is taken anew. Of blocks that lose
        their last owner in one call, later ones are taken first: without the beginning of a text
        its end cannot be found.

        Raises:
            ValueError: nobody owns one of them; nothing changes then.
        """
        # TODO lab7.prefix_cache: Blocks that are found again
        raise NotImplementedError("TODO lab7.prefix_cache: to be written")


class Scheduler:
    """Decides, step by step, which tokens of which requests are computed.

    Requests stand in order: by arrival, and those of one arrival as they were added. Who comes
    first in this order is *older*.

    Attributes:
        waiting: requests that own no blocks, in any container that has a ``len``.
        running: requests that own blocks, likewise.
    """

    def __init__(self, cache: Any, token_budget: int, max_running: int) -> None:
        """Starts out empty.

        Args:
            cache: a :class:`PrefixCache`, or what is used as one.
            token_budget: tokens that one step computes at most.
            max_running: requests that own blocks at a time, at most.

        Raises:
            ValueError: ``token_budget`` is below ``max_running``: each of those that run needs
                room for a token.
        """
        # TODO lab7.scheduler: The scheduler
        raise NotImplementedError("TODO lab7.scheduler: to be written")

    def add(self, request: Request) -> None:
        """Put a request in line, at first or between two steps, perhaps long before its arrival.

        Raises:
            ValueError: it has no prompt or asks for no token, or it could never fit: its tokens,
                except for the last new one, which is never computed, need more blocks than the
                cache has. It is not in line then.
        """
        # TODO lab7.scheduler: The scheduler
        raise NotImplementedError("TODO lab7.scheduler: to be written")

    def _lacking(self, one: Progress, tokens: int) -> int:
        """How many blocks ``one`` has to get before so many of its tokens have a place."""
        # TODO lab7.scheduler: The scheduler
        raise NotImplementedError("TODO lab7.scheduler: to be written")

    def _preempt(self) -> None:
        """Send the youngest of those that run back to the line, without its blocks."""
        # TODO lab7.scheduler: The scheduler
        raise NotImplementedError("TODO lab7.scheduler: to be written")

    def _admit(self, one: Progress) -> bool:
        """Let ``one`` in, with blocks for its whole text; False, and nothing, if it lacks some."""
        # TODO lab7.scheduler: The scheduler
        raise NotImplementedError("TODO lab7.scheduler: to be written")

    def step(self, now: int) -> Batch:
        """Decide what is computed next.

        1. Each request that runs and lacks nothing but its newest token gets it computed, the
           oldest first. Where that token needs a block and none is available, the youngest of all
           that run goes back to the line: it gives its blocks back and keeps its text, generated
           tokens included, which is computed again later. It may be the one that needs the block.
        2. Others that run get as many tokens computed as the remaining budget allows, oldest first.
        3. Then, unless somebody went back in this step, those in line that have arrived
           (``arrival <= now``) come in, the oldest first, while budget is left and fewer than
           ``max_running`` run. What the cache finds of the text is not computed and takes
           nothing of the budget; blocks for the rest of it are allocated at once, and as many
           tokens computed as the remaining budget allows. If there are too few blocks for a
           request, neither it nor anybody behind it comes in.

        Returns:
            A batch with at most ``token_budget`` tokens, of each request in one work at most.
        """
        # TODO lab7.scheduler: The scheduler
        raise NotImplementedError("TODO lab7.scheduler: to be written")

    def update(self, sampled: Mapping[int, int], stopped: Collection[int] = ()) -> list[int]:
        """Take note that the last batch was computed; not called for one that holds no work.

        Every block that became full, with prompt or new tokens, is made known to the cache (found
        ones are already). Who has all new tokens, or has stopped, is finished: its blocks go back.

        Args:
            sampled: the next token of every work with ``sample``, by request id.
            stopped: ids of those whose text ends here.

        Returns:
            The ids of those that are finished.
        """
        # TODO lab7.scheduler: The scheduler
        raise NotImplementedError("TODO lab7.scheduler: to be written")


class _Text:
    """What a request has said, how much of it was passed on, and its generator."""

    def __init__(self, request: Request) -> None:
        """Nothing is said yet."""
        # TODO lab7.engine: The loop
        raise NotImplementedError("TODO lab7.engine: to be written")

    def add(self, word: str) -> None:
        """Take a word, and look whether the text stops."""
        # TODO lab7.engine: The loop
        raise NotImplementedError("TODO lab7.engine: to be written")

    def piece(self, finished: bool) -> str:
        """Return the text that may be passed on now and has not been yet."""
        # TODO lab7.engine: The loop
        raise NotImplementedError("TODO lab7.engine: to be written")


class Engine:
    """A model, a scheduler, and the loop around them."""

    def __init__(self, model: Callable[..., Tensor], scheduler: Any, words: Sequence[str]) -> None:
        """Nothing is asked yet.

        Args:
            model: called as :class:`labs.given.serving.PagedModel` is.
            scheduler: a :class:`Scheduler`, or what is used as one.
            words: the text of every token id.
        """
        # TODO lab7.engine: The loop
        raise NotImplementedError("TODO lab7.engine: to be written")

    def _logits(self, batch: Batch) -> Tensor:
        """Call the model on a batch, whose works lie flat, one after the other: ``[T, vocab]``."""
        # TODO lab7.engine: The loop
        raise NotImplementedError("TODO lab7.engine: to be written")

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, str]]:
        """Serve requests, and pass their text on while it grows.

        All are added to the scheduler first. Then, step by step, ``now`` counted from 0: for a
        batch that holds no work, neither the model nor ``update`` is called, and time goes on;
        any other is one call of the model, then one of ``update``, and then text is passed on.
        For every work with ``sample``, :func:`labs.given.serving.sample` chooses the next token
        from the scores of the work's last one, with the temperature and a generator of the
        request's own, which begins at its seed. It ends when nobody waits or runs.

        A text stops when what was generated holds a stop word, and ends before the first place
        where one stands. So text is passed on as soon as it cannot be part of a stop word, and
        no sooner; once a request is finished, all of it.

        Yields:
            ``(id, piece)``: pieces are not empty, and joined they are the text.
        """
        # TODO lab7.engine: The loop
        raise NotImplementedError("TODO lab7.engine: to be written")

    def generate(self, requests: Iterable[Request]) -> dict[int, str]:
        """Serve requests to their end; gives the text of each, also an empty one, by its id."""
        # TODO lab7.engine: The loop
        raise NotImplementedError("TODO lab7.engine: to be written")


def accept(tokens: Tensor, q: Tensor, p: Tensor, uniforms: Tensor) -> list[int]:
    """Decide how many of a draft's tokens stay, and choose the one that follows.

    Token ``i`` stays with probability ``min(1, p / q)`` of that token: if ``uniforms[i]`` is
    below ``p / q``. From the first that does not stay on all are dropped, and in its place comes
    a token of the *residual*: ``max(0, p - q)`` of that row, made to sum to one. If all stay, one
    more comes from the last row of ``p``. Either is chosen by :func:`labs.given.serving.choose`
    with the last of ``uniforms``. What comes out is distributed as if drawn from ``p`` alone.

    Args:
        tokens: int64 ``[k]``, the draft's.
        q: float64 ``[k, vocab]``, the distributions that the draft drew them from.
        p: float64 ``[k + 1, vocab]``, those of the target at the same places, and at the next.
        uniforms: float64 ``[k + 1]``, random numbers from 0 up to, but without, 1.

    Returns:
        One to ``k + 1`` tokens.
    """
    # TODO lab7.accept: Which tokens stay
    raise NotImplementedError("TODO lab7.accept: to be written")


def speculative_step(
    draft: Callable[[Tensor], Tensor],
    target: Callable[[Tensor], Tensor],
    tokens: Sequence[int],
    count: int,
    temperature: float,
    uniforms: Tensor,
) -> list[int]:
    """Let a small model propose tokens, and a large one judge all of them in one call.

    Args:
        draft: maps ids ``[T]`` to logits ``[T, vocab]``; called once for each proposed token.
        target: likewise; called once.
        tokens: the text so far, at least one id.
        count: how many tokens the draft proposes, at least 1.
        temperature: for both models, as :func:`labs.given.serving.probabilities` takes it; at 0
            the same rule keeps the tokens that the target finds likeliest, too.
        uniforms: float64 ``[2 * count + 1]``: the first ``count`` choose the draft's tokens, the
            others are those of :func:`accept`.

    Returns:
        One to ``count + 1`` new tokens.
    """
    # TODO lab7.speculation: A speculative step
    raise NotImplementedError("TODO lab7.speculation: to be written")
