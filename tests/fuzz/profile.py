"""Runs a property on many drawn inputs, and counts them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

MAX_CHANGES = 3
CPU_SECONDS = 10.0  # for one input; all are small, so whatever takes this long would never end
SEEDS = st.integers(0, (1 << 32) - 1)
# Of ten inputs one is valid, one is noise, and eight are valid with one to three changes.
KINDS = st.sampled_from(("valid", "noise", *["changed"] * 8))


@dataclass(frozen=True)
class Draw:
    """What one input is made from.

    ``seeds`` holds one number per change: hypothesis shrinks their count, and what a change
    does follows from its number alone.
    """

    kind: str
    base: int
    seeds: tuple[int, ...]

    @property
    def dice(self) -> tuple[random.Random, ...]:
        """One source of choices per change."""
        return tuple(random.Random(seed) for seed in self.seeds)


@st.composite
def draws(draw: st.DrawFn) -> Draw:
    """Inputs of all three kinds."""
    kind = draw(KINDS)
    least = 1 if kind == "changed" else 0
    seeds = draw(st.lists(SEEDS, min_size=least, max_size=MAX_CHANGES if least else 0))
    return Draw(kind, draw(SEEDS), tuple(seeds))


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


def fuzz(target: Target, examples: int, tally: Tally) -> None:
    """Run ``examples`` inputs through a target; the first one that breaks it is raised, shrunk.

    The same inputs every time: a test that fails today has to fail tomorrow.
    """

    @settings(
        max_examples=examples,
        deadline=None,  # the machine may be busy; CPU seconds are watched here instead
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow],  # of drawing, on a busy machine
    )
    @given(draws())
    def reads(draw: Draw) -> None:
        tally.inputs[target.name] += 1
        tally.changed[target.name] += draw.kind == "changed"
        started = time.process_time()
        target.run(draw)
        spent = time.process_time() - started
        assert spent < CPU_SECONDS, f"{target.name}: one input took {spent:.1f} s"

    try:
        reads()
    except Exception as error:
        tally.errors.append(error)
        raise
