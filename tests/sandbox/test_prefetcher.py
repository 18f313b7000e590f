"""A worker that is asked ahead answers as one that is asked one thing at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from autograder.checks.expect import expect_close
from autograder.checks.plan import CheckCase, Plan
from autograder.course.records import CheckResult, Lab, Limits, Outcome
from autograder.judge.runner import Runner
from autograder.reference.cases import Case
from autograder.sandbox import local, prefetcher
from autograder.sandbox.links import Link, WorkerLost
from autograder.sandbox.prefetcher import ForeseenRequest, OutOfTurn
from autograder.sandbox.recording import KeepingTransport, KeptTransport
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Reply, Sources, WorkerTransport
from autograder.wire.messages import Tensor
from tests import tiny_lab
from tests.engines import tiny

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
SOURCE = """
import builtins, os, time

def double(x): return 2 * x
def square(x): return x * x
def speak(x): print("I speak"); return 2 * x
def die(x): os.abort()
def hang(x):
    while True: pass
def doze(x): time.sleep(0.9); return x
def count(x):
    builtins.calls = getattr(builtins, "calls", 0) + 1
    return builtins.calls
"""
LIMITS = Limits(cpu_seconds=0.75, wall_seconds=8)


class Nobody:
    """A transport for what is only packed."""

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        raise AssertionError("nothing is asked here")


class Recorder:
    """Starts workers and writes down what they are sent, message by message."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, ...]] = []
        self.started = 0

    def start(self) -> Link:
        self.started += 1
        link: Any = local.starter()()
        proceed = link.proceed

        def recorded(*blobs: bytes) -> None:
            self.sent.append(blobs)
            proceed(*blobs)

        link.proceed = recorded
        return cast(Link, link)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def transport(recorder: Recorder) -> Iterator[WorkerTransport]:
    made = WorkerTransport(recorder.start, Sources({"answer.py": SOURCE}), LIMITS)
    yield made
    made.renew()


def question(name: str, number: float = 3.0, *, fresh: bool = True) -> ForeseenRequest:
    student = Student(Nobody(), fresh=fresh)
    student.call(f"answer.{name}", Tensor.of(np.float32([number])))
    request, tensors, _ = student.packed()
    return ForeseenRequest(request, tensors)


def expect(transport: WorkerTransport, *questions: ForeseenRequest, shared: bool = True) -> None:
    transport.ahead.expect((one, shared) for one in questions)


def ask(transport: WorkerTransport, one: ForeseenRequest) -> Any:
    """What a call gives, asked by a check that knows nothing of questions."""
    again = ForeseenRequest(dict(one.request), dict(one.tensors))
    tree, tensors = transport.exchange(again.request, again.tensors)
    value = tree["values"][0]
    return tensors[value["$t"]].array.tolist() if isinstance(value, dict) else value


def retried(asking: Callable[[], Any]) -> None:
    """Ask as a runner does. How far a worker has gone ahead decides whose turn ends by a print."""
    try:
        asking()
    except OutOfTurn:
        asking()


def test_a_worker_is_sent_what_comes_next(transport: WorkerTransport, recorder: Recorder) -> None:
    coming = [question("double", n) for n in range(5)]
    expect(transport, *coming)
    assert [ask(transport, one) for one in coming] == [[2.0 * n] for n in range(5)]
    hello, *rest = recorder.sent
    assert len(hello) == 1 and [len(blobs) for blobs in rest] == [5]
    assert not transport.ahead.begun


def test_more_than_it_may_hold_follows_later(transport: WorkerTransport) -> None:
    coming = [question("double", n) for n in range(99)]
    expect(transport, *coming)
    assert [ask(transport, one)[0] for one in coming] == [2.0 * n for n in range(99)]


def test_what_no_channel_takes_at_once_follows_later(transport: WorkerTransport) -> None:
    big = np.arange(1 << 18, dtype=np.float32)  # 1 MiB each way
    coming = []
    for name in ("double", "square") * 4:
        student = Student(Nobody())
        student.call(f"answer.{name}", Tensor.of(big))
        coming.append(ForeseenRequest(*student.packed()[:2]))
    expect(transport, *coming)
    answers = [ask(transport, one) for one in coming]
    assert answers[6] == (2 * big).tolist() and answers[7] == (big * big).tolist()


def test_what_nobody_asks_is_passed_over(transport: WorkerTransport, recorder: Recorder) -> None:
    coming = [question("double", n) for n in range(5)]
    expect(transport, *coming)
    assert [ask(transport, coming[n]) for n in (0, 3, 4)] == [[0.0], [6.0], [8.0]]
    assert len(recorder.sent) == 2


@pytest.mark.parametrize("left", [1, 3])
def test_what_nobody_foresaw_is_asked(transport: WorkerTransport, left: int) -> None:
    coming = [question("double", n) for n in range(4)]
    expect(transport, *coming)
    for one in coming[: 4 - left]:
        ask(transport, one)
    assert ask(transport, question("square", 7.0)) == [49.0]
    assert not transport.ahead.begun and not transport.ahead.expecting
    assert ask(transport, coming[3]) == [6.0]


def test_what_follows_in_a_check_is_asked_from_its_beginning(transport: WorkerTransport) -> None:
    """Its objects are gone, as the worker has begun with the next check."""
    expect(transport, question("double"), question("square"))
    ask(transport, question("double"))
    with pytest.raises(OutOfTurn):
        ask(transport, question("count", fresh=False))
    assert transport.lost == 0
    assert ask(transport, question("double")) == [6.0]
    assert ask(transport, question("square", fresh=False)) == [9.0]
    expect(transport, question("double"))
    assert not transport.ahead.expecting  # nothing is foreseen any more


def test_what_several_checks_ask_is_asked_once(transport: WorkerTransport) -> None:
    one = question("count")
    one.repeated = True
    expect(transport, one, question("double"), one, one)
    assert [ask(transport, one), ask(transport, question("double"))] == [1, [6.0]]
    assert [ask(transport, one), ask(transport, one)] == [1, 1]


def test_what_was_foreseen_and_never_sent_is_sent_later(
    transport: WorkerTransport, recorder: Recorder
) -> None:
    one = question("double")
    one.repeated = True
    expect(transport, one)
    assert ask(transport, question("square")) == [9.0]
    expect(transport, one, question("square", 5.0))
    assert ask(transport, one) == [6.0]
    assert len(recorder.sent[-1]) == 2


@pytest.mark.parametrize(("repeated", "shared"), [(False, True), (True, False)])
def test_else_it_is_asked_each_time(
    transport: WorkerTransport, repeated: bool, shared: bool
) -> None:
    one = question("count")
    one.repeated = repeated
    expect(transport, one, one, shared=shared)
    assert [ask(transport, one), ask(transport, one)] == [1, 2]


def test_a_long_reply_is_not_remembered(
    transport: WorkerTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetcher, "MOST_REMEMBERED", 8)
    one = question("count")
    one.repeated = True
    expect(transport, one, question("double"), one)
    ask(transport, one)
    ask(transport, question("double"))
    assert ask(transport, one) == 2


@pytest.mark.parametrize("name", ["die", "hang"])
def test_a_loss_costs_who_asked(transport: WorkerTransport, name: str) -> None:
    expect(transport, question("double"), question(name), question("square"))
    assert ask(transport, question("double")) == [6.0]
    with pytest.raises(WorkerLost) as lost:
        ask(transport, question(name))
    assert lost.value.timed_out == (name == "hang") and transport.lost == 1
    assert ask(transport, question("square")) == [9.0]


@pytest.mark.parametrize("name", ["die", "hang"])
def test_a_loss_that_nobody_asked_for_costs_nobody(transport: WorkerTransport, name: str) -> None:
    expect(transport, question("double"), question(name), question("square"))
    assert ask(transport, question("double")) == [6.0]
    assert ask(transport, question("square")) == [9.0]
    assert transport.lost == 0 and transport.take_prints() == ""


def test_all_that_nobody_asks_takes_no_longer_than_one_thing_may(recorder: Recorder) -> None:
    limits = Limits(cpu_seconds=0.75, wall_seconds=1)
    transport = WorkerTransport(recorder.start, Sources({"answer.py": SOURCE}), limits)
    expect(
        transport, question("double"), *(question("doze", n) for n in range(7)), question("square")
    )
    assert ask(transport, question("double")) == [6.0]
    started = time.monotonic()
    assert ask(transport, question("square")) == [9.0]
    assert time.monotonic() - started < 5
    assert transport.lost == 0
    transport.renew()


def test_who_prints_is_asked_one_thing_at_a_time(transport: WorkerTransport) -> None:
    """Else what one check has printed might be shown at another that fails."""
    expect(transport, question("double"), question("speak"), question("square"))
    said = []
    for name in ("double", "speak", "square"):
        retried(partial(ask, transport, question(name)))
        said.append(transport.take_prints())
    assert said == ["", "I speak\n", ""]
    expect(transport, question("double"))
    assert not transport.ahead.expecting


def test_prints_of_two_requests_of_a_check_are_kept(transport: WorkerTransport) -> None:
    ask(transport, question("speak"))
    ask(transport, question("speak", fresh=False))
    assert transport.take_prints() == "I speak\n" * 2


def test_what_is_kept_is_what_was_asked(transport: WorkerTransport, tmp_path: Path) -> None:
    keeping = KeepingTransport(transport, tmp_path / "kept", {})
    coming = [question("double"), question("speak"), question("double", 5.0)]
    coming[0].repeated = True
    expect(transport, coming[0], coming[0], *coming[1:])
    for one in (coming[0], coming[0], *coming[1:]):
        retried(partial(keeping.exchange, one.request, one.tensors))
    keeping.save()
    kept = KeptTransport(tmp_path / "kept")
    for one in (coming[0], coming[0], *coming[1:]):
        kept.exchange(one.request, one.tensors)
    assert kept.take_prints() == "I speak\n"


# ---------------------------------------------------------------- a runner's checks


@pytest.fixture(scope="module")
def lab() -> Lab:
    return tiny()


def plan_of(lab: Lab) -> Plan:
    """Every check on a public case and a hidden one; ``test_three`` asks twice."""

    def once(path: str, student: Student, case: Case) -> None:
        expect_close(student.call(path, case["x"]), case["y"], case)

    def twice(path: str, student: Student, case: Case) -> None:
        once(path, student, case)
        once(path, student, case)

    cases = tiny_lab.case(), tiny_lab.case(700, hidden=True)
    check_cases = {}
    for check in lab.checks:
        name = check.name.removeprefix("test_")
        path = f"{'side' if name == 'side' else 'answer'}.{name}"
        body = twice if name == "three" else once
        run = partial(body, path)
        check_cases[check.name] = tuple(CheckCase(check.name, case, run) for case in cases)
    return Plan(lab, check_cases)


def run(
    plan: Plan, files: dict[str, str], recorder: Recorder | None = None
) -> dict[str, CheckResult]:
    transport = WorkerTransport((recorder or Recorder()).start, Sources(files), LIMITS)
    try:
        found = Runner(plan, transport, transport.ahead).run({}, set())
    finally:
        transport.renew()
    return {result.check: result for result in found}


HAND_INS = {
    "right": {},
    "wrong": {"two": "return x"},
    "wrong at first": {"free": "return x"},
    "wrong on what is hidden": {"four": "if float(x[0]) > 600: return x"},
    "dies": {"two": "import os; os.abort()"},
    "dies where nobody asks": {"free": "return x", "one": "import os; os.abort()"},
    "loops": {"four": "while True: pass"},
    "raises": {"one": "1 / 0"},
    "prints and is wrong": {"one": "print('one')", "two": "print('two'); return x"},
    "prints on all": dict.fromkeys(("free", "one", "two", "three", "other"), "print('here')"),
    "prints and dies": {"one": "print('one')", "five": "print('five')\nimport os; os.abort()"},
    "other things than a tensor": {"three": "return 'a text'", "four": "return None"},
}


@pytest.mark.parametrize("name", HAND_INS)
def test_a_hand_in_gets_what_it_gets_one_thing_at_a_time(lab: Lab, name: str) -> None:
    files = tiny_lab.doing(**HAND_INS[name])
    plan = plan_of(lab)
    run(plan, tiny_lab.right())
    recorder = Recorder()
    found = run(plan, files, recorder)
    assert found == run(plan_of(lab), files)  # which knows nothing of what comes
    assert max(len(blobs) for blobs in recorder.sent) > 1
    if name == "right":
        assert {result.outcome for result in found.values()} == {Outcome.PASSED}


def test_no_hidden_case_is_sent_before_all_public_ones_are_through(lab: Lab) -> None:
    plan, recorder = plan_of(lab), Recorder()
    run(plan, tiny_lab.right())
    transport = WorkerTransport(recorder.start, Sources(tiny_lab.right()), LIMITS)
    runner = Runner(plan, transport, transport.ahead)
    secret = bytes(tiny_lab.case(700, hidden=True)["x"].data)
    try:
        runner.public({}, set())
        assert not any(secret in blob for blobs in recorder.sent for blob in blobs)
        runner.hidden()
        assert any(secret in blob for blobs in recorder.sent for blob in blobs)
    finally:
        transport.renew()


# ---------------------------------------------------------------- code that runs once in a process

ONCE = {
    "a number of threads": "import torch\ntorch.set_num_interop_threads(1)",
    "an operator": "import torch\ntorch.library.define('own::twice', '(Tensor x) -> Tensor')",
    "a library": "import torch\nkept = torch.library.Library('mine', 'DEF')\n"
    "torch.kept = kept\nkept.define('twice(Tensor x) -> Tensor')",
    "a number of its own": "import builtins\n"
    "assert not hasattr(builtins, 'runs')\nbuiltins.runs = 1",
}


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("name", ONCE)
def test_module_code_may_be_such_that_it_runs_once_in_a_process(
    lab: Lab, name: str, imported: bool
) -> None:
    files = tiny_lab.right()
    files["answer.py"] = f"{ONCE[name]}\n{files['answer.py']}"
    if imported:
        files["side.py"] = f"import answer\n{files['side.py']}"
    plan, recorder = plan_of(lab), Recorder()
    run(plan, tiny_lab.right())
    found = run(plan, files, recorder)
    assert {result.outcome for result in found.values()} == {Outcome.PASSED}
    fresh = len(lab.files) + 2 * len(lab.checks)  # imports, and checks on public and hidden cases
    assert recorder.started <= fresh


def test_what_a_check_has_asked_is_asked_again_in_a_new_worker(recorder: Recorder) -> None:
    files = {
        "answer.py": "made = []\ndef make(x): made.append(x); print('made')\n"
        "def late(x):\n    import side\n    return side.twice(made[0] * x)",
        "side.py": f"{ONCE['a number of threads']}\ndef twice(x): return 2 * x",
    }
    transport = WorkerTransport(recorder.start, Sources(files), LIMITS)
    for _ in range(3):
        assert ask(transport, question("make", 5.0)) is None
        assert ask(transport, question("late", 2.0, fresh=False)) == [20.0]
        assert transport.take_prints() == "made\n"
    assert (recorder.started, transport.lost) == (3, 0)
    transport.renew()


def test_who_says_so_without_need_gets_no_more_workers_for_it(recorder: Recorder) -> None:
    text = f"{ONCE['a number of its own']}\nimport sys\n"
    text += "def again(x):\n    del sys.modules['answer']\n    import answer"
    transport = WorkerTransport(recorder.start, Sources({"answer.py": text}), LIMITS)
    for fresh in (True, False) * 4:
        one = question("again", fresh=fresh)
        tree, _ = transport.exchange(one.request, one.tensors)
        assert tree["error"]["type"] == "AssertionError"
    assert (recorder.started, transport.lost) == (5, 0)
    transport.renew()
