"""From findings to promises: what holds here, and what that makes of the machine."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from autograder.course.labfile import ROOT
from autograder.course.records import HandIn, Isolation, Message, Outcome, Submission
from autograder.doctor import probe, scratch_grading
from autograder.doctor.attacks import (
    ATTEMPTS,
    FAIR,
    FORGERIES,
    HONEST,
    SCORE,
    Attack,
    AttackResult,
    End,
    State,
    Way,
    corrected,
    judged,
)
from autograder.doctor.scratch_grading import FILE, Scratch
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options, wants_spawn
from autograder.sandbox.workers import clean_environment, command
from autograder.worker.jail import LAYERS, guarantees

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


def promises(layers: Collection[str], findings: Iterable[AttackResult]) -> tuple[Promise, ...]:
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


# Questions to the jail itself that need no grading, and so no torch.

_SECONDS = 60  # a machine may be busy; a probe takes a tenth of a second, or one


@dataclass(frozen=True)
class Layers:
    """The layers that bind around a process here, and one sentence for each that does not."""

    bound: tuple[str, ...]
    missing: Mapping[str, str]


def _started(question: str, without: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("autograder.doctor.probe", ROOT, question, ",".join(without)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        cwd=ROOT.anchor,
        start_new_session=True,  # Ctrl-C is ours to handle
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what it printed, and the last line of its errors."""
    with process:
        try:
            out, errors = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()[0], "it did not end"
    return out, (errors.strip().splitlines() or [""])[-1]


def layers(without: Sequence[str] = ()) -> Layers:
    """Ask which layers bind."""
    out, errors = _ended(_started("layers", without))
    try:
        told = json.loads(out)
        bound, missing = tuple(told["layers"]), dict(told["missing"])
    except (ValueError, KeyError, TypeError):
        why = f"the probe ended without an answer: {errors or 'no message'}"
        return Layers((), dict.fromkeys(LAYERS, why))
    refused = "the kernel, or the container around it, refused to bind it"
    return Layers(bound, {n: missing.get(n, refused) for n in LAYERS if n not in bound})


class Probes:
    """Two trials that run beside the scratch grading; ``findings`` waits for them."""

    def __init__(self, without: Sequence[str] = ()) -> None:
        self._asked = (
            (
                AttackResult(
                    "orphan", "processes", Message("doctor.trial_orphan"), State.NOT_TRIED
                ),
                _started("orphan", without),
            ),
            (
                AttackResult("runaway", "cpu", Message("doctor.trial_runaway"), State.NOT_TRIED),
                _started("loop", without),
            ),
        )

    def findings(self) -> tuple[AttackResult, ...]:
        """Return what became of both."""
        return tuple(_finding(bare, *_ended(process)) for bare, process in self._asked)

    def close(self) -> None:
        """End what still runs."""
        for _, process in self._asked:
            with contextlib.suppress(OSError):
                process.kill()
            if process.returncode is None:
                _ended(process)


def _finding(bare: AttackResult, out: str, errors: str) -> AttackResult:
    said = out.split("\n")
    end, evidence = End.STOPPED, "SIGKILL"
    if probe.STARTED not in said:
        end, evidence = End.FAILED, errors or "it did not start"
    elif probe.WENT_ON in said:
        end, evidence = End.WORKED, "it went on"
    return judged(bare, [Way(bare.trial, end, evidence)])


# Tries everything in a scratch grading: the real engine, real workers, and an honest hand-in.

# Those that take longest first: they wait for a deadline, and the others use the processor.
TRIALS = (
    *(trial for trial in ATTEMPTS if trial.ends),
    HONEST,
    *(trial for trial in ATTEMPTS if not trial.ends),
    *FORGERIES,
)
JOBS = 4


@dataclass(frozen=True)
class AttackResults:
    """The isolation of the scratch grading, and what every trial found."""

    isolation: Isolation
    findings: tuple[AttackResult, ...]


def run(
    scratch: Scratch, without: Sequence[str] = (), trials: Sequence[Attack] = TRIALS
) -> AttackResults:
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
        return AttackResults(done[0][0], (*findings, *(probes.findings() if probes else ())))
    finally:
        if probes:
            probes.close()


def _shared(trials: Sequence[Attack]) -> list[list[Attack]]:
    """Trials that leave their worker alive in one hand-in, each of the others in its own.

    Where workers are spawned the wall clock alone ends them: a sleep is no other trial than a
    loop, and is left out.
    """
    together = [trial for trial in trials if trial.kit and not trial.alone]
    alone = [[t] for t in trials if t not in together and t.name != "sleep"]
    return [together, *alone] if together else alone


def _graded(
    scratch: Scratch, batches: Sequence[Sequence[Attack]], without: Sequence[str]
) -> tuple[Isolation, list[AttackResult]]:
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
    engine: Engine, batches: Sequence[Sequence[Attack]], places: Mapping[str, object]
) -> list[tuple[Attack, AttackResult]]:
    names = {batch[0].name: batch for batch in batches}

    def submissions() -> Iterator[Submission]:
        for name, batch in names.items():
            yield Submission(name, {FILE: scratch_grading.source(batch, places)})

    records = {record.student: record for record in engine.grade(submissions())}
    return [(t, decided(t, records[name])) for name, batch in names.items() for t in batch]


def decided(trial: Attack, record: HandIn) -> AttackResult:
    """Return what one graded hand-in says about a trial."""
    result = record.results[0]
    passed, ended = result.outcome is Outcome.PASSED, result.outcome.value
    bare = AttackResult(trial.name, trial.promise, trial.title, State.NOT_TRIED)
    if trial is HONEST:
        state = State.HELD if passed else State.BROKE
        if result.outcome in (Outcome.TIMED_OUT, Outcome.NOT_GRADED):
            state = State.NOT_TRIED  # tried once more before it counts
        return replace(bare, state=state, reason=ended)
    if trial.promise == SCORE:
        if result.outcome is Outcome.NOT_GRADED:
            return replace(bare, reason=ended)
        return judged(bare, [Way(trial.name, End.WORKED if passed else End.STOPPED, ended)])
    ways = scratch_grading.reports(result.prints).get(trial.name, ())
    if not ways and trial.ends and result.outcome is Outcome.TIMED_OUT:
        ways = (Way(trial.name, End.STOPPED, "SIGKILL"),)
    if passed:  # no attempt doubles anything
        ways = (*ways, Way("points", End.WORKED, ended))
    return judged(bare, ways) if ways else replace(bare, reason=f"its worker: {ended}")
