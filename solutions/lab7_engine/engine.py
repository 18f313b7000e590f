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
        # BEGIN SOLUTION lab7.prefix_cache
        self.num_blocks, self.block_size = num_blocks, block_size
        self._owners = Counter[int]()
        self._free = deque(range(num_blocks))  # no owner, and nothing that can be found
        self._idle: OrderedDict[int, None] = OrderedDict()  # no owner, but known; oldest first
        self._known: dict[bytes, int] = {}  # digest of all tokens up to a block's end -> block
        self._digest: dict[int, bytes] = {}  # the inverse
        # END SOLUTION

    def _digests(self, tokens: Sequence[int]) -> Iterator[bytes]:
        """Yield for each full block of a text what it is known by."""
        # BEGIN SOLUTION lab7.prefix_cache
        digest, size = b"", self.block_size
        for end in range(size, len(tokens) + 1, size):
            digest = hashlib.sha256(digest + array("q", tokens[end - size : end])).digest()
            yield digest
        # END SOLUTION

    @property
    def available(self) -> int:
        """How many blocks nobody owns, known ones included."""
        # BEGIN SOLUTION lab7.prefix_cache
        return len(self._free) + len(self._idle)
        # END SOLUTION

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
        # BEGIN SOLUTION lab7.prefix_cache
        found = []
        for digest in self._digests(tokens[:-1]):
            if digest not in self._known:
                break
            found.append(self._known[digest])
        for block in found:
            self._owners[block] += 1
            self._idle.pop(block, None)
        return found
        # END SOLUTION

    def allocate(self, count: int) -> list[int]:
        """Take blocks that nobody owns, to be written anew; each then has one owner.

        Blocks that are not known come first. Only when there are no others are known ones taken,
        and forgotten: those without an owner for the longest time first.

        Raises:
            OutOfBlocks: fewer than ``count`` are available; nothing changes then.
        """
        # BEGIN SOLUTION lab7.prefix_cache
        if count > self.available:
            raise OutOfBlocks(f"{count} blocks are wanted, {self.available} are available")
        taken: list[int] = []
        while len(taken) < count:
            if self._free:
                block = self._free.popleft()
            else:
                block, _ = self._idle.popitem(last=False)
                del self._known[self._digest.pop(block)]
            self._owners[block] = 1
            taken.append(block)
        return taken
        # END SOLUTION

    def fill(self, block: int, tokens: Sequence[int]) -> None:
        """Make a block known that has just become full.

        A beginning that is known already keeps the block it has; ``block`` then stays unknown.

        Args:
            block: the one that holds the last ``block_size`` of ``tokens``; somebody owns it.
            tokens: all ids from the first of the text to the last of this block.
        """
        # BEGIN SOLUTION lab7.prefix_cache
        *_, digest = self._digests(tokens)
        if digest not in self._known:
            self._known[digest], self._digest[block] = block, digest
        # END SOLUTION

    def release(self, blocks: Sequence[int]) -> None:
        """Take one owner from each of ``blocks``, a text's blocks in order; nobody names one twice.

        A known block without owners can be found until it is taken anew. Of blocks that lose
        their last owner in one call, later ones are taken first: without the beginning of a text
        its end cannot be found.

        Raises:
            ValueError: nobody owns one of them; nothing changes then.
        """
        # BEGIN SOLUTION lab7.prefix_cache
        for block in blocks:
            if not self._owners[block]:
                raise ValueError(f"block {block} is given back, and nobody owns it")
        for block in reversed(blocks):
            self._owners[block] -= 1
            if self._owners[block]:
                continue
            if block in self._digest:
                self._idle[block] = None
            else:
                self._free.append(block)
        # END SOLUTION


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
        # BEGIN SOLUTION lab7.scheduler
        if token_budget < max_running:
            raise ValueError(f"a budget of {token_budget} tokens for {max_running} requests")
        self.cache, self.token_budget, self.max_running = cache, token_budget, max_running
        self.waiting: list[Progress] = []  # both in order, the oldest first
        self.running: list[Progress] = []
        self._scheduled: list[tuple[Progress, int]] = []  # who computes how many in this step
        self._added = 0
        # END SOLUTION

    def add(self, request: Request) -> None:
        """Put a request in line, at first or between two steps, perhaps long before its arrival.

        Raises:
            ValueError: it has no prompt or asks for no token, or it could never fit: its tokens,
                except for the last new one, which is never computed, need more blocks than the
                cache has. It is not in line then.
        """
        # BEGIN SOLUTION lab7.scheduler
        most = len(request.prompt) + request.max_new_tokens - 1
        if not request.prompt or request.max_new_tokens < 1:
            raise ValueError(f"request {request.id} has no prompt, or asks for nothing")
        if most > self.cache.num_blocks * self.cache.block_size:
            raise ValueError(f"request {request.id} has {most} tokens, too many for all blocks")
        self._added += 1
        self.waiting.append(Progress(request, (request.arrival, self._added)))
        self.waiting.sort(key=lambda one: one.order)
        # END SOLUTION

    def _lacking(self, one: Progress, tokens: int) -> int:
        """How many blocks ``one`` has to get before so many of its tokens have a place."""
        # BEGIN SOLUTION lab7.scheduler
        return -(-tokens // self.cache.block_size) - len(one.blocks)
        # END SOLUTION

    def _preempt(self) -> None:
        """Send the youngest of those that run back to the line, without its blocks."""
        # BEGIN SOLUTION lab7.scheduler
        youngest = self.running.pop()
        self.cache.release(youngest.blocks)
        youngest.blocks, youngest.computed = [], 0
        self.waiting.append(youngest)
        self.waiting.sort(key=lambda one: one.order)
        # END SOLUTION

    def _admit(self, one: Progress) -> bool:
        """Let ``one`` in, with blocks for its whole text; False, and nothing, if it lacks some."""
        # BEGIN SOLUTION lab7.scheduler
        one.blocks = self.cache.match(one.tokens)
        if self._lacking(one, len(one.tokens)) > self.cache.available:
            self.cache.release(one.blocks)
            one.blocks = []
            return False
        one.computed = len(one.blocks) * self.cache.block_size
        one.blocks += self.cache.allocate(self._lacking(one, len(one.tokens)))
        self.waiting.remove(one)
        self.running.append(one)
        self.running.sort(key=lambda other: other.order)
        return True
        # END SOLUTION

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
        # BEGIN SOLUTION lab7.scheduler
        works: list[Work] = []
        self._scheduled = []
        budget, room = self.token_budget, True

        def schedule(one: Progress, count: int) -> int:
            start, end = one.computed, one.computed + count
            self._scheduled.append((one, count))
            tokens, last = tuple(one.tokens[start:end]), end == len(one.tokens)
            works.append(Work(one.request.id, start, tokens, tuple(one.blocks), last))
            return count

        for one in [one for one in self.running if one.left == 1]:
            while (
                one in self.running and self._lacking(one, len(one.tokens)) > self.cache.available
            ):
                self._preempt()
                room = False
            if one in self.running:
                one.blocks += self.cache.allocate(self._lacking(one, len(one.tokens)))
                budget -= schedule(one, 1)
        for one in [one for one in self.running if one.left > 1]:
            if budget:
                budget -= schedule(one, min(one.left, budget))
        while room and budget and len(self.running) < self.max_running and self.waiting:
            first = self.waiting[0]
            if first.request.arrival > now or not self._admit(first):
                break
            budget -= schedule(first, min(first.left, budget))
        return Batch(tuple(works))
        # END SOLUTION

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
        # BEGIN SOLUTION lab7.scheduler
        finished = []
        for one, count in self._scheduled:
            size, number = self.cache.block_size, one.request.id
            full = range(one.computed // size, (one.computed + count) // size)
            for place in full:
                self.cache.fill(one.blocks[place], one.tokens[: (place + 1) * size])
            one.computed += count
            if number in sampled:
                one.tokens.append(sampled[number])
            if one.made == one.request.max_new_tokens or number in stopped:
                self.cache.release(one.blocks)
                self.running.remove(one)
                finished.append(number)
        return finished
        # END SOLUTION


class _Text:
    """What a request has said, how much of it was passed on, and its generator."""

    def __init__(self, request: Request) -> None:
        """Nothing is said yet."""
        # BEGIN SOLUTION lab7.engine
        self.request, self.text, self.shown, self.stopped = request, "", 0, False
        self.generator = torch.Generator().manual_seed(request.seed)
        # END SOLUTION

    def add(self, word: str) -> None:
        """Take a word, and look whether the text stops."""
        # BEGIN SOLUTION lab7.engine
        self.text += word
        ends = [self.text.find(stop) for stop in self.request.stop if stop in self.text]
        if ends:
            self.text, self.stopped = self.text[: min(ends)], True
        # END SOLUTION

    def piece(self, finished: bool) -> str:
        """Return the text that may be passed on now and has not been yet."""
        # BEGIN SOLUTION lab7.engine
        end = len(self.text)
        if not finished:
            stops, places = self.request.stop, range(self.shown, end)
            held = (at for at in places if any(s.startswith(self.text[at:]) for s in stops))
            end = next(held, end)
        piece, self.shown = self.text[self.shown : end], end
        return piece
        # END SOLUTION


class Engine:
    """A model, a scheduler, and the loop around them."""

    def __init__(self, model: Callable[..., Tensor], scheduler: Any, words: Sequence[str]) -> None:
        """Nothing is asked yet.

        Args:
            model: called as :class:`labs.given.serving.PagedModel` is.
            scheduler: a :class:`Scheduler`, or what is used as one.
            words: the text of every token id.
        """
        # BEGIN SOLUTION lab7.engine
        self.model, self.scheduler, self.words = model, scheduler, words
        # END SOLUTION

    def _logits(self, batch: Batch) -> Tensor:
        """Call the model on a batch, whose works lie flat, one after the other: ``[T, vocab]``."""
        # BEGIN SOLUTION lab7.engine
        works = batch.works
        size = max(len(work.blocks) for work in works)
        counts = torch.tensor([0, *(len(work.tokens) for work in works)])
        starts = torch.tensor([work.start for work in works])
        return self.model(
            torch.tensor([token for work in works for token in work.tokens]),
            torch.cat([work.start + torch.arange(len(work.tokens)) for work in works]),
            counts.cumsum(dim=0),  # [works + 1]
            torch.tensor([[*work.blocks, *[-1] * (size - len(work.blocks))] for work in works]),
            starts + counts[1:],  # context_lens [works]
        )
        # END SOLUTION

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
        # BEGIN SOLUTION lab7.engine
        texts = {request.id: _Text(request) for request in requests}
        for one in texts.values():
            self.scheduler.add(one.request)
        for now in itertools.count():
            if not self.scheduler.waiting and not self.scheduler.running:
                return
            batch = self.scheduler.step(now)
            if not batch.works:
                continue
            logits, end, sampled = self._logits(batch), 0, {}
            for work in batch.works:
                end += len(work.tokens)
                if work.sample:
                    one = texts[work.request]
                    token = sample(logits[end - 1], one.request.temperature, one.generator)
                    sampled[work.request] = token
                    one.add(self.words[token])
            stopped = [number for number in sampled if texts[number].stopped]
            finished = self.scheduler.update(sampled, stopped)
            for number in sampled:
                if piece := texts[number].piece(number in finished):
                    yield number, piece
        # END SOLUTION

    def generate(self, requests: Iterable[Request]) -> dict[int, str]:
        """Serve requests to their end; gives the text of each, also an empty one, by its id."""
        # BEGIN SOLUTION lab7.engine
        requests = list(requests)
        texts = {request.id: "" for request in requests}
        for number, piece in self.stream(requests):
            texts[number] += piece
        return texts
        # END SOLUTION


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
    # BEGIN SOLUTION lab7.accept
    kept: list[int] = []
    for token, q_row, p_row, uniform in zip(tokens.tolist(), q, p, uniforms, strict=False):
        if uniform >= p_row[token] / q_row[token]:
            residual = (p_row - q_row).clamp(min=0)
            return [*kept, choose(residual / residual.sum(), uniforms[-1])]
        kept.append(token)
    return [*kept, choose(p[-1], uniforms[-1])]
    # END SOLUTION


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
    # BEGIN SOLUTION lab7.speculation
    text, rows = list(tokens), []
    for uniform in uniforms[:count]:
        rows.append(probabilities(draft(torch.tensor(text))[-1], temperature))
        text.append(choose(rows[-1], uniform))
    p = probabilities(target(torch.tensor(text))[-count - 1 :], temperature)  # [count + 1, vocab]
    return accept(torch.tensor(text[-count:]), torch.stack(rows), p, uniforms[count:])
    # END SOLUTION
