"""The runner alone: what every kind of end of a check becomes, in both languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from autograder.checks.expect import CheckFailed
from autograder.checks.plan import CheckCase, Plan
from autograder.course.messages import CUT, render
from autograder.course.records import (
    Check,
    CheckResult,
    Exercise,
    Lab,
    Limits,
    Message,
    Outcome,
    Text,
)
from autograder.judge.runner import Runner
from autograder.reference.cases import Case
from autograder.sandbox.links import NoWorker, StudentError, WorkerLost
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Reply, WorkerTransport
from autograder.wire.frames import WireError
from autograder.wire.messages import Tensor

WORDS = Text("words", "文字")
Body = Callable[[Student, Case], None]


def nothing(student: Student, case: Case) -> None:
    """A check that passes."""


def raising(error: BaseException) -> Body:
    def body(student: Student, case: Case) -> None:
        raise error

    return body


class Worker:
    """A worker that answers everything with nothing, and counts what is asked of it."""

    def __init__(self, imports: Mapping[str, Exception] | None = None) -> None:
        self.lost = 0
        self.renewed = 0
        self.prints: list[str] = []
        self._imports = imports or {}

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        for step in request["steps"]:
            if step["op"] == "import" and step["file"] in self._imports:
                raise self._imports[step["file"]]
        return {"values": [None] * len(request["steps"])}, {}

    def take_prints(self) -> str:
        return self.prints.pop(0) if self.prints else ""

    def renew(self) -> None:
        self.renewed += 1

    def forgive(self) -> None:
        self.lost -= 1


def student_error(**values: Any) -> StudentError:
    error: dict[str, Any] = {
        "stage": "call",
        "type": "ValueError",
        "text": "no",
        "todo": None,
        "frames": [],
    }
    return StudentError(error | values)


def a_case(name: str, hidden: bool = False) -> Case:
    return Case(name, "recipe", hidden, Text(f"about {name}", f"关于 {name}"), {})


PUBLIC, HIDDEN = a_case("public"), a_case("hidden", True)


class Run:
    """A lab of checks given as functions, run once.

    The first check of an exercise is not made a need of the others here: `needs` says it all.
    """

    def __init__(self, *, limits: Limits | None = None, worker: Worker | None = None) -> None:
        self.worker = worker or Worker()
        self._limits = limits or Limits()
        self._checks: list[Check] = []
        self._check_cases: dict[str, tuple[CheckCase, ...]] = {}

    def check(
        self,
        name: str,
        *bodies: Body,
        needs: tuple[str, ...] = (),
        file: str = "a.py",
        fresh: bool = False,
        cases: tuple[Case, ...] = (PUBLIC,),
    ) -> Run:
        self._checks.append(Check(name, file, "shape", 1, Text(name, name), needs, fresh))
        bodies = bodies or (nothing,)
        pairs = zip(cases, bodies * len(cases), strict=False)
        self._check_cases[name] = tuple(CheckCase(name, case, body) for case, body in pairs)
        return self

    @property
    def plan(self) -> Plan:
        files = tuple(dict.fromkeys(check.exercise for check in self._checks))
        exercises = tuple(
            Exercise(file, file, WORDS, WORDS, tuple(c for c in self._checks if c.exercise == file))
            for file in files
        )
        lab = Lab("lab1_x", Path("x"), WORDS, files, (), (), self._limits, exercises)
        return Plan(lab, self._check_cases)

    def run(
        self, problems: dict[str, Message] | None = None, only: frozenset[str] = frozenset()
    ) -> dict[str, CheckResult]:
        runner = Runner(self.plan, cast(WorkerTransport, self.worker))
        found = runner.run(problems or {}, set(only))
        for result in found:
            if result.message is not None:
                texts = [render(result.message, language) for language in ("en", "zh")]
                assert texts[0] != texts[1] and all(texts)
        return {result.check: result for result in found}


def said(result: CheckResult, language: str = "en") -> str:
    assert result.message is not None
    return render(result.message, language)


ENDS = {
    "a sentence": (CheckFailed("check.hidden"), Outcome.FAILED, "hidden"),
    "an exception": (student_error(), Outcome.FAILED, "ValueError: no"),
    "its TODO": (student_error(todo="a.py"), Outcome.NOT_STARTED, "TODO a.py"),
    "a TODO of another": (student_error(todo="lab1.x"), Outcome.SKIPPED, "a.py calls lab1.x"),
    "an exit": (student_error(type="SystemExit", text="0"), Outcome.FAILED, "SystemExit 0"),
    "an interrupt": (student_error(type="KeyboardInterrupt", text=""), Outcome.FAILED, "ended"),
    "weights": (student_error(stage="weights", text="q.weight"), Outcome.FAILED, "q.weight"),
    "weights by name": (
        student_error(stage="weights", lacking=["q.weight"], extra=["p.weight", "p.bias"]),
        Outcome.FAILED, "missing: q.weight; unexpected: p.weight, p.bias",
    ),
    "weights that are not registered": (
        student_error(stage="weights", lacking=["q", "p"], plain=["q"]),
        Outcome.FAILED, "has q, but not as parameters",
    ),
    "weights by shape": (
        student_error(stage="weights", shapes=[["q.weight", "[2, 3]", "[3, 2]"]]),
        Outcome.FAILED, "q.weight should have the shape [3, 2], not [2, 3]",
    ),
    "a breakpoint": (student_error(type="BdbQuit", text=""), Outcome.FAILED, "make debug"),
    "an import": (
        student_error(type="ModuleNotFoundError", text="No module named 'pandas'"),
        Outcome.FAILED, "You can use torch",
    ),
    "a syntax error": (
        student_error(stage="syntax", frames=[["a.py", 7, "", "x ="]]), Outcome.FAILED, "line 7"
    ),
    "an absent name": (
        student_error(type="AttributeError", text="module 'a' has no attribute 'f'"),
        Outcome.FAILED, "a.py does not define f",
    ),
    "an absent name, half told": (
        student_error(type="AttributeError", text="module 'a"), Outcome.FAILED, "module 'a"
    ),
    "an absent name in braces": (
        student_error(type="AttributeError", text="module '{0}' has no attribute '{x}'"),
        Outcome.FAILED, "{0}",
    ),
    "braces": (student_error(text="{} {0} {x!r} %s"), Outcome.FAILED, "{} {0} {x!r} %s"),
    "a crash": (WorkerLost("signal SIGSEGV"), Outcome.CRASHED, "SIGSEGV"),
    "a deadline": (WorkerLost("2", timed_out=True), Outcome.TIMED_OUT, "2 s of CPU"),
    "a wall deadline": (
        WorkerLost("20", timed_out=True, clock="wall"), Outcome.TIMED_OUT, "20 s of wall"
    ),
    "a signal, again and again": (
        WorkerLost("signal SIGSEGV", stray=True), Outcome.CRASHED, "SIGSEGV"
    ),
    "a bug of ours": (ZeroDivisionError("{}"), Outcome.NOT_GRADED, "ZeroDivisionError: {}"),
    "a broken message": (WireError("x"), Outcome.NOT_GRADED, "WireError"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_every_end_has_its_outcome_and_sentence(name: str) -> None:
    error, outcome, words = ENDS[name]
    found = Run().check("first", raising(error)).check("second").run()
    assert found["first"].outcome is outcome and words in said(found["first"])
    assert found["second"].outcome is Outcome.PASSED


def test_a_check_passes_only_if_all_its_cases_do() -> None:
    cases = (PUBLIC, a_case("other"), HIDDEN)
    ran: list[str] = []

    def noting(student: Student, case: Case) -> None:
        ran.append(case.name)

    def failing(student: Student, case: Case) -> None:
        noting(student, case)
        if case.name == "other":
            raise CheckFailed("check.hidden")

    found = Run().check("all", noting, cases=cases).check("some", failing, cases=cases).run()
    # Hidden cases come after everything public: what has seen them is not listened to again.
    assert ran == ["public", "other", "public", "other", "hidden"]
    assert [r.outcome.value for r in found.values()] == ["passed", "failed"]
    assert found["some"].case == "other"


def test_an_error_shows_its_frames_on_a_public_case_and_nothing_on_a_hidden_one() -> None:
    error = student_error(text="canary", frames=[["a.py", 3, "f", "canary()"]])
    mismatch = CheckFailed(
        "check.value", what={"en": "it", "zh": "它"}, got="canary", want="2", case=HIDDEN.words
    )
    lost = WorkerLost("canary")
    late = WorkerLost("2", timed_out=True)
    for end, outcome, key in (
        (error, Outcome.FAILED, "check.hidden"), (mismatch, Outcome.FAILED, "check.hidden"),
        (lost, Outcome.CRASHED, "check.hidden"), (late, Outcome.TIMED_OUT, "check.hidden_slow"),
    ):  # fmt: skip
        run = Run().check("first", raising(end), cases=(HIDDEN,))
        run.worker.prints = ["", "canary was printed"]
        hidden = run.run()["first"]
        assert hidden == CheckResult("first", outcome, Message(key), hidden=True)
    public = Run().check("first", raising(error)).run()["first"]
    assert public.frames == error.frames and not public.hidden and "canary" in said(public)


def test_what_needs_a_failed_check_is_skipped_with_the_reason() -> None:
    run = Run().check("base", raising(student_error())).check("above", needs=("base",))
    found = run.check("top", needs=("above",)).run()
    assert [r.outcome.value for r in found.values()] == ["failed", "skipped", "skipped"]
    assert "“base”" in said(found["above"]) and "“above”" in said(found["top"])


@pytest.mark.parametrize(
    "error", [student_error(todo="lab1.x"), ZeroDivisionError()], ids=["not started", "our fault"]
)
def test_what_needs_an_unstarted_or_ungraded_check_shares_its_outcome(error: Exception) -> None:
    run = Run().check("base", raising(error)).check("above", raising(error), needs=("base",))
    found = run.run()
    assert replace(found["above"], check="base") == found["base"]


def test_a_check_without_cases_is_not_graded() -> None:
    found = Run().check("real", cases=()).check("other").run()
    assert found["real"].outcome is Outcome.NOT_GRADED and "weights" in said(found["real"])
    assert found["other"].outcome is Outcome.PASSED


def test_a_fresh_check_gets_a_worker_of_its_own_whatever_happens() -> None:
    for body in (nothing, raising(student_error()), raising(WorkerLost("x"))):
        run = Run().check("before").check("alone", body, fresh=True).check("after")
        run.run()
        assert run.worker.renewed == 2


def test_only_runs_what_is_asked_for() -> None:
    run = Run().check("one").check("two").check("three")
    assert list(run.run(only=frozenset(("one", "three")))) == ["one", "three"]


def losing(worker: Worker) -> Body:
    def body(student: Student, case: Case) -> None:
        worker.lost += 1
        raise WorkerLost("x")

    return body


def test_an_exercise_ends_after_its_share_of_lost_workers() -> None:
    run = Run(limits=Limits(lost_workers=2))
    for name in "abc":
        run.check(name, losing(run.worker))
    found = run.check("other", file="b.py").check("last", losing(run.worker), file="b.py").run()
    outcomes = [result.outcome.value for result in found.values()]
    assert outcomes == ["crashed", "crashed", "skipped", "passed", "crashed"]


def killed(worker: Worker, times: int) -> Body:
    """A check that passes unless somebody kills its worker, which happens so many times."""
    left = [times]

    def body(student: Student, case: Case) -> None:
        if left[0]:
            left[0] -= 1
            worker.lost += 1
            raise WorkerLost("signal SIGKILL", stray=True)

    return body


def test_a_stray_signal_costs_nothing_and_a_second_one_the_check() -> None:
    run = Run(limits=Limits(lost_workers=1))
    for name in "abc":
        run.check(name, killed(run.worker, 1))
    assert {result.outcome for result in run.run().values()} == {Outcome.PASSED}
    assert run.worker.lost == 0
    run = Run()
    found = run.check("a", killed(run.worker, 2)).check("b").run()
    assert [result.outcome.value for result in found.values()] == ["crashed", "passed"]
    assert run.worker.lost == 1 and "SIGKILL" in said(found["a"])


def test_after_a_stray_signal_a_check_runs_from_its_first_case() -> None:
    ran: list[str] = []
    run = Run()
    dies = killed(run.worker, 1)

    def body(student: Student, case: Case) -> None:
        ran.append(case.name)
        if case.name == "other":
            dies(student, case)

    found = run.check("a", body, cases=(PUBLIC, a_case("other"))).run()
    assert found["a"].outcome is Outcome.PASSED
    assert ran == ["public", "other", "public", "other"]


def test_when_no_worker_is_to_be_had_the_hand_in_goes_no_further() -> None:
    with pytest.raises(NoWorker):
        Run().check("a", raising(NoWorker("gone"))).run()
    with pytest.raises(NoWorker):
        Run(worker=Worker({"a.py": NoWorker("gone")})).check("a").run()


IMPORTS = {
    "crash": (WorkerLost("signal SIGSEGV"), Outcome.CRASHED, "importing a.py"),
    "deadline": (WorkerLost("2", timed_out=True), Outcome.TIMED_OUT, "2 s"),
    "exception": (student_error(), Outcome.FAILED, "a.py cannot be imported: it raised ValueError"),
    "syntax": (
        student_error(stage="syntax", frames=[["/me/a.py", 3, "", "x ="]]), Outcome.FAILED, "line 3"
    ),
    "stub": (student_error(todo="lab1.x"), Outcome.NOT_STARTED, "lab1.x"),
    "signal": (WorkerLost("signal SIGKILL", stray=True), Outcome.CRASHED, "importing a.py"),
    "fault": (ZeroDivisionError(), Outcome.NOT_GRADED, "not your fault"),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPORTS)
def test_an_import_decides_for_all_checks_of_its_file(name: str) -> None:
    error, outcome, words = IMPORTS[name]
    run = Run(worker=Worker({"a.py": error}))
    found = run.check("one").check("two").check("other", file="b.py").run()
    assert found["one"] == replace(found["two"], check="one")
    assert found["one"].outcome is outcome and words in said(found["one"])
    assert found["other"].outcome is Outcome.PASSED


def test_a_problem_with_a_file_decides_for_its_checks() -> None:
    missing = Message("intake.missing", {"file": "a.py"})
    found = Run().check("one").check("other", file="b.py").run({"a.py": missing})
    assert found["one"] == CheckResult("one", Outcome.FAILED, missing)
    assert found["other"].outcome is Outcome.PASSED
    everything = Run().check("one").check("other", file="b.py").run({"": missing})
    assert {result.outcome for result in everything.values()} == {Outcome.FAILED}


def test_prints_are_shown_once_and_only_their_ends() -> None:
    run = Run().check("good").check("bad", raising(student_error()))
    run.check("worse", raising(student_error()))
    lines = [f"line {n}" for n in range(40)]
    run.worker.prints = ["while importing", "of the good one", "\n".join(lines), "later"]
    found = run.run()
    assert found["good"].prints == "" and found["worse"].prints == ""
    assert found["bad"].prints.splitlines() == [*lines[:14], CUT, *lines[-15:]]


def test_the_secret_decides_the_order_of_cases() -> None:
    cases = tuple(a_case(f"{'h' if n % 2 else 'p'}{n}", bool(n % 2)) for n in range(12))
    plan = Run().check("one", cases=cases).plan

    def order(seed: str) -> list[str]:
        return [check_case.case.name for check_case in plan.shuffled(seed).check_cases["one"]]

    assert order("a") == order("a") != order("b")
    for seed in "abc":
        assert sorted(order(seed)) == sorted(case.name for case in cases)


def test_of_answers_only_so_many_bytes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def large(student: Student, case: Case) -> None:
        student.bytes = 600

    run = Run().check("one", large).check("two", large).check("three", large)
    monkeypatch.setattr("autograder.judge.runner.MOST_KEPT", 1300)
    runner = Runner(run.plan, cast(WorkerTransport, run.worker))
    assert {result.outcome for result in runner.run({}, set())} == {Outcome.PASSED}
    assert [answer.check for answer in runner.answers] == ["one", "two"]


def test_what_our_reading_broke_is_not_graded() -> None:
    broken = Message("intake.reading_broken", {"text": "KeyError"})
    slow = Message("intake.reading_slow", {"seconds": 20})
    for problem, outcome in ((broken, Outcome.NOT_GRADED), (slow, Outcome.FAILED)):
        (result,) = Run().check("one").run({"": problem}).values()
        assert result.outcome is outcome and result.message == problem


def test_operators_are_collected_over_all_checks() -> None:
    def noting(student: Student, case: Case) -> None:
        student.operators.add(f"aten::{case.name}")

    run = Run().check("one", noting).check("two", noting, cases=(HIDDEN,))
    runner = Runner(run.plan, cast(WorkerTransport, run.worker))
    runner.run({}, set())
    assert runner.operators == {"aten::public", "aten::hidden"}
