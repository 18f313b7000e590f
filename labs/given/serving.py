"""Lab 7: what scheduler, engine and model hand to each other, and stand-ins for the parts around.

A stand-in is called as the real part is and does something simple instead, so that each exercise
is judged alone. ``PagedModel`` keeps token ids where a real model keeps keys and values: whoever
reads a wrong block gets another text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any

import torch


class OutOfBlocks(RuntimeError):
    """More blocks were asked for than are free."""


@dataclass(frozen=True)
class Request:
    """A prompt that waits for its text.

    Attributes:
        id: its number; no two requests have the same.
        prompt: token ids.
        max_new_tokens: how many tokens to make at most.
        arrival: the step from which on it may be served.
        stop: texts, none of them empty, each of which ends the generated text.
        temperature: 0 for the likeliest token, else what logits are divided by.
        seed: of the request's own generator.
    """

    id: int
    prompt: tuple[int, ...]
    max_new_tokens: int
    arrival: int = 0
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Work:
    """Tokens of one request that are computed in one step.

    Attributes:
        request: its id.
        start: the position of the first of the tokens.
        tokens: the ids to compute.
        blocks: the request's block table, at least up to the last of the tokens.
        sample: whether the last one is the newest token of the text, so that the next one follows.
    """

    request: int
    start: int
    tokens: tuple[int, ...]
    blocks: tuple[int, ...]
    sample: bool


@dataclass(frozen=True)
class Batch:
    """All that is computed in one step."""

    works: tuple[Work, ...] = ()


@dataclass(eq=False)
class Progress:
    """A request on its way through a scheduler, for those who want it.

    Attributes:
        request: what was asked.
        order: less for older ones.
        tokens: its text so far, prompt and new tokens; starts with the prompt.
        computed: how many of them stand in blocks.
        blocks: which these are.
    """

    request: Request
    order: tuple[int, int]
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = self.tokens or list(self.request.prompt)

    @property
    def left(self) -> int:
        """Tokens that are known and not computed."""
        return len(self.tokens) - self.computed

    @property
    def made(self) -> int:
        """Tokens that were generated."""
        return len(self.tokens) - len(self.request.prompt)


def probabilities(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """``[..., vocab]`` in float64; at temperature 0 the likeliest token has all of it."""
    if temperature:
        return (logits.double() / temperature).softmax(dim=-1)
    return torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).double()


def choose(shares: torch.Tensor, uniform: float | torch.Tensor) -> int:
    """The token whose part of the line from 0 to 1 holds ``uniform``; ``shares`` is ``[vocab]``."""
    return min(int((shares.cumsum(dim=0) <= float(uniform)).sum()), len(shares) - 1)


def sample(logits: torch.Tensor, temperature: float, generator: torch.Generator) -> int:
    """The next token of ``[vocab]`` scores; takes one number of the generator."""
    uniform = torch.rand((), generator=generator, dtype=torch.float64)
    return choose(probabilities(logits, temperature), uniform)


def row_of(tokens: Iterable[int], rows: int) -> int:
    """A number below ``rows`` in which every token and its place have a part."""
    value = 0
    for place, token in enumerate(tokens, start=1):
        value = (31 * value + place * (token + 2)) % 1_000_003
    return value % rows


class TextModel:
    """A language model that is a table: all tokens so far pick the row of scores.

    ``calls`` lists for every call how many tokens it was given.
    """

    def __init__(self, table: torch.Tensor) -> None:
        """``table``: ``[rows, vocab]``."""
        self.table, self.calls = table, list[int]()

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map ids ``[T]`` to logits ``[T, vocab]``: row ``t`` scores what follows token ``t``."""
        ids = tokens.tolist()
        self.calls.append(len(ids))
        rows = [row_of(ids[:end], len(self.table)) for end in range(1, len(ids) + 1)]
        return self.table[rows]


class PagedModel:
    """The same table behind blocks: tokens are written there, and read back by block tables.

    ``calls`` lists for every call how many tokens it was given, ``inputs`` for each of its
    sequences tokens, positions, block table and length of the context.
    """

    def __init__(self, table: torch.Tensor, num_blocks: int, block_size: int) -> None:
        """``table``: ``[rows, vocab]``."""
        self.table, self.block_size, self.calls = table, block_size, list[int]()
        self.inputs: list[list[list[Any]]] = []
        self.slots = [[-1] * block_size for _ in range(num_blocks)]

    def __call__(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        cu_seqlens: torch.Tensor,
        block_tables: torch.Tensor,
        context_lens: torch.Tensor,
    ) -> torch.Tensor:
        """Score what follows each token, of several sequences at once.

        Args:
            tokens: ids ``[T]`` of all sequences, one after the other.
            positions: ``[T]``, each token's place in its sequence.
            cu_seqlens: ``[n + 1]``; sequence ``i`` has tokens ``cu_seqlens[i]`` to
                ``cu_seqlens[i + 1]``.
            block_tables: ``[n, most blocks]``, filled up with -1.
            context_lens: ``[n]``, tokens of each sequence in all, those computed earlier included.

        Returns:
            Logits ``[T, vocab]``.
        """
        ids, places, ends, tables, lengths = (
            torch.as_tensor(given).tolist()
            for given in (tokens, positions, cu_seqlens, block_tables, context_lens)
        )
        self.calls.append(len(ids))
        if not ids or len(ids) != len(places) or ends[-1] != len(ids) or ends[0] != 0:
            raise ValueError(
                f"{len(ids)} tokens, {len(places)} positions and cu_seqlens {ends} do not fit"
            )
        if not len(ends) - 1 == len(tables) == len(lengths):
            raise ValueError(
                f"{len(ends) - 1} sequences, {len(tables)} block tables and {len(lengths)} "
                "context_lens do not fit"
            )
        parts = zip(ends, ends[1:], tables, lengths, strict=False)
        self.inputs.append([[ids[a:b], places[a:b], row, length] for a, b, row, length in parts])
        for row, table in enumerate(tables):  # all tokens are written before any is read
            for at in range(ends[row], ends[row + 1]):
                self._block(table, places[at])[places[at] % self.block_size] = ids[at]
        rows = []
        for row, (table, length) in enumerate(zip(tables, lengths, strict=True)):
            seen = [self._block(table, p)[p % self.block_size] for p in range(length)]
            for left in range(ends[row + 1] - ends[row] - 1, -1, -1):
                rows.append(row_of(seen[: length - left], len(self.table)))
        return self.table[rows]

    def _block(self, table: Sequence[int], place: int) -> list[int]:
        number = place // self.block_size
        if not 0 <= number < len(table) or table[number] < 0:
            raise IndexError(f"position {place} has no block in the table {list(table)}")
        return self.slots[table[number]]


class PlainCache:
    """Blocks as ``PrefixCache`` has them, but without its memory.

    It finds nothing but the texts that it was made with, which lie in blocks of their own, and
    forgets what it is told. ``log`` lists what it is told: ``(block, tokens)``.
    """

    def __init__(
        self, num_blocks: int, block_size: int, known: Sequence[Sequence[int]] = ()
    ) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.log: list[tuple[int, list[int]]] = []
        self._free = sorted(range(num_blocks), key=lambda block: (7 * block + 3) % 11)
        self._known = [(list(text), self._cut(len(text) // block_size)) for text in known]
        self._owned: set[int] = set()
        self._shared = {block for _, blocks in self._known for block in blocks}

    def _cut(self, count: int) -> list[int]:
        return [self._free.pop() for _ in range(count)]

    @property
    def available(self) -> int:
        """How many blocks nobody owns."""
        return len(self._free)

    def match(self, tokens: Sequence[int]) -> list[int]:
        """The blocks of the longest text that it was made with and ``tokens`` begin with."""
        best: list[int] = []
        for text, blocks in self._known:
            size = self.block_size
            same = 0
            while same < len(blocks) and (same + 1) * size < len(tokens):
                end = (same + 1) * size
                if list(tokens[:end]) != text[:end]:
                    break
                same += 1
            best = max(best, blocks[:same], key=len)
        return list(best)

    def allocate(self, count: int) -> list[int]:
        """So many blocks, all or none."""
        if count > len(self._free):
            raise OutOfBlocks(f"{count} blocks are wanted, {len(self._free)} are available")
        blocks = self._cut(count)
        self._owned.update(blocks)
        return blocks

    def fill(self, block: int, tokens: Sequence[int]) -> None:
        """Write down what is said of a block."""
        self.log.append((block, list(tokens)))

    def release(self, blocks: Sequence[int]) -> None:
        """Take blocks back."""
        own = [block for block in blocks if block not in self._shared]
        for block, times in Counter(own).items():
            if block not in self._owned or times > 1:
                raise ValueError(f"block {block} is given back, and nobody owns it")
        self._owned.difference_update(own)
        self._free.extend(own)


class ScriptedScheduler:
    """Batches that stand written; called as ``Scheduler`` is, whatever is sampled.

    Args:
        script: per batch ``(now, works, finished)``: the step that it belongs to, works as the
            fields of :class:`Work`, and the ids that ``update`` says have come to their end.
    """

    def __init__(self, script: Sequence[Sequence[Any]]) -> None:
        self._script, self._idle = list(script), 0
        self.added: list[int] = []
        self.told: list[list[list[int]]] = []  # per batch: what was sampled, and who stopped
        self.times: list[int] = []  # what now was, call by call

    @property
    def waiting(self) -> list[Any]:
        """Batches that are still to come."""
        return list(self._script)

    @property
    def running(self) -> list[Any]:
        """Nobody in particular."""
        return []

    def add(self, request: Request) -> None:
        """Write down who came."""
        self.added.append(request.id)

    def step(self, now: int) -> Batch:
        """The next batch when its step has come, else an empty one."""
        self.times.append(int(now))
        if self._script and self._script[0][0] == now:
            works = self._script[0][1]
            return Batch(tuple(Work(r, s, tuple(t), tuple(b), e) for r, s, t, b, e in works))
        self._idle += 1
        if self._idle > 60 or not self._script:
            raise RuntimeError(
                f"step({now}) was called {self.times.count(int(now))} times, and no work stands "
                "there: now counts steps without work, too"
            )
        return Batch()

    def update(self, sampled: Mapping[int, int], stopped: Collection[int] = ()) -> list[int]:
        """Write down what was sampled; gives the ids that are at their end."""
        self.told.append([[int(i), int(token)] for i, token in sorted(sampled.items())])
        self.told.append([[int(i)] for i in sorted(stopped)])
        _, _, finished = self._script.pop(0)
        return list(finished)


# What the checks run your code with: a loop around it, and what happened as plain numbers.


def token_of(request: int, position: int) -> int:
    """The token that stands there, where no model is needed."""
    return (7 * request + 5 * position + request * position) % 97


def drive(
    scheduler: Any,
    cache: Any,
    requests: Sequence[Sequence[Any]],
    most: int = 300,
    late: bool = False,
) -> dict[str, Any]:
    """Run a scheduler to its end; :func:`token_of` is the model.

    Args:
        scheduler: a ``Scheduler``, made with ``cache``.
        cache: a ``PrefixCache`` or :class:`PlainCache`.
        requests: per request ``(id, prompt, max_new_tokens, arrival, stops)``; with ``stops`` a
            request is said to have stopped after so many new tokens, if that is not 0.
        most: steps.
        late: requests are added when they arrive, not at first; only those that arrive last are.

    Returns:
        ``works`` int64 ``[works, 7]``: step, request, start, tokens, blocks, sample, available
        blocks after the step; ``tokens`` and ``tables`` of all works one after the other;
        ``ends`` ``[ends, 2]``: step and request; ``fills`` ``[fills, 3]``: step, block, tokens,
        and ``filled``: their tokens, one after the other; ``steps`` and ``available``.
    """
    works: list[list[int]] = []
    ends: list[list[int]] = []
    fills: list[list[int]] = []
    tokens: list[int] = []
    tables: list[int] = []
    filled: list[int] = []
    stops = {number: stop for number, _, _, _, stop in requests}
    made: Counter[int] = Counter()
    line, last = list(requests), max((row[3] for row in requests), default=0)
    step = 0
    while (line or scheduler.waiting or scheduler.running) and step < most:
        for row in [row for row in line if not late or row[3] in (step, last)]:
            line.remove(row)
            scheduler.add(Request(row[0], tuple(row[1]), row[2], row[3]))
        batch = scheduler.step(step)
        sampled = {}
        for work in sorted(batch.works, key=lambda one: one.request):  # their order says nothing
            row = [step, work.request, work.start, len(work.tokens), len(work.blocks)]
            works.append([*row, int(work.sample), int(cache.available)])
            tokens.extend(work.tokens)
            tables.extend(work.blocks)
            if work.sample:
                place = work.start + len(work.tokens)
                sampled[work.request] = token_of(work.request, place)
                made[work.request] += 1
        stopped = [number for number in sampled if made[number] == stops.get(number)]
        if batch.works:
            ends.extend([step, index(i)] for i in scheduler.update(sampled, stopped))
        for block, text in getattr(cache, "log", [])[len(fills) :]:
            fills.append([step, block, len(text)])
            filled.extend(text)
        step += 1

    def numbers(rows: list[Any], *shape: int) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, *shape)

    return {
        "works": numbers(works, 7),
        "tokens": numbers(tokens),
        "tables": numbers(tables),
        "ends": numbers(ends, 2),
        "fills": numbers(fills, 3),
        "filled": numbers(filled),
        "steps": step,
        "available": int(cache.available),
    }


def play(cache: Any, script: Sequence[Sequence[Any]]) -> list[list[int]]:
    """Use a ``PrefixCache`` as a script says; gives one list of whole numbers for each line.

    A line is a word, the name of a list of blocks, and what it needs:

    * ``match`` tokens: begins the list; gives its blocks.
    * ``allocate`` count: adds to the list; gives the new blocks, or ``[-1]`` for OutOfBlocks.
    * ``fill`` tokens: tells of every full block of the list that was allocated.
    * ``release``: gives back the blocks of the list.
    * ``available``: gives how many blocks nobody owns.
    """
    lists: dict[str, list[int]] = {}
    allocated: dict[str, list[int]] = {}  # places of the list
    said: list[list[int]] = []
    for word, name, what in script:
        blocks = lists.setdefault(name, [])
        answer: list[int] = []
        if word == "match":
            lists[name], allocated[name] = list(cache.match(tuple(what))), []
            answer = list(lists[name])
        elif word == "allocate":
            try:
                answer = list(cache.allocate(what))
            except OutOfBlocks:
                answer = [-1]
            else:
                places = range(len(blocks), len(blocks) + len(answer))
                allocated.setdefault(name, []).extend(places)
                blocks.extend(answer)
        elif word == "fill":
            for place in allocated[name]:
                end = (place + 1) * cache.block_size
                if end <= len(what):
                    cache.fill(blocks[place], tuple(what[:end]))
        elif word == "release":
            cache.release(list(lists.pop(name)))
        else:
            answer = [cache.available]
        said.append([int(number) for number in answer])
    return said


def heard(
    engine: Any, model: Any, requests: Sequence[Sequence[Any]], given: Callable[..., Any] = list
) -> dict[str, Any]:
    """Listen to a stream: pieces of text, and after how many calls of the model each came."""
    made = [Request(i, tuple(p), n, a, tuple(s), t, e) for i, p, n, a, s, t, e in requests]
    pieces: dict[str, list[Any]] = {str(request.id): [] for request in made}
    for number, piece in engine.stream(given(made)):
        pieces[str(int(number))].append([len(model.calls), piece])
    return {
        "pieces": {i: "\n".join(piece for _, piece in parts) for i, parts in pieces.items()},
        "calls": {i: [call for call, _ in parts] for i, parts in pieces.items()},
    }


def texts(engine: Any, requests: Sequence[Sequence[Any]]) -> dict[str, str]:
    """The texts that ``generate`` gives, by id."""
    made = [Request(i, tuple(p), n, a, tuple(s), t, e) for i, p, n, a, s, t, e in requests]
    return {str(number): text for number, text in engine.generate(iter(made)).items()}


def told(scheduler: ScriptedScheduler, model: PagedModel) -> dict[str, Any]:
    """Everything that a scripted scheduler heard from the engine, and that the model was given."""
    heard = {"added": scheduler.added, "times": scheduler.times, "told": scheduler.told}
    return {**heard, "calls": model.calls, "inputs": model.inputs}


def each(
    function: Callable[..., Sequence[int]],
    drafts: torch.Tensor,
    q: torch.Tensor,
    p: torch.Tensor,
    uniforms: torch.Tensor,
) -> torch.Tensor:
    """Call ``function`` row by row.

    Args:
        function: ``accept``.
        drafts: ``[n, k]``.
        q: ``[n, k, vocab]``.
        p: ``[n, k + 1, vocab]``.
        uniforms: ``[n, k + 1]``.

    Returns:
        int64 ``[n, k + 1]``: what it gives, filled up with -1; one more column of how many.
    """
    rows = []
    for row in zip(drafts, q, p, uniforms, strict=True):
        made = [int(token) for token in function(*row)]
        filled = [*made, *[-1] * drafts.shape[1]]
        rows.append([*filled[: drafts.shape[1] + 1], len(made)])
    return torch.tensor(rows, dtype=torch.int64)
