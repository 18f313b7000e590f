"""The course's own folders, at any depth: the lab's is found among those of other labs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.records import Submission
from autograder.intake.listing import find, survey
from autograder.intake.reading import read
from tests.archives import every_way, keys, laid, placed, under, zipped

LAB2 = labfile.load(labfile.find_lab("2"))
LAB4 = labfile.load(labfile.find_lab("4"))
MINE = {"attention.py": b"MINE = 1\n", "mlp.py": b"MINE = 2\n"}
OTHER = {"attention.py": b"OTHER = 1\n", "mlp.py": b"OTHER = 2\n"}
LABS = {
    **under("lab1_foundations", OTHER),
    **under("lab2_qwen3_block", MINE),
    **under("lab3_kv_cache", OTHER),
    "given/__init__.py": b"",
    "given/model.py": b"",
}
PROJECT = {
    **under("labs", LABS),
    **under("backups/lab2_qwen3_block-20261001-120000", OTHER),
    "Makefile": b"",
    "README.md": b"",
    "autograder/cli/main.py": b"",
    "notebooks/attention.ipynb": b"{}",
}


def read_all(source: Path) -> dict[str, Submission]:
    return {one.student: read(one, LAB2) for one in find(source, LAB2)}


def is_mine(submission: Submission) -> bool:
    return submission.files == {name: data.decode() for name, data in MINE.items()}


WHOLE = {
    "labs themselves": LABS,
    "the folder labs": under("labs", LABS),
    "the project's contents": PROJECT,
    "the project": under("qwen3-labs-student", PROJECT),
    "one lab deep down": under("qwen3-labs-student/labs/lab2_qwen3_block", MINE),
    "wrapped twice": under("submission/my work/qwen3-labs-student", PROJECT),
    "by id": under("a/b", {**under("lab1", OTHER), **under("lab2", MINE)}),
    "by number": under("a/b/c", {**under("1", OTHER), **under("2", MINE)}),
    "with somebody's name": {**under("lab1_li", OTHER), **under("lab2_li", MINE)},
    "stray copies above": {**OTHER, **under("x/labs", LABS)},
}


@pytest.mark.parametrize("files", WHOLE.values(), ids=WHOLE)
def test_the_folder_of_the_lab_is_taken(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    placed(tmp_path / "one" / "li.zip", zipped(files))
    placed(tmp_path / "packed" / "li.zip", zipped(files))
    placed(tmp_path / "packed" / "wang.zip", zipped(under("w", files)))
    laid(tmp_path / "folders" / "li", files)
    laid(tmp_path / "folders" / "wang", files)
    both = {**under("li", files), **under("wang", files)}
    for source, students in (
        (tmp_path / "packed", ["li", "wang"]),
        (tmp_path / "folders", ["li", "wang"]),
        (placed(tmp_path / "class.zip", zipped(both)), ["li", "wang"]),
        (tmp_path / "one", ["li"]),
    ):
        found = read_all(source)
        assert sorted(found) == students
        assert all(map(is_mine, found.values())), (source, found)


@pytest.mark.parametrize(
    "files",
    [LABS, under("labs", LABS), PROJECT, under("qwen3-labs-student", PROJECT)],
    ids=["labs themselves", "the folder labs", "the project's contents", "the project"],
)
def test_a_single_hand_in_is_not_taken_for_a_class_of_labs(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    for source in every_way(tmp_path, files):
        (found,) = read_all(source).values()
        assert is_mine(found), source


def test_by_name_comes_before_id_before_number(tmp_path: Path) -> None:
    ways = {
        "lab2_qwen3_block": MINE,
        "lab2": dict.fromkeys(MINE, b"ID = 1\n"),
        "2": dict.fromkeys(MINE, b"NUMBER = 1\n"),
    }
    folder = tmp_path / "li"
    for name, files in reversed(ways.items()):
        laid(folder / "x" / name, files)
        (found,) = read_all(placed(tmp_path / name / "li.zip", zipped(_files(folder)))).values()
        assert found.files["mlp.py"].encode() == files["mlp.py"]


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_only_different_candidates_of_one_rank_are_ambiguous(tmp_path: Path) -> None:
    one, two = "one/labs/lab2_qwen3_block", "two/labs/lab2_qwen3_block"
    copies = {**under(one, MINE), **under(two, MINE)}
    (found,) = read_all(placed(tmp_path / "a" / "li.zip", zipped(copies)).parent).values()
    assert is_mine(found)
    differ = {**copies, f"{two}/mlp.py": b"NEWER = 1\n"}
    (found,) = read_all(placed(tmp_path / "b" / "li.zip", zipped(differ)).parent).values()
    assert list(found.files) == ["attention.py"]
    assert keys(found.problems.values()) == ["ambiguous"]
    packed = {"lab1_foundations.zip": zipped(OTHER), "lab2_qwen3_block.zip": zipped(MINE)}
    (found,) = read_all(placed(tmp_path / "c" / "li.zip", zipped(packed)).parent).values()
    assert is_mine(found)


def test_nothing_is_taken_from_another_lab_where_the_own_folder_is_there(tmp_path: Path) -> None:
    files = {name: data for name, data in PROJECT.items() if name != "labs/lab2_qwen3_block/mlp.py"}
    del files["backups/lab2_qwen3_block-20261001-120000/mlp.py"]
    (found,) = read_all(placed(tmp_path / "li.zip", zipped(files))).values()
    assert list(found.files) == ["attention.py"]
    assert keys(found.problems.values()) == ["missing_among"]
    lab4 = under("labs", {**under("lab4_tinyllm", MINE), "given/model.py": b"GIVEN = 1\n"})
    (entry,) = find(placed(tmp_path / "four" / "li.zip", zipped(lab4)), LAB4)
    assert list(read(entry, LAB4).files) == ["attention.py", "mlp.py"]


def test_a_class_in_the_folder_of_an_assignment(tmp_path: Path) -> None:
    people = {**under("li", MINE), **under("wang", MINE)}
    hidden = {**under("hw/lab1", {**under("zhao", OTHER), **under("wu", OTHER)})}
    for source in every_way(tmp_path, {**hidden, **under("hw/lab2", people)}):
        assert sorted(read_all(source)) == ["li", "wang"]
    beside = {**people, **under("lab2_qwen3_block", OTHER)}
    entries = survey(laid(tmp_path / "stray", beside), LAB2).entries
    assert {"li", "wang"} <= {entry.student for entry in entries}


def test_a_forest_of_folders_costs_nobody_their_hand_in(tmp_path: Path) -> None:
    files = {**MINE, **{f"venv/lib/python3/site/p{n}/m.py": b"" for n in range(3000)}}
    laid(tmp_path / "class" / "li", files)
    (found,) = read_all(tmp_path / "class").values()
    assert is_mine(found)
