"""From a folder of hand-ins to submissions: the text of the lab's files, or a named problem.

Hand-ins are never extracted, executed or parsed here. Whatever is wrong with one becomes a
message in its ``problems``; only a wrong *source* (a slip of the instructor) raises.
"""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autograder.course.messages import both
from autograder.course.records import Lab, Message, Submission
from autograder.grading.archive import ZipTree
from autograder.grading.decode import RefusedError, decode
from autograder.grading.folder import MAX_DEPTH, FolderTree, Found, Kind, ignored
from autograder.grading.student_ids import unique_ids

_PACKED = re.compile(r"\.(?:zip|rar|7z|tar|tgz|(?:tar\.)?(?:gz|bz2|xz))$", re.IGNORECASE)
_LISTED = 5  # names shown in a message


class SourceError(ValueError):
    """The source holds no hand-ins; the text says so in both languages."""

    def __init__(self, key: str, path: Path) -> None:
        self.reason = Message(f"intake.{key}", {"path": str(path)})
        super().__init__(both(self.reason))


@dataclass(frozen=True)
class Entry:
    """One hand-in before it is read: its student id, where it lies, remarks about the id."""

    student: str
    path: Path
    notes: tuple[Message, ...] = ()


class _Tree(Protocol):
    @property
    def found(self) -> tuple[Found, ...]: ...
    def read(self, found: Found) -> bytes: ...
    def close(self) -> None: ...


def find(source: Path, lab: Lab) -> list[Entry]:
    """List the hand-ins of ``source``, sorted by student id. Reads no hand-in.

    Args:
        source: a folder with one sub-folder or zip per student, or a single hand-in (a folder
            that holds the lab's files, or one zip), whose name is then the student's.
        lab: its ``files`` tell a single hand-in from a class.

    Raises:
        SourceError: ``source`` does not exist or holds no hand-in.
    """
    root = source.resolve()
    if not root.exists():
        raise SourceError("no_source", source)
    try:
        paths = [root] if not os.path.isdir(root) or _is_single(root, lab) else _hand_ins(root)
    except OSError:
        raise SourceError("unlistable", source) from None
    if not paths:
        raise SourceError("no_hand_ins", source)
    given = [_readable(path.name) for path in paths]
    names = [
        name if os.path.isdir(path) else _PACKED.sub("", name)
        for path, name in zip(paths, given, strict=True)
    ]
    entries = []
    for path, name, student in zip(paths, names, unique_ids(names), strict=True):
        renamed = Message("intake.renamed", {"given": name, "used": student})
        entries.append(Entry(student, path, () if student == name else (renamed,)))
    return sorted(entries, key=lambda entry: entry.student)


def read(entry: Entry, lab: Lab) -> Submission:
    """Read the lab's files of one hand-in. Never raises for what a hand-in holds.

    Returns:
        A submission whose ``files`` and ``problems`` together name every file of the lab, or
        whose ``problems[""]`` says why the whole hand-in could not be taken.
    """
    files: dict[str, str] = {}
    problems: dict[str, Message] = {}
    notes = list(entry.notes)
    tree: _Tree | None = None
    try:
        tree = _open(entry.path)
        # Folders at the last level that is listed may hold something: that is "missing" then.
        if all(one.kind is Kind.FOLDER and one.depth < MAX_DEPTH for one in tree.found):
            raise RefusedError("empty", file=entry.path.name)
        for file in lab.files:
            try:
                found = _choose(file, tree.found)
                files[file], note = decode(tree.read(found), file)
                if found.name != file:
                    notes.append(Message("intake.resubmitted", {"file": file, "found": found.name}))
                if note is not None:
                    notes.append(note)
            except RefusedError as refused:
                problems[file] = refused.reason
    except RefusedError as refused:
        problems[""] = refused.reason
    finally:
        if tree is not None:
            tree.close()
    return Submission(entry.student, files, tuple(notes), problems)


def _is_single(root: Path, lab: Lab) -> bool:
    """Whether a folder is one hand-in rather than a class.

    A stray copy of a lab's file beside the students' folders must not hide the class: where two
    or more of the folders hold the lab's files themselves, it is a class.
    """
    children = _children(root)
    loose = [path.name for path in children if not os.path.isdir(path)]
    folders = [path for path in children if os.path.isdir(path) and not path.is_symlink()]
    if not any(file in loose for file in lab.files):
        python = any(name.lower().endswith(".py") for name in loose)
        return python and not folders and not any(_PACKED.search(name) for name in loose)
    packed = [name for name in loose if _PACKED.search(name)]
    holding = [
        folder
        for folder in folders
        if any(
            os.path.lexists(inner / file)
            for inner in (folder, *(one for one in _children(folder) if os.path.isdir(one)))
            for file in lab.files
        )
    ]
    return len(holding) + len(packed) < 2


def _readable(name: str) -> str:
    """A name whose bytes are no UTF-8 is GBK as a rule, unpacked from a Chinese archive."""
    try:
        name.encode()
        return name
    except UnicodeEncodeError:
        return os.fsencode(name).decode("gb18030", errors="replace")


def _hand_ins(root: Path) -> list[Path]:
    """Sub-folders and archives, links to either too: reading one says what is wrong with it."""
    kept = [one for one in _children(root) if os.path.isdir(one) or _PACKED.search(one.name)]
    return sorted(kept, key=lambda path: (path.name.casefold(), path.name))


def _children(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if not ignored(path.name)]


def _open(path: Path) -> _Tree:
    if path.is_symlink():
        raise RefusedError("symlink", file=path.name)
    if not os.path.isdir(path):
        return ZipTree(path, path.name)
    tree = FolderTree(path)
    # Some course systems give a folder per student with the uploaded zip in it.
    zips = [found for found in tree.found if found.name.lower().endswith(".zip")]
    python = any(found.name.lower().endswith(".py") for found in tree.found)
    if len(zips) == 1 and zips[0].kind is Kind.FILE and not python:
        return ZipTree(path / zips[0].path, zips[0].path)
    return tree


def _choose(file: str, found: tuple[Found, ...]) -> Found:
    """The shallowest path called ``file``.

    Raises:
        RefusedError: none, several equally shallow ones, or one that is no regular file.
    """
    usable = [one for one in found if one.depth <= MAX_DEPTH or one.kind is Kind.OUTSIDE]
    named = [one for one in usable if one.name == file]
    stem, suffix = file.rsplit(".", 1)
    # Canvas is known to add -1, -2, … to a name that is handed in again.
    again = re.compile(rf"{re.escape(stem)}-\d{{1,3}}\.{re.escape(suffix)}")
    if not any(one.kind not in (Kind.FOLDER, Kind.OUTSIDE) for one in named):
        named += [one for one in usable if again.fullmatch(one.name) and one.kind is Kind.FILE]
    if not named:
        raise _absent(file, usable)

    def rank(one: Found) -> tuple[bool, int]:
        return one.kind in (Kind.FOLDER, Kind.OUTSIDE), one.depth

    best = min(rank(one) for one in named)
    chosen = [one for one in named if rank(one) == best]
    if len(chosen) > 1:
        raise RefusedError("ambiguous", file=file, found=_names(chosen))
    if chosen[0].kind is not Kind.FILE:
        raise RefusedError(chosen[0].kind.value, file=chosen[0].path)
    return chosen[0]


def _absent(file: str, found: list[Found]) -> RefusedError:
    """Say what is there instead: a wrong name, a link not followed, other Python files."""
    alike = [one for one in found if one.kind is Kind.FILE and _looks_like(one.name, file)]
    if alike:
        return RefusedError("wrong_name", file=file, found=_names(alike))
    links = [one for one in found if one.kind is Kind.SYMLINK]
    if links:
        return RefusedError("behind_symlink", file=file, found=_names(links))
    others = [one for one in found if one.name.lower().endswith((".py", ".ipynb"))]
    if others:
        return RefusedError("missing_among", file=file, found=_names(others))
    return RefusedError("missing", file=file)


def _looks_like(name: str, file: str) -> bool:
    """Whether a student may have meant ``file``: other case, a copy's number, a small slip."""
    import difflib  # only needed when something is wrong

    lowered = unicodedata.normalize("NFKC", name).lower()
    if lowered.startswith("test_"):
        return False
    if not re.search(r"\.(?:py|pyw|ipynb|txt)$", lowered):
        return False
    stem = file.rsplit(".", 1)[0].lower()
    bare = re.sub(r"(?:\.py|\.pyw|\.ipynb|\.txt)+$", "", lowered)
    if re.search(rf"(?<![a-z]){re.escape(stem)}(?![a-z])", bare):
        return True
    return difflib.SequenceMatcher(None, bare, stem).ratio() >= 0.85


def _names(found: list[Found]) -> str:
    paths = sorted(one.path for one in found)
    return ", ".join(paths[:_LISTED]) + (", …" if len(paths) > _LISTED else "")
