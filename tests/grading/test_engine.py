"""The engine: every hand-in gets one record, whatever becomes of the processes around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from autograder.course.messages import render
from autograder.course.records import HandIn, Lab, Message, Outcome, Submission
from autograder.course.score import needs_human, points_of
from autograder.grading.engine import Engine
from autograder.grading.judge_process import EngineError, Options
from autograder.reference import cases
from tests import tiny_lab, zygotes
from tests.engines import tiny, warm
from tests.hand_ins import (
    children,
    commands,
    earned,
    grade,
    hand_in,
    nothing_left_behind,
    outcomes,
    results,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(scope="module")
def lab() -> Lab:
    return tiny()


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hidden") / "cases.safetensors"
    path.write_bytes(cases.dump([tiny_lab.case(n, hidden=True) for n in (4, 5, 6)]))
    return path


@pytest.fixture(scope="module")
def engine(lab: Lab, hidden: Path) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_SECRET", "canary-of-the-environment")
        with nothing_left_behind(), ExitStack() as stack:
            with zygotes.own():
                engine = stack.enter_context(Engine(lab, Options(hidden_cases=hidden, jobs=3)))
            engine.wait_ready()
            yield engine


@pytest.fixture(scope="module")
def broken(lab: Lab, hidden: Path) -> Iterator[Engine]:
    """An engine that tests break, one after the other; it mends itself."""
    with nothing_left_behind(), ExitStack() as stack:
        with zygotes.own():
            engine = stack.enter_context(Engine(lab, Options(hidden_cases=hidden, jobs=3)))
        engine.wait_ready()
        yield engine


@pytest.fixture
def own(broken: Engine) -> Iterator[Engine]:
    """An engine that a test may break; none of its judges is idle, so the first one works."""
    end_judges(broken)
    with zygotes.own():  # it may be started again
        yield broken


RIGHT = tiny_lab.right()
WRONG = tiny_lab.doing(two="return 3 * x")


def test_it_knows_its_cases_and_its_isolation(engine: Engine) -> None:
    assert engine.counts == {"public": 1, "hidden": 3}
    assert engine.isolation.worker == "fork" and "rlimits" in engine.isolation.layers


def test_every_hand_in_gets_one_result_per_check_in_the_labs_order(
    engine: Engine, lab: Lab
) -> None:
    made = {f"s{n}": (RIGHT, WRONG, tiny_lab.doing(one="1 / 0"))[n % 3] for n in range(12)}
    records = grade(engine, *(hand_in(*pair) for pair in made.items()))
    assert records.keys() == made.keys()
    for n, record in enumerate(records[f"s{n}"] for n in range(12)):
        assert [result.check for result in record.results] == [check.name for check in lab.checks]
        assert points_of(lab, record.results).earned == (100, 90, 90)[n % 3]
        assert not needs_human(lab, record)


def test_a_grading_may_end_with_the_first_check_that_costs_points(lab: Lab) -> None:
    with Engine(lab, Options(whole=False)) as engine:
        engine.wait_ready()
        records = grade(engine, hand_in("right", RIGHT), hand_in("wrong", WRONG))
    assert points_of(lab, records["right"].results).earned == 100
    *passed, lost = records["wrong"].results
    assert lost.outcome is Outcome.FAILED and len(passed) < len(lab.checks) - 1
    assert {result.outcome for result in passed} <= {Outcome.PASSED}


def test_submissions_are_read_as_they_are_needed(engine: Engine) -> None:
    taken: list[str] = []

    def coming() -> Iterator[Submission]:
        for n in range(9):
            taken.append(f"s{n}")
            yield hand_in(f"s{n}", RIGHT)

    ahead = [len(taken) - number for number, _ in enumerate(engine.grade(coming()))]
    assert max(ahead) <= 3 and len(taken) == 9


def test_no_hand_ins_make_no_records(engine: Engine) -> None:
    assert grade(engine) == {}


def test_a_record_is_the_same_every_time(engine: Engine) -> None:
    first = grade(engine, hand_in("a", WRONG))["a"]
    assert grade(engine, hand_in("b", RIGHT), hand_in("a", WRONG))["a"] == first


def test_a_file_that_could_not_be_taken_costs_its_own_checks(engine: Engine, lab: Lab) -> None:
    problem = Message("intake.missing", {"file": "side.py"})
    note = Message("intake.gbk", {"file": "answer.py"})
    files = {"answer.py": RIGHT["answer.py"]}
    partly = Submission("partly", files, (note,), {"side.py": problem})
    nothing = Submission("nothing", {}, (), {"": Message("intake.empty", {"file": "x"})})
    renamed = RIGHT | {"side.py": RIGHT["side.py"].replace("side(", "sides(")}
    records = grade(engine, partly, nothing, hand_in("renamed", renamed))
    assert results(records["renamed"])["test_side"].message == Message(
        "check.missing_near", {"file": "side.py", "name": "side", "found": "sides"}
    )
    failed = {name for name, end in outcomes(records["partly"]).items() if end != "passed"}
    assert failed == {"test_side"} and results(records["partly"])["test_side"].message == problem
    assert records["partly"].notes == (note,)
    assert points_of(lab, records["nothing"].results).gradable == 100
    assert points_of(lab, records["nothing"].results).earned == 0


def test_hidden_cases_decide_and_show_nothing(engine: Engine) -> None:
    by_heart = tiny_lab.doing(
        two="print('canary', x)\nassert float(x[0]) == 1, f'canary {x}'\n"
        "return x * (2 if float(x[0]) == 1 else 7)"
    )
    result = results(grade(engine, hand_in("by-heart", by_heart))["by-heart"])["test_two"]
    assert (result.outcome, result.hidden) == (Outcome.FAILED, True)
    assert result.message == Message("check.hidden")
    assert (result.case, result.prints, result.frames) == ("", "", ())


@pytest.mark.parametrize("ending", ["import os; os.abort()", "while True: pass", "exit()"])
def test_what_ends_only_on_hidden_cases_shows_nothing_either(engine: Engine, ending: str) -> None:
    body = "if float(x[0]) != 1:\n    print('canary')\n" + "".join(
        f"    {line}\n" for line in ending.splitlines()
    )
    result = results(grade(engine, hand_in("late", tiny_lab.doing(two=body)))["late"])["test_two"]
    assert result.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.FAILED)
    slow = result.outcome is Outcome.TIMED_OUT
    assert result.message == Message("check.hidden_slow" if slow else "check.hidden")
    assert not (result.prints or result.frames)


def test_prints_on_hidden_cases_are_never_shown_for_another_check(engine: Engine) -> None:
    """What a check prints on a hidden case must not appear at the next check that fails."""
    files = tiny_lab.doing(two="print('canary', x)", three="1 / 0")
    record = grade(engine, hand_in("printing", files))["printing"]
    assert outcomes(record)["test_three"] == "failed"
    assert "canary" not in repr(record)


def test_hidden_data_kept_in_the_worker_cannot_be_told_later(engine: Engine) -> None:
    """A hand-in may remember hidden inputs; what it says at a later public case is shown."""
    remember = "import sys\nsys.seen = [*getattr(sys, 'seen', []), float(x[0])]"
    tell = "import sys\nraise ValueError(f'seen {sys.seen}')"
    files = tiny_lab.doing(two=remember, three=tell)
    record = grade(engine, hand_in("remembering", files))["remembering"]
    assert outcomes(record)["test_three"] == "failed"
    shown = repr(results(record)["test_three"])
    assert not [number for number in ("5.0", "6.0", "7.0") if number in shown], shown


# ---------------------------------------------------------------- our own faults


def judges_of(engine: Engine) -> set[int]:
    """The judge's forks: its children, one per hand-in under way."""
    return children(judges(engine)["judge"].pid)


def end_judges(engine: Engine) -> None:
    """Kill the judge's forks, and wait until it has noticed."""
    ended = judges_of(engine)
    for pid in ended:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in ended) and time.monotonic() < deadline:
        time.sleep(0.01)


def killing_judges(engine: Engine, times: int) -> threading.Thread:
    """Kill the fork that judges a hand-in, as soon as there is one, this many times."""

    def run() -> None:
        done: set[int] = set()
        deadline = time.monotonic() + 20
        while len(done) < times and time.monotonic() < deadline:
            for pid in judges_of(engine) - done:
                time.sleep(0.1)
                os.kill(pid, signal.SIGKILL)
                done.add(pid)
            time.sleep(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def napping(seconds: float, name: str = "two") -> dict[str, str]:
    """A right hand-in that sleeps once, on the public case."""
    return tiny_lab.doing(**{name: f"import time; float(x[0]) == 1 and time.sleep({seconds})"})


SLEEPING = napping(1)


def spared(record: HandIn, lab: Lab) -> bool:
    """Whether nobody is blamed: no zero, a person is asked, and the sentence says so."""
    score = points_of(lab, record.results)
    message = record.results[0].message
    assert message is not None and "not your fault" in render(message, "en")
    return score.gradable == 0 and score.undecided == 100 and needs_human(lab, record)


def test_a_hand_in_whose_judge_dies_is_graded_again(own: Engine, lab: Lab) -> None:
    thread = killing_judges(own, 1)
    record = grade(own, hand_in("unlucky", SLEEPING))["unlucky"]
    thread.join()
    assert points_of(lab, record.results).earned == 100


def test_a_hand_in_whose_judge_dies_twice_is_left_to_a_person(own: Engine, lab: Lab) -> None:
    thread = killing_judges(own, 2)
    record = grade(own, hand_in("unlucky", SLEEPING))["unlucky"]
    thread.join()
    assert spared(record, lab)
    following = grade(own, hand_in("next", RIGHT))["next"]
    assert points_of(lab, following.results).earned == 100


@pytest.mark.parametrize(
    ("kills", "points"), [(1, 100), pytest.param(2, 90, marks=pytest.mark.slow)]
)
def test_a_kill_of_a_worker_costs_nothing_unless_it_comes_again(
    own: Engine, lab: Lab, kills: int, points: int
) -> None:
    def kill_sleepers() -> None:
        """Its first check sleeps; whoever lives that long is it."""
        seen: dict[int, float] = {}
        left, deadline = kills, time.monotonic() + 30
        while left and time.monotonic() < deadline:
            for pid in workers_of(own):
                if time.monotonic() - seen.setdefault(pid, time.monotonic()) > 0.6:
                    os.kill(pid, signal.SIGKILL)
                    left -= 1
                    seen[pid] = time.monotonic() + 60
            time.sleep(0.02)

    thread = threading.Thread(target=kill_sleepers)
    thread.start()
    slow = napping(2 if kills == 1 else 6, "five")
    record = grade(own, hand_in("unlucky", slow))["unlucky"]
    thread.join()
    assert earned(lab, record) == points
    assert outcomes(record)["test_five"] == ("passed" if kills == 1 else "crashed")


def judges(engine: Engine) -> dict[str, subprocess.Popen[bytes]]:
    """The processes that an engine has started, by name."""
    assert engine.processes is not None and engine.processes.zygote is not None
    return {"judge": engine.processes.judge, "zygote": engine.processes.zygote}


def workers_of(engine: Engine) -> set[int]:
    """The zygote's children."""
    return children(judges(engine)["zygote"].pid)


@pytest.mark.parametrize("name", [pytest.param("judge", marks=pytest.mark.slow), "zygote"])
def test_a_judge_process_that_has_ended_is_started_again(own: Engine, lab: Lab, name: str) -> None:
    judges(own)[name].kill()
    judges(own)[name].wait()
    records = grade(own, *(hand_in(student, RIGHT) for student in "abc"))
    assert {s: earned(lab, record) for s, record in records.items()} == dict.fromkeys("abc", 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("judge", marks=pytest.mark.slow), "zygote"])
def test_a_judge_process_that_ends_meanwhile_costs_nobody_anything(
    own: Engine, lab: Lab, name: str
) -> None:
    ending = judges(own)[name]
    threading.Timer(0.5, ending.kill).start()
    names = "abcde"
    records = grade(own, *(hand_in(student, napping(1)) for student in names))
    after = grade(own, hand_in("next", RIGHT))
    assert judges(own)[name] is not ending
    assert {s: earned(lab, record) for s, record in records.items()} == dict.fromkeys(names, 100)
    assert earned(lab, after["next"]) == 100


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("judge", marks=pytest.mark.slow), "zygote"])
def test_who_ends_the_judge_process_twice_is_left_to_a_person_and_nobody_else(
    own: Engine, lab: Lab, name: str
) -> None:
    stop = threading.Event()

    def kill_when_one_takes_long() -> None:
        """Honest ones take a tenth of that."""
        seen: dict[int, float] = {}
        while not stop.wait(0.02):
            for pid in workers_of(own):
                if time.monotonic() - seen.setdefault(pid, time.monotonic()) > 1.5:
                    judges(own)[name].kill()
                    seen.clear()
                    break

    thread = threading.Thread(target=kill_when_one_takes_long)
    thread.start()
    waiting = [hand_in("a", RIGHT), hand_in("sly", napping(4)), hand_in("b", RIGHT)]
    records = grade(own, *waiting, hand_in("c", RIGHT))
    stop.set()
    thread.join()
    assert spared(records.pop("sly"), lab)
    assert {s: earned(lab, record) for s, record in records.items()} == dict.fromkeys("abc", 100)


def test_who_waits_a_little_everywhere_ends_and_leaving_early_ends_all(tmp_path: Path) -> None:
    lab = tiny_lab.build(tmp_path / "lab9_doubling", "hand_in_seconds = 1\n")
    wait = "import time; time.sleep(0.3)"
    waiting = tiny_lab.doing(**dict.fromkeys(("free", "one", "two", "three", "four", "side"), wait))
    with nothing_left_behind(), Engine(lab, Options(jobs=2)) as engine:
        engine.wait_ready()
        records = grade(engine, hand_in("waiting", waiting), hand_in("right", RIGHT))
        stream = engine.grade(iter([hand_in("a", RIGHT), hand_in("b", SLEEPING)]))
        assert next(stream).student == "a"
    found = results(records["waiting"])
    assert earned(lab, records["right"]) == 100
    assert found["test_free"].outcome is Outcome.PASSED
    last = found["test_side"]
    assert last.outcome is Outcome.TIMED_OUT and last.message is not None
    assert "1 s in all" in render(last.message, "en") and "1 秒" in render(last.message, "zh")


@pytest.mark.parametrize(
    "content", [None, pytest.param(b"not a file of cases", marks=pytest.mark.slow)]
)
def test_cases_that_cannot_be_read_are_told_at_the_start(
    lab: Lab, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "cases.safetensors"
    if content is not None:
        path.write_bytes(content)
    started = time.monotonic()
    with (
        nothing_left_behind(),
        Engine(lab, Options(hidden_cases=path)) as engine,
        pytest.raises(EngineError),
    ):
        engine.wait_ready()
    assert time.monotonic() - started < 20


@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", ["kept", pytest.param("spawn", marks=pytest.mark.slow)])
def test_long_requests_and_long_answers_pass_each_other(lab: Lab, tmp_path: Path, way: str) -> None:
    """Neither side waits for ever until the other one has read: pipes hold 64 KiB.

    A judge that forks none is meant: it reads nothing while it works.
    """
    deep = "def f(n): return f(n - 1) if n else 1 / 0  # " + "\U0001f600" * 150 + "\nf(9)"
    names = ("one", "two", "three", "four", "five", "other", "side")
    long = {
        n: text + "#" * (1 << 17)
        for n, text in tiny_lab.doing(**dict.fromkeys(names, deep)).items()
    }
    options = Options(jobs=2, spawn=True, replay=False)
    if way == "kept":
        with warm(lab, Options(keep=tmp_path)) as keeping:
            grade(keeping, hand_in("a", long), hand_in("b", long))
        options = Options(jobs=2, kept=tmp_path)
    with nothing_left_behind(), Engine(lab, options) as judging:
        judging.wait_ready()
        records = grade(judging, hand_in("a", long), hand_in("b", long))
    assert {student: earned(lab, record) for student, record in records.items()} == {
        "a": 10,
        "b": 10,
    }


def test_the_zygote_knows_nothing_of_the_instructor(engine: Engine, hidden: Path) -> None:
    assert os.environ["AUTOGRADER_SECRET"] == "canary-of-the-environment"
    for process in judges(engine).values():
        line = commands(process.pid)
        assert "canary" not in line and "secret" not in line
    assert str(hidden) not in commands(judges(engine)["zygote"].pid)
    shown = subprocess.run(
        ["cat", f"/proc/{judges(engine)['zygote'].pid}/environ"], capture_output=True
    ).stdout
    assert b"canary" not in shown
    looking = tiny_lab.doing(
        two="import os, sys\nraise ValueError([dict(os.environ), sys.argv, os.getcwd()])"
    )
    record = grade(engine, hand_in("looking", looking))["looking"]
    assert outcomes(record)["test_two"] == "failed"
    assert "canary" not in repr(record) and "AUTOGRADER" not in repr(record)


def test_a_judge_that_dies_between_hand_ins_costs_nobody_anything(own: Engine, lab: Lab) -> None:
    assert points_of(lab, grade(own, hand_in("first", RIGHT))["first"].results).earned == 100
    assert judges_of(own)
    end_judges(own)
    assert points_of(lab, grade(own, hand_in("second", RIGHT))["second"].results).earned == 100
