"""Grades on the workers of a Dask cluster, and looks like the local engine to who asks.

Hand-ins go out in chunks, as text, and come back as records. Dask gives the chunk of a worker that
is lost to another one; where that happens again and again its hand-ins are tried one by one, and
one that still takes its workers along is left to a human.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from distributed import Client, Future, Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.scheduler import KilledWorker

from autograder.course import labfile
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import HandIn, Isolation, Lab, Submission
from autograder.grading import journal, shards
from autograder.grading.engine import Engine, ungraded
from autograder.grading.judge_process import EngineError, Options, versions
from autograder.report.class_file import hand_in_from_plain, hand_in_to_plain
from autograder.worker.jail import harden_parent

# What a worker of a Dask cluster does: the local engine, asked for hand-ins in chunks.
#
# A chunk and its records travel as JSON text, so a worker needs no folder that it shares with
# whoever asks, and nothing that a hand-in holds is ever unpickled.

NAME = "qwen3-labs"  # of the plugin


@dataclass(frozen=True)
class Fingerprint:
    """Things that must be equal here and there: hashes of lab and grader, and the releases."""

    lab: str
    grader: str
    versions: Mapping[str, str]


def same(lab: Lab) -> Fingerprint:
    """That of this machine."""
    return Fingerprint(shards.digest_of_lab(lab), journal.context(lab, (), {}).hex(), versions())


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
        """Return what this worker is, as plain data: see :func:`hello`."""
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
        expected: :class:`Fingerprint` of who asks, as plain data.
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
    return json.dumps(to_plain(submissions))


def submissions_of(chunk: str) -> list[Submission]:
    """The inverse of :func:`chunk_of`."""
    return from_plain(list[Submission], json.loads(chunk))


def records_of(text: str) -> list[HandIn]:
    """The records in the answer of :func:`grade`."""
    return [hand_in_from_plain(plain) for plain in json.loads(text)]


_TALKERS = ("distributed", "tornado", "asyncio")
LEVELS = ("weak", "medium", "strong")
PATIENCE = 60.0  # seconds to wait for a scheduler, and for the first worker
CHUNK = 10  # hand-ins per core of a worker: seconds of work, so little is lost with a worker


class Cluster:
    """A scheduler's workers as one engine; a context manager that leaves them as they were.

    Args:
        address: of the scheduler, as ``tcp://10.0.0.1:8786``.
        lab: what is graded.
        options: ``hidden_cases`` and ``order_seed`` count; the rest is each worker's own.
        least: of workers that join later; who asks looks at ``isolation`` once all are ready.
        count: how many hand-ins there are.
    """

    def __init__(self, address: str, lab: Lab, options: Options, least: str, count: int) -> None:
        self._address, self._lab, self._options = address, lab, options
        self._least, self._count = least, count
        self._same = asdict(same(lab))
        self._client: Client | None = None
        _silence()
        self._ended: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._held: dict[str, Future[Any]] = {}  # Dask forgets a task that nobody holds
        self._cores = 1  # of the largest worker
        self.counts: Mapping[str, int] = {}
        self.isolation = Isolation("weak", (), "fork")
        self.workers = 0

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is None:
            return
        with contextlib.suppress(Exception):  # it may be gone, and nothing is lost by that
            self._client.unregister_worker_plugin(NAME)
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)

    def wait_ready(self) -> None:
        """Let every worker start its engine; learn the cases and the least isolation of them.

        Raises:
            EngineError: no scheduler or no worker is there, or one of them is not as we are.
        """
        try:
            self._client = client = Client(
                self._address, timeout=PATIENCE, set_as_default=False, name=NAME
            )
            client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, ValueError, ImportError) as error:
            raise EngineError(
                f"{self._address}: no Dask scheduler with a worker answers ({_short(error)}); "
                "start dask scheduler and dask worker, and give the address that it prints"
            ) from None
        cases = self._options.hidden_cases
        assert cases is not None
        plugin = Grader(self._lab.name, cases.read_bytes(), self._options.order_seed)
        try:
            client.register_plugin(plugin)
            asked = [
                client.submit(hello, workers=[worker], pure=False) for worker in client.nthreads()
            ]
            answers = client.gather(asked)
        except Exception as error:  # Dask hands on whatever a worker raised
            raise _unusable(error) from None
        for answer in answers:
            self._checked(answer)
        isolations = [_isolation(answer) for answer in answers]
        self.isolation = min(isolations, key=_strength)
        self.counts = answers[0]["counts"]
        self.workers = len(answers)

    def grade(self, submissions: Iterator[Submission]) -> Iterator[HandIn]:
        """Grade hand-ins; yield each record when its chunk is done.

        Raises:
            EngineError: the scheduler is gone, or a worker came that cannot be used.
        """
        assert self._client is not None
        out: dict[str, list[Submission]] = {}  # by the key of the task
        alone: deque[Submission] = deque()  # their chunk took several workers along
        while True:
            while len(out) < 2 * max(1, self._look()):
                chunk = [alone.popleft()] if alone else list(islice(submissions, self._chunk()))
                if not chunk:
                    break
                out[self._submit(chunk)] = chunk
            if not out:
                return
            future = self._next()
            chunk = out.pop(str(future.key))
            try:
                answer = future.result()
            except KilledWorker as error:
                if len(chunk) == 1:
                    yield ungraded(self._lab, chunk[0], _short(error))
                alone.extend(chunk if len(chunk) > 1 else ())
                continue
            except Exception as error:  # Dask hands on whatever a worker raised
                raise _unusable(error) from None
            self._checked(answer)
            self.isolation = min(self.isolation, _isolation(answer), key=_strength)
            if LEVELS.index(self.isolation.level) < LEVELS.index(self._least):
                raise EngineError(
                    f"{answer['worker']}: this worker has joined with the isolation level "
                    f"{self.isolation.level}, and {self._least} was asked for"
                )
            yield from records_of(answer["records"])

    def _submit(self, chunk: list[Submission]) -> str:
        assert self._client is not None
        text = chunk_of(chunk)
        asked = (self._lab.name, self._same, text)
        with self._scheduler():
            future = self._client.submit(grade, *asked, pure=False)
        self._held[str(future.key)] = future
        future.add_done_callback(self._ended.put)
        return str(future.key)

    def _next(self) -> Future[Any]:
        """The next task that has ended."""
        while True:
            try:
                future = self._ended.get(timeout=5)
            except queue.Empty:
                if self._client is None or self._client.status != "running":
                    raise self._gone() from None
                continue
            return self._held.pop(str(future.key))

    def _look(self) -> int:
        """Return how many workers there are now; they come and go."""
        assert self._client is not None
        with self._scheduler():
            threads = self._client.nthreads()
        self._cores = max([1, *threads.values()])
        return len(threads)

    @contextlib.contextmanager
    def _scheduler(self) -> Iterator[None]:
        """Return what Dask raises when nobody answers is no fault of our disk."""
        try:
            yield
        except (OSError, RuntimeError):
            raise self._gone() from None

    def _gone(self) -> EngineError:
        return EngineError(f"{self._address}: the scheduler is gone; start it and its workers")

    def _chunk(self) -> int:
        """Hand-ins in a chunk: fewer in a small class, so that every worker gets some."""
        share = -(-self._count // (4 * max(1, self.workers)))
        return max(1, min(CHUNK * self._cores, share))

    def _checked(self, answer: Mapping[str, Any]) -> None:
        """See that the worker of an answer is one that may grade.

        Raises:
            EngineError: it is not; the text names it and the mend.
        """
        worker = answer.get("worker", "a worker")
        if "cannot" in answer:
            raise EngineError(f"{worker}: {answer['cannot']}")
        there = answer.get("same")
        if there is not None and there != self._same:
            raise EngineError(f"{worker}: {_differing(self._same, there)}")


def _silence() -> None:
    """Dask logs every lost connection; what matters of them is said in our sentences.

    Its own configuration gives some of its modules a level and a handler each. Its event loop logs
    what was under way when a scheduler goes.
    """
    for name in (*_TALKERS, *logging.root.manager.loggerDict):
        if name.partition(".")[0] in _TALKERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _isolation(answer: Mapping[str, Any]) -> Isolation:
    raw = answer["isolation"]
    return Isolation(raw["level"], tuple(raw["layers"]), raw["worker"])


def _strength(isolation: Isolation) -> tuple[int, int]:
    return LEVELS.index(isolation.level), len(isolation.layers)


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Return what a worker has otherwise than we, and the mend."""
    here, there = ours["versions"], theirs["versions"]
    other = [f"{n} {there.get(n)} instead of {v}" for n, v in here.items() if there.get(n) != v]
    if other:
        return f"has {', '.join(other)}; give all workers the same environment"
    what = "grader" if ours["grader"] != theirs["grader"] else "lab"
    return f"has another version of the {what}; give all workers the same checkout"


def _unusable(error: Exception) -> EngineError:
    if isinstance(error, ImportError):
        return EngineError(
            f"a worker cannot import the grader ({_short(error)}); start dask scheduler and "
            "dask worker in the checkout, with PYTHONPATH naming it"
        )
    return EngineError(f"the cluster cannot go on: {_short(error)}")


def _short(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
