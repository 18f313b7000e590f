"""``spot``: claims of a kind that teaching material holds; what is wrong with them?

Asks, checks each answer at once and gives the reason. Nothing is graded: whoever knows can say it
here without handing in another file. Whoever stops goes on where they were.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from enum import Enum

from autograder.course import labfile, spot
from autograder.course.cards import Card, Cards
from autograder.course.messages import render
from autograder.course.records import Message
from autograder.course.spot import LETTERS, Form, Question, SpotError
from autograder.report.escape import folded
from autograder.report.next_step import command_of, number_of
from autograder.report.terminal import columns, readable


class Leave(Enum):
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
    cards = Cards()
    shown(say("intro", language, count=len(questions)))
    done = sum(cards.of(folder.name, question.id).answered for question in questions)
    if done:
        print(say("went_on", language, done=done))
    _ask_all(questions, cards, folder.name, language)
    found = [cards.of(folder.name, question.id) for question in questions]
    right = sum(card.answered and card.tries == 1 for card in found)
    print(say("total", language, right=right, total=len(questions)))
    left = sum(not card.answered for card in found)
    if left and any(card.tries for card in found):
        command = command_of(number_of(labfile.load(folder)), "spot")
        print(say("kept", language, open=left, command=command))
    if not left:
        _begin_anew(cards, found)
    if any(card.tries != 1 and card.due for card in found):
        print(say("come_back", language, command=command_of("", "review")))
    cards.save()
    return 0 if right == len(questions) else 1


def _ask_all(questions: tuple[Question, ...], cards: Cards, lab: str, language: str) -> None:
    """Ask what is not answered yet, until nothing is open or somebody stops."""
    answers = letters()
    waiting = [n for n, one in enumerate(questions) if not cards.of(lab, one.id).answered]
    while waiting:
        number = waiting.pop(0)
        card = cards.of(lab, questions[number].id)
        tries, left = asked(str(number + 1), questions[number].forms[0], answers, language)
        if left is Leave.AGAIN:
            _begin_anew(cards, [cards.of(lab, one.id) for one in questions])
            waiting = list(range(len(questions)))
        elif tries:  # what was half answered counts, too
            card = replace(card, tries=card.tries + tries, answered=left is None)
            cards.put(card if card.tries == 1 and card.answered else card.missed(date.today()))
        if left is Leave.QUIT:
            return


def _begin_anew(cards: Cards, found: list[Card]) -> None:
    for card in found:
        cards.put(replace(card, tries=0, answered=False))


def asked(
    number: str, form: Form, answers: Iterator[str], language: str, order: str = LETTERS
) -> tuple[int, Leave | None]:
    """Put one question until it is answered right.

    Args:
        order: the choices by their letters, as they are shown.

    Returns:
        The tries it took so far, and how it was left, if it was.
    """
    placed = dict(zip(LETTERS, order, strict=True))
    print()
    shown(f"{number}. {form.claim.in_(language)}")
    for letter, choice in placed.items():
        shown(f"{letter}) {form.choices[choice].in_(language)}", indent=3)
    tries = 0
    while True:
        print(say("ask", language), end="", flush=True)
        answer = next(answers, Leave.QUIT.value)
        if answer in [one.value for one in Leave]:
            print()
            return tries, Leave(answer)
        known = answer in placed
        tries += known
        why = form.answer(placed[answer]) if known else None
        if why is not None:
            shown(say("right", language, why=why.in_(language)), indent=3)
            return tries, None
        print(say("wrong" if known else "unknown", language, letters=", ".join(placed)))


def letters() -> Iterator[str]:
    """Answers as they come: one per line, or several on a line."""
    for line in sys.stdin:
        yield from line.lower().replace(")", " ").split() or [""]


def shown(text: str, indent: int = 0) -> None:
    """In lines that fit the terminal; those behind the first stand a little further in."""
    first, *more = folded(text, columns() - indent - 3) or [""]
    print(" " * indent + first)
    for one in more:
        print(" " * (indent + 3) + one)


def say(name: str, language: str, **values: object) -> str:
    """A phrase of ``spot.toml``."""
    return render(Message(f"spot.{name}", values), language)
