"""A recording of what known hand-ins come to: each is graded, or asked, once for its content.

Known hand-ins are ours: solutions, with and without mistakes in them, other styles, stubs. What
they answer hangs on their text, on the lab's checks and cases, on the code that runs and judges
them and on the libraries; all of this is in the key of an entry, and points and words are not.

Where a hand-in has the same text to answer with as one before it, as the solution with another
line changed, it does not run (:mod:`autograder.sandbox.sharing`).

Of the entries that are read, one in twenty is answered anew and has to be what was recorded;
which ones depends on the commit, so that a key that misses something is found sooner or later.
It runs as a whole then, even where it is recorded for the first time.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from autograder.course import labfile
from autograder.course.labfile import GRADER, ROOT
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import HandIn, Lab, Submission
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options, banks

FOLDER = Path(os.environ.get("AUTOGRADER_RECORDINGS", ROOT / ".recordings"))
ANEW = 20  # one entry in so many is answered again
# Rooms that make a result.
GRADERS = ("wire", "worker", "course", "sandbox", "reference", "checks", "diagnosis", "judge")
CONDUCT = ("engine.py", "judge_process.py")


class StaleRecordingError(ValueError):
    """An entry is not what the same hand-in comes to today; the text says which, and the mend."""


class Recording:
    """Entries by key, in one SQLite file that processes may share.

    Args:
        folder: where the file lies; hidden cases may be cached beside it.
        commit: what chooses the entries that are answered anew.
    """

    def __init__(self, folder: Path = FOLDER, commit: str | None = None) -> None:
        self.path = folder / "recording.sqlite"
        self._commit = _commit() if commit is None else commit
        folder.mkdir(parents=True, exist_ok=True)
        with closing(self._open()) as store, store:
            store.execute("CREATE TABLE IF NOT EXISTS entry (key TEXT PRIMARY KEY, value BLOB)")

    def get(self, key: str) -> Any:
        """The entry, plain data; None where there is none."""
        return self.get_all([key]).get(key)

    def get_all(self, keys: Sequence[str]) -> dict[str, Any]:
        """Those of some entries that there are."""
        found: dict[str, Any] = {}
        with closing(self._open()) as store:
            for start in range(0, len(keys), 500):
                some = keys[start : start + 500]
                asked = f"SELECT key, value FROM entry WHERE key IN ({', '.join('?' * len(some))})"
                rows = store.execute(asked, some)
                found.update((key, json.loads(zlib.decompress(blob))) for key, blob in rows)
        return found

    def put(self, key: str, value: Any) -> None:
        """Record plain data other than None."""
        self.put_all({key: value})

    def put_all(self, entries: Mapping[str, Any]) -> None:
        """Record plain data by key."""
        rows = ((k, zlib.compress(json.dumps(value).encode(), 1)) for k, value in entries.items())
        with closing(self._open()) as store, store:
            store.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?)", rows)

    def answer(self, key: str, answered: Callable[[], Any], what: str) -> Any:
        """The entry, recorded from what ``answered`` returns where there is none.

        Raises:
            StaleRecordingError: it was to be answered anew, and came out otherwise.
        """
        known = self.get(key)
        if known is not None and not self.is_due(key):
            return known
        now = answered()
        if known is None:
            self.put(key, now)
        elif known != now:
            raise self.stale(what, known, now)
        return now

    def is_due(self, key: str) -> bool:
        """Return whether this entry is one of those that are answered anew at this commit."""
        return int(hashed(self._commit, key)[:8], 16) % ANEW == 0

    def turn(self, count: int) -> int:
        """Return which of so many parts of a proof takes its turn at this commit."""
        return int(hashed(self._commit)[:8], 16) % count

    def stale(self, what: str, known: Any, now: Any) -> StaleRecordingError:
        """The error of an entry that came out otherwise."""
        return StaleRecordingError(
            f"{what}: recorded as {known}, but it comes to {now} today: its key misses something "
            f"that it hangs on, or it is not repeatable; mend that, and delete {self.path.parent}"
        )

    def _open(self) -> sqlite3.Connection:
        store = sqlite3.connect(self.path, timeout=120)
        store.execute("PRAGMA synchronous = OFF")  # what a power cut takes is answered again
        return store


class RecordedEngine:
    """Grades known hand-ins of one lab; those that were graded before are read.

    Its engine is started for the first hand-in that is not recorded, and kept; a context manager.

    Args:
        lab: which lab.
        hidden: file of hidden cases; without it, nothing is run again to look for state.
        whole: name mistakes and look for state that carries over; else a hand-in's grading ends
            with the first check that costs points.
        recording: where entries are kept.
    """

    def __init__(
        self,
        lab: Lab,
        hidden: Path | None,
        *,
        whole: bool = True,
        recording: Recording | None = None,
    ) -> None:
        self._lab = lab
        replay = whole and hidden is not None
        self._options = Options(
            hidden_cases=hidden, jobs=2, diagnose=whole, replay=replay, whole=whole
        )
        self._recording = recording or Recording()
        own = [hidden] if hidden else []
        own += [path for path in banks(lab).values() if whole and path.exists()]
        how = "graded" if replay else "named" if whole else "lost"
        self._state = hashed(how, state_of(lab), *map(content, own))
        self._engine: Engine | None = None

    def __enter__(self) -> RecordedEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the engine; another one is started when it is needed."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.__exit__(None)

    def grade(
        self, hand_ins: Mapping[str, Mapping[str, str]], checks: Collection[str] = ()
    ) -> dict[str, HandIn]:
        """Grade hand-ins given as text by file name.

        Args:
            hand_ins: by name.
            checks: names of the checks to run, those that they need among them; all if empty.

        Returns:
            Their records by name; without digests, which are those of the text.

        Raises:
            StaleRecordingError: one comes to something else than is recorded.
        """
        only = sorted(checks)
        keys = self.keys(hand_ins, only)
        known = {key: self._recording.get(key) for key in keys.values()}
        due = {key for key in known if known[key] is None or self._recording.is_due(key)}
        chosen = {key: hand_ins[name] for name, key in keys.items() if key in due}
        names = {key: name for name, key in keys.items()}
        for key, now in self._graded(chosen, only):
            before = known[key]
            if before is None:
                known[key] = now
                self._recording.put(key, now)
            elif _verdicts(before) != _verdicts(now):
                what = f"{self._lab.name}: {names[key]}"
                raise self._recording.stale(what, _verdicts(before), _verdicts(now))
        return {name: _from_plain(name, known[key]) for name, key in keys.items()}

    def keys(
        self, hand_ins: Mapping[str, Mapping[str, str]], checks: Sequence[str] = ()
    ) -> dict[str, str]:
        """The key of every hand-in in the recording, by name."""
        return {n: hashed(self._state, text_of(files), *checks) for n, files in hand_ins.items()}

    def _graded(
        self, hand_ins: Mapping[str, Mapping[str, str]], only: Sequence[str]
    ) -> Iterator[tuple[str, Any]]:
        """Records as plain data, by key; first with shared answers, then, of those due, without.

        A key stands for a name, so that the order of cases is the content's.
        """
        if not hand_ins:
            return
        if self._engine is None:
            self._engine = Engine(self._lab, self._options)
            self._engine.__enter__()
            self._engine.wait_ready()
        submissions = [Submission(key, files) for key, files in hand_ins.items()]
        due = [one for one in submissions if self._recording.is_due(one.student)]
        for shares, some in ((True, submissions), (False, due)):
            for record in self._engine.grade(iter(some), only, shares=shares):
                yield record.student, _to_plain(record)


def hashed(*parts: str) -> str:
    """Hash of some texts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def state_of(lab: Lab, *, words: bool = True) -> str:
    """Hash of what an answer to the checks of a lab hangs on beside the hand-in itself.

    Args:
        words: with the sentences of the checks; what a hand-in answers does not hang on them.
    """
    asked = [
        [e.id, e.file, [[c.name, c.needs, c.fresh, c.optional] for c in e.checks]]
        for e in lab.exercises
    ]
    about = [lab.name, lab.files, lab.given, lab.forbidden, vars(lab.limits), lab.folders, asked]
    paths = sorted((lab.folder / "checks").glob("*.py"))
    checks = [code_of(path, words=words) for path in paths]
    own = [lab.folder / "cases.safetensors"]
    own += [path for name in lab.folders for path in (ROOT / name).rglob("*") if path.is_file()]
    return hashed(json.dumps(about), state_of_ours(), *checks, *map(content, sorted(own)))


_Span = tuple[tuple[int, int], tuple[int, int]]  # line and column of the start, and of the end


def code_of(path: Path, *, words: bool = True) -> str:
    """The name and the text of a file of checks, without titles and docstrings.

    Args:
        words: with what stands in ``Text(…)``, the sentences for students.

    Raises:
        LabError: it is no Python.
    """
    left: list[tuple[_Span, str]] = []  # out, and what stands there instead
    for node in ast.walk(labfile.parsed(path)):
        for table in labfile.tables_of(node):
            rows = labfile.rows_of(table.value)
            plain = repr([(name, recipes) for name, (recipes, _) in rows.items()])
            left.append((_span(table), plain))
        match node:
            case ast.Call(func=ast.Name("Text")) if not words:
                left.append((_span(node), "Text()"))
            case (
                ast.Module([ast.Expr(ast.Constant(str()) as text), *_])
                | ast.ClassDef(body=[ast.Expr(ast.Constant(str()) as text), *_])
                | ast.FunctionDef(body=[ast.Expr(ast.Constant(str()) as text), *_])
            ):
                left.append((_span(text), ""))
    lines = path.read_bytes().splitlines(keepends=True)
    for (start, end), instead in sorted(left, reverse=True):
        if any(a < start and end < b for (a, b), _ in left):
            continue  # it goes with the one that it stands in
        before, after = lines[start[0] - 1][: start[1]], lines[end[0] - 1][end[1] :]
        lines[start[0] - 1 : end[0]] = [before + instead.encode() + after]
    return f"{path.name} {b''.join(lines).decode()}"


def _span(node: ast.expr) -> _Span:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


@cache
def state_of_ours() -> str:
    """Hash of the code that runs and judges hand-ins, of what labs give, and of the libraries."""
    code = [path for room in GRADERS for path in (GRADER / room).rglob("*.py")]
    code += [GRADER / "grading" / name for name in CONDUCT]
    given = (ROOT / "labs" / "given").rglob("*")
    code += [path for path in given if path.suffix in (".py", ".json", ".safetensors")]
    libraries = [metadata.version(name) for name in ("torch", "numpy", "pytest")]
    return hashed(platform.python_version(), *libraries, *map(content, sorted(code)))


def content(path: Path) -> str:
    """Name and hash of a file."""
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def text_of(files: Mapping[str, str]) -> str:
    """One text of some files by name."""
    return json.dumps(files, sort_keys=True)


@cache
def _commit() -> str:
    """The commit that is checked out; empty where this is no repository."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _to_plain(record: HandIn) -> dict[str, Any]:
    return {name: to_plain(getattr(record, name)) for name in ("results", "marks", "findings")}


def _from_plain(name: str, raw: Mapping[str, Any]) -> HandIn:
    return from_plain(HandIn, {"student": name, **raw})


def _verdicts(raw: Mapping[str, Any]) -> list[Any]:
    """Say what has to come out the same: outcomes and what they are told by, marks, and names."""
    outcomes = {
        one["check"]: [one["outcome"], (one["message"] or {}).get("key")] for one in raw["results"]
    }
    marks = [one["key"] for one in raw["marks"]]
    names = [
        [one["certainty"], one["either"], [m["id"] for m in one["misconceptions"]]]
        for one in raw["findings"]
    ]
    return [outcomes, marks, names]
