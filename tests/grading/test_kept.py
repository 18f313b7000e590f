"""Kept outputs: judged anew they give the same, and other checks give other results."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from autograder.course import labfile
from autograder.course.records import HandIn, Lab, Submission
from autograder.grading.engine import Engine, kept_name
from autograder.grading.judge_process import Options
from autograder.reference import cases
from autograder.sandbox import recording as kept_module
from autograder.sandbox.recording import KeepingTransport, KeptTransport, NotKept
from autograder.sandbox.stacks import MAX_PARSED
from autograder.sandbox.transport import Reply, WorkerTransport
from autograder.wire.messages import Tensor, pack, unpack
from tests import tiny_lab
from tests.engines import tiny, warm
from tests.hand_ins import grade, hand_in, nothing_left_behind, outcomes, results

# In `make check`: rescoring from kept outputs, tests/cli/test_recovery.py.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
]
HAND_INS = {
    "right": tiny_lab.right(),
    "wrong": tiny_lab.doing(two="print('tripled'); return 3 * x", four="return 2.1 * x"),
    "raises": tiny_lab.doing(one="raise ValueError('no')", side="1 / 0"),
    "ends": tiny_lab.doing(three="import os; os._exit(4)", five="import os; os.abort()"),
    "loops": tiny_lab.doing(other="while True: pass"),
    "outside": tiny_lab.doing(one="import sys; sys.modules"),
    "unread": {name: f"{text}\n# _C{'.' * MAX_PARSED}" for name, text in tiny_lab.right().items()},
    "syntax": tiny_lab.right() | {"answer.py": "def f(:\n"},
}


@pytest.fixture(scope="module")
def lab() -> Lab:
    return tiny()


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hidden") / "cases.safetensors"
    path.write_bytes(cases.dump([tiny_lab.case(n, hidden=True) for n in (4, 5)]))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def first(lab: Lab, hidden: Path, folder: Path) -> dict[str, HandIn]:
    options = Options(hidden_cases=hidden, jobs=2, keep=folder, replay=False)
    with warm(lab, options) as engine:
        return grade(engine, *(hand_in(*pair) for pair in HAND_INS.items()))


def submissions(folder: Path) -> Iterator[Submission]:
    for student in HAND_INS:
        kept = KeptTransport(folder / kept_name(student)).hand_in
        yield Submission(student, kept["files"])


def rescored(lab: Lab, hidden: Path, folder: Path) -> dict[str, HandIn]:
    with nothing_left_behind(), Engine(lab, Options(hidden_cases=hidden, kept=folder)) as engine:
        engine.wait_ready()
        assert engine.processes is not None and engine.processes.zygote is None
        return grade(engine, *submissions(folder))


def test_the_same_checks_say_the_same(
    lab: Lab, hidden: Path, folder: Path, first: dict[str, HandIn]
) -> None:
    plain = Options(hidden_cases=hidden, jobs=2, replay=False)
    with warm(lab, plain) as engine:
        again = grade(engine, *(hand_in(*pair) for pair in HAND_INS.items()))
    assert first == again  # keeping changes nothing
    marks = {name: {mark.key for mark in record.marks} for name, record in first.items()}
    assert marks["outside"] == {"check.reaches_outside"}
    assert marks["unread"] == {"check.unread_source"} and not marks["right"]
    assert rescored(lab, hidden, folder) == first


def test_other_limits_decide_anew_without_running_anything(
    lab: Lab, hidden: Path, folder: Path, first: dict[str, HandIn], tmp_path: Path
) -> None:
    looser = tiny_lab.build(tmp_path / "lab9_doubling")
    checks = looser.folder / "checks" / "test_answer.py"
    text = checks.read_text()
    loose = text.replace(
        'expect_close(student.call("answer.four", case["x"]), case["y"], case)',
        'assert student.call("answer.four", case["x"]).value.array.sum() < 100',
    )
    assert loose != text
    checks.write_text(loose)
    found = rescored(labfile.load(looser.folder), hidden, folder)
    assert outcomes(first["wrong"])["test_four"] == "failed"
    assert outcomes(found["wrong"]) == outcomes(first["wrong"]) | {"test_four": "passed"}
    assert outcomes(found["right"]) == outcomes(first["right"])


def test_what_was_never_asked_is_left_to_a_person(
    lab: Lab, hidden: Path, folder: Path, first: dict[str, HandIn], tmp_path: Path
) -> None:
    other = tiny_lab.build(tmp_path / "lab9_doubling")
    checks = other.folder / "checks" / "test_answer.py"
    text = checks.read_text()
    checks.write_text(text.replace('"answer.four", case["x"]', '"answer.four", case["y"]'))
    found = rescored(labfile.load(other.folder), hidden, folder)
    assert outcomes(found["right"])["test_four"] == "not_graded"
    assert outcomes(found["right"])["test_five"] == "passed"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    for content in (b"", b"\0" * 4, b"\5\0\0\0\0\0\0\0{}"):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ValueError):
            KeptTransport(tmp_path / "x")


def test_checks_and_cases_that_are_taken_away_change_nothing_else(
    folder: Path, first: dict[str, HandIn], tmp_path: Path
) -> None:
    """Whatever case was asked first in a fresh namespace: the others keep their answers."""
    smaller = tiny_lab.build(tmp_path / "lab9_doubling")
    toml = smaller.folder / "lab.toml"
    text = toml.read_text()
    one = tiny_lab.CHECK.format("one", 10)
    assert one in text
    toml.write_text(
        text.replace(one, "").replace('"test_free"\npoints = 10', '"test_free"\npoints = 20')
    )
    for number in (4, 5):
        fewer = tmp_path / f"only-{number}.safetensors"
        fewer.write_bytes(cases.dump([tiny_lab.case(number, hidden=True)]))
        found = rescored(labfile.load(smaller.folder), fewer, folder)
        for student in HAND_INS:
            before = outcomes(first[student])
            del before["test_one"]
            assert outcomes(found[student]) == before


@pytest.mark.slow
def test_what_hidden_cases_hold_is_not_told_by_a_public_one_that_is_asked_later(
    hidden: Path, tmp_path: Path
) -> None:
    """Public cases behind the one that failed are asked last, and rescoring shows their answers."""
    lab = tiny_lab.build(tmp_path / "lab9_doubling")
    (lab.folder / "cases.safetensors").write_bytes(cases.dump([tiny_lab.case(n) for n in (0, 1)]))
    files = tiny_lab.doing(
        one="import sys\nsys.seen = [*getattr(sys, 'seen', []), float(x[0])]",
        two="import sys\nif float(x[0]) == 1: return 3 * x\nraise ValueError(f'seen {sys.seen}')",
    )
    keep = tmp_path / "kept"
    names = [f"s{n}" for n in range(6)]  # which of the two comes first depends on the student
    with Engine(lab, Options(hidden_cases=hidden, keep=keep, replay=False)) as engine:
        engine.wait_ready()
        grade(engine, *(hand_in(name, files) for name in names))
    checks = lab.folder / "checks" / "test_answer.py"
    strict = 'expect_close(student.call("answer.two", case["x"]), case["y"], case)'
    loose = 'assert student.call("answer.two", case["x"]).value.array.sum() < 100'
    assert strict in checks.read_text()
    checks.write_text(checks.read_text().replace(strict, loose))
    with Engine(lab, Options(hidden_cases=hidden, kept=keep)) as engine:
        engine.wait_ready()
        found = grade(engine, *(hand_in(name, files) for name in names))
    shown = [repr(results(found[name])["test_two"]) for name in names]
    assert all("seen" in text or "has no attribute" in text for text in shown), shown
    assert not any(number in text for text in shown for number in ("5.0", "6.0")), shown


class Answering:
    """A worker that answers everything with one tensor."""

    lost = 0
    raw = pack({"values": []}, {"r0": Tensor("uint8", (400,), bytes(400))})

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        return unpack(self.raw)

    def take_prints(self) -> str:
        return ""


def test_a_file_of_outputs_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_module, "MAX_KEPT", 2000)
    path = tmp_path / "x.outputs"
    transport = KeepingTransport(cast(WorkerTransport, Answering()), path, {"files": {}})
    for number in range(50):
        transport.exchange({"steps": [number]}, {})
    transport.save()
    assert path.stat().st_size < 10_000
    again = KeptTransport(path)
    again.exchange({"steps": [0]}, {})
    with pytest.raises(NotKept):
        again.exchange({"steps": [49]}, {})


def test_outputs_that_cannot_be_written_are_no_fault_of_the_judge(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    with (
        warm(lab, Options(keep=tmp_path / "taken")) as engine,
        pytest.raises(OSError, match=r"exists|Not a directory"),
    ):
        grade(engine, hand_in("right", tiny_lab.right()))
