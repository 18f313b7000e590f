"""``class.json`` read one hand-in at a time, so that a large class needs no large memory."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, AnyStr

from autograder.course.one_by_one import OneByOne
from autograder.course.records import ClassRecord, HandIn
from autograder.report.record import from_json, hand_in_from_plain

_BEGIN = '"hand_ins": ['  # where the hand-ins begin, at the end of a line: one follows per line


def opened(folder: Path) -> tuple[ClassRecord, Iterator[HandIn]]:
    """``FOLDER/class.json``: the class without its hand-ins, and those one after the other.

    Raises:
        ValueError: see :func:`read`.
    """
    record = read(folder)
    return replace(record, hand_ins=()), iter(record.hand_ins)


def read(folder: Path) -> ClassRecord:
    """``FOLDER/class.json``, whose hand-ins are read whenever one is looked at.

    A file that is formatted otherwise, by an older release, say, is read as a whole.

    Raises:
        ValueError: it is absent, damaged or not one of ours (names it and the mend); also while
            the hand-ins are read.
    """
    path = folder / "class.json"
    try:
        with path.open(encoding="utf-8") as stream:
            head = "".join(_head(stream, _BEGIN))
            first = next(stream, "").strip().removesuffix(",")
        if not head.rstrip().endswith(_BEGIN) or first == "{":
            return from_json(_parsed(path, path.read_text(encoding="utf-8")))
        hand_ins = StoredHandIns(path)
    except (OSError, UnicodeDecodeError) as error:
        text = error.strerror if isinstance(error, OSError) else f"damaged ({error})"
        raise ValueError(f"{path}: {text}; give the folder that grade has written") from None
    return replace(from_json(_parsed(path, head + "]}")), hand_ins=hand_ins)


class StoredHandIns(OneByOne):
    """The hand-ins of a ``class.json``, of which nothing but their places is kept.

    Raises:
        ValueError: the file ends too early, or a hand-in that is looked at is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = array("Q")
        with path.open("rb") as stream:
            place = sum(map(len, _head(stream, _BEGIN.encode())))
            for line in stream:
                if line.strip().startswith(b"]"):
                    return
                self._starts.append(place)
                place += len(line)
        raise ValueError(f"{path}: damaged, it ends within the hand-ins; grade again")

    def __len__(self) -> int:
        return len(self._starts)

    def _at(self, place: int) -> HandIn:
        with self._path.open("rb") as stream:
            stream.seek(self._starts[place])
            line = stream.readline()
        try:
            return hand_in_from_plain(json.loads(line.strip().removesuffix(b",")))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            told = f"{type(error).__name__}: {error}"[:200]
            raise ValueError(
                f"{self._path}: damaged in hand_ins[{place}] ({told}); grade again"
            ) from None


def _head(stream: IO[AnyStr], begin: AnyStr) -> Iterator[AnyStr]:
    """The lines up to where the hand-ins begin, or all of them."""
    for line in stream:
        yield line
        if line.rstrip().endswith(begin):
            return


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{path}: damaged ({error}); give a folder that grade has written"
        ) from None
