"""Kept outputs: judged anew they give the same, and other checks give other results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.records import HandIn, Lab, Submission
from autograder.grading.engine import Engine, Options, kept_name
from autograder.reference import cases
from autograder.sandbox.kept import KeptTransport
from tests import tiny_lab
from tests.hand_ins import grade, hand_in, nothing_left_behind, outcomes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
HAND_INS = {
    "right": tiny_lab.right(),
    "wrong": tiny_lab.doing(two="print('tripled'); return 3 * x", four="return 2.1 * x"),
    "raises": tiny_lab.doing(one="raise ValueError('no')", side="1 / 0"),
    "ends": tiny_lab.doing(three="import os; os._exit(4)", five="import os; os.abort()"),
    "loops": tiny_lab.doing(other="while True: pass"),
    "syntax": tiny_lab.right() | {"answer.py": "def f(:\n"},
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return tiny_lab.build(tmp_path_factory.mktemp("labs") / "lab9_doubling")


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
    with nothing_left_behind(), Engine(lab, options) as engine:
        engine.wait_ready()
        return grade(engine, *(hand_in(*pair) for pair in HAND_INS.items()))


def submissions(folder: Path) -> Iterator[Submission]:
    for student in HAND_INS:
        kept = KeptTransport(folder / kept_name(student)).hand_in
        yield Submission(student, kept["files"])


def rescored(lab: Lab, hidden: Path, folder: Path) -> dict[str, HandIn]:
    with nothing_left_behind(), Engine(lab, Options(hidden_cases=hidden, kept=folder)) as engine:
        engine.wait_ready()
        assert engine.crew is not None and engine.crew.zygote is None
        return grade(engine, *submissions(folder))


def test_the_same_checks_say_the_same(
    lab: Lab, hidden: Path, folder: Path, first: dict[str, HandIn]
) -> None:
    plain = Options(hidden_cases=hidden, jobs=2, replay=False)
    with Engine(lab, plain) as engine:
        engine.wait_ready()
        again = grade(engine, *(hand_in(*pair) for pair in HAND_INS.items()))
    assert first == again  # keeping changes nothing
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
