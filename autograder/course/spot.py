"""Spot the error: questions whose answers are sealed, so that nobody reads them by accident.

A reason is encrypted with the letter of the right choice: only who gives that letter can read
it, and reading it is the proof. Four letters are no secret from who tries them all; nothing of
this is graded.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.course.plain import from_plain, to_plain
from autograder.course.records import Text, ToldError

FILE = "spot.json"
LETTERS = "abcd"
_MARK = b"right:"


class SpotError(ToldError):
    """The questions cannot be read; the text names the file and the mend."""


@dataclass(frozen=True)
class Form:
    """A claim with its numbers, what may be said about it (by letter), and the sealed reason."""

    claim: Text
    choices: Mapping[str, Text]
    sealed: str

    def answer(self, letter: str) -> Text | None:
        """The reason, if ``letter`` is right; None otherwise."""
        plain = _crypt(self.claim, letter, base64.b64decode(self.sealed))
        if not plain.startswith(_MARK):
            return None
        return Text(*json.loads(plain.removeprefix(_MARK)))


@dataclass(frozen=True)
class Question:
    """One question in its forms, the first as teaching material has it, others drawn anew.

    ``about``: the mistakes that it helps against, by id.
    """

    id: str
    forms: tuple[Form, ...]
    about: tuple[str, ...] = ()


def sealed(claim: Text, choices: Mapping[str, Text], letter: str, why: Text) -> Form:
    """A form whose reason :meth:`Form.answer` opens with the right letter."""
    plain = _MARK + json.dumps([why.en, why.zh], ensure_ascii=False).encode()
    return Form(claim, choices, base64.b64encode(_crypt(claim, letter, plain)).decode())


def _crypt(claim: Text, letter: str, text: bytes) -> bytes:
    """The same both ways: an exclusive or with a stream that claim and letter decide."""
    stream = hashlib.shake_256(f"{claim.en}/{letter}".encode()).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))


def dump(questions: Sequence[Question]) -> str:
    """The text of a lab's ``spot.json``."""
    return json.dumps(to_plain(questions), ensure_ascii=False, indent=1) + "\n"


def load(folder: Path) -> tuple[Question, ...]:
    """The questions of the lab in ``folder``; none if it has no file of them.

    Raises:
        SpotError: the file is not ours.
    """
    path = folder / FILE
    if not path.exists():
        return ()
    try:
        questions = json.loads(path.read_text(encoding="utf-8"))
        return from_plain(tuple[Question, ...], questions)
    except (OSError, ValueError, RecursionError) as error:
        mend = "take it from the course's files again"
        raise SpotError(f"{path}: not a file of questions ({error}); {mend}") from None
