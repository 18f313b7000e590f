"""The nouns of grading, as frozen records: lab, exercise, check, outcome, result, hand-in."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from autograder.course.late import Lateness, LateRules

if TYPE_CHECKING:
    Values = Mapping[str, Any]
else:

    class Values(dict):
        """The values of a message, told from other objects when they are read from a file."""


# Words in both languages: texts as they are, and messages that are rendered later.

LANGUAGES = ("en", "zh")


@dataclass(frozen=True)
class Text:
    """One text in both languages; what was never translated stands in English."""

    en: str
    zh: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "zh", self.zh or self.en)

    def in_(self, language: str) -> str:
        """The text in ``language`` (``en`` or ``zh``)."""
        return self.zh if language == "zh" else self.en


def anchor(heading: str) -> str:
    """The place of a heading on GitHub: lower case, hyphens for spaces, no other signs."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


class ToldError(ValueError):
    """An error that ends a command with a sentence; ``said`` is it in both languages.

    As ``str`` it is English. What only authors and instructors meet may be English alone.
    """

    def __init__(self, en: str, zh: str = "") -> None:
        super().__init__(en)
        self.said = Text(en, zh or en)


@dataclass(frozen=True)
class Message:
    """A sentence as a key and its values, so that it renders in either language later."""

    key: str
    values: Values = field(default_factory=dict)


# What diagnosis says: the words for a known mistake, and what was found in a hand-in.


class Certainty(StrEnum):
    """The certainty of diagnosis about a mistake."""

    NAMED = "named"  # the answers are those of this mistake, and of no other
    SHOWN = "shown"  # an experiment shows it, in whatever form; there may be others beside it
    LOOKS_LIKE = "looks_like"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Misconception:
    """A known mistake in words: what it is, what one sees of it, a hint, what to read again.

    ``id`` is that of the class: mistakes with equal outputs share one. ``section`` is the title
    of a section of the lab's handout, ``anchor`` its place there.
    """

    id: str
    group: str
    name: Text
    sees: Text
    hint: Text
    section: Text
    anchor: str = ""
    source: str = ""


@dataclass(frozen=True)
class Finding:
    """The diagnosis of exercises that failed.

    ``misconceptions`` act together; with ``either`` it is one of them. ``checks`` are those that
    revealed it; ``known`` says what else is known, for instance how far the answers are right.
    """

    exercises: tuple[str, ...]
    certainty: Certainty
    misconceptions: tuple[Misconception, ...] = ()
    either: bool = False
    checks: tuple[str, ...] = ()
    known: tuple[Message, ...] = ()


FEEDBACK = ("symptom", "hint", "name")
FAMILIES = (
    "shape",
    "softmax",
    "causal mask",
    "GQA",
    "RoPE",
    "QK-norm",
    "KV cache",
    "model",
    "loading",
    "generation",
    "dtype and contract",
    "numeric parity",
    "norm",
    "MLP",
    "accounting",
    "flat tokens",
    "tensor parallel",
    "memory",
    "routing",
    "tokenizer",
    "embedding",
)


class Outcome(StrEnum):
    """The end of a check. A closed list: only ``PASSED`` earns its points."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_STARTED = "not_started"  # the TODO is still there
    SKIPPED = "skipped"  # what it needs did not pass
    CRASHED = "crashed"  # the process that ran it died
    TIMED_OUT = "timed_out"
    NOT_GRADED = "not_graded"  # our fault, or something absent: never a zero


@dataclass(frozen=True)
class Check:
    """One test function with its points.

    ``needs`` names checks that must pass first. ``fresh`` asks for a process of its own.
    ``optional`` checks carry 0 points and may stay ungraded without anybody's attention.
    """

    name: str
    exercise: str
    family: str
    points: int
    title: Text
    needs: tuple[str, ...] = ()
    fresh: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Exercise:
    """One TODO: the marker id that stubs show, its file, and its checks."""

    id: str
    file: str
    title: Text
    hint: Text
    checks: tuple[Check, ...]

    @property
    def points(self) -> int:
        """Points of all checks."""
        return sum(check.points for check in self.checks)


@dataclass(frozen=True)
class Limits:
    """Limits of one call in the worker (seconds, MiB), and of a whole hand-in.

    ``hand_in_seconds`` of wall-clock time end a hand-in that waits a little everywhere; a right
    one needs a hundredth of it.
    """

    cpu_seconds: int | float = 2.0
    wall_seconds: int | float = 20.0
    memory_mib: int = 1024
    lost_workers: int = 3
    hand_in_seconds: int | float = 120.0


@dataclass(frozen=True)
class Lab:
    """A lab as its ``lab.toml`` describes it.

    ``feedback`` says how much of a mistake the score report tells: one of ``FEEDBACK``.
    ``given``: modules of the course that a hand-in's process has; checks alone use some of them.
    ``folders``: what a hand-in's process may read beside Python, by path inside the project.
    ``tests``: the one of them that holds pytest files, where the checks are those (``adopt``).
    ``after``: the command of the course that shows the work at work, once all cases pass.
    """

    name: str
    folder: Path
    title: Text
    files: tuple[str, ...]
    given: tuple[str, ...]
    forbidden: tuple[str, ...]
    limits: Limits
    exercises: tuple[Exercise, ...]
    feedback: str = "name"
    folders: tuple[str, ...] = ()
    tests: str = ""
    after: str = ""
    given_for_checks: tuple[str, ...] = ()

    @cached_property  # every score of every hand-in goes through them
    def checks(self) -> tuple[Check, ...]:
        """All checks in the order of ``lab.toml``."""
        return tuple(check for exercise in self.exercises for check in exercise.checks)

    def with_needs(self, names: Collection[str]) -> tuple[str, ...]:
        """The checks of these names and those that they build on, in the order of ``lab.toml``."""
        needed = set(names)
        for check in reversed(self.checks):
            if check.name in needed:
                needed.update(check.needs)
        return tuple(check.name for check in self.checks if check.name in needed)

    @property
    def points(self) -> int:
        """Points of the whole lab."""
        return sum(exercise.points for exercise in self.exercises)

    @property
    def offered(self) -> tuple[str, ...]:
        """Given modules that students may import."""
        return tuple(name for name in self.given if name not in self.given_for_checks)

    @property
    def preloaded(self) -> tuple[str, ...]:
        """Modules that a worker has imported before student code runs."""
        return (*self.given, *(("autograder.worker.pytest_files",) if self.tests else ()))


@dataclass(frozen=True)
class Frame:
    """One line of a student's traceback."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True)
class CheckResult:
    """The result of one check of one hand-in.

    ``hidden`` is True when a hidden case decided. Then nothing of what came back is held, whoever
    makes the record: student code chooses what it reports, and could tell the case by a number.
    """

    check: str
    outcome: Outcome
    message: Message | None = None
    hidden: bool = False
    case: str = ""
    prints: str = ""
    frames: tuple[Frame, ...] = ()

    def __post_init__(self) -> None:
        """Drop what would show a hidden case."""
        if self.hidden:
            bare = {"message": _of_hidden(self.outcome, self.message), "case": "", "prints": ""}
            for name, value in (bare | {"frames": ()}).items():
                object.__setattr__(self, name, value)


# Of a fault of ours: the kind of the exception, and where our code raised it.
_PLACE = re.compile(r"[A-Za-z]+ in \w+\.py:\d+")


def _of_hidden(outcome: Outcome, message: Message | None) -> Message | None:
    """The sentence about a hidden case that stands for ``message``: one of a few."""
    if outcome is Outcome.PASSED:
        return None
    if outcome is not Outcome.NOT_GRADED:
        slow = outcome is Outcome.TIMED_OUT
        return Message("check.hidden_slow" if slow else "check.hidden")
    key = message.key if message is not None else ""
    if key in ("check.not_counted", "check.hidden_not_counted"):
        return Message("check.hidden_not_counted")
    if key in ("check.not_kept", "check.no_weights"):
        return Message(key)
    place = message.values.get("place") if message is not None else None
    known = isinstance(place, str) and _PLACE.fullmatch(place)
    return Message("check.hidden_fault", {"place": place} if known else {})


def unread(problem: Message) -> CheckResult:
    """Say what a check gets whose file could not be read: no points; no grade where we failed."""
    ours = problem.key == "intake.reading_broken"
    return CheckResult("", Outcome.NOT_GRADED if ours else Outcome.FAILED, problem)


@dataclass(frozen=True)
class Student:
    """A person who handed in, as the course system names them; empty where it does not.

    ``first_name`` and ``last_name`` are the parts of ``name`` where a roster tells them apart.
    """

    id: str
    name: str = ""
    email: str = ""
    first_name: str = ""
    last_name: str = ""


@dataclass(frozen=True)
class Origin:
    """The origin of a hand-in, as the course system's names or metadata tell it.

    Never from file times, which change with every copy. ``name`` is that of the folder, archive
    or first loose file as it was downloaded, ``submitted_at`` is ISO 8601 or empty, ``late`` is
    None where the system does not tell, ``attempt`` counts from 1.
    """

    name: str = ""
    students: tuple[Student, ...] = ()
    submitted_at: str = ""
    late: bool | None = None
    attempt: int = 1


@dataclass(frozen=True)
class Submission:
    """A hand-in as it came: the text of the lab's files, by plain name.

    ``student`` identifies the hand-in (a safe file name, unique in the class). ``notes`` are
    remarks (a GBK file was decoded); ``problems`` name, per file, why a file could not be taken
    (the key ``""`` stands for the whole hand-in).
    """

    student: str
    files: Mapping[str, str]
    notes: tuple[Message, ...] = ()
    problems: Mapping[str, Message] = field(default_factory=dict)
    origin: Origin = Origin()


@dataclass(frozen=True)
class Override:
    """A person's decision on a hand-in, why, and by whom.

    It is on one ``check``, on one ``exercise``, or where both are empty on the whole hand-in.
    ``points``, in halves, take the place of those that were graded; ``bonus`` is added to them, and
    is below 0 for a penalty. ``looked_at`` says that the marks of the hand-in need nobody any more.
    """

    student: str
    check: str
    points: int | float | None
    reason: str
    by: str
    exercise: str = ""
    bonus: int | float = 0
    looked_at: bool = False


# Two numbers that disagree: read by a student they would be an accusation.
INSTRUCTORS_ONLY = frozenset(("check.more_bytes", "check.more_time"))


@dataclass(frozen=True)
class HandIn:
    """The graded record of one hand-in; ``marks`` are reasons for a human to look at it.

    ``lateness`` is None where no course file says when the lab was due. ``cases``, where they were
    asked for, are results of single public cases, of checks that failed on one; no report has them.
    """

    student: str
    results: tuple[CheckResult, ...]
    notes: tuple[Message, ...] = ()
    marks: tuple[Message, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    origin: Origin = Origin()
    overrides: tuple[Override, ...] = ()
    findings: tuple[Finding, ...] = ()
    lateness: Lateness | None = None
    cases: tuple[CheckResult, ...] = ()

    @property
    def shown_marks(self) -> tuple[Message, ...]:
        """The marks that the student reads, too; the others are for the instructor alone."""
        return tuple(mark for mark in self.marks if mark.key not in INSTRUCTORS_ONLY)


@dataclass(frozen=True)
class Score:
    """Points of a hand-in: ``earned`` of ``gradable``, the rest of ``total`` undecided.

    Only a person gives halves, and more than ``total``.
    """

    earned: float
    gradable: int
    total: int

    @property
    def undecided(self) -> int:
        """Points that a human has to decide, since a check could not be graded."""
        return self.total - self.gradable


@dataclass(frozen=True)
class Isolation:
    """The isolation of the workers: a level, the layers that bound, how they started."""

    level: str
    layers: tuple[str, ...]
    worker: str  # "fork" or "spawn"


@dataclass(frozen=True)
class ClassRecord:
    """Everything a report needs: what ``class.json`` holds.

    ``hand_ins`` may be read from disk one by one, so that a large class needs no large memory.
    """

    lab: Lab
    isolation: Isolation
    versions: Mapping[str, str]
    hand_ins: Sequence[HandIn]
    hidden_cases: int = 0
    public_cases: int = 0
    missing: tuple[Student, ...] = ()  # on the roster, but without a hand-in
    late_rules: LateRules | None = None  # of the course file, where there was one


# A class that is never in memory whole.


class LazyHandIns(Sequence[HandIn]):
    """Hand-ins that are read or made whenever one is looked at."""

    @abstractmethod
    def _at(self, place: int) -> HandIn:
        """The one at ``place``, from 0."""

    @overload
    def __getitem__(self, index: int) -> HandIn: ...
    @overload
    def __getitem__(self, index: slice) -> list[HandIn]: ...
    def __getitem__(self, index: int | slice) -> HandIn | list[HandIn]:
        places = range(len(self))
        if isinstance(index, slice):
            return [self._at(place) for place in places[index]]
        return self._at(places[index])
