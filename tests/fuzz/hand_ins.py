"""Hand-ins of lab 2 in every packing, some of it changed, taken in by intake."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pathlib import Path
from unittest import mock

from autograder import intake
from autograder.course.messages import render
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import LANGUAGES, Message, Submission
from autograder.intake import layout, notebook
from autograder.report import escape
from autograder.report.view import sentence
from tests.fuzz.changes import noise
from tests.fuzz.profile import Draw
from tests.fuzz.right_replies import LAB
from tests.fuzz.scratch import folder
from tests.fuzz.source_changes import MAX_SOURCE, change
from tests.fuzz.sources import BASES, TEXTS, Node, Source, Special, blob

MAX_MEMORY = 64 << 20  # bytes; sources are a few KiB here, whatever their headers claim
_STATUS, _PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
SAFE = re.compile(r"[\w][\w.-]*(?<!\.)")


def _write(root: Path, tree: dict[str, Node]) -> None:
    for name, node in tree.items():
        if "\0" in name or not name.strip("./") or name.startswith("/") or ".." in name.split("/"):
            continue  # no disk holds such names; archives do
        path = root / name[:200]
        with suppress(OSError):  # too long, or there already
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(node, dict):
                path.mkdir(exist_ok=True)
                _write(path, node)
            elif isinstance(node, Special):
                os.mkfifo(path) if node.target is None else os.symlink(node.target, path)
            else:
                path.write_bytes(blob(node))


def _listing(root: Path) -> list[tuple[str, int, int]]:
    found = []
    for above, folders, files in os.walk(root):
        for name in (*folders, *files):
            status = os.lstat(os.path.join(above, name))
            found.append((os.path.join(above, name), status.st_size, status.st_mtime_ns))
    return sorted(found)


@cache
def _imported() -> None:
    """Import what intake imports late: an input is charged for its own time and memory only."""
    notebook.library()
    for name in ("nbformat.reader", "yaml"):
        import_module(name)


@contextmanager
def _memory() -> Iterator[Callable[[], int]]:
    """Yield what tells by how much this process grew meanwhile at most, in bytes (Linux).

    The kernel counts also what libraries in C take, and costs nothing.
    """
    if not _STATUS.exists():
        yield lambda: 0
        return
    _PEAK.write_text("5")  # the peak is what is held now
    before = _held("VmRSS")
    yield lambda: _held("VmHWM") - before


def _held(name: str) -> int:
    (line,) = re.findall(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.M)
    return int(line) << 10


def run(draw: Draw) -> None:
    """Take a source in; whatever is wrong with a hand-in is a message of that hand-in."""
    _imported()
    outer = folder("intake")
    root = outer / "a" / "b"
    shutil.rmtree(outer / "a", ignore_errors=True)
    root.mkdir(parents=True)
    source = BASES[draw.base % len(BASES)]()
    if draw.kind == "noise":
        source = Source({"alice.zip": noise(random.Random(draw.base)), "bob": {"mlp.py": b""}})
    for dice in draw.dice:
        change(source, dice)
    _write(root, source.tree)
    path = root / source.name if source.name in source.tree else root
    before = _listing(outer)
    # Nobody listens while grading; pytest would format what nbformat logs of hostile notebooks,
    # which takes seconds.
    logging.disable()
    try:
        with _memory() as taken:
            submissions = _taken(path)
            peak = taken()
    finally:
        logging.disable(logging.NOTSET)
    assert peak < MAX_MEMORY, f"{peak >> 20} MiB"
    assert _listing(outer) == before
    if draw.kind == "valid":
        found = [entry.student for entry in intake.find(path, LAB)]
        assert found == [submission.student for submission in submissions]
        assert submissions and all(set(one.files) == set(TEXTS) for one in submissions)
        assert all(one.files[name] == TEXTS[name] for one in submissions for name in TEXTS)


def _taken(path: Path) -> list[Submission]:
    try:
        # In this process: 50 ms for one that is ended with what it reads are tested elsewhere.
        with mock.patch.object(layout, "metadata", layout.parse):
            survey = intake.survey(path, LAB)
    except intake.SourceError as error:
        _rendered(error.reason)
        return []
    for remark in survey.remarks:
        _rendered(remark)
    entries = survey.entries
    assert entries
    ids = [entry.student for entry in entries]
    assert all(SAFE.fullmatch(one) and len(one) <= 80 for one in ids), ids
    folded = {unicodedata.normalize("NFKC", one).casefold() for one in ids}
    assert len(folded) == len(ids), ids
    submissions = [intake.read(entry, LAB) for entry in entries]
    for entry, submission in zip(entries, submissions, strict=True):
        assert submission.student == entry.student
        assert not set(submission.files) & set(submission.problems)
        named = set(submission.files) | set(submission.problems)
        assert "" in submission.problems or named == set(LAB.files)
        for text in submission.files.values():
            assert (
                len(text.encode("utf-8", "surrogatepass")) <= 4 * MAX_SOURCE
                and "\0" not in text
                and "\r" not in text
            )
        for message in (*submission.notes, *submission.problems.values()):
            _rendered(message)
        assert json.loads(json.dumps(asdict(submission.origin)))
    return submissions


def _rendered(message: Message) -> None:
    """In both languages, on a terminal, and as JSON."""
    texts = {render(message, language) for language in LANGUAGES}
    assert len(texts) == 2
    for language in LANGUAGES:
        shown = sentence(message, language, escape.line)
        assert shown.encode() and "\n" not in shown and "release has no words" not in shown
    plain = json.dumps(to_plain(message))
    assert json.dumps(to_plain(from_plain(Message, json.loads(plain)))) == plain
