"""Folders that a lab lets hand-ins read: those and no others, read-only, and gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.records import CheckResult, Outcome, Submission
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.worker import loader
from tests import tiny_lab

LISTED = "labs/lab4_tinyllm/checkpoints"


def test_a_copy_can_be_read_by_all_and_written_by_none() -> None:
    made = loader.copied([LISTED])
    assert made is not None
    with made as base:
        inside = [Path(base), *Path(base).rglob("*")]
        assert {path.stat().st_mode & 0o777 for path in inside if path.is_dir()} == {0o755}
        assert {path.stat().st_mode & 0o777 for path in inside if path.is_file()} == {0o444}
        config = Path(base) / LISTED / "tied" / "config.json"
        assert config.read_bytes() == (labfile.ROOT / LISTED / "tied/config.json").read_bytes()
        assert sorted(path.name for path in Path(base).iterdir()) == ["labs"]
        assert not (Path(base) / "labs" / "given").exists()
    assert not Path(base).exists()


def test_no_folders_no_copy() -> None:
    assert loader.copied([]) is None


def test_in_process_a_folder_is_where_it_is() -> None:
    assert loader.path_of(LISTED) == str(labfile.ROOT / LISTED)


@pytest.fixture
def left_over(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No copy may remain once an engine has ended; other processes may have made some, too."""
    made, copied = [], loader.copied

    def noted(folders: Sequence[str]) -> tempfile.TemporaryDirectory[str] | None:
        made.append(copied(folders))
        return made[-1]

    monkeypatch.setattr(loader, "copied", noted)
    yield
    copies = [Path(copy.name) for copy in made if copy is not None]
    assert copies and not any(copy.exists() for copy in copies)


CHECKS = '''from autograder.checks.expect import Case, Folder, Student, cases, expect_value

@cases("numbers")
def test_free(student: Student, case: Case) -> None:
    """Reads.

    读取。
    """
    read = student.call("answer.read", Folder({path!r})).value
    expect_value(1 if read == "{{" else 0, 1, case)

@cases("numbers")
def test_one(student: Student, case: Case) -> None:
    """Writes.

    写入。
    """
    wrote = student.call("answer.write", Folder({path!r})).value
    expect_value(1 if wrote == "PermissionError" else 0, 1, case)

@cases("numbers")
def test_two(student: Student, case: Case) -> None:
    """Looks around.

    查看别处。
    """
    found = student.call("answer.around", Folder({path!r})).value
    expect_value(0 if found == "PermissionError" else 1, 0, case)
'''
ANSWER = f"""
from pathlib import Path

def read(folder):
    return (Path(folder) / "tied" / "config.json").read_text()[:1]

def said(action):
    try:
        return action()
    except OSError as error:
        return type(error).__name__

def write(folder):
    return said(lambda: (Path(folder) / "mine").write_text("x") and "wrote")

def around(folder):
    return said(lambda: ",".join(p.name for p in Path({str(labfile.ROOT / LISTED)!r}).iterdir()))
"""


@pytest.mark.parametrize("spawn", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_worker_reads_the_folder_and_nothing_beside_it(
    tmp_path: Path, left_over: None, spawn: bool
) -> None:
    folder = tmp_path / "lab9_folders"
    tiny_lab.build(folder)
    (folder / "checks" / "test_answer.py").write_text(CHECKS.format(path=LISTED), encoding="utf-8")
    hand_in = Submission("one", {"answer.py": ANSWER, "side.py": ""})
    toml = folder / "lab.toml"
    toml.write_text(f'folders = ["{LISTED}"]\n' + _three_checks(toml.read_text()), encoding="utf-8")
    with Engine(labfile.load(folder), Options(spawn=spawn)) as engine:
        engine.wait_ready()
        (graded,) = engine.grade(iter([hand_in]))
    assert {r.check: _said(r) for r in graded.results} == {
        "test_free": "passed",
        "test_one": "passed",
        "test_two": "passed",
    }


def _said(result: CheckResult) -> str:
    shown = result.outcome.value
    return shown if result.outcome is Outcome.PASSED else f"{shown} {result.message}"


def _three_checks(toml: str) -> str:
    """The lab's head, and one exercise of three checks."""
    head = toml[: toml.index("[[exercise]]")]
    made = tiny_lab.EXERCISE.format("many", "answer")
    return (
        head
        + made
        + "".join(
            tiny_lab.CHECK.format(name, points)
            for name, points in (("free", 40), ("one", 30), ("two", 30))
        )
    )
