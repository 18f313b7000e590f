"""``review``: what a student missed comes back, with other numbers, in five minutes a day.

Questions of ``spot`` that took more than one try, and mistakes that ``hint`` named in their code.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import date

from autograder.cli.spot import Leave, asked, letters, say, shown
from autograder.course import labfile, spot
from autograder.course.cards import Card, Cards
from autograder.course.spot import LETTERS, Question
from autograder.report import escape
from autograder.report.next_step import command_of
from autograder.report.terminal import readable

MOST = 8  # cards a day
SECONDS = 300


def run(language: str, today: date) -> int:
    """Ask what is due on a day, answers read from standard input; 0, also if nothing is due."""
    language = readable(language)
    cards = Cards()
    waiting = cards.due()
    due = [(card, _question(card)) for card in waiting if card.due <= today.isoformat()]
    due = [(card, question) for card, question in due if question or card.mistake]
    if not due:
        print(_nothing(waiting, today, language))
        return 0
    shown(say("review", language, count=min(len(due), MOST)))
    answers, began, known = letters(), time.monotonic(), 0
    done: list[bool] = []
    for card, question in due[:MOST]:
        if time.monotonic() - began > SECONDS:
            break
        found = _came_back(len(done) + 1, card, question, answers, language)
        if found is Leave.QUIT:
            break
        if isinstance(found, bool):
            done.append(found)
            cards.put(card.came_back(today, known=found))
    cards.save()
    known = sum(done)
    print(say("reviewed", language, known=known, asked=len(done), left=len(due) - len(done)))
    return 0


def _question(card: Card) -> Question | None:
    """The question of a card; None for a mistake, and where the course has it no longer."""
    folder = labfile.LABS / card.lab
    if card.mistake is not None or folder.name != card.lab:
        return None
    return next((one for one in spot.load(folder) if one.id == card.id), None)


def _came_back(
    number: int, card: Card, question: Question | None, answers: Iterator[str], language: str
) -> bool | Leave:
    """Ask one card: whether it was known at once, or how it was left."""
    if question is None:
        return _mistake(number, card, answers, language)
    form = question.forms[(card.seen + 1) % len(question.forms)]
    order = random.Random(f"{card.id} {card.seen}").sample(LETTERS, len(LETTERS))
    tries, left = asked(str(number), form, answers, language, "".join(order))
    if left is not None and not tries:
        return left
    return tries == 1 and left is None


def _mistake(number: int, card: Card, answers: Iterator[str], language: str) -> bool | Leave:
    """A mistake by its name: the student recalls what it does, reads it, and says if they knew."""
    mistake = card.mistake
    assert mistake is not None
    name, sees, hint = (
        escape.line(text.in_(language)) for text in (mistake.name, mistake.sees, mistake.hint)
    )
    print()
    shown(f"{number}. " + say("mistake", language, mistake=name))
    print(say("recall", language), end="", flush=True)
    answer = next(answers, Leave.QUIT.value)
    if answer in (Leave.QUIT.value, Leave.SKIP.value):
        print()
        return Leave(answer)
    for text in (sees, hint):
        shown(text, indent=3)
    while True:
        print(say("knew", language), end="", flush=True)
        answer = next(answers, Leave.QUIT.value)
        if answer == Leave.QUIT.value:
            print()
            return Leave.QUIT
        if answer in ("y", "n"):
            return answer == "y"


def _nothing(waiting: list[Card], today: date, language: str) -> str:
    if waiting:
        days = (date.fromisoformat(waiting[0].due) - today).days
        return say("nothing_yet", language, days=days)
    return say("nothing_missed", language, command=command_of("2", "spot"))
