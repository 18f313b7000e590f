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
from typing import Any

from autograder.course.records import Text, ToldError

FILE = "spot.json"
LETTERS = "abcd"
_MARK = b"right:"


class SpotError(ToldError):
    """The questions cannot be read; the text names the file and the mend."""


@dataclass(frozen=True)
class Question:
    """A claim, what may be said about it (by letter), and the sealed reason."""

    id: str
    claim: Text
    choices: Mapping[str, Text]
    sealed: str

    def answer(self, letter: str) -> Text | None:
        """The reason, if ``letter`` is right; None otherwise."""
        blob = base64.b64decode(self.sealed)
        plain = _crypt(self.id, letter, blob)
        if not plain.startswith(_MARK):
            return None
        return Text(*json.loads(plain.removeprefix(_MARK)))


def seal(name: str, letter: str, why: Text) -> str:
    """A reason that :meth:`Question.answer` opens with the right letter."""
    plain = _MARK + json.dumps([why.en, why.zh], ensure_ascii=False).encode()
    return base64.b64encode(_crypt(name, letter, plain)).decode()


def _crypt(name: str, letter: str, text: bytes) -> bytes:
    """The same both ways: an exclusive or with a stream that question and letter decide."""
    stream = hashlib.shake_256(f"{name}/{letter}".encode()).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))


def dump(questions: Sequence[Question]) -> str:
    """The text of a lab's ``spot.json``."""
    told = [
        {
            "id": one.id,
            "claim": vars(one.claim),
            "choices": {letter: vars(text) for letter, text in one.choices.items()},
            "sealed": one.sealed,
        }
        for one in questions
    ]
    return json.dumps(told, ensure_ascii=False, indent=1) + "\n"


def load(folder: Path) -> tuple[Question, ...]:
    """The questions of the lab in ``folder``; none if it has no file of them.

    Raises:
        SpotError: the file is not ours.
    """
    path = folder / FILE
    if not path.exists():
        return ()
    try:
        return tuple(_question(raw) for raw in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        mend = "take it from the course's files again"
        raise SpotError(f"{path}: not a file of questions ({error}); {mend}") from None


def _question(raw: Mapping[str, Any]) -> Question:
    choices = {str(letter): Text(**text) for letter, text in raw["choices"].items()}
    return Question(str(raw["id"]), Text(**raw["claim"]), choices, str(raw["sealed"]))
