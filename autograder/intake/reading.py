"""From an entry to a submission: the text of the lab's files, or a named problem per file.

Hand-ins are never extracted or executed here, and nothing that one holds raises. A file is
looked for in the hand-in itself, then in cells of its notebooks, then in archives in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from autograder.course.handed_out import is_untouched
from autograder.course.records import Lab, Message, Origin, Student, Submission
from autograder.intake import class_folder
from autograder.intake.archives import open_packed
from autograder.intake.choose import AbsentError, FolderRank, choose, listed, rank, standing
from autograder.intake.names import is_lookalike, is_meant, shown
from autograder.intake.notebook import Notebooks
from autograder.intake.tree import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_PACKED_BYTES,
    MAX_SOURCE_BYTES,
    PACKED,
    Entry,
    FolderTree,
    FoundPath,
    Kind,
    Piece,
    RefusedError,
    Tree,
    decode,
    kind_of,
    read_regular,
)
from autograder.sandbox.fence import CPU_SECONDS, MEMORY_BYTES, Fence, FenceError

# A hand-in that is part of something larger: loose files of a class, a folder in an archive.


class PieceTree:
    """The pieces of one hand-in as one tree: files under their own names, folders' contents."""

    def __init__(self, root: Path, pieces: tuple[Piece, ...]) -> None:
        """``root`` is the folder, or the archive, of the class.

        Raises:
            RefusedError: a piece is a link or gone, or all hold more than ``MAX_ENTRIES``.
        """
        self._root = root
        self._archive = None if os.path.isdir(root) else class_folder.opened(root)
        self._real: list[FoundPath] = []
        found: list[FoundPath] = []
        count = 0
        for piece in pieces:
            for name, real in self._in_archive(piece) if self._archive else self._on_disk(piece):
                found.append(FoundPath(name, real.kind, len(self._real)))
                self._real.append(real)
                count += found[-1].depth <= MAX_DEPTH
                if count > MAX_ENTRIES:
                    raise RefusedError("too_many", limit=MAX_ENTRIES)
        self.found = tuple(found)

    def read(self, found: FoundPath, limit: int) -> bytes:
        """The bytes of a file.

        Raises:
            RefusedError: no regular file, too big, or unreadable.
        """
        real = self._real[found.index]
        if self._archive is None:
            return read_regular(self._root / real.path, found.path, limit)
        return self._archive.read(real, found.path, limit)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _on_disk(self, piece: Piece) -> list[tuple[str, FoundPath]]:
        path = self._root / piece.path
        try:
            kind = kind_of(os.lstat(path).st_mode)
        except OSError as error:
            text = str(error.strerror)
            raise RefusedError("unreadable", file=piece.name or piece.path, text=text) from None
        if kind is not Kind.FOLDER:
            return [(piece.name or path.name, FoundPath(piece.path, kind))]
        return [
            (one.path, FoundPath(f"{piece.path}/{one.path}", one.kind))
            for one in FolderTree(path).found
        ]

    def _in_archive(self, piece: Piece) -> list[tuple[str, FoundPath]]:
        assert self._archive is not None
        at = self._archive.at(piece.path)
        if any(one.kind is Kind.SYMLINK for one in at) and not piece.name:
            raise RefusedError("symlink", file=piece.path)
        if piece.name:
            return [(piece.name, one) for one in at if one.kind is not Kind.FOLDER]
        start = len(piece.path) + 1 if piece.path else 0
        return [(one.path[start:], one) for one in self._archive.under(piece.path)]


MAX_NESTING = 3  # archives in archives
MAX_INNER = 8  # archives inside one hand-in that are opened
MAX_COPIES = 8  # of one file that are compared

_ONE_FILE = re.compile(r"\.(?:gz|bz2|xz)$", re.IGNORECASE)
# What students write into the name of a version that comes after another.
_LATER = re.compile(
    r"最终|终版|终稿|定稿|修改|修正|更新|新版|重交|补交|第.[次版]|[(（]\d{1,3}[)）]"
    r"|(?<![a-z])(?:final|latest|newest|new|fixed|revised|resubmi\w*|attempt|v(?=\d))(?![a-z])",
    re.IGNORECASE,
)
_OLDER = re.compile(r"(?<![a-z])(?:old|backup|bak)(?![a-z])|备份|旧", re.IGNORECASE)
_DEFINED = re.compile(rb"^(?:class|def)[ \t]+(\w+)", re.MULTILINE)


@contextmanager
def fenced() -> Iterator[Callable[[Entry, Lab], Submission]]:
    """:func:`read` in a process of its own: whatever it takes, others are read.

    A hand-in that takes too long or too much memory, or that breaks the reading, is a submission
    whose ``problems[""]`` says so.
    """
    with Fence() as fence:

        def reader(entry: Entry, lab: Lab) -> Submission:
            try:
                return fence(read, entry, lab)
            except FenceError as error:
                return unread(entry, error)

        yield reader


def unread(entry: Entry, error: FenceError) -> Submission:
    """The submission of a hand-in whose reading gave nothing."""
    told = {"seconds": round(CPU_SECONDS), "limit": MEMORY_BYTES >> 20, "text": error.text}
    problem = Message(f"intake.reading_{error.why}", told)
    return Submission(entry.student, {}, entry.notes, {"": problem}, _origin(entry))


def read(entry: Entry, lab: Lab) -> Submission:
    """Read the lab's files of one hand-in. Never raises for what a hand-in holds.

    Returns:
        A submission whose ``files`` and ``problems`` together name every file of the lab, or
        whose ``problems[""]`` says why the whole hand-in could not be taken.
    """
    files: dict[str, str] = {}
    problems: dict[str, Message] = {}
    notes = list(entry.notes)
    with ExitStack() as trees:
        try:
            layer = _Layer(*_open(entry, trees), lab, _Inner(trees))
            for file in lab.files:
                try:
                    files[file] = layer.take(file, notes)
                except RefusedError as refused:
                    problems[file] = refused.reason
        except RefusedError as refused:
            problems[""] = refused.reason
    return Submission(entry.student, files, tuple(notes), problems, _origin(entry))


def _origin(entry: Entry) -> Origin:
    """Every submission has a student; without a course system, the id is all that is known."""
    if entry.origin.students:
        return entry.origin
    name = entry.origin.name or entry.path.name
    return replace(entry.origin, name=name, students=(Student(entry.student),))


def _open(entry: Entry, trees: ExitStack) -> tuple[Tree, str]:
    """The hand-in as a tree, closed with the stack, and what to call it."""
    tree: Tree
    name = shown(entry.origin.name or entry.path.name)
    if os.path.islink(entry.path):
        raise RefusedError("symlink", file=name)
    if entry.pieces:
        tree = PieceTree(entry.path, entry.pieces)
    elif os.path.isdir(entry.path):  # never raises, unlike `Path.is_dir`
        tree = FolderTree(entry.path)
    else:
        tree = open_packed(entry.path, name)
    trees.callback(tree.close)
    return tree, name


class _Inner:
    """Opens archives inside one hand-in, in memory, up to the caps."""

    def __init__(self, trees: ExitStack) -> None:
        self._trees = trees
        self._opened = 0

    def open(self, tree: Tree, found: FoundPath) -> Tree:
        """The archive at ``found``.

        Raises:
            RefusedError: too many, too big, or not to be read.
        """
        self._opened += 1
        if self._opened > MAX_INNER:
            raise RefusedError("too_many_archives", file=shown(found.path), limit=MAX_INNER)
        if found.kind is not Kind.FILE:
            raise RefusedError(found.kind.value, file=shown(found.path))
        inner = open_packed(tree.read(found, MAX_PACKED_BYTES), shown(found.path))
        self._trees.callback(inner.close)
        return inner


class _Layer:
    """A tree of a hand-in, with the notebooks and the archives in it."""

    def __init__(self, tree: Tree, name: str, lab: Lab, inner: _Inner, depth: int = 0) -> None:
        """Go on into the one archive that is all there is.

        Raises:
            RefusedError: there is nothing, or that archive cannot be read.
        """
        while True:
            # Folders at the last level that is listed may hold something: "missing" then.
            if all(one.kind is Kind.FOLDER and one.depth < MAX_DEPTH for one in tree.found):
                raise RefusedError("empty", file=name)
            packed = [one for one in tree.found if _is_packed(one)]
            if len(packed) != 1 or any(_is_source(one) and rank(one, lab) for one in tree.found):
                break
            if depth == MAX_NESTING:
                raise RefusedError("nested", file=shown(packed[0].path), limit=MAX_NESTING)
            tree, name, depth = inner.open(tree, packed[0]), shown(packed[0].path), depth + 1
        self._tree = tree
        self._lab = lab
        self._inner = inner
        self._depth = depth
        self._packed = packed
        self._notebooks = Notebooks(tree, lab)
        self._layers: list[tuple[FoundPath, _Layer | RefusedError]] | None = None

    def take(self, file: str, notes: list[Message]) -> str:
        """The text of a lab's file; remarks are added to ``notes``.

        A stub in which nobody has worked is taken where there is nothing else.

        Raises:
            RefusedError: not there, there in several versions, or not to be read.
        """
        stubs: dict[FoundPath, str] = {}
        while True:
            try:
                chosen = choose(file, self._tree.found, self._lab, stubs)
            except AbsentError as absent:
                return self._from_elsewhere(file, notes, stubs, absent)
            except RefusedError:
                if not stubs:
                    raise
                return self._stub(file, notes, stubs)
            if len(chosen) > MAX_COPIES:
                raise RefusedError("ambiguous", file=file, found=listed(chosen))
            copies = {one: self._tree.read(one, MAX_SOURCE_BYTES) for one in chosen}
            stubs |= {one: text for one, data in copies.items() if (text := _stub_in(data))}
            if worked := [one for one in chosen if one not in stubs]:
                break
        if len({copies[one] for one in worked}) > 1:
            raise RefusedError("ambiguous", file=file, found=listed(worked))
        found = worked[0]
        text, note = decode(copies[found], file)
        later = [*self._later(file, found, copies[found]), *self._packed_copies(file, found, text)]
        if later:
            values = {"file": file, "used": shown(found.path), "found": listed(later)}
            notes.append(_note("later_beside", **values))
        if found.name != file:
            notes.append(_note("resubmitted", file=file, found=shown(found.name)))
        if stubs:
            values = {"found": listed(stubs), "file": file, "used": shown(found.path)}
            notes.append(_note("stub_aside", **values))
        if note is not None:
            notes.append(note)
        return text

    def _later(self, file: str, taken: FoundPath, data: bytes) -> list[FoundPath]:
        """Return what may be a later version than ``taken``, as its name says.

        Folders ``1``, ``2`` and ``3`` may be attempts, unless one of them defines other things.
        """
        numbered = (rank(taken, self._lab) or (None,))[0] is FolderRank.NUMBER
        parts = set(taken.path.split("/"))
        named: list[FoundPath] = []
        beside: list[FoundPath] = []
        for one in self._tree.found:
            its = rank(one, self._lab)
            if one == taken or one.kind is not Kind.FILE or its is None or its[0] > FolderRank.NONE:
                continue
            own = [part for part in one.path.split("/") if part not in parts]
            if any(map(_LATER.search, own)) and is_meant(one.name, file):
                named.append(one)
            elif numbered and one.name == file:
                beside.append(one)
        if len(beside) > MAX_COPIES or any(self._shares(one, data) is None for one in beside):
            beside = []
        return [one for one in (*named[:MAX_COPIES], *beside) if self._shares(one, data)]

    def _shares(self, one: FoundPath, data: bytes) -> bool | None:
        """Say whether a file differs from ``data``; None if it defines nothing that it does."""
        try:
            other = self._tree.read(one, MAX_SOURCE_BYTES)
        except RefusedError:
            return None
        common = set(_DEFINED.findall(other)) & set(_DEFINED.findall(data))
        return other.replace(b"\r\n", b"\n") != data.replace(b"\r\n", b"\n") if common else None

    def _packed_copies(self, file: str, taken: FoundPath, text: str) -> list[FoundPath]:
        """The archives with another copy than ``taken``, unless that lies in the lab's folder.

        Stubs, and archives that are older by their names, do not count; where one is no zip, none
        is looked into, as all of it would have to be unpacked.
        """
        if (rank(taken, self._lab) or (FolderRank.NONE,))[0] <= FolderRank.ID:
            return []
        if not all(found.name.lower().endswith(".zip") for found in self._packed):
            return []
        holding = []
        for found, layer in self._opened():
            if isinstance(layer, RefusedError) or not self._may_count(found):
                continue
            try:
                other = layer.take(file, [])
            except RefusedError:
                continue
            if other != text and not is_untouched(other):
                holding.append(found)
        return holding

    def _may_count(self, found: FoundPath) -> bool:
        return self._standing(found) < FolderRank.OTHER and not _OLDER.search(found.name)

    def _from_elsewhere(
        self, file: str, notes: list[Message], stubs: Mapping[FoundPath, str], absent: AbsentError
    ) -> str:
        """The file from a notebook or an archive; else a stub, if there is one.

        Raises:
            RefusedError: see :meth:`take`.
        """
        untouched: tuple[str, list[Message]] | None = None
        for source in (self._notebooks.take, self._from_archives):
            said: list[Message] = []
            try:
                text = source(file, said)
            except RefusedError as refused:
                if not stubs:
                    raise
                notes.append(refused.reason)
                continue
            if text is not None and not is_untouched(text):
                notes += said
                return text
            if text is not None:
                untouched = untouched or (text, said)
        if stubs:
            return self._stub(file, notes, stubs)
        if untouched is None:
            raise self._notebooks.instead(file, absent)
        notes += untouched[1]
        return untouched[0]

    def _stub(self, file: str, notes: list[Message], stubs: Mapping[FoundPath, str]) -> str:
        """The stub; what may have been meant instead, but has another name, is told."""
        if meant := self._meant(file):
            notes.append(_note("stub_beside", file=file, found=listed(meant)))
        return next(iter(stubs.values()))

    def _meant(self, file: str) -> list[FoundPath]:
        """Some files with work in them that have another name but may be meant as ``file``."""
        meant = [
            one
            for one in self._tree.found
            if one.kind is Kind.FILE and one.name != file
            if is_meant(one.name, file) or is_lookalike(one.name, file)
            if (its := rank(one, self._lab)) is not None and its[0] < FolderRank.OTHER
        ]
        return [one for one in meant[:MAX_COPIES] if not self._is_stub(one)]

    def _is_stub(self, one: FoundPath) -> bool:
        try:
            return _stub_in(self._tree.read(one, MAX_SOURCE_BYTES)) is not None
        except RefusedError:
            return False

    def _from_archives(self, file: str, notes: list[Message]) -> str | None:
        """The file out of the one archive that holds it; None if none does."""
        holding: list[tuple[FoundPath, str, list[Message]]] = []
        refused: RefusedError | None = None
        for found, layer in self._opened():
            if isinstance(layer, RefusedError):
                refused = refused or layer
                continue
            said: list[Message] = []
            try:
                holding.append((found, layer.take(file, said), said))
            except AbsentError:
                continue
        holding = [one for one in holding if not is_untouched(one[1])] or holding
        if holding:
            best = min(self._standing(found) for found, _, _ in holding)
            chosen = [one for one in holding if self._standing(one[0]) == best]
            if len({text for _, text, _ in chosen}) > 1:
                where = listed(found for found, _, _ in chosen)
                raise RefusedError("ambiguous", file=file, found=where)
            data = chosen[0][1].encode("utf-8", "surrogatepass")
            later = [one for one in self._meant(file) if self._shares(one, data)]
            others = [found for found, text, _ in holding if text != chosen[0][1]]
            later += filter(self._may_count, others)
            if later:
                values = {"file": file, "used": shown(chosen[0][0].path), "found": listed(later)}
                notes.append(_note("later_beside", **values))
            notes += chosen[0][2]
            return chosen[0][1]
        if refused is not None:
            raise refused
        return None

    def _opened(self) -> list[tuple[FoundPath, _Layer | RefusedError]]:
        """The archives of the tree, without those of other labs where the lab's own is there."""
        if self._layers is None:
            # An archive has a folder's name and counts as one.
            names = {found: self._standing(found) for found in self._packed}
            own = min(names.values(), default=FolderRank.NONE) <= FolderRank.ID
            packed = [found for found in names if names[found] < FolderRank.OTHER or not own]
            self._layers = [(found, self._layer(found)) for found in packed]
        return self._layers

    def _standing(self, found: FoundPath) -> FolderRank:
        """Return how an archive stands to the lab; a mere number, as of ``2.zip``, says nothing."""
        its = standing(found.name, self._lab.name)
        return FolderRank.NONE if its is FolderRank.NUMBER else its

    def _layer(self, found: FoundPath) -> _Layer | RefusedError:
        if self._depth == MAX_NESTING:
            return RefusedError("nested", file=shown(found.path), limit=MAX_NESTING)
        try:
            tree = self._inner.open(self._tree, found)
            return _Layer(tree, shown(found.path), self._lab, self._inner, self._depth + 1)
        except RefusedError as refused:
            return refused


def _stub_in(data: bytes) -> str | None:
    """The text of a stub in which nobody has worked; None if somebody has."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return text if is_untouched(text) else None


def _note(key: str, **values: object) -> Message:
    return Message(f"intake.{key}", values)


def _is_packed(found: FoundPath) -> bool:
    usable = found.kind is Kind.FILE or (found.depth == 0 and found.kind is not Kind.FOLDER)
    if not usable or found.depth > MAX_DEPTH or PACKED.search(found.name) is None:
        return False
    # `data.csv.gz` is one packed file, no archive.
    return _ONE_FILE.search(found.name) is None or ".tar." in found.name.lower()


def _is_source(found: FoundPath) -> bool:
    return found.name.lower().endswith((".py", ".ipynb"))
