"""Runs a property on many drawn inputs, and counts them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

MAX_CHANGES = 3
CPU_SECONDS = 10.0  # for one input; all are small, so whatever takes this long would never end
# Of ten inputs one is valid, one is noise, and eight are valid with one to three changes.
KINDS = ("valid", "noise", *["changed"] * 8)


@dataclass(frozen=True)
class Draw:
    """What one input is made from.

    ``seeds`` holds one number per change: what it does follows from that number alone, so that
    an input that fails is tried with fewer of them.
    """

    kind: str
    base: int
    seeds: tuple[int, ...]

    @property
    def dice(self) -> tuple[random.Random, ...]:
        """One source of choices per change."""
        return tuple(random.Random(seed) for seed in self.seeds)


def drawn(target: str, number: int) -> Draw:
    """One input of all that a target is given, by its number."""
    dice = random.Random(f"{target} {number}")
    kind = dice.choice(KINDS)
    count = dice.randint(1, MAX_CHANGES) if kind == "changed" else 0
    return Draw(kind, dice.getrandbits(32), tuple(dice.getrandbits(32) for _ in range(count)))


def smaller(draw: Draw) -> Iterator[Draw]:
    """The same input with fewer changes, the fewest first."""
    for count in range(1, len(draw.seeds)):
        for seeds in combinations(draw.seeds, count):
            yield replace(draw, seeds=seeds)


@dataclass
class Tally:
    """Inputs that were really run, by target, and what was wrong."""

    inputs: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    errors: list[Exception] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The last line of a fuzzing."""
        counts = f"fuzz inputs {self.inputs.total()} (changed {self.changed.total()})"
        return f"{counts}, unnamed errors {len(self.errors)}"


@dataclass(frozen=True)
class Target:
    """A reader under test.

    ``run`` makes an input, reads it, and raises if a promise broke. ``quick`` and ``full`` are
    numbers of inputs.
    """

    name: str
    run: Callable[[Draw], None]
    quick: int
    full: int


def fuzz(target: Target, numbers: Iterable[int], tally: Tally) -> None:
    """Run the inputs of some numbers through a target; the first that breaks it is raised, shrunk.

    A number gives the same input every time: a test that fails today has to fail tomorrow. Not
    hypothesis, which takes as long to draw such an input as most readers to read it.
    """
    for number in numbers:
        draw = drawn(target.name, number)
        tally.inputs[target.name] += 1
        tally.changed[target.name] += draw.kind == "changed"
        error = _error(target, draw)
        if error is not None:
            tried = ((one, _error(target, one)) for one in smaller(draw))
            draw, error = next(((one, e) for one, e in tried if e is not None), (draw, error))
            error.add_note(f"{target.name}, input {number}: {draw}")
            tally.errors.append(error)
            raise error


def _error(target: Target, draw: Draw) -> Exception | None:
    started = time.process_time()
    try:
        target.run(draw)
    except Exception as error:
        return error
    spent = time.process_time() - started
    if spent < CPU_SECONDS:
        return None
    return AssertionError(f"{target.name}: one input took {spent:.1f} s")
