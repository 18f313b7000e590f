"""From the names of folders and zips to student ids that are safe as file names, and unique."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MAX_CHARACTERS = 80
MAX_BYTES = 200  # file systems allow 255 in UTF-8; some room for what is put beside it

_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE)
# Names that grading itself writes or reads beside the students' folders.
_OURS = re.compile(r"secret|.*\.(?:csv|html|json|jsonl|lock|md|toml|xml)", re.IGNORECASE)


def safe_id(name: str) -> str:
    """Make ``name`` a student id: Unicode letters, digits, ``-``, ``_`` and ``.``, nothing else.

    It begins with a letter, a digit or ``_``, does not end with a dot, has at most 80
    characters and 200 UTF-8 bytes, and is neither a device name of Windows nor a file of ours.
    """
    kept = "".join(
        character if character.isalnum() or character in "-_." else "_"
        for character in unicodedata.normalize("NFC", name)
    )
    kept = _cut(kept, MAX_CHARACTERS) or "_"
    if kept[0] in "-.":
        kept = "_" + kept[1:]
    if kept[-1] == ".":
        kept = kept[:-1] + "_"
    if _DEVICE.fullmatch(kept) or _OURS.fullmatch(kept):
        kept = "_" + _cut(kept, MAX_CHARACTERS - 1)
    return kept


def unique_ids(names: Sequence[str]) -> list[str]:
    """A safe id per name, in the same order; ids differ even where case is ignored.

    The first of several equal ones keeps its id, the others get ``-2``, ``-3``, …; a name that
    clashes with nobody always keeps its own.
    """
    wanted = [safe_id(name) for name in names]
    taken: dict[str, int] = {}
    for place, student in enumerate(wanted):
        taken.setdefault(_folded(student), place)
    unique = []
    for place, student in enumerate(wanted):
        number = 1
        base = student
        while taken.setdefault(_folded(student), place) != place:
            number += 1
            suffix = f"-{number}"
            student = _cut(base, MAX_CHARACTERS - len(suffix), len(suffix)) + suffix
        unique.append(student)
    return unique


def _folded(student: str) -> str:
    """Equal for ids that a file system or a reader may take for the same."""
    return unicodedata.normalize("NFKC", student).casefold()


def _cut(text: str, characters: int, reserve: int = 0) -> str:
    """The beginning of ``text`` within both limits, ``reserve`` bytes left free."""
    text = text[:characters]
    while len(text.encode("utf-8", "replace")) > MAX_BYTES - reserve:
        text = text[:-1]
    return text
