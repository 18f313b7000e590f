"""Names that several readings fit: nobody is joined with somebody else, nobody's work is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from autograder.course.records import Student
from autograder.intake import attempts
from autograder.intake.listing import survey
from autograder.intake.reading import read
from tests.archives import GOOD, LAB, RIGHT, class_of, every_way, laid, under, zipped


def own(who: str) -> dict[str, bytes]:
    """The lab's files with somebody's name in them."""
    return {"attention.py": f"A = '{who}'\n".encode(), "mlp.py": b"M = 2\n"}


def packed(names: Sequence[str]) -> dict[str, bytes]:
    return {f"{name}.zip": zipped(own(name)) for name in names}


def loose(names: Sequence[str]) -> dict[str, bytes]:
    return {f"{name}_{file}": data for name in names for file, data in own(name).items()}


NAMES = {
    "a date and a time": ["alice_20261012_1530_lab2", "bob_20261012_1602_lab2"],
    "a date and a number": ["alice_20261012_2021001_lab2", "bob_20261012_2021002_lab2"],
    "the lab first": ["lab_2_2021001_zhangsan", "lab_2_2021002_lisi"],
    "the lab and a date first": ["lab2_20261012_1530_zhangsan", "lab2_20261012_1602_lisi"],
    "a course first": ["dl_2_2021001_zhangsan", "dl_2_2021002_lisi", "dl_2_2021003_wu"],
    "a course and one name": ["dl_2_2021001_lab2", "dl_2_2021002_lab2"],
    "sections": ["dl_1_2021001_li", "dl_1_2021002_wu", "dl_1_2021003_xu", "dl_2_2021004_li"],
    "a class and its number": ["计科_2101_2021001_张三", "计科_2101_2021002_李四"],
    "a class in front": ["计科2101_张三_2021001", "计科2101_李四_2021002"],
    "a class with dashes": ["计科21-1-张三-2021001", "计科21-1-李四-2021002"],
    "a class and names": ["计科2101_张三", "计科2101_李四", "计科2101-王五-lab2"],
    "a long class and names": ["软件202101张三", "软件202101李四"],
    "the number of a class": ["2101_张三_lab2", "2101_李四_lab2"],
    "one name in two classes": ["计科2101_张三", "计科2102_张三", "计科2102_李四"],
    "a number of two people": ["2021001_张三_lab2", "2021001_李四_lab2"],
    "a date in Chinese names": ["计科2101_张三_20261012", "计科2101_李四_20261012"],
    "a class, a number and a date": [
        f"实验2_计科2101_202100{n}_{who}_20241130" for n, who in enumerate(("张三", "李四"), 1)
    ],
    "sections and files": [
        "dl_1_2021001_li_attention",
        "dl_1_2021002_wu_mlp",
        "dl_1_2021003_xu_attention",
        "dl_2_2021004_li_mlp",
    ],
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_nobody_is_joined_with_somebody_else(tmp_path: Path, names: list[str]) -> None:
    for source in every_way(tmp_path, packed(names)):
        kept = attempts.last(survey(source, LAB).entries)
        assert len({attempts.people(entry) for entry in kept}) == len(names)
        found = {entry.origin.name: read(entry, LAB).files for entry in kept}
        assert {
            name.removesuffix(".zip"): files["attention.py"] for name, files in found.items()
        } == {name: f"A = '{name}'\n" for name in names}


@pytest.mark.parametrize(
    ("names", "students"),
    [
        (NAMES["a class and its number"], [Student("2021001", "张三"), Student("2021002", "李四")]),
        (NAMES["a class in front"], [Student("2021001", "张三"), Student("2021002", "李四")]),
        (NAMES["a class with dashes"], [Student("2021001", "张三"), Student("2021002", "李四")]),
        (NAMES["a class, a number and a date"],
         [Student("2021001", "张三"), Student("2021002", "李四")]),
        (["计科2101_2021001_张三_13800138000", "计科2101_20241130_李四_2021002_v2"],
         [Student("2021001", "张三"), Student("2021002", "李四")]),
        (["计科2101_张三", "计科2101_李四"],
         [Student("计科2101_张三", "张三"), Student("计科2101_李四", "李四")]),
        (["2021001_李𬀩", "𠮷田_2021002_lab2"],
         [Student("2021001", "李𬀩"), Student("2021002", "𠮷田")]),
        (["12_张三", "李四_13"], [Student("12", "张三"), Student("13", "李四")]),
        (["张三12_深度学习", "李四13_深度学习"], [Student("12", "张三"), Student("13", "李四")]),
        (["张三_2021001_注意力", "张三_2021001_前馈"], [Student("2021001", "张三")]),
        (["2021001_张三_13800138000李四"], [Student("2021001", "张三")]),
        (["12_张三_20261012", "12_张三_20261013"], [Student("12", "张三")]),
    ],
)  # fmt: skip
def test_the_number_and_the_name_of_a_student(
    tmp_path: Path, names: list[str], students: list[Student]
) -> None:
    for form, files in (("zips", packed(names)), ("files", loose(names))):
        for source in every_way(tmp_path / form, files):
            found = {entry.origin.students[0] for entry in survey(source, LAB).entries}
            assert found == set(students), source


def test_loose_files_behind_a_class_are_of_their_student(tmp_path: Path) -> None:
    names = ["计科2101_张三", "计科2101_李四"]
    for source in every_way(tmp_path, loose(names)):
        found = class_of(source)
        assert sorted(found) == sorted(names)
        assert {one.files["attention.py"] for one in found.values()} == {
            f"A = '{name}'\n" for name in names
        }


ATTENTION, MLP = {"attention.py": b"A = 1\n"}, {"mlp.py": b"M = 2\n"}
WHO = "2021001_张三"
PARTS = {
    "code and a report": {f"{WHO}_lab2.zip": zipped(GOOD), f"{WHO}_实验报告.pdf": b"%PDF"},
    "two reports": {f"{WHO}_lab2.zip": zipped(GOOD), f"{WHO}_报告.pdf": b"", f"{WHO}_图.png": b""},
    "archives": {f"{WHO}_attention.zip": zipped(ATTENTION), f"{WHO}_mlp.zip": zipped(MLP)},
    "a file": {f"{WHO}_attention.zip": zipped(ATTENTION), f"{WHO}_mlp.py": MLP["mlp.py"]},
    "a folder and a report": {**under(WHO), f"{WHO}_报告/report.pdf": b""},
    "packed": {f"{WHO}_代码.zip": zipped(GOOD), f"{WHO}_报告.zip": zipped({"r.md": b""})},
    "a report of two": {f"{WHO}_2021009_赵六.zip": zipped(GOOD), f"{WHO}_报告.pdf": b""},
}  # fmt: skip


@pytest.mark.parametrize("files", PARTS.values(), ids=PARTS)
def test_parts_of_one_hand_in_are_put_together(tmp_path: Path, files: dict[str, bytes]) -> None:
    for source in every_way(tmp_path, files | {"2021002_李四_lab2.zip": zipped(GOOD)}):
        found = survey(source, LAB)
        assert [one.origin.students[0].id for one in found.entries] == ["2021001", "2021002"]
        assert found.remarks == () and all(one.notes == () for one in found.entries)
        assert all(read(one, LAB).files == RIGHT for one in found.entries), source


FIRST, SECOND = zipped(GOOD), zipped({**GOOD, "mlp.py": b"M = 3\n"})
DIFFERENT = {
    "canvas": {"li_1_5_a.zip": FIRST, "li_1_6_b.zip": SECOND, "bo_2_7_a.zip": FIRST},
    "moodle": under("Li_1_assignsubmission_file", {"a.zip": FIRST, "b.zip": SECOND}),
    "parts": {f"{WHO}_attention.zip": FIRST, f"{WHO}_mlp.zip": SECOND},
    "code and a report": {f"{WHO}_代码.zip": FIRST, f"{WHO}_报告.zip": SECOND},
    "a folder": under(WHO, {"a.zip": FIRST, "b.zip": SECOND}),
    "a folder of the lab": under(f"{WHO}/lab2", {"a.zip": FIRST, "b.zip": SECOND}),
}


@pytest.mark.parametrize("files", DIFFERENT.values(), ids=DIFFERENT)
def test_different_copies_in_two_archives_are_for_a_person(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    for source in every_way(tmp_path, files | {"2021002_李四_lab2.zip": FIRST}):
        found = {one.origin.students[0].id: read(one, LAB) for one in survey(source, LAB).entries}
        theirs = found["1" if "1" in found else "2021001"]
        assert [one.key for one in theirs.problems.values()] == ["intake.ambiguous"], source
        assert theirs.files == {"attention.py": "A = 1\n"}
        assert found["2021002"].files == RIGHT


APART = {
    "two names": [f"{WHO}_lab2.zip", f"{WHO}_lab2_v2.zip"],
    "one file twice": [f"{WHO}_attention.zip", f"{WHO}_attention_v2.zip"],
    "all, and a file": [f"{WHO}_lab2.zip", f"{WHO}_attention.py"],
    "all, and a wrong name": [f"{WHO}_lab2.zip", f"{WHO}_attention.txt"],
}


@pytest.mark.parametrize("names", APART.values(), ids=APART)
def test_what_may_be_a_later_version_stays_apart(tmp_path: Path, names: list[str]) -> None:
    files = {name: zipped(GOOD) for name in (*names, "2021002_李四_lab2.zip")}
    kept = attempts.last(survey(laid(tmp_path, files), LAB).entries)
    assert [one.origin.students[0].id for one in kept] == ["2021001", "2021001", "2021002"]


def test_a_report_alone_is_a_hand_in(tmp_path: Path) -> None:
    files = {f"{WHO}_报告.pdf": b"", "2021002_李四_lab2.zip": zipped(GOOD)}
    assert len(survey(laid(tmp_path, files), LAB).entries) == 2


def test_a_date_and_a_time_in_a_name_tell_attempts(tmp_path: Path) -> None:
    files = packed(["alice_20261012_1530_lab2", "alice_20261013_0910_lab2", "bob_20261012_1602_x"])
    for source in every_way(tmp_path, files):
        kept = attempts.last(survey(source, LAB).entries)
        assert [(one.student, one.origin.attempt) for one in kept] == [("alice", 2), ("bob", 1)]
        assert [one.origin.late for one in kept] == [None, None]


def test_a_blackboard_download(tmp_path: Path) -> None:
    first, second = "attempt_2026-10-12-23-50-12", "attempt_2026-10-13-08-00-00"
    files = {
        f"Lab 2_zs_{first}_attention.py": b"OLD = 1\n",
        f"Lab 2_zs_{first}.txt": b"receipt",
        f"Lab 2_zs_{second}_attention.py": b"A = 1\n",
        f"Lab 2_zs_{second}_mlp.py": b"M = 2\n",
        f"Lab 2_zs_{second}.txt": b"receipt",
        f"Lab 2_al_2021_{first}_lab2.zip": zipped({k: v.encode() for k, v in RIGHT.items()}),
        f"Lab 2_li_{first}.txt": b"receipt",
    }
    for source in every_way(tmp_path, files):
        kept = {one.student: one for one in attempts.last(survey(source, LAB).entries)}
        assert sorted(kept) == ["al_2021", "li", "zs"]
        assert kept["zs"].origin.submitted_at == "2026-10-13T08:00:00"
        assert read(kept["zs"], LAB).files == read(kept["al_2021"], LAB).files == RIGHT
