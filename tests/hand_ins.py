"""Hand-ins of lab 2 for tests, and what is asked about how they were graded."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autograder.authoring.styles import texts_of
from autograder.course.labfile import ROOT
from autograder.course.records import CheckResult, HandIn, Lab, Outcome, Submission
from autograder.course.score import points_of
from autograder.grading.engine import Engine

FILES = ("attention.py", "mlp.py")
FUTURE = "from __future__ import annotations\n"
_PR_SET_CHILD_SUBREAPER = 36
STAYING: list[Callable[[], set[int]]] = []  # what gives processes that are meant to stay


def read(folder: Path) -> dict[str, str]:
    """The text of both files in ``folder``."""
    return texts_of(folder, FILES)


def right() -> dict[str, str]:
    """A right solution."""
    return read(ROOT / "solutions" / "lab2_qwen3_block")


def stub() -> dict[str, str]:
    """A right solution whose every body is a TODO again."""
    blank = re.compile(r"^( *)# BEGIN SOLUTION (\S+)$.*?^ *# END SOLUTION$", re.M | re.S)
    todo = r'\1raise NotImplementedError("TODO \2: to be written")'
    return {name: blank.sub(todo, text) for name, text in right().items()}


def guessing() -> dict[str, str]:
    """Runs, has every parameter, and computes nothing: what an attack would have to lift."""
    files = right()
    files["attention.py"] += """

def rotate_half(x): return torch.zeros_like(x)
def apply_rotary_pos_emb(q, k, cos, sin): return torch.zeros_like(q), torch.zeros_like(k)
def repeat_kv(x, n_rep): return torch.zeros_like(x).repeat(1, n_rep, 1, 1)
RotaryEmbedding.forward = lambda self, p: 2 * (torch.zeros(*p.shape, 2 * len(self.inv_freq)),)
Qwen3Attention.forward = lambda self, h, *a, **k: torch.zeros_like(h)
"""
    files["mlp.py"] += """

Qwen3MLP.forward = lambda self, x: torch.zeros_like(x)
def count_parameters(config): return dict.fromkeys(
    ("embedding", "attention", "mlp", "norm", "lm_head", "total"), -1)
def weight_bytes(config, dtype): return -1
def kv_cache_bytes(config, tokens, batch, dtype): return -1
"""
    return files


def with_code(files: Mapping[str, str], code: str, *names: str) -> dict[str, str]:
    """The hand-in with ``code`` run first in the files called ``names`` (default: both)."""
    changed = dict(files)
    for name in names or FILES:
        assert FUTURE in changed[name]
        changed[name] = changed[name].replace(FUTURE, FUTURE + code.strip("\n") + "\n", 1)
    return changed


def hand_in(student: str, files: Mapping[str, str]) -> Submission:
    """A submission as intake makes it of clean files."""
    return Submission(student, dict(files))


def grade(engine: Engine, *submissions: Submission) -> dict[str, HandIn]:
    """Grade; the records by student."""
    return {record.student: record for record in engine.grade(iter(submissions))}


def results(record: HandIn) -> dict[str, CheckResult]:
    """The results by check."""
    return {result.check: result for result in record.results}


def outcomes(record: HandIn) -> dict[str, str]:
    """The outcomes by check."""
    return {result.check: result.outcome.value for result in record.results}


def not_passed(record: HandIn) -> list[str]:
    """Checks that were graded and did not pass."""
    spared = (Outcome.PASSED, Outcome.NOT_GRADED)
    return [result.check for result in record.results if result.outcome not in spared]


def earned(lab: Lab, record: HandIn) -> int:
    """Points."""
    return points_of(lab, record.results).earned


def heed_interrupts() -> None:
    """As at a terminal: what a shell starts in the background ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def descendants() -> set[int]:
    """Every living process that stems from this one."""
    parent: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:  # it has ended meanwhile
                continue
            state, above = stat.rsplit(")", 1)[1].split()[:2]
            if state != "Z":  # ended; only its status is still to be asked for
                parent[int(entry)] = int(above)
    found: set[int] = set()
    waiting = {os.getpid()}
    while waiting:
        waiting = {pid for pid, above in parent.items() if above in waiting}
        found |= waiting
    return found


@contextmanager
def nothing_left_behind(seconds: float = 10, *, judges: bool = False) -> Iterator[None]:
    """Fail if the block leaves a process behind, orphans included, ``seconds`` after its end.

    With ``judges`` the forked judges of an engine that is still open may stay; those of the
    engines of :mod:`tests.engines` always may.
    """
    if sys.platform != "linux":
        yield
        return
    # Orphans come to this process then, however often they fork.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = descendants()
    yield
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        staying = set().union(*(pids() for pids in STAYING))
        left = [commands(pid) for pid in descendants() - before - staying]
        left = [line for line in left if not (judges and "autograder.judge.main" in line)]
        if not left:
            return
        time.sleep(0.02)
    raise AssertionError(f"left behind: {left}")


def children(above: int) -> set[int]:
    """Processes that this one has forked."""
    found = set()
    for pid in descendants():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        if int(stat.rsplit(")", 1)[1].split()[1]) == above:
            found.add(pid)
    return found


def commands(pid: int) -> str:
    """How a process was started, for a message."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return f"{pid} (ended)"


def texts(records: Iterable[HandIn]) -> str:
    """Everything that a record would show to anybody."""
    return repr(tuple(records))
