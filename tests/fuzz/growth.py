"""Readers of strangers' text on ever longer repetitions: none takes more than linear time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from autograder.course import labfile
from autograder.course.quantity import KINDS, fields, parse
from autograder.course.records import Message
from autograder.intake import layout, names, notebook, tar, tree
from autograder.intake import names as intake_names
from autograder.intake.tree import Piece
from autograder.judge import marks
from autograder.report import class_summary, escape
from autograder.sandbox.fence import Fence, FenceError

LAB = labfile.load(labfile.find_lab("2"))
SIZE = 10_000  # signs; then twice and four times as many
FACTOR = 3.0  # what a reader may take beyond four times the time, for four times the text
PLAIN = 6.0  # times as long for four times the text: nothing that grows as its square is so short
LEAST = 0.002  # seconds: less cannot be told apart from chance
SECONDS = 5.0
FEW = (" ", '"', "[", "1")  # blanks, quotes, brackets, digits
MANY = (
    *FEW, "\t", "\n", "'", "]", "(", "{", "<", "0", "_", "-", ".", ",", "#", "`", "$", "\\", "a",
    "a ", "[[", "学", "（", "\x1b[", "&", "*", "|", "/", "+", ":", "%", "=", "é", "\u0301", "x\n",
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """A function that reads text, and what may stand before and behind a repetition in it."""

    name: str
    read: Callable[[str], object]
    around: Sequence[tuple[str, str]] = (("", ""), ("a", "!"))
    most: int = 4 * SIZE  # signs that it is ever given


def faults(repeated: Sequence[str], names: Sequence[str] = ()) -> Iterator[str | None]:
    """Per reader (all of strangers' text, or those named), surrounding and unit.

    Yields:
        None, or what takes more than linear time.
    """
    with Fence(SECONDS) as fence:
        for name in names or READERS:
            for way in range(len(ALL[name].around)):
                for unit in repeated:
                    yield _fault(fence, name, way, unit)


def _fault(fence: Fence, name: str, way: int, unit: str) -> str | None:
    size = ALL[name].most // 4
    told = f"{name}: {ALL[name].around[way]} around {unit!r}"
    try:
        longest = fence(spent, name, way, unit, 4 * size)
        if longest <= 4 * FACTOR * LEAST:
            return None
        # Most are plainly linear, which one more run shows; the others are timed with care.
        if longest <= PLAIN * fence(spent, name, way, unit, size):
            return None
        taken = [
            min(fence(spent, name, way, unit, count) for _ in range(3))
            for count in (size, 2 * size)
        ]
        again = fence(spent, name, way, unit, 4 * size)
    except FenceError as error:
        return f"{told}: {error}"
    grows = min(longest, again) > 4 * FACTOR * max(taken[0], LEAST)
    return f"{told}: {taken[0]:.3f}, {taken[1]:.3f}, {longest:.3f} s" if grows else None


def spent(name: str, way: int, unit: str, signs: int) -> float:
    """CPU seconds for one text, in the fence."""
    before, behind = ALL[name].around[way]
    text = before + unit * (signs // len(unit)) + behind
    started = time.process_time()
    with suppress(*NAMED):
        ALL[name].read(text)
    return time.process_time() - started


def _cell(text: str) -> object:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": text}
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    return notebook.sources(json.dumps(book), "a.ipynb", "lab2")


def _quantities(text: str) -> None:
    for kind in KINDS:
        with suppress(ValueError):
            parse(text, kind)


def _name(text: str) -> None:
    name = names.readable(text)
    names.shown(name), names.is_lookalike(name, "attention.py"), names.is_meant(name, "mlp.py")
    intake_names.unique_ids([name, name])
    layout.newest([(Piece(name, name), 1)], ("attention.py",))


def _shown(text: str) -> None:
    for one in (escape.plain, escape.block, escape.markdown, escape.prose, escape.fence):
        one(text)
    escape.csv_cell(text), escape.fitted(text, 80), escape.folded(text, 80)
    class_summary.private(Message("check.raised", {"text": text}), "en", ("secret",))


def _source(text: str) -> None:
    files = {"attention.py": f"# {LAB.forbidden[0].rsplit('.', 1)[1]}\n{text}"}
    marks.forbidden(LAB, files, set())
    marks.may_keep_static_state(files)


NAMED = (ValueError, tree.RefusedError, OverflowError, RecursionError, KeyError)
_READERS = (
    Reader("cells of notebooks", _cell, (
        ("%%writefile ", "'x"), ("%%writefile -a ", ""), ("%%file a", '"'), ("\n", "%%writefile x"),
    )),
    Reader("notebooks", lambda text: notebook.sources(text, "a", "lab2"), (
        ('{"cells": ', "}"), ('{"%%": "', ""), ('{"nbformat": 4, "cells": [{"source": ["%%", ', ""),
    )),
    Reader("encodings", lambda text: tree.decode(text.encode("gb18030"), "a.py"), (
        ("", ""), ("# coding: ", ""), ("# 很 coding", ":"),
    )),
    Reader("fields of reports", fields, (
        ("", ""), ("[[a | count:", "]]"), ("[[", "| a: 1]]"), ("[[a |", ""), ("[[a", "|"),
    )),
    Reader("quantities", _quantities, (("", ""), ("1", "/1"), ("about ", "x"), ("1 x 10", ""))),
    Reader("names of files", _name, (
        ("", ""), ("attention", ".py"), ("attention-", ".py"), ("a.py", "!"),
    ), most=1 << 14),
    Reader("names of downloads", intake_names.parse, (
        ("", ""), ("王伟_", "_attention.py"), ("2021001_", ".py"), ("a_1_assignsubmission_", "_x"),
        ("ann_LATE_1", "_2_attention.py"), ("a_", "_12_34_attention.py"), ("a+b+2026-", "+c"),
    ), most=1 << 14),
    Reader("times", intake_names.iso, (
        ("", ""), ("2026-03-01", ""), ("2026-03-01 10:00:00.", "Z"),
    )),
    Reader("metadata of Gradescope", lambda text: layout.metadata(text.encode()), (
        ("submission_1:\n  :submitters:\n  - :name: '", "'\n"), ("", ":"),
    )),
    Reader("pax records", lambda text: tar._records(text.encode()[: 1 << 16], "a.tar"), (
        ("", ""), ("30 path=", "\n"),
    )),
    Reader("what reports show", _shown),
    Reader("sources", _source, (("", ""), ("x = ", ""), ("def f():\n ", "x\n"), ("import ", ""))),
)  # fmt: skip
READERS = tuple(reader.name for reader in _READERS)
SLOW = Reader(
    "a cubic one",
    lambda text: [text.count("!", 0, 5000) for _ in range((len(text) // 900) ** 3)],
    (("", ""),),
)
HANGS = Reader("one that hangs", lambda text: re.match(r"(\s+)+x", text))
ALL = {reader.name: reader for reader in (*_READERS, SLOW, HANGS)}
