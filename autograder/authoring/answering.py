"""What our own solution, with or without mistakes in it, answers to the public cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch

from autograder.authoring.place import Place, read
from autograder.diagnosis import misconceptions
from autograder.diagnosis.items import Trace, by_exercise
from autograder.diagnosis.misconceptions import Catalogue, Entry, MisconceptionError
from autograder.harness.plan import Plan
from autograder.harness.runner import Runner
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.transport import Sources

Traces = Mapping[str, Trace]  # by exercise
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
