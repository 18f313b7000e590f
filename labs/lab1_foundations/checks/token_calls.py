"""How the checks of tokens.py call it, and compare lists and texts.

A case keeps bytes as text, a character for every byte.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from autograder.checks.expect import OUTPUT, CheckFailed, Literal, reject
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Result, Student

A_LIST = Text("a list", "list")
A_TEXT = Text("a text (str)", "文本（str）")
MAX_TEXT = 400  # characters that come back of a text
BEFORE = 10  # of them that are shown before the first one that differs
_NOTHING = object()


def as_bytes(token: str) -> bytes:
    """A token out of a case."""
    return token.encode("latin-1")


def as_pair(pair: Sequence[str]) -> tuple[bytes, bytes]:
    """A merge out of a case."""
    left, right = map(as_bytes, pair)
    return left, right


def pattern_of(student: Student, case: Case) -> dict[str, Any]:
    """The keyword ``pattern`` where a case has one of its own, nothing elsewhere."""
    if "pattern" not in case.values:
        return {}
    return {"pattern": student.new("re.compile", case["pattern"])}


def tokenizer(student: Student, case: Case, *, merging: bool = True) -> Handle:
    """The student's tokenizer with the vocabulary of the case, and with its merges or without."""
    vocab = {as_bytes(token): number for number, token in enumerate(case["vocab"])}
    merges = [as_pair(pair) for pair in case["merges"] if merging]
    learned = Literal(vocab), Literal(merges), case["special"]
    return student.new("tokens.Tokenizer", *learned, **pattern_of(student, case))


def expect_text(value: Any, want: str, case: Case, what: Text = OUTPUT) -> None:
    """A text, equal to ``want``; the sentence shows where it is not."""
    got = value.value if isinstance(value, Result) else value
    if not isinstance(got, str):
        raise reject(got, A_TEXT, case, what)
    want = want[:MAX_TEXT]
    if got != want:
        first = next(n for n, (a, b) in enumerate(zip_longest(got, want)) if a != b)
        at = max(0, first - BEFORE)
        here = Text(
            f"{what.en}, from character {at} on,", f"{what.zh}从第 {at} 个字符起（从 0 数起）"
        )
        _differ(got[at:], want[at:], case, here if at else what)


def expect_list(value: Any, want: Sequence[Any], case: Case, what: Text = OUTPUT) -> None:
    """A list (a tuple will do), equal to ``want`` item by item; the first that differs is told."""
    got = value.value if isinstance(value, Result) else value
    if not isinstance(got, (list, tuple)):
        raise reject(got, A_LIST, case, what)
    for at, (has, wants) in enumerate(zip_longest(got, want, fillvalue=_NOTHING)):
        if type(has) is not type(wants) or has != wants:
            where = Text(f"item {at} of {what.en}", f"{what.zh}的第 {at} 项（从 0 数起）")
            _differ(has, wants, case, where)


def expect_vocabulary(value: Any, case: Case) -> None:
    """A dict of the right tokens with the right ids."""
    what = Text("the vocabulary", "词表")
    if not isinstance(value, dict):
        raise reject(value, Text("a dict", "dict"), case, what)
    want = {repr(as_bytes(token)): number for number, token in enumerate(case["vocab"])}
    if not all(_is_bytes(key) for key in value):
        odd = next(key for key in value if not _is_bytes(key))
        _differ(odd, Text("bytes", "bytes"), case, Text("a key of the vocabulary", "词表的键"))
    size = Text("the number of tokens", "token 数")
    if len(value) != len(want):
        _differ(len(value), len(want), case, size)
    for token, number in want.items():
        if value.get(token, _NOTHING) != number:
            name = Text(f"the id of {token}", f"{token} 的编号")
            _differ(value.get(token, _NOTHING), number, case, name)


def _is_bytes(key: str) -> bool:
    """Whether a key of a dict was bytes: what is no text comes back as its ``repr``."""
    return re.fullmatch(r"b(['\"]).*\1", key, re.DOTALL) is not None


def _differ(got: Any, want: Any, case: Case, what: Text) -> None:
    words = {"en": what.en, "zh": what.zh}
    raise CheckFailed(
        "check.value", case=case.words, what=words, got=_shown(got), want=_shown(want)
    )


def _shown(value: Any) -> dict[str, str]:
    if value is _NOTHING:
        return {"en": "nothing (no such item)", "zh": "空（没有这一项）"}
    if isinstance(value, Text):
        return {"en": value.en, "zh": value.zh}
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:57]}…"
    return {"en": text, "zh": text}
