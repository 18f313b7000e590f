"""The content of a student's report, in one language: plain strings and numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, replace

from autograder.course.messages import catalogue, render
from autograder.course.records import (
    Check,
    CheckResult,
    ClassRecord,
    Exercise,
    Frame,
    HandIn,
    Lab,
    Message,
    Outcome,
    Score,
)
from autograder.course.score import (
    check_decisions,
    decided_checks,
    final_of,
    is_late,
    late_penalty_of,
    looked_at,
    neat,
    points_of,
    score_of,
)
from autograder.report import escape
from autograder.report.broken_files import BrokenFile, broken_files

GLYPHS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.NOT_STARTED: "○",
    Outcome.SKIPPED: "—",
    Outcome.CRASHED: "!",
    Outcome.TIMED_OUT: "∞",
    Outcome.NOT_GRADED: "?",
}

Quote = Callable[[str], str]


@dataclass(frozen=True)
class CheckView:
    """One check; ``prints`` and ``trace`` are empty for hidden cases.

    ``decided`` says by whom and why, where a person has set or changed its points; ``settled`` is
    True where nothing that runs changes them any more, ``open`` while they are to be decided.
    """

    title: str
    family: str
    outcome: Outcome
    glyph: str
    word: str
    earned: float
    points: int
    hidden: bool
    optional: bool
    open: bool = False
    settled: bool = False
    decided: str = ""
    reason: str = ""
    prints: str = ""
    trace: str = ""
    name: str = ""


@dataclass(frozen=True)
class ExerciseView:
    """One exercise; ``hint`` is empty unless the student's work on it did not pass.

    ``apart`` are the checks to be told one by one; of the others, for whose file see ``broken`` of
    the report, ``waits`` says how many they are. ``decided``: what a person has decided of it.
    """

    id: str
    file: str
    title: str
    hint: str
    score: Score
    checks: tuple[CheckView, ...]
    apart: tuple[CheckView, ...]
    waits: str
    decided: tuple[str, ...]


@dataclass(frozen=True)
class BrokenView:
    """A file that could not be used: why, and what depends on it; ``open``: a person decides."""

    files: str
    said: str
    points: int
    open: bool
    trace: str
    prints: str


@dataclass(frozen=True)
class StudentView:
    """The whole report; ``about`` (the hand-in), ``notes`` and ``marks`` are finished sentences.

    ``passed`` and ``count`` are numbers of checks, optional ones aside. ``late`` says what
    lateness takes off the score and what counts; empty where it takes nothing. ``broken`` are
    files that could not be used: their checks stand there together, and not one by one.
    ``decided`` is what a person has decided of the whole hand-in, ``changed`` whether any points of
    it are a person's, ``looked_at`` whether the marks need nobody any more.
    """

    student: str
    lab: str
    score: Score
    passed: int
    count: int
    exercises: tuple[ExerciseView, ...]
    families: tuple[tuple[str, Score], ...]
    about: tuple[str, ...]
    notes: tuple[str, ...]
    marks: tuple[str, ...]
    late: str = ""
    broken: tuple[BrokenView, ...] = ()
    decided: tuple[str, ...] = ()
    changed: bool = False
    looked_at: bool = False


def label(name: str, language: str, **values: object) -> str:
    """A fixed phrase of the reports, from ``report.toml``."""
    return render(Message(f"report.{name}", values), language)


def sentence(message: Message, language: str, quote: Quote) -> str:
    """The message with every text among its values passed through ``quote``, without folders.

    A message that cannot be rendered (a key of another release) is said to be so: one odd record
    must not cost a class its reports.
    """
    values: dict[str, object] = {}
    for name, value in message.values.items():
        if isinstance(value, dict):
            value = value.get(language, value.get("en", ""))
        values[name] = (
            value if isinstance(value, (int, float)) else quote(escape.placeless(str(value)))
        )
    try:
        return render(Message(message.key, values), language)
    except (KeyError, ValueError, IndexError, AttributeError, OverflowError):
        return label("unreadable", language, key=quote(message.key))


def family_name(family: str, language: str) -> str:
    """The family in ``language``; one that is not in the catalogue keeps its English name."""
    name = "family_" + family.lower().replace(" ", "_").replace("-", "_")
    return label(name, language) if f"report.{name}" in catalogue() else family


def student_view(
    record: ClassRecord, hand_in: HandIn, language: str, quote: Quote = escape.line
) -> StudentView:
    """Collect what the report of ``hand_in`` shows; ``quote`` fits student text to the medium."""
    lab = record.lab
    broken = broken_files(lab, hand_in)
    waiting = {check for one in broken for check in one.checks}
    settled = decided_checks(lab, hand_in)
    exercises = tuple(
        _exercise(one, score_of(lab, hand_in, one.id), hand_in, waiting, settled, language, quote)
        for one in lab.exercises
    )
    graded = [check for one in exercises for check in one.checks if not check.optional]
    return StudentView(
        student=hand_in.student,
        lab=lab.title.in_(language),
        score=score_of(lab, hand_in),
        passed=sum(check.outcome is Outcome.PASSED for check in graded),
        count=len(graded),
        exercises=exercises,
        families=_families(lab, hand_in, language),
        about=_about(hand_in, language, quote),
        notes=tuple(sentence(note, language, quote) for note in hand_in.notes),
        marks=tuple(sentence(mark, language, quote) for mark in hand_in.shown_marks),
        late=late_line(lab, hand_in, language),
        broken=tuple(_broken(one, language, quote) for one in broken),
        decided=_decisions(hand_in, "", "", language, quote),
        changed=any(one.points is not None or one.bonus for one in hand_in.overrides),
        looked_at=looked_at(hand_in),
    )


def _decisions(
    hand_in: HandIn, check: str, exercise: str, language: str, quote: Quote
) -> tuple[str, ...]:
    """Return what a person has decided of a check, of an exercise, or of neither: the hand-in."""
    told = []
    for one in hand_in.overrides:
        if (one.check, one.exercise) != (check, exercise):
            continue
        values = {"by": quote(one.by), "reason": quote(one.reason)}
        if one.points is not None:
            key = "decided" if check or exercise else "decided_whole"
            told.append(label(key, language, points=one.points, **values))
        if one.bonus:
            key = "bonus" if one.bonus > 0 else "penalty"
            told.append(label(key, language, points=neat(abs(one.bonus)), **values))
        if one.looked_at:
            told.append(label("looked_at", language, **values))
    return tuple(told)


def _broken(one: BrokenFile, language: str, quote: Quote) -> BrokenView:
    said = [sentence(one.message, language, quote)]
    said += [label("depends", language, points=one.points)] if one.points else []
    return BrokenView(
        files=", ".join(one.files),
        said=("" if language == "zh" else " ").join(said),
        points=one.points,
        open=one.open,
        trace=escape.placeless(escape.block(_trace(one.result.frames))),
        prints=escape.placeless(escape.block(one.result.prints)),
    )


def late_line(lab: Lab, hand_in: HandIn, language: str) -> str:
    """Return what lateness takes off, and what counts; why nothing, where that has to be said."""
    late = hand_in.lateness
    if late is None:
        return ""
    if late.days is None:
        if hand_in.origin.late is False:
            return ""  # in time, says the course system
        return label("late_no_offset" if late.why == "no_offset" else "late_no_time", language)
    score = score_of(lab, hand_in)
    penalty, final = late_penalty_of(lab, hand_in), final_of(lab, hand_in)
    values = {"days": late.days, "percent": late.percent, "penalty": penalty}
    if not late.days:
        return ""
    key = "late_closed" if late.closed else "late_days"
    return label(key, language, **values, final=final, total=score.total)


def _about(hand_in: HandIn, language: str, quote: Quote) -> tuple[str, ...]:
    """Return who handed in, when, and by when, as far as the course system and the course tell."""
    origin, late = hand_in.origin, hand_in.lateness
    names = [quote(one.name or one.id or one.email) for one in origin.students]
    lines = []
    if len(names) > 1:
        lines.append(label("handed_in_by", language, names=", ".join(names)))
    submitted_at = origin.submitted_at or (late.told_by_hand if late else "")
    if submitted_at:
        lines.append(label("submitted_at", language, time=quote(submitted_at)))
    if origin.attempt > 1:
        lines.append(label("attempt", language, number=origin.attempt))
    if late is not None:
        lines.append(label("extended" if late.extended else "due", language, time=quote(late.due)))
    if is_late(hand_in):
        lines.append(label("late", language))
    return tuple(lines)


def _families(lab: Lab, hand_in: HandIn, language: str) -> tuple[tuple[str, Score], ...]:
    """Points per family, in the order in which the lab first names them.

    What a person decides of an exercise or a hand-in is of no family.
    """
    scores = []
    for family in dict.fromkeys(check.family for check in lab.checks):
        checks = tuple(check for check in lab.checks if check.family == family)
        topic = replace(lab, exercises=(replace(lab.exercises[0], checks=checks),))
        score = points_of(topic, hand_in.results, decided=check_decisions(hand_in))
        scores.append((family_name(family, language), score))
    return tuple(scores)


def _exercise(
    exercise: Exercise,
    score: Score,
    hand_in: HandIn,
    waiting: Set[str],
    settled: Set[str],
    language: str,
    quote: Quote,
) -> ExerciseView:
    results = {result.check: result for result in hand_in.results}
    checks = _without_repeats(
        [
            _check(check, results.get(check.name), hand_in, check.name in settled, language, quote)
            for check in exercise.checks
        ],
        language,
    )
    left = [check for check in exercise.checks if check.name in waiting]
    values = {"count": len(left), "points": sum(check.points for check in left)}
    pairs = zip(exercise.checks, checks, strict=True)
    apart = tuple(view for check, view in pairs if check.name not in waiting)
    # A check that we could not grade is no reason to hint at a mistake.
    fine = (Outcome.PASSED, Outcome.NOT_GRADED)
    wrong = any(check.outcome not in fine for check in apart)
    return ExerciseView(
        id=exercise.id,
        file=exercise.file,
        title=exercise.title.in_(language),
        hint=exercise.hint.in_(language) if wrong else "",
        score=score,
        checks=checks,
        apart=apart,
        waits=label("waits", language, **values) if left else "",
        decided=_decisions(hand_in, "", exercise.id, language, quote),
    )


def _without_repeats(checks: list[CheckView], language: str) -> tuple[CheckView, ...]:
    """Say a reason once: what ails a file ails every check of it in the same words."""
    seen: set[str] = set()
    told = []
    for check in checks:
        repeated = bool(check.reason) and check.reason in seen
        seen.add(check.reason)
        if repeated:
            check = replace(check, reason=label("as_above", language), prints="", trace="")
        told.append(check)
    return tuple(told)


def _check(
    check: Check,
    result: CheckResult | None,
    hand_in: HandIn,
    settled: bool,
    language: str,
    quote: Quote,
) -> CheckView:
    if result is None:
        result = CheckResult(check.name, Outcome.NOT_GRADED, Message("report.no_result"))
    passed, message = result.outcome is Outcome.PASSED, why(result)
    shown = not result.hidden and not passed
    own = [one for one in hand_in.overrides if one.check == check.name]
    earned = check_decisions(hand_in).get(check.name, check.points if passed else 0)
    earned = neat(max(0, earned + sum(one.bonus for one in own)))
    return CheckView(
        title=check.title.in_(language),
        family=family_name(check.family, language),
        outcome=result.outcome,
        glyph=GLYPHS[result.outcome],
        word=render(Message(f"outcome.{result.outcome.value}"), language),
        earned=earned,
        points=check.points,
        hidden=result.hidden,
        optional=check.optional,
        open=result.outcome is Outcome.NOT_GRADED and not settled,
        settled=settled,
        decided=" ".join(_decisions(hand_in, check.name, "", language, quote)),
        reason="" if message is None else sentence(message, language, quote),
        prints=escape.placeless(escape.block(result.prints)) if shown else "",
        trace=escape.placeless(escape.block(_trace(result.frames))) if shown else "",
        name=check.name,
    )


def why(result: CheckResult) -> Message | None:
    """Why it did not pass."""
    return None if result.outcome is Outcome.PASSED else result.message


def _trace(frames: tuple[Frame, ...]) -> str:
    lines = []
    for frame in frames:
        where = f'File "{frame.file}", line {frame.line}, in {frame.function}'
        lines.append(escape.line(where))
        lines.append("    " + escape.line(frame.text))
    return "\n".join(lines)


# The exercises of one hand-in as rows of a scoreboard.

BAD = (Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT)


def foremost(missed: Sequence[CheckResult | CheckView]) -> int:
    """The place of the check to tell first: the first, or if a hidden case fails it, which tells
    little, the first that fails on a public case.
    """
    public = (n for n, one in enumerate(missed) if one.outcome in BAD and not one.hidden)
    return next(public, 0) if missed[0].hidden else 0


@dataclass(frozen=True)
class ScoreRow:
    """One exercise as it stands; ``missed``: checks that did not pass, :func:`foremost` first."""

    exercise: Exercise
    checks: tuple[Check, ...]
    missed: tuple[tuple[Check, CheckResult], ...]

    @property
    def kind(self) -> str:
        """``passed``, ``failed``, ``not_started`` or ``other`` (waits for something)."""
        outcomes = [result.outcome for _, result in self.missed]
        if not outcomes:
            return "passed"
        if all(outcome is Outcome.NOT_STARTED for outcome in outcomes):
            return "not_started"
        return "failed" if any(outcome in BAD for outcome in outcomes) else "other"

    @property
    def points(self) -> tuple[int, int]:
        """Earned, and worth."""
        worth = sum(check.points for check in self.checks)
        return worth - sum(check.points for check, _ in self.missed), worth

    @property
    def name(self) -> str:
        """Return what ``K=`` calls it."""
        return short(self.exercise.id)

    @property
    def first(self) -> tuple[Check, CheckResult]:
        """The first check that failed; where none did, the first that was missed."""
        return next((one for one in self.missed if one[1].outcome in BAD), self.missed[0])

    @property
    def reason(self) -> Message | None:
        """Why the first check was missed; None where that needs no words."""
        return self.first[1].message if self.missed and self.kind != "not_started" else None


def root_of(row: ScoreRow, record: ClassRecord) -> tuple[Check, CheckResult]:
    """The first check that was missed, or the one that it waits for, if that was not asked for."""
    check, result = row.missed[0]
    if result.outcome is Outcome.SKIPPED:
        results = {one.check: one for one in record.hand_ins[0].results}
        for need in (one for one in record.lab.checks if one.name in check.needs):
            if results[need.name].outcome in BAD:
                return need, results[need.name]
    return check, result


def short(exercise: str) -> str:
    """An exercise's id without its lab."""
    return exercise.partition(".")[2] or exercise


def rows_of(record: ClassRecord, chosen: Collection[str]) -> list[ScoreRow]:
    """The exercises that have one of the ``chosen`` checks, as they stand."""
    results = {result.check: result for result in record.hand_ins[0].results}
    rows = []
    for exercise in record.lab.exercises:
        checks = tuple(check for check in exercise.checks if check.name in chosen)
        missed = [
            (check, results[check.name])
            for check in checks
            if results[check.name].outcome is not Outcome.PASSED and not check.optional
        ]
        if missed:
            missed.insert(0, missed.pop(foremost([result for _, result in missed])))
        if checks:
            rows.append(ScoreRow(exercise, checks, tuple(missed)))
    return rows
