"""A hand-in that is part of something larger: loose files of a class, a folder in an archive."""

from __future__ import annotations

import os
from pathlib import Path

from autograder.intake import class_archive
from autograder.intake.decode import RefusedError
from autograder.intake.entry import Piece
from autograder.intake.folder import FolderTree, read_regular
from autograder.intake.tree import MAX_DEPTH, MAX_ENTRIES, Found, Kind, kind_of


class PieceTree:
    """The pieces of one hand-in as one tree: files under their own names, folders' contents."""

    def __init__(self, root: Path, pieces: tuple[Piece, ...]) -> None:
        """``root`` is the folder, or the archive, of the class.

        Raises:
            RefusedError: a piece is a link or gone, or all hold more than ``MAX_ENTRIES``.
        """
        self._root = root
        self._archive = None if os.path.isdir(root) else class_archive.opened(root)
        self._real: list[Found] = []
        found: list[Found] = []
        count = 0
        for piece in pieces:
            for name, real in self._in_archive(piece) if self._archive else self._on_disk(piece):
                found.append(Found(name, real.kind, len(self._real)))
                self._real.append(real)
                count += found[-1].depth <= MAX_DEPTH
                if count > MAX_ENTRIES:
                    raise RefusedError("too_many", limit=MAX_ENTRIES)
        self.found = tuple(found)

    def read(self, found: Found, limit: int) -> bytes:
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

    def _on_disk(self, piece: Piece) -> list[tuple[str, Found]]:
        path = self._root / piece.path
        try:
            kind = kind_of(os.lstat(path).st_mode)
        except OSError as error:
            text = str(error.strerror)
            raise RefusedError("unreadable", file=piece.name or piece.path, text=text) from None
        if kind is not Kind.FOLDER:
            return [(piece.name or path.name, Found(piece.path, kind))]
        return [
            (one.path, Found(f"{piece.path}/{one.path}", one.kind))
            for one in FolderTree(path).found
        ]

    def _in_archive(self, piece: Piece) -> list[tuple[str, Found]]:
        assert self._archive is not None
        at = self._archive.at(piece.path)
        if any(one.kind is Kind.SYMLINK for one in at) and not piece.name:
            raise RefusedError("symlink", file=piece.path)
        if piece.name:
            return [(piece.name, one) for one in at if one.kind is not Kind.FOLDER]
        start = len(piece.path) + 1 if piece.path else 0
        return [(one.path[start:], one) for one in self._archive.under(piece.path)]
