"""Sections of a class in folders of their own: every student is read, and nobody is joined."""

from __future__ import annotations

import bz2
import time
from pathlib import Path

from autograder.course.messages import render
from autograder.intake import attempts
from autograder.intake.listing import survey
from tests.archives import GOOD, LAB, RIGHT, class_of, every_way, header, keys, laid, under, zipped

ZIP = zipped(GOOD)


def test_sections_of_archives_or_folders(tmp_path: Path) -> None:
    archives = {"SectionA/al.zip": ZIP, "SectionA/bo.zip": ZIP, "SectionB/cy.zip": ZIP}
    folders = {**under("1班/al"), **under("1班/bo"), **under("2班/cy")}
    for name, files in (("archives", archives), ("folders", folders)):
        for source in every_way(tmp_path / name, files):
            found = class_of(source)
            assert list(found) == ["al", "bo", "cy"], source
            assert all(one.files == RIGHT for one in found.values())
            assert keys(survey(source, LAB).remarks) == ["wrapped", "wrapped"]


def test_the_number_of_a_class_is_nobodys(tmp_path: Path) -> None:
    first = {**under("计科2101/2023010001_张三"), "计科2101/2023010002_李四.zip": ZIP}
    second = {**under("计科2102/2023010003_张三"), **under("计科2102/2023010004_王五")}
    for count, files in ((2, first), (4, first | second)):
        for source in every_way(tmp_path / str(count), files):
            found = class_of(source)
            assert [one[:10] for one in found] == [f"202301000{n + 1}" for n in range(count)]
            assert all(one.files == RIGHT for one in found.values())
    people = {**under("张三_2101"), "李四_2102/2102_李四_lab2.zip": ZIP, "李四_2102/a.zip": b""}
    assert list(class_of(laid(tmp_path / "people", people))) == ["2101_张三", "2102_李四"]


def test_halves_of_two_students_are_not_joined(tmp_path: Path) -> None:
    files = {"Section A/al/attention.py": b"A = 1\n", "Section A/bo/mlp.py": b"M = 2\n"}
    for source in every_way(tmp_path, files | under("Section B/cy")):
        found = {name: list(one.files) for name, one in class_of(source).items()}
        assert found == {"al": ["attention.py"], "bo": ["mlp.py"], "cy": [*GOOD]}, source


def test_a_name_in_two_sections_has_the_section_in_front(tmp_path: Path) -> None:
    files = {"Section A/al.zip": ZIP, "Section B/al.zip": ZIP, "Section B/bo.zip": ZIP}
    for source in every_way(tmp_path, files):
        kept = attempts.last(survey(source, LAB).entries)
        assert [one.student for one in kept] == ["Section_A_al", "Section_B_al", "bo"], source


def test_what_may_be_a_section_is_said(tmp_path: Path) -> None:
    downloads = {"Section A.zip": zipped(under("Li_1_assignsubmission_file_")), **under("al")}
    halves = {"A/al/attention.py": b"", "A/bo/mlp.py": b"", **under("B/cy")}
    for name, files, shown in (("zips", downloads, "Section A.zip"), ("halves", halves, "A.")):
        for source in every_way(tmp_path / name, files):
            (remark,) = survey(source, LAB).remarks
            assert keys([remark]) == ["sections"], source
            assert f"several: {shown}" in render(remark, "en") and render(remark, "zh")


def test_a_zip_with_the_number_of_a_class_may_be_one(tmp_path: Path) -> None:
    people = {**under("2023010001_张三"), **under("2023010002_李四")}
    files = {"计科2101.zip": zipped(people), "计科2102.zip": zipped(under("x") | people)}
    (remark,) = survey(laid(tmp_path / "classes", files), LAB).remarks
    assert keys([remark]) == ["sections"] and "计科2101.zip" in render(remark, "zh")
    twice = {**under("2023010001_张三"), **under("2023010001_张三_2")}
    ours = {"张三2101.zip": zipped(twice), "李四2102.zip": zipped(under("2023010002_李四/lab2"))}
    assert survey(laid(tmp_path / "ours", ours), LAB).remarks == ()


def test_a_class_behind_the_name_of_a_student_is_no_section(tmp_path: Path) -> None:
    who = ("2024001_张三_计科2班", "李四-2024002-2班", "zhang_1234567_89012_3班")
    parts = {f"{who[0]}/{name[:-3]}.zip": zipped({name: data}) for name, data in GOOD.items()}
    inner = {**under(f"{who[0]}/myqwen"), **under(who[1]), f"{who[2]}.zip": ZIP}
    others = dict.fromkeys([f"{one}.zip" for one in who[1:]], ZIP)
    archives = {f"{who[0]}.zip": ZIP, **others}
    for name, files in (("inner", inner), ("parts", parts | others), ("archives", archives)):
        for source in every_way(tmp_path / name, files):
            found = survey(source, LAB)
            students = {one.origin.students[0].id for one in found.entries}
            assert students == {"2024001", "2024002", "1234567"} and not found.remarks, source
            assert all(one.files == RIGHT for one in class_of(source).values())


def test_what_only_is_called_a_zip_is_not_unpacked_to_look_for_a_class(tmp_path: Path) -> None:
    head = bz2.compress(header("x.bin", size=1 << 30).tobuf())
    bomb = head + bz2.compress(bytes(32 << 20)) * 32
    files = {"张三2101.zip": bomb, "李四2102.zip": ZIP}
    root = laid(tmp_path, files)
    start = time.process_time()
    assert survey(root, LAB).remarks == () and time.process_time() - start < 0.5


def test_a_number_with_two_names_is_said(tmp_path: Path) -> None:
    files = {"2023010001_张三.zip": ZIP, "2023010001_张叁.zip": ZIP, "2023010002_李四.zip": ZIP}
    for source in every_way(tmp_path / "two", files):
        (remark,) = survey(source, LAB).remarks
        assert "2023010001 (张三 / 张叁)" in render(remark, "zh")
    again = {"2023010001_张三.zip": ZIP, "2023010001_张三_2.zip": ZIP, **under("2101_李四"),
             **under("2101_王五")}  # fmt: skip
    assert survey(laid(tmp_path / "again", again), LAB).remarks == ()


def test_copies_of_one_student_are_no_section(tmp_path: Path) -> None:
    files = {
        "al/lab2.zip": ZIP,
        "al/lab2_final.zip": ZIP,
        **under("bo/lab2"),
        **under("bo/lab2_final"),
        **under("cy/1"),
        **under("cy/2"),
        "di/lab2.zip": ZIP,
        "di/report.zip": ZIP,
        **under("eve/Section A"),
    }
    found = survey(laid(tmp_path / "class", files), LAB)
    assert [one.student for one in found.entries] == ["al", "bo", "cy", "di", "eve"]
    assert found.remarks == ()
