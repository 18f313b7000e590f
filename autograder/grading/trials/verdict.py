"""From findings to promises: what holds here, and what that makes of the machine."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from autograder.grading.trials.records import FAIR, SCORE, Finding, State
from autograder.sandbox.jail import guarantees

# The guarantees of the jail in the order of a report, and what the process border promises.
PROMISES = (
    "files", "writes", "network", "processes", "memory", "cpu", "privileges", "signals",
    SCORE, FAIR,
)  # fmt: skip
_ALWAYS = frozenset((SCORE, FAIR))


@dataclass(frozen=True)
class Promise:
    """A promise, whether the layers that bind here make it, and what the trials showed."""

    name: str
    promised: bool
    state: State


def promises(layers: Collection[str], findings: Iterable[Finding]) -> tuple[Promise, ...]:
    """All of them, in the order of :data:`PROMISES`."""
    findings = tuple(findings)
    made = guarantees(layers) | _ALWAYS
    return tuple(
        Promise(name, name in made, _state([f.state for f in findings if f.promise == name]))
        for name in PROMISES
    )


def _state(states: list[State]) -> State:
    """One breach breaks a promise; without any trial that held, nothing is known."""
    if State.BROKE in states:
        return State.BROKE
    return State.HELD if State.HELD in states else State.NOT_TRIED


def status(kept: Iterable[Promise]) -> int:
    """0: every promise made here held; 1: one broke; 2: one could not be tried."""
    states = {promise.state for promise in kept if promise.promised}
    return 1 if State.BROKE in states else 2 if State.NOT_TRIED in states else 0
