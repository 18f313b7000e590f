"""Runs one hand-in through all checks and says, check by check, what became of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from autograder.checks.expect import CheckFailed, NotCounted
from autograder.checks.plan import CheckCase, Plan
from autograder.course.messages import cut
from autograder.course.records import Check, CheckResult, Message, Outcome, unread
from autograder.diagnosis.items import Answer
from autograder.judge import outcomes
from autograder.reference.cases import Case
from autograder.sandbox.links import NoWorker, StudentError, WorkerLost
from autograder.sandbox.prefetcher import OutOfTurn, Prefetcher
from autograder.sandbox.recording import NotKept
from autograder.sandbox.sharing import SharingTransport
from autograder.sandbox.student import Result, Student
from autograder.sandbox.transport import CheckTransport

KEPT_LINES = 30  # the first and the last of a student's own prints
MOST_KEPT = 128 << 20  # bytes of answers that mistakes are looked for in; a right one has a tenth
_ABSENT = re.compile(r"AttributeError: module '(\w+)' has no attribute '(\w+)'")
_LOST = {Outcome.FAILED, Outcome.NOT_STARTED, Outcome.CRASHED, Outcome.TIMED_OUT}


class Runner:
    """One hand-in on its way through a plan; its worker may be asked ``ahead``.

    Unless ``whole``, the way ends with the first check that costs points. With ``prints``, what
    is printed is kept of checks that pass on public cases, too.
    """

    def __init__(
        self,
        plan: Plan,
        transport: CheckTransport,
        ahead: Prefetcher | None = None,
        *,
        whole: bool = True,
        prints: bool = False,
    ) -> None:
        self._whole, self._lost = whole, False
        self._prints_kept = prints
        self._plan = plan
        self._transport = transport
        self._sharing = transport if isinstance(transport, SharingTransport) else None
        self._ahead = ahead
        self._split = {hidden: plan.split(hidden=hidden) for hidden in (False, True)}
        self._results: dict[str, CheckResult] = {}
        self._settled: dict[str, CheckResult | None] = {}  # by file: what importing it came to
        self._only: set[str] = set()
        self._prints_shown = False
        self.answers: list[Answer] = []  # to public cases
        self._room = MOST_KEPT
        self.operators: set[str] = set()

    def run(self, problems: dict[str, Message], only: set[str]) -> tuple[CheckResult, ...]:
        """:meth:`public`, then :meth:`hidden`."""
        self.public(problems, only)
        return self.hidden()

    def public(self, problems: dict[str, Message], only: set[str]) -> tuple[CheckResult, ...]:
        """Run checks on their public cases.

        Args:
            problems: why a file could not be taken, by file name; ``""`` means every file.
            only: names of the checks to run, with what they need; empty for all.

        Returns:
            One result per check that ran, in the order of the lab.
        """
        self._only = only
        check_cases = chain.from_iterable(self._plan.check_cases.values())
        if any_check_case := next(check_cases, None):
            any_check_case.guard()  # the clock is over imports, too
        self._settled = {file: self._import(file, problems) for file in self._plan.lab.files}
        return self._checks(hidden=False)

    def hidden(self) -> tuple[CheckResult, ...]:
        """Run those that passed on the hidden cases; one result per check, as :meth:`public`.

        Student code that has seen a hidden case can keep it in its process; no text of its
        own is taken after that.
        """
        return self._checks(hidden=True)

    @property
    def imported(self) -> set[str]:
        """The files that could be imported."""
        return {file for file, settled in self._settled.items() if settled is None}

    def _checks(self, *, hidden: bool) -> tuple[CheckResult, ...]:
        lab = self._plan.lab
        for exercise in lab.exercises:
            lost_before = self._transport.lost
            for check in exercise.checks:
                if (self._only and check.name not in self._only) or self._lost:
                    continue
                earlier = self._results.get(check.name) or self._settled[exercise.file]
                if earlier is not None and earlier.outcome is not Outcome.PASSED:
                    self._results[check.name] = replace(earlier, check=check.name)
                    continue
                if self._transport.lost - lost_before >= lab.limits.lost_workers:
                    result = self._lost_too_often()
                else:
                    result = self._check(check, hidden=hidden)
                self._results[check.name] = replace(result, check=check.name)
                self._lost = not self._whole and check.points > 0 and result.outcome in _LOST
        if self._ahead:
            self._ahead.expect(iter(()))
        return tuple(self._results.values())

    def _rest(self, here: Check, *, hidden: bool) -> Iterator[tuple[CheckCase, ...]]:
        """The cases of this check and of those after it, up to one with a process of its own."""
        begun = False
        for exercise in self._plan.lab.exercises:
            for check in exercise.checks:
                begun |= check is here
                if not begun or (self._only and check.name not in self._only):
                    continue
                if check.fresh:
                    return
                known = [self._results.get(name) for name in (check.name, *check.needs)]
                known.append(self._settled[exercise.file])
                if all(result is None or result.outcome is Outcome.PASSED for result in known):
                    yield self._cases_of(check, hidden=hidden)

    def _cases_of(self, check: Check, *, hidden: bool) -> tuple[CheckCase, ...]:
        return self._split[hidden].get(check.name, ())

    def _import(
        self, file: str, problems: dict[str, Message], *, again: bool = False
    ) -> CheckResult | None:
        """Import a file once by itself: what ends that settles every check that needs it."""
        problem = problems.get(file) or problems.get("")
        if problem is not None:
            return unread(problem)
        student = Student(self._transport)
        student.import_file(file)
        try:
            student.flush()
        except WorkerLost as error:
            if error.stray and not again:
                self._transport.forgive()
                return self._import(file, problems, again=True)
            if error.timed_out:
                return outcomes.lost(error, outcomes.IMPORT)
            values = {"file": file, "text": outcomes.ending(error)}
            return CheckResult("", Outcome.CRASHED, Message("check.file_lost", values))
        except StudentError as error:
            given = self._plan.lab.offered
            return outcomes.raised(error, outcomes.IMPORT, file=file, exercise="", given=given)
        except NoWorker:
            raise
        except Exception as error:
            return outcomes.fault(error)
        self._transport.take_prints()
        return None

    def _check(self, check: Check, *, hidden: bool) -> CheckResult:
        for need in check.needs:
            if self._results[need].outcome is not Outcome.PASSED:
                return self._missing_need(need)
        if not self._plan.check_cases.get(check.name):
            return CheckResult("", Outcome.NOT_GRADED, Message("check.no_weights"))
        if not self._cases_of(check, hidden=hidden):
            return self._results.get(check.name) or CheckResult("", Outcome.PASSED)
        if check.fresh:
            self._transport.renew()
        answered = len(self.answers)
        again = False
        while True:
            try:
                result = self._run_cases(check, hidden=hidden, again=again)
                break
            except (OutOfTurn, WorkerLost) as error:
                del self.answers[answered:]
                if isinstance(error, WorkerLost):  # to a stray signal: once more, then it counts
                    self._transport.forgive()
                    again = True
        if check.fresh:
            self._transport.renew()
        return outcomes.without_data(result) if hidden else result

    def _run_cases(self, check: Check, *, hidden: bool, again: bool) -> CheckResult:
        """Run one check on its cases, up to the first that it fails.

        Raises:
            OutOfTurn: it has to begin anew.
            WorkerLost: to a stray signal, unless this is done ``again``.
        """
        check_cases = self._cases_of(check, hidden=hidden)
        check_cases[0].guard()
        for number, check_case in enumerate(check_cases):
            if self._ahead and not self._ahead.expecting:
                rest = self._rest(check, hidden=hidden)
                self._ahead.expect(self._plan.history.coming(rest, number))
            result = self._run_case(check_case, fresh=number == 0, again=again)
            if result is not None:
                return result
        prints = self._transport.take_prints()
        if not self._prints_kept or hidden:  # those of a check that passed are nobody's business
            return CheckResult("", Outcome.PASSED)
        return CheckResult(
            "", Outcome.PASSED, prints="\n".join(cut(prints.splitlines(), KEPT_LINES))
        )

    def _run_case(self, check_case: CheckCase, *, fresh: bool, again: bool) -> CheckResult | None:
        """Run one check on one case; None when it passed."""
        student, case = Student(self._transport, fresh=fresh), check_case.case
        known = self._sharing and self._sharing.passed(check_case.check, case.name, fresh=fresh)
        if known:
            self.operators.update(known.operators)
            self._answered(check_case, known.asked, known.size)
            return None
        ended: Exception | None = None
        answered = True
        try:
            check_case.run(student, case)
            student.flush()
            self.operators.update(student.operators)
            self._plan.history.learn(check_case.check, case, student)
            if self._sharing:
                self._sharing.learn(check_case.check, case.name, student)
            return None
        except OutOfTurn:
            answered = False  # it is asked anew
            raise
        except CheckFailed as error:
            return self._shown(CheckResult("", Outcome.FAILED, error.message, case=case.name))
        except StudentError as error:
            ended = error
            return self._shown(self._raised(error, case, check_case.check))
        except WorkerLost as error:
            ended = error
            if error.stray and not again:
                answered = False  # it is asked once more
                raise
            return self._shown(outcomes.lost(error, case))
        except NoWorker:
            raise  # nothing of this hand-in can go on
        except NotKept:
            return CheckResult("", Outcome.NOT_GRADED, Message("check.not_kept"))
        except NotCounted as error:
            values = {"what": error.what, "case": case.words}
            return CheckResult("", Outcome.NOT_GRADED, Message("check.not_counted", values))
        except Exception as error:
            return outcomes.fault(error)
        finally:
            if answered:
                self._answered(check_case, student.asked, student.bytes, ended)

    def _answered(
        self,
        check_case: CheckCase,
        asked: Sequence[Result],
        size: int,
        ended: Exception | None = None,
    ) -> None:
        """Keep what a public case came to, for the search for mistakes."""
        if not check_case.case.hidden:
            self._room -= size
            if self._room >= 0:
                self.answers.append(Answer(check_case.check, check_case.case, asked, ended))

    def _raised(self, error: StudentError, case: Case, check: str) -> CheckResult:
        lab = self._plan.lab
        owner = next(e for e in lab.exercises if any(c.name == check for c in e.checks))
        return outcomes.raised(error, case, file=owner.file, exercise=owner.id, given=lab.offered)

    def _shown(self, result: CheckResult) -> CheckResult:
        """Add what the student printed, for the first check that fails."""
        prints = self._transport.take_prints()
        if self._prints_shown or not prints:
            return result
        self._prints_shown = True
        return replace(result, prints="\n".join(cut(prints.splitlines(), KEPT_LINES)))

    def each_case(self) -> tuple[CheckResult, ...]:
        """Results of every public case of the checks that fail on one of them.

        Asked last: what the checks came to stays as it is.
        """
        found = []
        for check in self._plan.lab.checks:
            passed, result = CheckResult(check.name, Outcome.PASSED), self._results.get(check.name)
            if result is None or (first := self._failed_at(check, result)) is None:
                continue
            each = [*[passed] * first, result]
            each += [one or passed for one in self._behind(check, first, result)]
            for check_case, one in zip(self._cases_of(check, hidden=False), each, strict=True):
                found.append(replace(one, check=check.name, case=check_case.case.name))
        return tuple(found)

    def ask_behind_failures(self, exercises: Collection[str]) -> None:
        """Run the public cases behind the one that a check of these exercises failed.

        What tells two mistakes apart may lie there.
        """
        shown = self._prints_shown
        for check in self._plan.lab.checks:
            result = self._results.get(check.name)
            if check.exercise in exercises and result is not None:
                first = self._failed_at(check, result)
                if first is not None:
                    self._behind(check, first, result)
        self._prints_shown = shown

    def _failed_at(self, check: Check, result: CheckResult) -> int | None:
        """The public case on which a check lost its points, by number; None if on none."""
        cases = [one.case.name for one in self._cases_of(check, hidden=False)]
        lost = result.outcome in _LOST and result.case in cases
        return cases.index(result.case) if lost else None

    def _behind(self, check: Check, first: int, result: CheckResult) -> list[CheckResult | None]:
        """Results of the public cases after one that failed; like it, once too many ended."""
        found: list[CheckResult | None] = []
        lost_before = self._transport.lost
        for check_case in self._cases_of(check, hidden=False)[first + 1 :]:
            one: CheckResult | None = result
            if self._transport.lost - lost_before < self._plan.lab.limits.lost_workers:
                self._prints_shown = False
                check_case.guard()
                one = self._run_case(check_case, fresh=not found, again=True)
                self._transport.take_prints()
            found.append(one)
        return found

    def ask_the_rest(self, *, skipped: bool = True) -> None:
        """Run the cases that were not reached, for those who keep what comes back.

        With other limits a check may go on where it stopped now, and so may those that need it
        (unless ``skipped`` is False).
        The worker that has seen hidden cases is let go first: what public ones answer is shown.
        """
        self._transport.renew()
        for hidden in (False, True):
            for exercise in self._plan.lab.exercises:
                lost_before = self._transport.lost
                for check in exercise.checks:
                    result = self._results.get(check.name)
                    if result is None or result.outcome is Outcome.PASSED:
                        continue
                    if not skipped and result.outcome is not Outcome.FAILED:
                        continue
                    check_cases = self._plan.check_cases.get(check.name, ())
                    asked = [one for one in check_cases if one.case.hidden == hidden]
                    for number, check_case in enumerate(asked):
                        if self._transport.lost - lost_before >= self._plan.lab.limits.lost_workers:
                            break
                        check_case.guard()
                        self._run_case(check_case, fresh=number == 0, again=True)

    def _missing_need(self, need: str) -> CheckResult:
        result = self._results[need]
        waits = result.message is not None and result.message.key == "check.todo_elsewhere"
        if waits or result.outcome in (Outcome.NOT_STARTED, Outcome.NOT_GRADED):
            return result  # the reason is the same, and "skipped" would hide it
        title = next(c.title for c in self._plan.lab.checks if c.name == need)
        values = {"check": {"en": title.en.rstrip("."), "zh": title.zh.rstrip("。")}}
        return CheckResult("", Outcome.SKIPPED, Message("check.needs", values))

    def _lost_too_often(self) -> CheckResult:
        values = {"count": self._plan.lab.limits.lost_workers}
        return CheckResult("", Outcome.SKIPPED, Message("check.worker_lost", values))
