"""What our own solution, with or without mistakes in it, answers to the public cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from autograder.authoring.place import Place, read
from autograder.authoring.recording import Recording, hashed, state_of, text_of
from autograder.course.records import Lab
from autograder.diagnosis import misconceptions
from autograder.diagnosis.items import Trace, by_exercise
from autograder.diagnosis.misconceptions import Catalogue, Entry, MisconceptionError
from autograder.diagnosis.projection import WIDTH
from autograder.diagnosis.short import Short, shortened
from autograder.harness.plan import Plan
from autograder.harness.runner import Runner
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.transport import Sources

Traces = Mapping[str, Trace]  # by exercise
Shorts = dict[str, dict[str, Short]]  # by exercise and key of the item
OTHER_SEED = 1


def sources_of(place: Place) -> dict[str, str]:
    """The text of the solution by file name."""
    return {name: read(place.solution / name) for name in place.lab.files}


def catalogue_of(place: Place) -> Catalogue:
    """The lab's misconceptions. Raises MisconceptionError."""
    return misconceptions.load(place.misconceptions)


def together(entries: Sequence[Entry], sources: Mapping[str, str]) -> dict[str, str] | None:
    """The solution with several mistakes in it; None if their places overlap."""
    made = dict(sources)
    try:
        for entry in entries:
            made = misconceptions.apply(entry, made)
    except MisconceptionError:
        return None
    return made


def traces_of(
    plan: Plan, sources: Mapping[str, str], *, only: Collection[str] = (), seed: int = 0
) -> dict[str, Trace]:
    """What a hand-in of ours answers, by exercise; it runs in this process, as in a worker.

    Args:
        plan: the checks, on public cases.
        sources: text by file name.
        only: names of the checks to run, those that they need among them; all if empty.
        seed: of torch's generator.
    """
    transport = LocalTransport(Sources(sources), seed=seed)
    # Workers are without oneDNN, whose bfloat16 kernels round in other places.
    before = torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    try:
        runner = Runner(plan, transport)
        runner.run({}, set(only))
        # Whatever the order of cases will be when a class is graded.
        runner.ask_the_rest(skipped=False)
    finally:
        torch.backends.mkldnn.set_flags(before[0])  # type: ignore[no-untyped-call]
        transport.close()
    return by_exercise(plan.lab, runner.answers)


def reference_of(plan: Plan, sources: Mapping[str, str]) -> tuple[Traces, frozenset[str]]:
    """What the solution answers, and the items in it that hang on random numbers."""
    first, second = traces_of(plan, sources), traces_of(plan, sources, seed=OTHER_SEED)
    random = {
        key
        for name, trace in first.items()
        for key, item in trace.items()
        if not (item.values == second[name][key].values).all()
    }
    return first, frozenset(random)


class Answers:
    """What hand-ins of ours answer in short, read where the same text was asked the same before.

    Nothing is answered anew here: ``audit`` asks some of the mistakes of a bank again.
    """

    def __init__(self, plan: Plan, recording: Recording | None = None) -> None:
        self._plan = plan
        self._recording = recording or Recording()
        self._state = hashed("answers", state_of(plan.lab))

    def short(
        self,
        sources: Mapping[str, str],
        items: Mapping[str, Collection[str]] | None = None,
        width: int = WIDTH,
    ) -> Shorts:
        """What one of them answers.

        Args:
            sources: text by file name.
            items: keys of the items that are wanted, by exercise; without it all of all.
            width: numbers per item.
        """
        wanted = None if items is None else {name: sorted(items[name]) for name in sorted(items)}
        key = hashed(self._state, text_of(sources), repr(wanted), str(width))
        known = self._recording.get(key)
        if known is not None:
            return _shorts_of(known)
        checks = {key.split("/")[0] for keys in (wanted or {}).values() for key in keys}
        traces = traces_of(self._plan, sources, only=with_needs(self._plan.lab, checks))
        if wanted is not None:
            traces = {
                name: {key: item for key, item in traces[name].items() if key in keys}
                for name, keys in wanted.items()
            }
        found = {name: shortened(trace, width) for name, trace in traces.items()}
        self._recording.put(key, _to_plain(found))
        return found


def with_needs(lab: Lab, names: Collection[str]) -> set[str]:
    """Checks with those that they need."""
    found = set(names)
    for check in reversed(lab.checks):
        if check.name in found:
            found.update(check.needs)
    return found


def _to_plain(shorts: Shorts) -> dict[str, Any]:
    return {
        name: {
            key: [s.form, s.vector.tolist(), s.norm, s.weight, s.digest.hex()]
            for key, s in trace.items()
        }
        for name, trace in shorts.items()
    }


def _shorts_of(plain: Mapping[str, Any]) -> Shorts:
    return {
        name: {
            key: Short(form, np.array(vector, np.float64), norm, weight, bytes.fromhex(digest))
            for key, (form, vector, norm, weight, digest) in trace.items()
        }
        for name, trace in plain.items()
    }
