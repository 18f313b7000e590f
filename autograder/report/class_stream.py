"""``class.json`` read one hand-in at a time, so that a large class needs no large memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from autograder.course.records import ClassRecord, HandIn
from autograder.report.record import from_json, hand_in_from_plain

_BEGIN = '"hand_ins": ['  # where the hand-ins begin, at the end of a line: one follows per line


def opened(folder: Path) -> tuple[ClassRecord, Iterator[HandIn]]:
    """``FOLDER/class.json``: the class without its hand-ins, and those one after the other.

    A file that is formatted otherwise, by an older release, say, is read as a whole.

    Raises:
        ValueError: it is absent, damaged or not one of ours (names it and the mend); also while
            the hand-ins are read.
    """
    path = folder / "class.json"
    try:
        with path.open(encoding="utf-8") as stream:
            head = "".join(_head(stream))
            first = next(stream, "").strip().removesuffix(",")
        if not head.rstrip().endswith(_BEGIN) or first == "{":
            whole = from_json(_parsed(path, path.read_text(encoding="utf-8")))
            return replace(whole, hand_ins=()), iter(whole.hand_ins)
    except (OSError, UnicodeDecodeError) as error:
        text = error.strerror if isinstance(error, OSError) else f"damaged ({error})"
        raise ValueError(f"{path}: {text}; give a folder that grade has written") from None
    return from_json(_parsed(path, head + "]}")), _hand_ins(path)


def _head(stream: IO[str]) -> Iterator[str]:
    """The lines up to where the hand-ins begin, or all of them."""
    for line in stream:
        yield line
        if line.rstrip().endswith(_BEGIN):
            return


def _hand_ins(path: Path) -> Iterator[HandIn]:
    with path.open(encoding="utf-8") as stream:
        for _ in _head(stream):
            pass
        for number, line in enumerate(stream):
            text = line.strip().removesuffix(",")
            if text.startswith("]"):
                return
            try:
                yield hand_in_from_plain(json.loads(text))
            except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
                told = f"{type(error).__name__}: {error}"[:200]
                raise ValueError(
                    f"{path}: damaged in hand_ins[{number}] ({told}); grade again"
                ) from None
    raise ValueError(f"{path}: damaged, it ends within the hand-ins; grade again")


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{path}: damaged ({error}); give a folder that grade has written"
        ) from None
