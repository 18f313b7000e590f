"""What a worker of a Dask cluster does: the local engine, asked for hand-ins in chunks.

A chunk and its records travel as JSON text, so a worker needs no folder that it shares with
whoever asks, and nothing that a hand-in holds is ever unpickled.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from autograder.course import labfile
from autograder.course.plain import message_from_plain, message_to_plain
from autograder.course.records import HandIn, Isolation, Lab, Origin, Student, Submission
from autograder.grading import journal, shards
from autograder.grading.engine import Engine, EngineError, Options
from autograder.grading.versions import versions
from autograder.report.record import hand_in_from_plain, hand_in_to_plain
from autograder.sandbox.jail import harden_parent

NAME = "qwen3-labs"  # of the plugin


@dataclass(frozen=True)
class Same:
    """What has to be the same here and there: hashes of lab and grader, and the releases."""

    lab: str
    grader: str
    versions: Mapping[str, str]


def same(lab: Lab) -> Same:
    """That of this machine."""
    return Same(shards.digest_of_lab(lab), journal.context(lab, (), {}).hex(), versions())


class Grader(WorkerPlugin):
    """Keeps an engine for one grading on every worker, those that come later too.

    Args:
        lab: its name.
        cases: the hidden cases, as the bytes of their file; drawn once, so that every worker
            asks the same.
        key: what the order of questions is drawn from.
    """

    name = NAME

    def __init__(self, lab: str, cases: bytes, key: bytes) -> None:
        self._asked = lab
        self._cases = cases
        self._key = key

    def setup(self, worker: Worker) -> None:
        """Called by Dask on the worker. Nothing that can fail happens yet."""
        self._lock = threading.Lock()  # one chunk at a time: it uses all threads of the worker
        self._engine: Engine | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._jobs = worker.state.nthreads

    def teardown(self, worker: Worker) -> None:
        """Called by Dask on the worker when grading has ended."""
        with self._lock:
            self._end()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def stand(self) -> dict[str, Any]:
        """What this worker is, as plain data: see :func:`hello`."""
        lab = labfile.load(labfile.find_lab(self._asked))
        with self._lock:
            engine = self._ready(lab)
            isolation, counts = asdict(engine.isolation), dict(engine.counts)
        return {"same": asdict(same(lab)), "isolation": isolation, "counts": counts}

    def graded(self, submissions: list[Submission]) -> tuple[Isolation, list[HandIn]]:
        """Grade a chunk.

        Raises:
            EngineError: see :meth:`Engine.grade`.
        """
        with self._lock:
            engine = self._ready(labfile.load(labfile.find_lab(self._asked)))
            try:
                return engine.isolation, list(engine.grade(iter(submissions)))
            except BaseException:
                self._end()  # the next chunk gets a new one
                raise

    def _ready(self, lab: Lab) -> Engine:
        if self._engine is None:
            harden_parent()  # the secret stands in this process, too
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory()
                (Path(self._folder.name) / "hidden.safetensors").write_bytes(self._cases)
            path = Path(self._folder.name) / "hidden.safetensors"
            options = Options(hidden_cases=path, jobs=self._jobs, order_seed=self._key)
            engine = Engine(lab, options)
            engine.__enter__()
            self._engine = engine
            try:
                engine.wait_ready()
            except BaseException:
                self._end()
                raise
        return self._engine

    def _end(self) -> None:
        if self._engine is not None:
            self._engine.__exit__(None)
            self._engine = None


def hello() -> dict[str, Any]:
    """A task: what a worker is (``same``, ``isolation``, ``counts``), or why it ``cannot``."""
    return _told(lambda grader: grader.stand())


def grade(lab: str, expected: Mapping[str, Any], chunk: str) -> dict[str, Any]:
    """A task: the records of a chunk.

    Args:
        lab: its name.
        expected: :class:`Same` of who asks, as plain data.
        chunk: from :func:`chunk_of`.

    Returns:
        ``isolation`` and ``records`` (JSON text), ``same`` alone where that is not as expected,
        or why it ``cannot``.
    """
    own = labfile.load(labfile.find_lab(lab))
    if (here := asdict(same(own))) != expected:
        return {"same": here}

    def work(grader: Grader) -> dict[str, Any]:
        isolation, hand_ins = grader.graded(submissions_of(chunk))
        records = [hand_in_to_plain(own, hand_in) for hand_in in hand_ins]
        return {"isolation": asdict(isolation), "records": json.dumps(records)}

    return _told(work)


def _told(work: Callable[[Grader], dict[str, Any]]) -> dict[str, Any]:
    """The answer of a task with the worker's address, or a sentence why there is none."""
    worker = get_worker()
    grader = worker.plugins[NAME]
    assert isinstance(grader, Grader)
    try:
        return {"worker": worker.address, **work(grader)}
    except (EngineError, OSError, ValueError) as error:
        return {"worker": worker.address, "cannot": str(error)}


def chunk_of(submissions: list[Submission]) -> str:
    """Hand-ins as JSON text."""
    plain = [
        {
            "student": one.student,
            "files": dict(one.files),
            "notes": [message_to_plain(note) for note in one.notes],
            "problems": {name: message_to_plain(m) for name, m in one.problems.items()},
            "origin": asdict(one.origin),
        }
        for one in submissions
    ]
    return json.dumps(plain)


def submissions_of(chunk: str) -> list[Submission]:
    """The inverse of :func:`chunk_of`."""
    found = []
    for one in json.loads(chunk):
        students = tuple(Student(**student) for student in one["origin"]["students"])
        origin = Origin(**{**one["origin"], "students": students})
        notes = tuple(message_from_plain(note) for note in one["notes"])
        problems = {name: message_from_plain(m) for name, m in one["problems"].items()}
        found.append(Submission(one["student"], one["files"], notes, problems, origin))
    return found


def records_of(text: str) -> list[HandIn]:
    """The records in the answer of :func:`grade`."""
    return [hand_in_from_plain(plain) for plain in json.loads(text)]
