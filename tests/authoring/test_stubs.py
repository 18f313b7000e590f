"""Stubs: made from the markers of a solution, and never written over a student's work."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.authoring import stubs
from autograder.authoring.stubs import Fate, MarkerError, blocks, solution_lines, stub_of
from autograder.course import labfile
from autograder.course.handed_out import is_untouched
from autograder.course.records import Exercise, Lab, Limits, Text

SOLUTION = '''"""A file."""


def double(x: int) -> int:
    """Twice ``x``."""
    # BEGIN SOLUTION lab9.double
    twice = x + x  # no loop is needed
    return twice
    # END SOLUTION


class Half:
    def __init__(self) -> None:
        # BEGIN SOLUTION lab9.half
        self.factor = 0.5
        # END SOLUTION
'''
STUB = '''"""A file."""


def double(x: int) -> int:
    """Twice ``x``."""
    # TODO lab9.double: Double it
    raise NotImplementedError("TODO lab9.double: to be written")


class Half:
    def __init__(self) -> None:
        # TODO lab9.half: Half of KV
        raise NotImplementedError("TODO lab9.half: to be written")
'''
TITLES = {"lab9.double": "Double it", "lab9.half": "Half of KV"}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab of one file, with its solution in ``solutions``."""
    for folder in (tmp_path / "labs" / "lab9", tmp_path / "solutions" / "lab9"):
        folder.mkdir(parents=True)
    (tmp_path / "solutions" / "lab9" / "work.py").write_text(SOLUTION, encoding="utf-8")
    exercises = tuple(
        Exercise(id_, "work.py", Text(title, title), Text("", ""), ())
        for id_, title in TITLES.items()
    )
    return Lab(
        "lab9", tmp_path / "labs" / "lab9", Text("", ""), ("work.py",), (), (), Limits(), exercises
    )


@pytest.fixture
def stub(lab: Lab, solutions: Path) -> Path:
    """The stub as ``build`` writes it."""
    assert stubs.write(lab, solutions) == {lab.folder / "work.py": Fate.WRITTEN}
    return lab.folder / "work.py"


@pytest.fixture
def solutions(tmp_path: Path) -> Path:
    return tmp_path / "solutions"


def test_blocks_become_todos_and_all_else_stays(stub: Path) -> None:
    banner, _, body = stub.read_text(encoding="utf-8").partition("\n")
    assert banner.startswith("# Generated from the course's sources (stub ")
    assert body == STUB == stub_of(SOLUTION, "work.py", TITLES)
    assert b"\r" not in stub.read_bytes()


def test_a_stub_says_which_todo_is_open(stub: Path) -> None:
    names: dict[str, object] = {}
    exec(compile(stub.read_text(encoding="utf-8"), "work.py", "exec"), names)
    with pytest.raises(NotImplementedError, match=r"^TODO lab9\.double: to be written$"):
        names["double"](2)  # type: ignore[operator]
    with pytest.raises(NotImplementedError, match=r"^TODO lab9\.half: "):
        names["Half"]()  # type: ignore[operator]


@pytest.mark.parametrize("name", [f.parent.name for f in labfile.LABS.glob("*/lab.toml")])
def test_stubs_of_the_labs_compile_and_hold_no_marker(name: str) -> None:
    lab = labfile.load(labfile.LABS / name)
    todos = ""
    for file, text in stubs.stubs(lab).items():
        compile(text, file, "exec")
        assert is_untouched(text)
        assert "SOLUTION" not in text
        todos += text
    for exercise in lab.exercises:
        assert f'raise NotImplementedError("TODO {exercise.id}: ' in todos


CHANGES = {
    "solved": STUB.replace("raise", "return x + x\n    raise").encode(),
    "one blank line more": b"\n",
    "emptied": b"",
    "in GBK": "# 学生的作业".encode("gbk"),
    "with a byte order mark": b"\xef\xbb\xbf# mine",
    "no text at all": bytes(range(256)),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_students_file_is_never_overwritten(
    lab: Lab, stub: Path, solutions: Path, change: str
) -> None:
    banner = stub.read_bytes().partition(b"\n")[0]
    added = stub.read_bytes() + CHANGES[change]
    whole = banner + b"\n" + CHANGES[change]
    for work in (CHANGES[change], whole, added if CHANGES[change] else whole):
        stub.write_bytes(work)
        assert stubs.write(lab, solutions) == {stub: Fate.LEFT}
        assert stub.read_bytes() == work
    assert stubs.write(lab, solutions, force=True) == {stub: Fate.WRITTEN}
    assert stub.read_text(encoding="utf-8").endswith(STUB)


def test_an_untouched_stub_of_an_older_release_is_replaced(
    lab: Lab, stub: Path, solutions: Path
) -> None:
    newer = SOLUTION.replace("A file.", "A better file.")
    (solutions / "lab9" / "work.py").write_text(newer, encoding="utf-8")
    assert stubs.write(lab, solutions) == {stub: Fate.WRITTEN}
    assert "A better file." in stub.read_text(encoding="utf-8")


def test_an_older_stub_with_work_in_it_stays(lab: Lab, stub: Path, solutions: Path) -> None:
    work = stub.read_text(encoding="utf-8") + "# mine\n"
    stub.write_text(work, encoding="utf-8")
    newer = SOLUTION.replace("A file.", "A better file.")
    (solutions / "lab9" / "work.py").write_text(newer, encoding="utf-8")
    assert stubs.write(lab, solutions) == {stub: Fate.LEFT}
    assert stub.read_text(encoding="utf-8") == work


def test_what_is_right_is_not_written_again(lab: Lab, stub: Path, solutions: Path) -> None:
    written = stub.stat().st_mtime_ns
    assert stubs.write(lab, solutions) == {stub: Fate.UNCHANGED}
    assert stub.stat().st_mtime_ns == written


def test_windows_line_ends_are_no_change(lab: Lab, stub: Path, solutions: Path) -> None:
    stub.write_bytes(stub.read_bytes().replace(b"\n", b"\r\n"))
    newer = SOLUTION.replace("A file.", "A better file.")
    (solutions / "lab9" / "work.py").write_text(newer, encoding="utf-8")
    assert stubs.write(lab, solutions) == {stub: Fate.WRITTEN}


@pytest.mark.parametrize(
    "text, words",
    [
        ("# BEGIN SOLUTION a\n# BEGIN SOLUTION b\n", r"work\.py:2: BEGIN SOLUTION inside a"),
        ("x = 1\n# END SOLUTION\n", r"work\.py:2: END SOLUTION without a BEGIN"),
        ("# BEGIN SOLUTION a\nx = 1\n", r"work\.py: BEGIN SOLUTION a is never closed"),
    ],
)
def test_markers_that_do_not_pair_up_are_named(text: str, words: str) -> None:
    with pytest.raises(MarkerError, match=words):
        list(blocks(text, "work.py"))
    with pytest.raises(MarkerError, match=words):
        stub_of(text, "work.py", {"a": "", "b": ""})


def test_a_marker_without_exercise_is_named() -> None:
    known = r"work\.py: lab9\.half is no exercise of lab\.toml \(lab9\.double\)"
    with pytest.raises(MarkerError, match=known):
        stub_of(SOLUTION, "work.py", {"lab9.double": "Double it"})


def test_lines_that_give_something_away() -> None:
    assert solution_lines(SOLUTION, "work.py") == {"twice = x + x  # no loop is needed"}
    long = SOLUTION.replace("x + x", "x + x + 0 + 0 + 0")
    wanted = {"twice = x + x + 0 + 0 + 0  # no loop is needed", "twice = x + x + 0 + 0 + 0"}
    assert solution_lines(long, "work.py") == wanted
