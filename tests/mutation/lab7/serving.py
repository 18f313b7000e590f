"""Random lives of caches, schedulers and engines, and speculation on random distributions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import islice
from types import ModuleType
from typing import Any

import torch

from labs.given.serving import (
    Batch,
    PagedModel,
    PlainCache,
    Request,
    TextModel,
    drive,
    token_of,
)
from solutions.reference.oracle_serving import speculate
from tests.mutation.dice import Dice
from tests.mutation.lab7.pages import STEPS, tried

Text = list[int]
Slots = dict[tuple[int, int], Text]  # by block and place: the text up to what is stored there
EIGHTHS = {3: (5, 2, 1), 4: (4, 2, 1, 1), 5: (3, 2, 1, 1, 1), 6: (3, 1, 1, 1, 1, 1)}
FAR = (-(2**62), -1, 2**61 - 1, 2**62)


def _text(dice: Dice, most: int, known: list[Text]) -> Text:
    """A text of a small alphabet that often begins as one before it does."""
    text = [dice.integer(0, 2) for _ in range(dice.integer(1, most))]
    if known and dice.integer(0, 2):
        old = dice.pick(known)
        text = old[: dice.integer(1, len(old))] + text
    if dice.integer(0, 5) == 0:
        text[dice.integer(0, len(text) - 1)] = dice.pick(FAR)
    return text[:most]


def _cache(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Texts are found, stored, filled up and given back; which blocks these are is free."""
    blocks, size = dice.integer(2, 9), dice.integer(1, 4)
    cache = module.PrefixCache(blocks, size)
    found: dict[str, Any] = {"sizes": (cache.num_blocks, cache.block_size)}
    known: list[Text] = []
    living: list[tuple[Text, Text, int]] = []  # text, its blocks, how many of these were found
    holds: dict[int, Text] = {}
    for step in range(2 * STEPS):
        kind = dice.pick(("serve", "serve", "look", "fill", "release", "release", "refused"))
        text, lot = _text(dice, blocks * size, known), dice.integer(0, 99)
        said: Any = None
        if kind in ("serve", "look"):
            own = cache.match(text)
            said = len(own), [holds.get(b) == text[: (i + 1) * size] for i, b in enumerate(own)]
            if kind == "serve":
                new = tried(partial(cache.allocate, -(-len(text) // size) - len(own)))
                if isinstance(new, list):
                    used = {block for _, taken, _ in living for block in taken} | {*own}
                    said = said, len(new), len({*new} | used) == len(new) + len(used)
                    living.append((text, own + new, len(own)))
                    known.append(text)
                    for block in new:
                        holds.pop(block, None)
                else:
                    said, kind = (said, new), "look"
            if kind == "look":
                cache.release(own)
        elif kind == "fill" and living:
            text, own, first = living[lot % len(living)]
            for place in range(first, len(text) // size):
                cache.fill(own[place], text[: (place + 1) * size])
                holds[own[place]] = text[: (place + 1) * size]
        elif kind == "release" and living:
            cache.release(living.pop(lot % len(living))[1])
        elif kind == "refused":
            used = {block for _, taken, _ in living for block in taken}
            nobodys = sorted({*range(blocks)} - used)
            if nobodys:
                some = sorted(used)[:1] + nobodys[lot % len(nobodys) :][:1]
                said = tried(partial(cache.release, some))
        found[f"step {step}"] = kind, said, cache.available
    return found


def _requests(dice: Dice, most: int, stops: bool) -> list[list[Any]]:
    """Rows as ``drive`` takes them; some begin alike, and none needs more than ``most`` tokens."""
    known: list[Text] = []
    rows = []
    for place in range(dice.integer(1, 6)):
        prompt = [abs(t) for t in _text(dice, dice.integer(1, most), known)]
        known.append(prompt)
        new = dice.integer(1, min(9, most + 1 - len(prompt)))
        stop = dice.integer(0, new) if stops else 0
        rows.append(
            [(7 * place + 3) % 11, prompt, new, dice.pick((0, 0, dice.integer(0, 9))), stop]
        )
    return rows


def _scheduler(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Requests to their end, on the stand-in and on the file's own cache, few blocks or many."""
    blocks, size, most = dice.integer(2, 12), dice.integer(1, 4), dice.integer(1, 4)
    budget = most + dice.pick((0, 1, dice.integer(0, 9)))
    rows = _requests(dice, blocks * size, stops=number % 3 == 0)
    cache = module.PrefixCache(blocks, size) if number % 2 else PlainCache(blocks, size)
    slots: Slots = {}
    if number % 8 == 0:  # the stand-in knows a text
        text = rows[0][1]
        cache = PlainCache(blocks + len(text) // size, size, [text])
        slots = {
            (b, at): text[: i * size + at + 1]
            for i, b in enumerate(cache.match([*text, 0]))
            for at in range(size)
        }
    told = drive(module.Scheduler(cache, budget, most), cache, rows, 150)
    return _told(told, rows, size, slots)


def _told(told: dict[str, Any], rows: list[list[Any]], size: int, slots: Slots) -> dict[str, Any]:
    """What happened, and whether each work reads what was written for its text."""
    works = told["works"].tolist()
    tokens, tables, filled = (iter(told[name].tolist()) for name in ("tokens", "tables", "filled"))
    right = []
    for step in sorted({work[0] for work in works}):
        read = []
        for _, number, start, count, blocks, *_ in (work for work in works if work[0] == step):
            prompt = next(row[1] for row in rows if row[0] == number)
            end, table = start + count, list(islice(tables, blocks))
            text = prompt + [token_of(number, at) for at in range(len(prompt), end)]
            right.append(text[start:end] == list(islice(tokens, count)))
            slots |= {(table[at // size], at % size): text[: at + 1] for at in range(start, end)}
            read += [(table[at // size], at % size, text[: at + 1]) for at in range(end)]
        right += [slots.get((block, at)) == text for block, at, text in read]
    return {
        "works": [[*work[:4], work[5]] for work in works],
        "right": right,
        "ends": sorted(told["ends"].tolist()),
        "fills": sorted((step, list(islice(filled, n))) for step, _, n in told["fills"].tolist()),
        "end": (told["steps"], told["available"]),
    }


def _refused(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Requests that fit just so, or do not; budgets, too."""
    blocks, size, most = dice.integer(1, 4), dice.integer(1, 4), dice.integer(1, 4)
    budget = most + dice.integer(-1, 1)
    cache, found = PlainCache(blocks, size), {}
    scheduler = tried(partial(module.Scheduler, cache, budget, most))
    if isinstance(scheduler, tuple):
        return {"scheduler": scheduler}
    for place in range(6):
        prompt = (1,) * max(0, blocks * size - dice.integer(-1, 3))
        new = dice.integer(0, 4)
        said = tried(partial(scheduler.add, Request(place, prompt, new)))
        found[f"add {place}"] = said, len(scheduler.waiting), len(scheduler.running)
    return found


class _Listening:
    """A scheduler that writes down what it is told."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler, self.log = scheduler, list[Any]()

    @property
    def waiting(self) -> Any:
        return self._scheduler.waiting

    @property
    def running(self) -> Any:
        return self._scheduler.running

    def add(self, request: Request) -> None:
        self.log.append(request.id)
        self._scheduler.add(request)

    def step(self, now: int) -> Batch:
        self.log.append(now)
        batch: Batch = self._scheduler.step(now)
        return batch

    def update(self, sampled: Mapping[int, int], stopped: Collection[int] = ()) -> list[int]:
        self.log.append((sorted(sampled.items()), sorted(stopped)))
        finished: list[int] = self._scheduler.update(sampled, stopped)
        return finished


def _seed(dice: Dice) -> int:
    """A generator's, of which no number lies next to an eighth: no rounding decides."""
    while True:
        seed = dice.integer(0, 9999)
        generator = torch.Generator().manual_seed(seed)
        drawn = [torch.rand((), generator=generator, dtype=torch.float64) for _ in range(9)]
        if all(0.01 < float(8 * one % 1) < 0.99 for one in drawn):
            return seed


def _engine(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Texts with stop words, drawn or the likeliest; each piece, and after which call it came."""
    blocks, size, most = dice.integer(2, 9), dice.integer(1, 4), dice.integer(1, 4)
    vocab = dice.integer(3, 6)
    words = [dice.pick(("a", "b", "ab", "ba", "aab", "c")) for _ in range(vocab)]
    temperature, shares = dice.pick((0.7, 2.0)), torch.tensor(EIGHTHS[vocab]).log()
    rows = [shares[torch.argsort(dice.uniform(vocab))] for _ in range(dice.integer(2, 40))]
    table = temperature * (torch.stack(rows) + 30 * dice.normal(len(rows), 1))
    stops = ("aab", "ab", "bb", "aa", "abab", "c", "aaa")
    requests = []
    for number_of, prompt, new, arrival, _ in _requests(dice, blocks * size, stops=False):
        stop = tuple(dice.pick(stops) for _ in range(dice.integer(0, 3)))
        drawn = dice.pick((0.0, temperature)), _seed(dice)
        prompt = tuple(token % vocab for token in prompt)
        requests.append(Request(number_of, prompt, new, arrival, stop, *drawn))

    def made() -> tuple[Any, PagedModel, _Listening]:
        cache = module.PrefixCache(blocks, size)
        scheduler = _Listening(module.Scheduler(cache, most + number % 5, most))
        model = PagedModel(table, blocks, size)
        return module.Engine(model, scheduler, words), model, scheduler

    engine, model, scheduler = made()
    pieces: dict[int, list[Any]] = {request.id: [] for request in requests}
    for one, piece in engine.stream(requests):
        pieces[one].append((len(model.calls), piece))
    return {
        "pieces": pieces, "log": scheduler.log, "calls": model.calls, "inputs": model.inputs,
        "texts": made()[0].generate(requests),
    }  # fmt: skip


def _shares(dice: Dice, rows: int, vocab: int) -> torch.Tensor:
    """Distributions in sixteenths."""
    drawn = (dice.uniform(rows, 16) * dice.integer(1, vocab)).long()
    return torch.nn.functional.one_hot(drawn, vocab).sum(1).double() / 16


def _accept(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Uniforms lie so far from all borders that no rounding decides."""
    count, vocab = dice.integer(1, 4), dice.integer(2, 7)
    q, p = _shares(dice, count, vocab), _shares(dice, count + 1, vocab)
    if number % 4 == 0:
        p[:count] = q
    tokens = (q * (dice.uniform(count, vocab) + 0.1)).argmax(-1)  # the draft may say them
    uniforms = ((dice.uniform(count + 1) * 16).floor().double() + 0.5) / 16
    if number % 4 == 1:
        uniforms[dice.integer(0, count)] = 0
    given = tokens, q, p, uniforms
    kept = [part.clone() for part in given]
    found = [int(token) for token in module.accept(*given)]
    same = all(torch.equal(one, other) for one, other in zip(given, kept, strict=True))
    return {"accepted": found, "accepted of": same}


def _speculation(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Two models, alike or not; again no uniform lies next to a border."""
    count, vocab = dice.integer(1, 4), dice.integer(2, 7)
    temperature = dice.pick((0.0, 0.7, 1.0, 1.6))
    while True:
        table = dice.normal(dice.integer(2, 20), vocab) * 2
        other = table + dice.pick((0.0, 0.5, 2.0)) * dice.normal(*table.shape)
        text = [dice.integer(0, vocab - 1) for _ in range(dice.integer(1, 6))]
        uniforms = dice.uniform(2 * count + 1).double()
        _, near = speculate(table, other, text, count, temperature, uniforms.tolist())
        if near > 5e-3:
            break
    draft, target, kept = TextModel(table), TextModel(other), list(text)
    step = module.speculative_step(draft, target, text, count, temperature, uniforms)
    return {
        "step": [int(token) for token in step], "text": text == kept,
        "calls": (len(draft.calls), len(target.calls)),
    }  # fmt: skip


PARTS = (_cache, _scheduler, _refused, _engine, _accept, _speculation)
