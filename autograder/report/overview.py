"""All labs at a glance: one row per lab, and the command for the one to go on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autograder.course.messages import render
from autograder.course.records import Lab, Message
from autograder.report.escape import fitted, line, width
from autograder.report.next_step import command_of, number_of
from autograder.report.rows import Row
from autograder.report.terminal import coloured, glyphs

_TITLE = 56  # columns at most


@dataclass(frozen=True)
class LabRow:
    """A lab with its exercises as they stand; none where the lab was not begun."""

    lab: Lab
    rows: tuple[Row, ...]

    @property
    def kind(self) -> str:
        """As of a :class:`Row`; ``other`` where some exercises wait, and none is wrong."""
        kinds = {row.kind for row in self.rows}
        if kinds <= {"not_started"}:
            return "not_started"
        if kinds == {"passed"}:
            return "passed"
        return "failed" if "failed" in kinds else "other"

    @property
    def mark(self) -> str:
        """Whose glyph is shown: what is half done and right so far is not yet finished."""
        return "not_started" if self.kind == "other" else self.kind

    @property
    def points(self) -> tuple[int, int]:
        """Earned, and worth."""
        earned = sum(row.points[0] for row in self.rows)
        return earned, self.lab.points


def overview(labs: Sequence[LabRow], language: str) -> str:
    """The text for the terminal."""
    titles = [width(line(lab.lab.title.in_(language))) for lab in labs]
    column = min(_TITLE, max(titles))
    lines = [_line(lab, column, language) for lab in labs]
    lines += [_say("legend", language, **glyphs()), ""]
    open_labs = [lab for lab in labs if lab.kind != "passed"]
    begun = [lab for lab in open_labs if lab.kind != "not_started"]
    if not open_labs:
        return "\n".join([*lines, _say("all_labs_done", language)])
    if all(lab.kind == "not_started" for lab in labs):
        lines.append(_say("nothing_yet_anywhere", language))
    first = (begun or open_labs)[0]
    command = command_of(number_of(first.lab), "test")
    return "\n".join([*lines, _say("next", language, command=command)])


def _line(one: LabRow, column: int, language: str) -> str:
    earned, worth = one.points
    title = fitted(line(one.lab.title.in_(language)), column)
    if one.kind == "not_started":
        said = _say("lab_not_started", language, count=len(one.lab.exercises))
    else:
        passed = sum(row.kind == "passed" for row in one.rows)
        said = _say("lab", language, passed=passed, count=len(one.rows))
    return (
        f"{coloured(one.mark)} {earned:>3}/{worth:<3} LAB={number_of(one.lab):<2} {title}  {said}"
    )


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"board.{name}", values), language)
