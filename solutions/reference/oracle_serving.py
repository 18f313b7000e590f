"""What is right in lab 7's engine, step by step in plain Python: who computes what, and the text.

Written apart from the solution: one dict per request, everything looked up anew in every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from labs.given.serving import Request, choose, probabilities, row_of, sample

Reply = Callable[[Request, list[int]], tuple[int, bool]]  # the next token, and whether it ends


@dataclass
class Step:
    """One step: works ``(id, start, tokens, blocks, sample)``, and who is at the end.

    A block that was found is -1 here; ``available`` are those that nobody owns once it is decided
    what is computed, and before anybody is at the end.
    """

    now: int
    works: list[tuple[int, int, list[int], list[int], bool]] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    available: int = 0


def schedule(
    requests: Sequence[Request],
    reply: Reply,
    *,
    num_blocks: int,
    block_size: int,
    budget: int,
    max_running: int,
    found: Mapping[int, int] | None = None,
) -> list[Step]:
    """All steps up to the last text's end; ``found`` are tokens that a cache holds, by request.

    What it does not list is computed whole; where it lists any, nobody may have to go back, and
    the blocks that hold them are none of ``num_blocks``.
    """
    age = {r.id: (r.arrival, place) for place, r in enumerate(requests)}
    by_id = {r.id: r for r in requests}
    text = {r.id: list(r.prompt) for r in requests}
    done: dict[int, int] = {}  # tokens computed, of those that run
    table: dict[int, list[int]] = {}
    line, free, steps = set(by_id), list(range(num_blocks))[::-1], list[Step]()
    while line or done:
        this = Step(len(steps))
        left = budget

        def work(number: int, count: int, this: Step = this) -> None:
            start = done[number]
            tokens = text[number][start : start + count]
            last = start + count == len(text[number])
            this.works.append((number, start, tokens, list(table[number]), last))

        for number in sorted(done, key=age.__getitem__):
            if number not in done or len(text[number]) - done[number] > 1:
                continue
            if len(text[number]) > len(table[number]) * block_size:
                while number in done and not free:
                    victim = max(done, key=age.__getitem__)
                    del done[victim]
                    free.extend(table.pop(victim))
                    line.add(victim)
                    this.preempted.append(victim)
                if number not in done:
                    continue
                table[number].append(free.pop())
            work(number, 1)
            left -= 1
        begun = {number for number, *_ in this.works}
        for number in sorted(set(done) - begun, key=age.__getitem__):
            count = min(left, len(text[number]) - done[number])
            if count:
                work(number, count)
            left -= count
        for number in sorted(line, key=age.__getitem__):
            held = (found or {}).get(number, 0)
            wanted = -(-len(text[number]) // block_size) - held // block_size
            full = left == 0 or len(done) == max_running or wanted > len(free)
            if this.preempted or full or by_id[number].arrival > this.now:
                break
            table[number] = [-1] * (held // block_size) + [free.pop() for _ in range(wanted)]
            done[number] = held
            line.discard(number)
            count = min(left, len(text[number]) - done[number])
            work(number, count)
            left -= count
        this.available = len(free)
        for number, _, tokens, _, last in this.works:
            done[number] += len(tokens)
            if not last:
                continue
            token, ends = reply(by_id[number], text[number])
            text[number].append(token)
            if (
                ends
                or len(text[number]) == len(by_id[number].prompt) + by_id[number].max_new_tokens
            ):
                this.finished.append(number)
                del done[number]
                free.extend(block for block in table.pop(number) if block >= 0)
        steps.append(this)
    return steps


class Speaker:
    """One request by itself: its tokens, one by one, each with the text that may be shown."""

    def __init__(self, request: Request, table: torch.Tensor, words: Sequence[str]) -> None:
        self.request, self.table, self.words = request, table, words
        self._generator = torch.Generator().manual_seed(request.seed)
        self.text, self.stopped = "", False
        self.shown: list[int] = []  # characters that may be passed on after each token

    def next(self, tokens: Sequence[int]) -> tuple[int, bool]:
        """The token that follows, and whether it ends the text."""
        logits = self.table[row_of(tokens, len(self.table))]
        token = sample(logits, self.request.temperature, self._generator)
        self.text += self.words[token]
        found = [at for stop in self.request.stop if (at := self.text.find(stop)) >= 0]
        if found:
            self.stopped, self.text = True, self.text[: min(found)]
        made = len(tokens) + 1 - len(self.request.prompt)
        whole = self.stopped or made == self.request.max_new_tokens
        self.shown.append(len(self.text) - (0 if whole else self._held()))
        return token, self.stopped

    def _held(self) -> int:
        """Characters at the end that may begin a stop word."""
        lengths = range(len(self.text), 0, -1)
        ends = ((n, self.text[-n:]) for n in lengths)
        return next((n for n, end in ends if any(s[:n] == end for s in self.request.stop)), 0)


def alone(request: Request, table: torch.Tensor, words: Sequence[str]) -> Speaker:
    """A request served to its end, with nobody else."""
    speaker, tokens = Speaker(request, table, words), list(request.prompt)
    ends = False
    while not ends and len(tokens) < len(request.prompt) + request.max_new_tokens:
        token, ends = speaker.next(tokens)
        tokens.append(token)
    return speaker


def speculate(
    draft: torch.Tensor,
    target: torch.Tensor,
    tokens: Sequence[int],
    count: int,
    temperature: float,
    uniforms: Sequence[float],
) -> tuple[list[int], float]:
    """New tokens of one speculative step; and how near a number came to where it would turn."""

    def row(table: torch.Tensor, text: Sequence[int]) -> torch.Tensor:
        return probabilities(table[row_of(text, len(table))], temperature)

    near = [1.0]

    def pick(shares: torch.Tensor, uniform: float) -> int:
        ends = shares.cumsum(0)
        near.append(float((ends[:-1] - uniform).abs().min()))
        return choose(shares, uniform)

    text, proposed, rows = list(tokens), list[int](), list[Any]()
    for place in range(count):
        rows.append(row(draft, text))
        proposed.append(pick(rows[-1], uniforms[place]))
        text.append(proposed[-1])
    made: list[int] = []
    for place, token in enumerate(proposed):
        p, q = row(target, [*tokens, *made]), rows[place]
        ratio = float(p[token] / q[token])
        near.append(abs(ratio - uniforms[count + place]))
        if uniforms[count + place] >= ratio:
            residual = torch.maximum(p - q, torch.zeros_like(p))
            return [*made, pick(residual / residual.sum(), uniforms[-1])], min(near)
        made.append(token)
    return [*made, pick(row(target, text), uniforms[-1])], min(near)


@dataclass
class _Block:
    """A block of the plainest cache: what it holds, who owns it, and when it last lost an owner."""

    text: tuple[int, ...] = ()  # all tokens up to its end, once it is known
    owners: int = 0
    left: int = -1


class Blocks:
    """A prefix cache that looks through all its blocks, and keeps whole texts."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.blocks = [_Block() for _ in range(num_blocks)]
        self.block_size, self._clock = block_size, 0

    @property
    def available(self) -> int:
        """Blocks without an owner."""
        return sum(not block.owners for block in self.blocks)

    def match(self, tokens: Sequence[int]) -> list[_Block]:
        """Known blocks, each with one more owner."""
        found: list[_Block] = []
        for end in range(self.block_size, len(tokens), self.block_size):
            same = [block for block in self.blocks if block.text == tuple(tokens[:end])]
            if not same:
                break
            found += same
        for block in found:
            block.owners += 1
        return found

    def allocate(self, count: int) -> list[_Block] | None:
        """Unknown blocks first, then by when they lost their last owner; None if too few."""
        idle = [block for block in self.blocks if not block.owners]
        if count > len(idle):
            return None
        taken = sorted(idle, key=lambda block: (bool(block.text), block.left))[:count]
        for block in taken:
            block.text, block.owners = (), 1
        return taken

    def fill(self, block: _Block, tokens: Sequence[int]) -> None:
        """Known from now on, if the text is not known yet."""
        if all(other.text != tuple(tokens) for other in self.blocks):
            block.text = tuple(tokens)

    def release(self, blocks: Sequence[_Block]) -> None:
        """One owner fewer, the last block first."""
        for block in reversed(blocks):
            block.owners -= 1
            self._clock += 1
            block.left = self._clock
