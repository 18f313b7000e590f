"""What is a class and what one hand-in, packed or not; and what is said where nothing tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.course.messages import render
from autograder.intake.listing import survey
from tests.archives import (
    GOOD,
    LAB,
    RIGHT,
    class_of,
    every_way,
    keys,
    laid,
    notebook,
    under,
    zipped,
)

CELLS = notebook(*(f"%%writefile {name}\n{data.decode()}" for name, data in GOOD.items()))
ZIP = {"lab2.zip": zipped(GOOD)}
NOTEBOOK = {"lab2.ipynb": CELLS}
REPORT = {"report.pdf": b"%PDF"}
THREE = ["alice", "bob", "carol"]


def class_with(*hand_ins: dict[str, bytes]) -> dict[str, bytes]:
    return {
        key: data
        for name, files in zip(THREE, hand_ins, strict=True)
        for key, data in under(name, files).items()
    }


CLASSES = {
    "archives and files": class_with(ZIP, GOOD, ZIP),
    "notebooks and files": class_with(NOTEBOOK, GOOD, NOTEBOOK),
    "notebooks with reports": class_with(*[NOTEBOOK | REPORT] * 3),
    "archives with reports": class_with(*[ZIP | REPORT] * 3),
}


@pytest.mark.parametrize("around", ["", "class/", "class/lab 2/"])
@pytest.mark.parametrize("files", CLASSES.values(), ids=CLASSES)
def test_folders_of_people_are_a_class(
    tmp_path: Path, files: dict[str, bytes], around: str
) -> None:
    for source in every_way(tmp_path, {around + key: data for key, data in files.items()}):
        found = class_of(source)
        assert list(found) == THREE, source
        assert all(one.files == RIGHT for one in found.values())


def test_a_class_of_wrong_names_is_one(tmp_path: Path) -> None:
    wrong = {"attention.py.txt": b"", "MLP.py": b""}
    for source in every_way(tmp_path, class_with(GOOD, wrong, REPORT)):
        assert list(class_of(source)) == THREE, source


@pytest.mark.parametrize(
    ("names", "students"),
    [
        (["2021001", "2021002"], ["2021001", "2021002"]),
        (["lab2_2021001", "lab2_2021002"], ["2021001", "2021002"]),
        (["2021001_张三", "李四2021002"], ["2021001_张三", "2021002_李四"]),
    ],
)
def test_loose_notebooks_with_numbers_are_a_class(
    tmp_path: Path, names: list[str], students: list[str]
) -> None:
    for source in every_way(tmp_path, {f"{name}.ipynb": CELLS for name in names}):
        found = class_of(source)
        assert list(found) == students, source
        assert all(one.files == RIGHT for one in found.values())


UNDECIDED = {
    "notebooks": ({"alice.ipynb": CELLS, "bob.ipynb": CELLS}, "alice.ipynb, bob.ipynb"),
    "one number": ({"part1.ipynb": CELLS, "2021001.ipynb": CELLS}, "2021001.ipynb, part1.ipynb"),
    "files": (
        {f"{who}_{name}": data for who in ("ls", "zs") for name, data in GOOD.items()},
        "ls_attention.py, ls_mlp.py, zs_attention.py, zs_mlp.py",
    ),
}


@pytest.mark.parametrize(("files", "shown"), UNDECIDED.values(), ids=UNDECIDED)
def test_what_may_be_a_class_is_said(tmp_path: Path, files: dict[str, bytes], shown: str) -> None:
    for source in every_way(tmp_path, files):
        found = survey(source, LAB)
        assert len(found.entries) == 1
        assert keys(found.remarks) == ["one_student"], source
        assert shown in render(found.remarks[0], "en") and shown in render(found.remarks[0], "zh")


def test_folders_beside_a_loose_file_are_said(tmp_path: Path) -> None:
    for source in every_way(tmp_path, class_with(ZIP, GOOD, ZIP) | {"notes.txt": b""})[1:]:
        found = survey(source, LAB)
        assert len(found.entries) == 1
        assert keys(found.remarks) == ["one_student"], source
        assert "alice, bob, carol" in render(found.remarks[0], "en")


@pytest.mark.parametrize(
    "files",
    [
        {**under("src"), **under("notebooks", NOTEBOOK)},
        {**under("my code"), **under("报告", ZIP | REPORT)},
        {**under("code"), **under("backup", ZIP)},
        {**GOOD, **under("old", ZIP), "try.ipynb": CELLS, "more.ipynb": CELLS},
    ],
)
def test_parts_of_one_hand_in_are_no_class(tmp_path: Path, files: dict[str, bytes]) -> None:
    for source in every_way(tmp_path, under("zhang", files))[1:]:
        found = survey(source, LAB)
        assert len(found.entries) == 1 and found.remarks == ()


NUMBERED = ("2024001_张三", "2024002_李四")
STRAY = {
    "folders of zips": under(NUMBERED[0], ZIP) | under(NUMBERED[1], ZIP),
    "moodle": {f"{who}_1234{n}_assignsubmission_file/lab2.zip": ZIP["lab2.zip"]
               for n, who in enumerate(("张三", "李四"))},
    "sections": {f"{n}班/{who}.zip": ZIP["lab2.zip"] for n, who in enumerate(NUMBERED, 1)},
    "a zip and a folder": {f"{NUMBERED[0]}.zip": ZIP["lab2.zip"]} | under(NUMBERED[1], ZIP),
}  # fmt: skip


@pytest.mark.parametrize("around", ["", "class/"])
@pytest.mark.parametrize("stray", [["attention.py"], [*GOOD]], ids=["one", "all"])
@pytest.mark.parametrize("files", STRAY.values(), ids=STRAY)
def test_a_stray_file_of_the_lab_does_not_hide_a_class(
    tmp_path: Path, files: dict[str, bytes], stray: list[str], around: str
) -> None:
    files = files | dict.fromkeys(stray, b"x = 1\n")
    for source in every_way(tmp_path, {around + key: data for key, data in files.items()}):
        found = class_of(source)
        assert len(found) == 2 and all(one.files == RIGHT for one in found.values()), source
        assert "stray_sources" in keys(survey(source, LAB).remarks)


def test_a_stray_file_beside_folders_of_plain_names(tmp_path: Path) -> None:
    files = class_with(ZIP, NOTEBOOK, ZIP | REPORT)
    on_disk, *packed = every_way(tmp_path, files | {"attention.py": b"x = 1\n"})
    assert list(class_of(on_disk)) == THREE
    whole = laid(tmp_path / "whole", files | GOOD)
    for source in (*packed, whole):
        found = survey(source, LAB)
        assert len(found.entries) == 1 and keys(found.remarks) == ["one_student"]


def test_folders_of_one_person_are_no_class(tmp_path: Path) -> None:
    shots = {"截图02/a.png": b"", "截图03/b.png": b"", "2024001_张三_报告/report.pdf": b""}
    assert len(survey(laid(tmp_path, GOOD | shots), LAB).entries) == 1
