"""``spot``: claims of a kind that teaching material holds; what is wrong with them?

Asks, checks each answer at once and gives the reason. Nothing is graded: whoever knows can say it
here without handing in another file. Whoever stops goes on where they were.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from enum import Enum

from autograder.course import labfile, spot
from autograder.course.atomic import write_atomic
from autograder.course.messages import render
from autograder.course.records import Message
from autograder.course.spot import Question, SpotError
from autograder.report.escape import folded
from autograder.report.next_step import command_of, number_of
from autograder.report.terminal import columns, readable

# Tries per answered question, by lab; not tracked, and free to be deleted.
STATE = labfile.ROOT / ".spot.json"


class _Leave(Enum):
    """Words that can be typed instead of an answer."""

    SKIP = "s"
    QUIT = "q"
    AGAIN = "r"


def run(lab_name: str, language: str) -> int:
    """Ask the questions of a lab that are open, the answers read from standard input.

    Returns:
        0 when all were answered right at the first try, 1 when not.

    Raises:
        LabError: no lab goes by that name.
        SpotError: the lab has no questions.
    """
    language = readable(language)
    folder = labfile.find_lab(lab_name)
    questions = spot.load(folder)
    if not questions:
        raise SpotError(
            f"{folder.name} has no spot-the-error questions; lab 1 has",
            f"{folder.name} 没有找错题；实验 1 有",
        )
    kept = _read()
    tries = {
        q.id: n for q in questions if isinstance(n := kept.get(folder.name, {}).get(q.id), int)
    }
    _print(_say("intro", language, count=len(questions)))
    if tries:
        print(_say("went_on", language, done=len(tries)))
    _ask_all(questions, tries, language)
    right = sum(number == 1 for number in tries.values())
    print(_say("total", language, right=right, total=len(questions)))
    left = len(questions) - len(tries)
    if left and tries:
        command = command_of(number_of(labfile.load(folder)), "spot")
        print(_say("kept", language, open=left, command=command))
    _save(kept | {folder.name: tries if left else {}})
    return 0 if right == len(questions) else 1


def _ask_all(questions: tuple[Question, ...], tries: dict[str, int], language: str) -> None:
    """Ask what has no entry in ``tries`` yet, until nothing is open or somebody stops."""
    answers = _letters()
    waiting = [n for n, question in enumerate(questions) if question.id not in tries]
    while waiting:
        number = waiting.pop(0)
        question = questions[number]
        needed = _asked(number + 1, question, answers, language)
        if needed is _Leave.QUIT:
            return
        if needed is _Leave.AGAIN:
            tries.clear()
            waiting = list(range(len(questions)))
        elif isinstance(needed, int):
            tries[question.id] = needed


def _asked(number: int, question: Question, answers: Iterator[str], language: str) -> int | _Leave:
    """Put one question until it is answered right; the tries it took, or how it was left."""
    print()
    _print(f"{number}. {question.claim.in_(language)}")
    for letter, choice in question.choices.items():
        _print(f"{letter}) {choice.in_(language)}", indent=3)
    tries = 0
    while True:
        print(_say("ask", language), end="", flush=True)
        answer = next(answers, _Leave.QUIT.value)
        if answer in [one.value for one in _Leave]:
            print()
            return _Leave(answer)
        known = answer in question.choices
        tries += known
        why = question.answer(answer) if known else None
        if why is not None:
            _print(_say("right", language, why=why.in_(language)), indent=3)
            return tries
        print(_say("wrong" if known else "unknown", language, letters=", ".join(question.choices)))


def _letters() -> Iterator[str]:
    """Answers as they come: one per line, or several on a line."""
    for line in sys.stdin:
        yield from line.lower().replace(")", " ").split() or [""]


def _read() -> dict[str, dict[str, int]]:
    """Return what is kept; nothing if it is absent or damaged."""
    try:
        found = json.loads(STATE.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    tables = found.items() if isinstance(found, dict) else ()
    return {lab: tries for lab, tries in tables if isinstance(tries, dict)}


def _save(kept: dict[str, dict[str, int]]) -> None:
    """Keep it; where nothing can be written, the questions begin anew next time."""
    with contextlib.suppress(OSError):
        if any(kept.values()):
            write_atomic(STATE, json.dumps(kept) + "\n")
        else:
            STATE.unlink(missing_ok=True)


def _print(text: str, indent: int = 0) -> None:
    """In lines that fit the terminal; those behind the first stand a little further in."""
    first, *more = folded(text, columns() - indent - 3) or [""]
    print(" " * indent + first)
    for one in more:
        print(" " * (indent + 3) + one)


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"spot.{name}", values), language)
