"""Files of one name in one hand-in, of which a course system keeps the older ones, too."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autograder.course.records import Message
from autograder.intake.entry import Piece
from autograder.intake.names import shown

_NUMBERED = re.compile(r"(?P<stem>.+?)-(?P<number>\d{1,3})(?P<suffix>\.[^.]+)", re.DOTALL)


def newest(
    named: Sequence[tuple[Piece, int]], files: Sequence[str]
) -> tuple[tuple[Piece, ...], list[Message]]:
    """Of ``attention.py`` and ``attention-1.py`` keep the newer, under the lab's name.

    Args:
        named: the files of one hand-in, each with a number that grows with time.
        files: the lab's files; other names keep their number unless both are there.

    Returns:
        What remains, and a note per file that was taken under another name or set aside.
    """
    plain = {piece.name for piece, _ in named} | set(files)
    families: dict[str, list[tuple[int, int, Piece]]] = {}
    for piece, newer in named:
        base, number = piece.name, 0
        if (match := _NUMBERED.fullmatch(piece.name)) and match["stem"] + match["suffix"] in plain:
            base, number = match["stem"] + match["suffix"], int(match["number"])
        # Folders have no name: each is a family of its own.
        families.setdefault(base or f"{piece.path}/", []).append((number, newer, piece))
    kept: list[Piece] = []
    notes: list[Message] = []
    for base, family in families.items():
        *older, (number, _, last) = sorted(family, key=lambda one: one[:2])
        kept.append(last if not last.name else Piece(last.path, base))
        if number:
            values = {"file": shown(base), "found": shown(last.name)}
            notes.append(Message("intake.resubmitted", values))
        if older:
            names = ", ".join(shown(piece.name) for _, _, piece in older)
            notes.append(Message("intake.replaced", {"file": shown(base), "found": names}))
    return tuple(kept), notes
