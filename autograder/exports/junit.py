"""JUnit XML: a test suite per student, a test case per check.

As pytest's ``xunit2`` writes it (``_pytest/junitxml.py``), which follows junit-10.xsd of Jenkins'
xUnit plugin. That schema knows properties of suites only, so points stand there:
``points`` (earned, late penalty not taken off), ``points.late_penalty``, ``points.final``,
``points.to_be_decided``, ``points.possible``, and ``points.CHECK`` for every check.

A check that did not pass is a ``failure``; one that waits for another is ``skipped``, and so is an
optional one that something was missing for. An ``error`` is always the grader's: a check that could
not be graded, and that a person has to decide about.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from autograder.course.records import Check, ClassRecord, HandIn, Outcome
from autograder.course.score import final_of, late_penalty_of, score_of
from autograder.report import escape
from autograder.report.view import CheckView, label, student_view

# The checks of a hand-in as other systems list them: one line each, with points and a text.


@dataclass(frozen=True)
class CheckLine:
    """One check; ``number`` is that of its exercise and its own, ``1.2``.

    ``state`` is ``passed`` (all its points), ``failed`` (fewer), ``skipped`` (what it builds on did
    not pass; earns nothing either), ``open`` (a person has to decide) or ``absent`` (an optional
    check for which something is missing, or one whose points a person has decided with others: no
    points of its own, nobody's business).
    """

    number: str
    exercise: str
    check: Check
    view: CheckView
    state: str

    @property
    def text(self) -> str:
        """Outcome, why, by whom it was decided, where it happened and what was printed.

        As much as the student's report shows: nothing but that it was one of a hidden case.
        """
        view = self.view
        return "\n".join(filter(None, (view.word, view.decided, view.reason, view.trace)))


def check_lines(record: ClassRecord, hand_in: HandIn, language: str) -> Iterator[CheckLine]:
    """The checks in the order of the lab, in words that need no markup."""
    shown = student_view(record, hand_in, language, quote=escape.line)
    pairs = zip(record.lab.exercises, shown.exercises, strict=True)
    for place, (exercise, theirs) in enumerate(pairs, 1):
        for number, (check, view) in enumerate(zip(exercise.checks, theirs.checks, strict=True), 1):
            yield CheckLine(f"{place}.{number}", exercise.id, check, view, _state(view))


def title_of(line: CheckLine) -> str:
    """Return what a check is called where exercises have no headings of their own."""
    return f"{line.exercise}: {line.view.title.replace('`', '')}"


def prints_of(line: CheckLine, language: str) -> str:
    """Return what the student's code printed, with a heading; empty where it printed nothing."""
    return f"{label('prints', language)}:\n{line.view.prints}" if line.view.prints else ""


def _state(view: CheckView) -> str:
    if view.settled and view.decided:
        return "passed" if view.earned >= view.points else "failed"
    if view.outcome is Outcome.NOT_GRADED:
        return "absent" if view.optional or view.settled else "open"
    if view.outcome is Outcome.PASSED:
        return "passed"
    return "skipped" if view.outcome is Outcome.SKIPPED else "failed"


# What is no character of XML 1.0 (section 2.2): controls, surrogates, the last two of plane 0.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {"failed": "failure", "open": "error", "skipped": "skipped", "absent": "skipped"}


def document(record: ClassRecord, language: str) -> Iterator[str]:
    """The XML text in pieces, one student at a time."""
    name = _safe(record.lab.name)
    root = ElementTree.tostring(ElementTree.Element("testsuites", name=name), "unicode")
    yield f'<?xml version="1.0" encoding="utf-8"?>\n{root.removesuffix(" />")}>\n'
    for hand_in in record.hand_ins:
        yield ElementTree.tostring(_suite(record, hand_in, language), "unicode") + "\n"
    yield "</testsuites>\n"


def _suite(record: ClassRecord, hand_in: HandIn, language: str) -> ElementTree.Element:
    lines = list(check_lines(record, hand_in, language))
    tags = Counter(_TAGS.get(line.state, "") for line in lines)
    suite = _element(
        None,
        "testsuite",
        name=hand_in.student,
        tests=str(len(lines)),
        failures=str(tags["failure"]),
        errors=str(tags["error"]),
        skipped=str(tags["skipped"]),
    )
    if hand_in.origin.submitted_at:
        suite.set("timestamp", _safe(hand_in.origin.submitted_at))
    properties = _element(suite, "properties")
    for name, value in _properties(record, hand_in, lines):
        _element(properties, "property", name=name, value=value)
    for line in lines:
        _case(suite, record, line, language)
    return suite


def _properties(
    record: ClassRecord, hand_in: HandIn, lines: list[CheckLine]
) -> Iterator[tuple[str, str]]:
    score = score_of(record.lab, hand_in)
    yield "points", str(score.earned)
    yield "points.possible", str(score.total)
    yield "points.to_be_decided", str(score.undecided)
    yield "points.late_penalty", str(late_penalty_of(record.lab, hand_in))
    yield "points.final", str(final_of(record.lab, hand_in))
    for line in lines:
        earned = "?" if line.state == "open" else str(line.view.earned)
        yield f"points.{line.check.name}", f"{earned}/{line.view.points}"


def _case(suite: ElementTree.Element, record: ClassRecord, line: CheckLine, language: str) -> None:
    where = f"{record.lab.name}.{line.exercise}"
    case = _element(suite, "testcase", classname=where, name=line.check.name)
    tag = _TAGS.get(line.state)
    if tag is not None:
        view = line.view
        message = view.decided or view.reason or view.word
        told = _element(case, tag, type=view.outcome.value, message=message)
        told.text = _safe("\n".join((line.view.title, line.text)))
    if line.view.decided and tag is None:
        _element(case, "system-out").text = _safe(line.view.decided)
    elif prints := prints_of(line, language):
        _element(case, "system-out").text = _safe(prints)


def _element(above: ElementTree.Element | None, tag: str, **values: str) -> ElementTree.Element:
    safe = {name: _safe(value) for name, value in values.items()}
    if above is None:
        return ElementTree.Element(tag, safe)
    return ElementTree.SubElement(above, tag, safe)


def _safe(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
