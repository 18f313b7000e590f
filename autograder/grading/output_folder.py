"""The folder that a class is graded into: it belongs to one class and to one run at a time."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from autograder.course.atomic import write_atomic
from autograder.course.labfile import Table
from autograder.course.records import LANGUAGES
from autograder.report.class_file import whose
from autograder.report.escape import line

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
NAMED = 20  # students in one message


class OutFolderError(ValueError):
    """Nothing may be written there; the text names the folder and the mend."""


@contextlib.contextmanager
def claimed(out: Path) -> Iterator[None]:
    """Make ``out`` and keep other runs from it; the lock ends with this process, however it ends.

    Raises:
        OutFolderError: it cannot be written to, or another run writes to it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(out / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        text = f"{out}: {error.strerror}; --out takes a folder to write to"
        raise OutFolderError(text) from None
    try:
        _lock(descriptor, out)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, out: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutFolderError(
            f"{out}: another run is writing there; wait for its end, or give another --out"
        ) from None


def apart(source: Path, out: Path) -> None:
    """Keep reports from being taken for hand-ins by the next run.

    Raises:
        OutFolderError: ``out`` is the folder of hand-ins, or lies in it.
    """
    hand_ins, reports = source.resolve(), out.resolve()
    if hand_ins == reports or hand_ins in reports.parents:
        raise OutFolderError(
            f"{out}: lies in the folder of hand-ins, where the next run would take the reports "
            "for hand-ins; give an --out beside it"
        )


def students(out: Path) -> set[str]:
    """Return who stands in ``OUT/class.json``; nobody where that cannot be told."""
    try:
        return whose(out / "class.json")[1]
    except (OSError, ValueError, LookupError, TypeError):
        return set()


def same_class(out: Path, lab: str, present: set[str]) -> None:
    """Keep a class from being overwritten by another one, by a part of it, or by another lab.

    Raises:
        OutFolderError: ``OUT/class.json`` is of another lab, holds students who are not
            ``present``, or cannot be read.
    """
    path = out / "class.json"
    try:
        graded, known = whose(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError, LookupError, TypeError):
        raise OutFolderError(
            f"{path}: damaged, or not written by us, so whose scores it held cannot be told; "
            "move it away, or give another --out"
        ) from None
    same_lab(out, graded, lab)
    others = sorted(known - present)
    if others:
        raise OutFolderError(
            f"{path}: holds hand-ins that are not in this class ({named(others)}); "
            "writing here would lose them: give another --out, or delete that file"
        )


def same_lab(out: Path, graded: str, lab: str) -> None:
    """Keep the class of one lab from being overwritten by that of another.

    Raises:
        OutFolderError: ``graded`` and ``lab`` differ.
    """
    if graded != lab:
        raise OutFolderError(
            f"{out / 'class.json'}: a class of {line(str(graded))}, not of {lab}; "
            "give every lab an --out of its own"
        )


def named(students: list[str]) -> str:
    """Students in one line, the first of many."""
    more = f" … (+{len(students) - NAMED})" if len(students) > NAMED else ""
    return ", ".join(map(line, students[:NAMED])) + more


# ``OUT/grade.toml``: what a class was graded with, so that nobody has to say it again.
#
# hand_ins = "/home/li/course/hand-ins.zip"
# lab = "lab2_qwen3_block"
# roster = "/home/li/course/roster.csv"
# secret_file = "secret"             # its place; relative paths begin in this folder

NAME = "grade.toml"
ATTEMPTS = ("last", "best")
LEVELS = ("weak", "medium", "strong")
_HEAD = """# What this class was graded with; grade --resume, grade --only and rescore go on by it.
# Options that are given to them come first, and are written here.
"""


class GradeFileError(ValueError):
    """The file cannot be used; the text names it, the key and the mend."""


@dataclass(frozen=True)
class Setup:
    """The content of the file. ``secret_file`` None: the secret is in the environment.

    ``extensions`` are those that the course file names, which is what decides. ``weights`` is a
    folder or a hub id, ``shard`` as ``grade --shard`` takes it.
    """

    hand_ins: Path
    lab: str
    language: str = "en"
    attempt: str = ATTEMPTS[0]
    pattern: str = ""
    roster: Path | None = None
    course: Path | None = None
    extensions: Path | None = None
    overrides: Path | None = None
    secret_file: Path | None = None
    weights: str = ""
    keep_outputs: bool = False
    least: str = LEVELS[-1]
    shard: str = ""


_PATHS = ("hand_ins", "roster", "course", "extensions", "overrides", "secret_file")
_CHOICES = {"language": LANGUAGES, "attempt": ATTEMPTS, "least": LEVELS}


DEFAULT_LEVEL = LEVELS[-1] if sys.platform.startswith("linux") else LEVELS[0]


def write(out: Path, setup: Setup) -> None:
    """Write the file. Raises OSError."""
    lines = []
    for field in fields(setup):
        value = getattr(setup, field.name)
        if value is None or value == "":
            continue
        if isinstance(value, Path):
            value = _place(value, out)
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        if _is_text(text):
            lines.append(f"{field.name} = {text}\n")
    write_atomic(out / NAME, _HEAD + "".join(lines), durable=True)


def _place(path: Path, out: Path) -> str:
    """Absolute, so that it holds in every working directory; relative to ``out`` inside it."""
    whole, folder = Path(os.path.abspath(path)), Path(os.path.abspath(out))
    return whole.relative_to(folder).as_posix() if folder in whole.parents else str(whole)


def _is_text(text: str) -> bool:
    """Return whether UTF-8 holds it: names on disk may be bytes of another encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read(out: Path) -> Setup | None:
    """Read the file in ``out``; None where there is none, or it does not name the hand-ins.

    Raises:
        GradeFileError: it cannot be used.
    """
    path = out / NAME
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GradeFileError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        text = f"{path}: not TOML in UTF-8 ({error}); mend it, or delete it and name the hand-ins"
        raise GradeFileError(text) from None
    known = tuple(field.name for field in fields(Setup))
    table = Table(str(path), raw, known, GradeFileError)
    found: dict[str, object] = {}
    for name in raw:
        if name == "keep_outputs":
            found[name] = table.value(name, bool)
        else:
            text = table.string(name, _CHOICES.get(name, ()))
            found[name] = Path(os.path.abspath(out)) / text if name in _PATHS else text
    if not {"hand_ins", "lab"} <= found.keys():
        return None
    return Setup(**found)  # type: ignore[arg-type]


def is_graded(folder: Path) -> bool:
    """Return whether a class was graded into a folder, to its end or not."""
    records = folder / ".records"
    return (folder / "class.json").exists() or any(records.glob("*.json"))
