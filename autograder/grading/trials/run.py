"""Tries everything in a scratch grading: the real engine, real workers, and an honest hand-in."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from autograder.course.records import HandIn, Isolation, Outcome, Submission
from autograder.grading.crew import Options, wants_spawn
from autograder.grading.engine import Engine
from autograder.grading.trials import kit
from autograder.grading.trials.attempts import ATTEMPTS
from autograder.grading.trials.forgeries import FORGERIES, HONEST
from autograder.grading.trials.probes import Probes
from autograder.grading.trials.records import (
    SCORE,
    End,
    Finding,
    State,
    Trial,
    Way,
    corrected,
    judged,
)
from autograder.grading.trials.scratch import FILE, Scratch

# Those that take longest first: they wait for a deadline, and the others use the processor.
TRIALS = (
    *(trial for trial in ATTEMPTS if trial.ends),
    HONEST,
    *(trial for trial in ATTEMPTS if not trial.ends),
    *FORGERIES,
)
JOBS = 4


@dataclass(frozen=True)
class Tried:
    """The isolation of the scratch grading, and what every trial found."""

    isolation: Isolation
    findings: tuple[Finding, ...]


def run(scratch: Scratch, without: Sequence[str] = (), trials: Sequence[Trial] = TRIALS) -> Tried:
    """Grade one hand-in per trial and decide by what came back and by what can be seen.

    Where each worker is a new Python, most trials share one. Layers named in ``without`` are
    left off (where workers are forked), which is how tests show that a trial can break.

    Raises:
        EngineError: the scratch grading could not start.
    """
    probes = Probes(without) if sys.platform != "win32" else None
    try:
        spawn = wants_spawn()
        batches = _shared(trials) if spawn else [[trial] for trial in trials]
        # Spawned workers are judged one after the other: two gradings use two processors.
        parts = [batches[::2], batches[1::2]] if spawn and len(batches) > 1 else [batches]
        if len(parts) == 1:  # in this thread, so that Ctrl-C ends the engine at once
            done = [_graded(scratch, parts[0], without)]
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                done = list(pool.map(lambda part: _graded(scratch, part, without), parts))
        seen = scratch.noticed()
        order = [trial.name for trial in trials]
        findings = [
            corrected(finding, seen.get(finding.trial, {}))
            for _, found in done
            for finding in found
        ]
        findings.sort(key=lambda finding: order.index(finding.trial))
        return Tried(done[0][0], (*findings, *(probes.findings() if probes else ())))
    finally:
        if probes:
            probes.close()


def _shared(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials that leave their worker alive in one hand-in, each of the others in its own.

    Where workers are spawned the wall clock alone ends them: a sleep is no other trial than a
    loop, and is left out.
    """
    together = [trial for trial in trials if trial.kit and not trial.alone]
    alone = [[t] for t in trials if t not in together and t.name != "sleep"]
    return [together, *alone] if together else alone


def _graded(
    scratch: Scratch, batches: Sequence[Sequence[Trial]], without: Sequence[str]
) -> tuple[Isolation, list[Finding]]:
    options = Options(hidden_cases=scratch.hidden, jobs=JOBS, without=tuple(without), replay=False)
    with Engine(scratch.lab, options) as engine:
        engine.wait_ready()
        places = scratch.places()
        found = _found(engine, batches, places)
        # A machine that is busy, or a batch that ended early: once more, each on its own.
        again = [trial for trial, finding in found if finding.state is State.NOT_TRIED]
        second = {trial.name: f for trial, f in _found(engine, [[t] for t in again], places)}
        return engine.isolation, [second.get(trial.name, finding) for trial, finding in found]


def _found(
    engine: Engine, batches: Sequence[Sequence[Trial]], places: Mapping[str, object]
) -> list[tuple[Trial, Finding]]:
    names = {batch[0].name: batch for batch in batches}

    def submissions() -> Iterator[Submission]:
        for name, batch in names.items():
            yield Submission(name, {FILE: kit.source(batch, places)})

    records = {record.student: record for record in engine.grade(submissions())}
    return [(t, decided(t, records[name])) for name, batch in names.items() for t in batch]


def decided(trial: Trial, record: HandIn) -> Finding:
    """What one graded hand-in says about a trial."""
    result = record.results[0]
    passed, ended = result.outcome is Outcome.PASSED, result.outcome.value
    bare = Finding(trial.name, trial.promise, trial.title, State.NOT_TRIED)
    if trial is HONEST:
        state = State.HELD if passed else State.BROKE
        if result.outcome in (Outcome.TIMED_OUT, Outcome.NOT_GRADED):
            state = State.NOT_TRIED  # tried once more before it counts
        return replace(bare, state=state, reason=ended)
    if trial.promise == SCORE:
        if result.outcome is Outcome.NOT_GRADED:
            return replace(bare, reason=ended)
        return judged(bare, [Way(trial.name, End.WORKED if passed else End.STOPPED, ended)])
    ways = kit.reports(result.prints).get(trial.name, ())
    if not ways and trial.ends and result.outcome is Outcome.TIMED_OUT:
        ways = (Way(trial.name, End.STOPPED, "SIGKILL"),)
    if passed:  # no attempt doubles anything
        ways = (*ways, Way("points", End.WORKED, ended))
    return judged(bare, ways) if ways else replace(bare, reason=f"its worker: {ended}")
