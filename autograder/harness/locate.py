"""Where the fault lies, when its name is not known or not enough: stages that agree, properties."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import numpy as np

from autograder.course.records import Message, Text
from autograder.diagnosis.stages import COLUMNS, Course, Stage, furthest
from autograder.harness.checks import CheckFailed
from autograder.harness.plan import Plan, Trial
from autograder.sandbox.kept import NotKept
from autograder.sandbox.link import NoWorker, WorkerLost
from autograder.sandbox.student import Student, StudentError
from autograder.sandbox.transport import CheckTransport
from autograder.sandbox.wire import Tensor


def stages_of(plan: Plan, course: Course, transport: CheckTransport) -> list[Message]:
    """Up to where the answer to a check is right, and what differs first; or nothing.

    Raises:
        NoWorker: none could be started.
    """
    trials = plan.trials.get(course.check, ())
    trial = next((trial for trial in trials if trial.case.name == course.case), None)
    if trial is None:
        return []
    try:
        student, _ = _asked(trial, transport, traced=True)
    except WorkerLost:
        return []
    tables = [made for made in student.traces if isinstance(made, Tensor)]
    rows = [made.array for made in tables if made.shape[1:] == (COLUMNS,)]
    if not rows:
        return []
    right, wrong = furthest(course.stages, np.concatenate(rows).astype(np.float64))
    if not wrong:
        return []
    if not right:
        return [Message("diagnosis.differs_at_once", {"differs": _listed(wrong)})]
    return [Message("diagnosis.agrees", {"agrees": _listed(right), "differs": _listed(wrong)})]


def properties_of(plan: Plan, exercise: str, transport: CheckTransport) -> list[Message]:
    """Which properties hold, and which do not.

    Raises:
        NoWorker: none could be started.
    """
    held: dict[bool, list[Text]] = {True: [], False: []}
    for trial in plan.probes.get(exercise, ()):
        try:
            _, answer = _asked(trial, transport)
        except WorkerLost:
            break  # it costs more than it can tell
        if answer is not None:
            held[answer].append(_title(trial))
    said = []
    if held[False]:
        said.append(Message("diagnosis.breaks", {"properties": _joined(held[False])}))
    if held[True]:
        said.append(Message("diagnosis.holds", {"properties": _joined(held[True])}))
    return said


def _asked(
    trial: Trial, transport: CheckTransport, *, traced: bool = False
) -> tuple[Student, bool | None]:
    """Ask; once more, when a stray signal took the worker.

    Raises:
        WorkerLost, NoWorker.
    """
    student = Student(transport, traced=traced)
    try:
        return student, _ask(trial, student)
    except WorkerLost as lost:
        if not lost.stray:
            raise
    transport.forgive()
    student = Student(transport, traced=traced)
    return student, _ask(trial, student)


def _ask(trial: Trial, student: Student) -> bool | None:
    """Whether it passes; None when it cannot be asked.

    Raises:
        WorkerLost, NoWorker.
    """
    trial.guard()
    try:
        trial.run(student, trial.case)
        student.flush()
    except CheckFailed:
        return False
    except (StudentError, NotKept):
        return None
    except (WorkerLost, NoWorker):
        raise
    except Exception:  # an answer that no property expects tells nothing
        return None
    return True


def _title(trial: Trial) -> Text:
    words = [line.strip() for line in (inspect.getdoc(trial.run) or "").splitlines()]
    lines = [line for line in words if line]
    return Text(lines[0], lines[-1]) if lines else Text(trial.check, trial.check)


def _listed(stages: Sequence[Stage]) -> dict[str, str]:
    return _joined([stage.name for stage in stages])


def _joined(texts: Sequence[Text]) -> dict[str, str]:
    return {"en": ", ".join(t.en for t in texts), "zh": "、".join(t.zh for t in texts)}
