"""Commands on a graded class hold one hand-in at a time, and read each of them once."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.cli.main import main
from autograder.course.records import HandIn
from autograder.grading import rescore
from autograder.report import class_file
from autograder.report.write import class_files
from tests.report import classes

SIZE = 30
HELD = 4  # at once: what is looked at, and what a reader has just made of it


@pytest.fixture
def out(tmp_path: Path) -> Path:
    lab = classes.lab(6)
    made = [classes.hand_in(lab, number, classes.mixed) for number in range(SIZE)]
    class_files(classes.of(lab, *made), tmp_path / "out")
    rows = "".join(f"Student {number},{number},S,\n" for number in range(SIZE))
    head = "Student,ID,Section,Lab 2 (3)\n    Points Possible,,,100\n"
    (tmp_path / "book.csv").write_text(head + rows, encoding="utf-8")
    return tmp_path / "out"


@pytest.mark.parametrize(
    "command",
    [
        ("report", "OUT"),
        ("rescore", "OUT"),
        ("export", "junit", "OUT"),
        ("export", "gradescope-results", "OUT"),
        ("export", "canvas", "OUT", "BOOK"),
    ],
    ids=lambda command: "-".join(command[:2]).lower(),
)
def test_a_class_is_never_in_memory_whole(
    command: tuple[str, ...], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: set[int] = set()
    read, most = 0, 0
    parse = class_file.hand_in_from_plain

    def counted(data: Any) -> HandIn:
        nonlocal read, most
        made = parse(data)
        read += 1
        alive.add(read)
        weakref.finalize(made, alive.discard, read)
        most = max(most, len(alive))
        return made

    monkeypatch.setattr(class_file, "hand_in_from_plain", counted)
    names = {"OUT": str(out), "BOOK": str(out.parent / "book.csv")}
    assert main([names.get(word, word) for word in command]) in (0, 1)
    # Before `rescore` writes, it looks who is meant by names, and who has no kept outputs.
    assert SIZE <= read <= SIZE * (3 if command[0] == "rescore" else 1)
    assert most <= HELD


def test_a_class_that_is_judged_again_waits_on_disk(out: Path, tmp_path: Path) -> None:
    lab = classes.lab(6)
    made = class_file.read(out).hand_ins
    with (tmp_path / "room").open("wb+") as room:
        judged = rescore._JudgedRecords(room)
        for old in (made[2], made[0]):
            judged.take(lab, old.student, replace(old, results=old.results[:1]))
        for place, count in ((0, 1), (1, 6), (2, 1)):
            assert len(judged.over(made[place]).results) == count
    assert len(judged) == 2


def test_where_no_class_is_no_folder_is_made(tmp_path: Path) -> None:
    for command in ("report", "rescore"):
        assert main([command, str(tmp_path / "none")]) == 2
    assert list(tmp_path.iterdir()) == []
