"""Downloads of course systems as they come: whose a hand-in is, when it came, what counts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from autograder.course.messages import render
from autograder.course.records import Student
from autograder.intake import attempts, class_folder, layout, names
from autograder.intake import names as intake_names
from autograder.intake.listing import SourceError, find, survey
from autograder.intake.names import parse
from autograder.intake.reading import read
from autograder.sandbox.fence import Fence
from tests.archives import (
    GOOD,
    LAB,
    RIGHT,
    checked,
    class_of,
    every_way,
    keys,
    laid,
    placed,
    taken,
    tarred,
    under,
    zipped,
)

# Names


@pytest.mark.parametrize(
    ("name", "person", "student", "file", "late"),
    [
        ("liwei_123_456_attention.py", "liwei_123", Student("123", "liwei"), "attention.py", False),
        ("liwei_LATE_123_456_my_a.py", "liwei_123", Student("123", "liwei"), "my_a.py", True),
        ("张伟_5_6_attention-1.py", "张伟_5", Student("5", "张伟"), "attention-1.py", False),
        ("van_der_5_6_f.py", "van_der_5", Student("5", "van_der"), "f.py", False),
        ("anon_Ab3_9_x.py", "anon_Ab3", Student("Ab3"), "x.py", False),
        ("LATE_anon_Ab3_9_x.py", "anon_Ab3", Student("Ab3"), "x.py", True),
        ("liwei_5_text.html", "liwei_5", Student("5", "liwei"), "text.html", False),
        ("Li Wei_9_assignsubmission_file_", "Li Wei_9", Student("9", "Li Wei"), "", None),
        ("Li Wei_9_assignsubmission_file", "Li Wei_9", Student("9", "Li Wei"), "", None),
        ("张 伟_9_assignsubmission_file_a.py", "张 伟_9", Student("9", "张 伟"), "a.py", None),
        # Students name files; their course system stands in front.
        (
            "Li_21_assignsubmission_file_x_777_5_a.py",
            "Li_21",
            Student("21", "Li"),
            "x_777_5_a.py",
            None,
        ),
        (
            "bo_777_5_x_21_assignsubmission_file_a.py",
            "bo_777",
            Student("777", "bo"),
            "x_21_assignsubmission_file_a.py",
            False,
        ),
        ("Team A_assignsubmission_file_", "Team A", Student("Team A", "Team A"), "", None),
        ("2024001_张伟_lab2", "2024001_张伟", Student("2024001", "张伟"), "lab2", None),
        ("实验二_2024001_张伟", "2024001_张伟", Student("2024001", "张伟"), "", None),
        ("【实验2】2024001张伟", "2024001_张伟", Student("2024001", "张伟"), "", None),
        ("2024001_第二次作业_张伟", "2024001_张伟", Student("2024001", "张伟"), "", None),
        ("lab2_张伟_2024001_v2", "2024001_张伟", Student("2024001", "张伟"), "v2", None),
        ("实验2_计科2101_2024001_张伟", "2024001_张伟", Student("2024001", "张伟"), "", None),
        (
            "实验2_计科2101_2024001_张伟_20241130",
            "2024001_张伟",
            Student("2024001", "张伟"),
            "20241130",
            None,
        ),
        ("张伟-2024001", "2024001_张伟", Student("2024001", "张伟"), "", None),
        ("PB2024001+欧阳娜娜", "PB2024001_欧阳娜娜", Student("PB2024001", "欧阳娜娜"), "", None),
        (
            "2024001张伟 attention.py",
            "2024001_张伟",
            Student("2024001", "张伟"),
            "attention.py",
            None,
        ),
        ("bob+ps1+2015-02-02 15:58:23.9 UTC+x", "bob", Student("bob"), "", None),
        *(
            (
                f"{title}_2_2021001_attempt_2026-10-12-23-50-12_a.py",
                "2021001",
                Student("2021001"),
                "a.py",
                None,
            )
            for title in ("Lab", "Week", "实验")
        ),
    ],
)
def test_names_that_are_understood(
    name: str, person: str, student: Student, file: str, late: bool | None
) -> None:
    told = parse(name)
    assert told is not None
    assert (told.person, told.student, told.file, told.late) == (person, student, file, late)


@pytest.mark.parametrize(
    "name",
    ["alice", "attention.py", "lab2_张伟", "作业_2024001", "实验二_2101_张伟", "实验2_计科2101",
     "实验2_20241128_张伟", "实验2_计科2101_20241128",
     "2024_05_06_a.txt", "li_wei_2", "a+b", "readme_1.txt", ""],
)  # fmt: skip
def test_names_that_tell_nothing(name: str) -> None:
    assert parse(name) is None


# Canvas

CANVAS = {
    "liwei_11_100_attention.py": b"A = 1\n",
    "liwei_11_101_mlp.py": b"M = 2\n",
    "wangfang_LATE_12_102_lab2.zip": zipped(under("lab2")),
    "zhao_13_103_attention.py": b"A = 0\n",
    "zhao_13_104_attention-1.py": b"A = 1\n",
    "zhao_13_105_mlp-2.py": b"M = 2\n",
    "sunli_14_text.html": b"<p>here</p>",
    "zhou_15_text.html": b"<p>see files</p>",
    "zhou_15_106_attention.py": b"A = 1\n",
    "zhou_15_107_mlp.py": b"M = 2\n",
    "readme.txt": b"",
}


def test_a_canvas_download_in_any_wrapping(tmp_path: Path) -> None:
    for source in every_way(tmp_path, CANVAS):
        found = survey(source, LAB)
        submissions = {one.student: read(one, LAB) for one in found.entries}
        names = ["liwei_11", "sunli_14", "wangfang_12", "zhao_13", "zhou_15"]
        assert list(submissions) == names
        for name in ("liwei_11", "wangfang_12", "zhao_13", "zhou_15"):
            assert submissions[name].files == RIGHT, (source, name)
        lates = {name: one.origin.late for name, one in submissions.items()}
        assert [name for name, late in lates.items() if late] == ["wangfang_12"]
        assert lates["liwei_11"] is False
        assert submissions["liwei_11"].origin.students == (Student("11", "liwei"),)
        assert submissions["liwei_11"].notes == ()
        assert keys(submissions["zhao_13"].notes) == ["resubmitted", "replaced", "resubmitted"]
        assert keys(submissions["sunli_14"].notes) == ["typed_text"]
        assert keys(submissions["sunli_14"].problems.values()) == ["missing", "missing"]
        assert keys(submissions["zhou_15"].notes) == ["typed_text"]
        assert keys(found.remarks) == ["strays"]
        assert "readme.txt" in render(found.remarks[0], "en")


@pytest.mark.parametrize("ending", ["zip", "tar.gz", "v2.zip"])
def test_of_two_canvas_archives_the_newer_counts(tmp_path: Path, ending: str) -> None:
    def packed(files: dict[str, bytes]) -> bytes:
        return zipped(files) if ending.endswith("zip") else tarred(files, mode="w:gz")

    source = laid(
        tmp_path / "c",
        {
            f"li_1_5_lab.{ending}": packed({**GOOD, "attention.py": b"OLD = 1\n"}),
            f"li_1_9_lab-1.{ending}": packed(GOOD),
            f"bo_2_6_lab.{ending}": packed(GOOD),
        },
    )
    submissions = class_of(source)
    assert submissions["li_1"].files == RIGHT
    assert keys(submissions["li_1"].notes) == ["resubmitted", "replaced"]


def test_archives_of_single_files_are_one_hand_in_of_a_canvas_user(tmp_path: Path) -> None:
    attention, mlp = ({name: data} for name, data in GOOD.items())
    parts = {"attention.zip": attention, "MLP-1.zip": mlp, "report.zip": {"report.md": b""}}
    for users in (["li"], ["li", "bo"]):
        files = {
            f"{who}_{user}_{user * 10 + number}_{name}": zipped(inner)
            for user, who in enumerate(users, 1)
            for number, (name, inner) in enumerate(parts.items())
        }
        for source in every_way(tmp_path / str(len(users)), files):
            found = class_of(source)
            assert sorted(found) == sorted(f"{who}_{user}" for user, who in enumerate(users, 1))
            assert all(one.files == RIGHT and not one.notes for one in found.values()), source


def test_a_canvas_zip_of_one_student_is_a_class(tmp_path: Path) -> None:
    files = {"li_1_5_attention.py": GOOD["attention.py"], "li_1_6_mlp.py": GOOD["mlp.py"]}
    for source in (placed(tmp_path / "c.zip", zipped(files)), laid(tmp_path / "c", files)):
        assert {name: one.files for name, one in class_of(source).items()} == {"li_1": RIGHT}


# Moodle


@pytest.mark.parametrize("end", ["", "_"])
def test_a_moodle_download(tmp_path: Path, end: str) -> None:
    files = {
        **under(f"Li Wei_21_assignsubmission_file{end}"),
        f"Li Wei_21_assignsubmission_onlinetext{end}/onlinetext.html": b"hello",
        f"王 伟_22_assignsubmission_file{end}/lab2.zip": zipped(GOOD),
        f"Ann_23_assignsubmission_onlinetext{end}/onlinetext.html": b"hello",
    }
    for source in every_way(tmp_path, files):
        submissions = class_of(source)
        assert list(submissions) == ["Ann_23", "Li_Wei_21", "王_伟_22"]
        assert submissions["Li_Wei_21"].files == submissions["王_伟_22"].files == RIGHT
        assert keys(submissions["Li_Wei_21"].notes) == ["typed_text"]
        assert submissions["王_伟_22"].notes == ()
        assert submissions["王_伟_22"].origin.students == (Student("22", "王 伟"),)
        assert keys(submissions["Ann_23"].problems.values()) == ["missing", "missing"]


def test_a_flat_moodle_download(tmp_path: Path) -> None:
    files = {
        "Li Wei_21_assignsubmission_file_attention.py": b"A = 1\n",
        "Li Wei_21_assignsubmission_file_mlp.py": b"M = 2\n",
        "Li Wei_21_assignsubmission_onlinetext_onlinetext.html": b"x",
        "Bo_22_assignsubmission_file_lab.zip": zipped(GOOD),
    }
    for source in every_way(tmp_path, files):
        submissions = class_of(source)
        assert {name: one.files for name, one in submissions.items()} == {
            "Bo_22": RIGHT,
            "Li_Wei_21": RIGHT,
        }


def test_a_loose_file_of_the_lab_does_not_hide_a_flat_class(tmp_path: Path) -> None:
    files = {
        f"{person}_{name}": data
        for person in ("2024001_张伟", "2024002_李娜")
        for name, data in GOOD.items()
    }
    for loose in ({}, {"attention.py": b"L = 0\n"}, dict.fromkeys(GOOD, b"L = 0\n")):
        for source in every_way(tmp_path / str(len(loose)), files | loose):
            found = survey(source, LAB)
            assert [entry.student for entry in found.entries] == ["2024001_张伟", "2024002_李娜"]
            assert all(read(entry, LAB).files == RIGHT for entry in found.entries)
            assert keys(found.remarks) == (["stray_sources"] if loose else [])


def test_a_report_with_a_name_beside_the_files_makes_no_class(tmp_path: Path) -> None:
    hand_in = tmp_path / "zhang"
    hand_in.mkdir()
    for name, data in (GOOD | {"2024001_张伟_report.pdf": b"%PDF"}).items():
        (hand_in / name).write_bytes(data)
    (entry,) = find(hand_in, LAB)
    assert read(entry, LAB).files == RIGHT


# Gradescope

METADATA = """
submission_1001:
  :submitters:
  - :name: Li Wei
    :sid: '2024001'
    :email: li@example.edu
  :created_at: 2025-03-01 12:00:00.000000000 Z
  :score: 3.0
  :history:
  - :id: 999
    :created_at: !ruby/object:ActiveSupport::TimeWithZone
      utc: 2025-02-28 12:00:00.000000000 Z
submission_1002:
  :submitters:
  - :name: Wang Fang
    :sid: '2024002'
    :email: wang@example.edu
  - :name: 张伟
    :sid:
    :email: zhang@example.edu
  :created_at: '2025-03-02T08:00:00Z'
submission_1004: not a mapping
"""


def gradescope(metadata: bytes) -> dict[str, bytes]:
    top = "assignment_77_export"
    return {
        f"{top}/submission_metadata.yml": metadata,
        **under(f"{top}/submission_1001"),
        **under(f"{top}/submission_1002/lab2"),
        f"{top}/submission_1003/lab2.zip": zipped(GOOD),
        f"{top}/notes.txt": b"",
    }


def test_a_gradescope_export(tmp_path: Path) -> None:
    for source in every_way(tmp_path, gradescope(METADATA.encode())):
        found = survey(source, LAB)
        submissions = {one.student: read(one, LAB) for one in found.entries}
        assert list(submissions) == ["Li_Wei_1001", "Wang_Fang_张伟_1002", "submission_1003"]
        assert all(one.files == RIGHT for one in submissions.values()), source
        li = submissions["Li_Wei_1001"].origin
        assert li.students == (Student("2024001", "Li Wei", "li@example.edu"),)
        assert li.submitted_at == "2025-03-01T12:00:00+00:00"
        assert (li.attempt, li.late, li.name) == (2, None, "submission_1001")
        group = submissions["Wang_Fang_张伟_1002"].origin
        assert [one.id for one in group.students] == ["2024002", "zhang@example.edu"]
        assert group.submitted_at == "2025-03-02T08:00:00+00:00"
        assert keys(submissions["submission_1003"].notes) == ["not_in_metadata"]
        assert [key for key in keys(found.remarks) if key != "wrapped"] == ["strays"]


@pytest.mark.parametrize(
    "metadata",
    [
        *(b"a: [", b"- 1\n- 2\n", b"\xff\xfe\0", b"&a [*a]", b"a: !!timestamp x\n"),
        b"!!python/object/apply:os.getcwd []",
    ],
)
def test_gradescope_metadata_that_cannot_be_read(tmp_path: Path, metadata: bytes) -> None:
    source = placed(tmp_path / "c.zip", zipped(gradescope(metadata)))
    found = survey(source, LAB)
    assert [one.student for one in found.entries] == [f"submission_{n}" for n in (1001, 1002, 1003)]
    assert keys(found.remarks) == ["metadata_unread", "strays"]


def test_gradescope_metadata_builds_no_objects(tmp_path: Path) -> None:
    hostile = METADATA + "submission_1003: !!python/object/apply:os.mkdir [{}]\n".format(
        tmp_path / "made"
    )
    survey(placed(tmp_path / "c.zip", zipped(gradescope(hostile.encode()))), LAB)
    assert not (tmp_path / "made").exists()


# nbgrader


def test_a_tree_of_nbgrader(tmp_path: Path) -> None:
    files = {
        **under("course/submitted/ann/lab2"),
        "course/submitted/ann/lab2/timestamp.txt": b"2015-02-02 15:58:23.948203 UTC",
        **under("course/submitted/ann/lab1", {"attention.py": b"OTHER = 1\n"}),
        **under("course/submitted/bob/lab2"),
        "course/release/lab2/attention.py": b"",
        "course/source/lab2/attention.py": b"",
    }
    for source in every_way(tmp_path, files):
        submissions = class_of(source)
        assert list(submissions) == ["ann", "bob"], source
        assert all(one.files == RIGHT for one in submissions.values())
        assert submissions["ann"].origin.submitted_at == "2015-02-02T15:58:23.948203+00:00"
        assert submissions["bob"].origin.submitted_at == ""
    direct = tmp_path / "folder" / "course" / "submitted"
    assert list(class_of(direct)) == ["ann", "bob"]


def test_the_exchange_of_nbgrader(tmp_path: Path) -> None:
    first, second = "2015-02-02 15:58:23.948203 UTC", "2015-02-03 15:58:23.948203 UTC"
    files = {**under(f"ann+lab2+{second}"), **under(f"ann+lab2+{first}+9f"), **under("bob")}
    submissions = class_of(laid(tmp_path / "inbound", files))
    origins = {name: one.origin for name, one in submissions.items()}
    told = {name: (one.attempt, one.submitted_at[:10]) for name, one in origins.items()}
    assert told == {"ann": (1, "2015-02-02"), "ann-2": (2, "2015-02-03"), "bob": (1, "")}


# Numbers and names


def test_chinese_folders_archives_and_loose_files(tmp_path: Path) -> None:
    files = {
        **under("2024001_张伟_lab2"),
        "2024002-王芳-实验二.zip": zipped(GOOD),
        "李娜_2024003_attention.py": b"A = 1\n",
        "李娜_2024003_mlp.py": b"M = 2\n",
        "名单.xlsx": b"",
        "2024004_刘洋.docx": b"",
    }
    for source in every_way(tmp_path, files):
        found = survey(source, LAB)
        submissions = {one.student: read(one, LAB) for one in found.entries}
        assert list(submissions) == ["2024001_张伟", "2024002_王芳", "2024003_李娜"]
        assert all(one.files == RIGHT and not one.notes for one in submissions.values()), source
        assert submissions["2024002_王芳"].origin.students == (Student("2024002", "王芳"),)
        assert submissions["2024001_张伟"].origin.name == "2024001_张伟_lab2"
        assert keys(found.remarks) == ["stray_people", "strays"]
        assert "2024004_刘洋.docx" in render(found.remarks[0], "zh")


def test_nobody_is_lost_whose_archive_or_report_is_not_read(tmp_path: Path) -> None:
    files = {"2024001_张伟.zip": zipped(GOOD), "李娜_2024002.zip": zipped(GOOD)}
    read_by_nobody = ["2024003_赵六.tar.zst", "ann.7z.001", "bob.z01", "cat.iso", "dan.zipx"]
    alone = ["2024004_刘洋.docx", "王芳-2024005.pdf"]
    others = ["2024001张伟.docx", "名单.xlsx", "成绩单20250301.xlsx"]
    names = dict.fromkeys([*read_by_nobody, *alone, *others], b"")
    remarks = survey(laid(tmp_path / "c", {**files, **names}), LAB).remarks
    assert keys(remarks) == ["stray_sources", "stray_people", "strays"]
    for remark, expected in zip(remarks, (read_by_nobody, alone, others), strict=True):
        assert sorted(str(remark.values["names"]).split(", ")) == sorted(expected)


def test_a_name_behind_a_dot_is_somebodys_and_no_tools(tmp_path: Path) -> None:
    tools = {f"{name}/attention.py": b"" for name in (".git", ".ipynb_checkpoints", "._张三")}
    files = {**under(".张三"), **under(".2024001_李四"), **under("ann"), **tools, ".DS_Store": b""}
    for source in every_way(tmp_path, files):
        entries = find(source, LAB)
        assert [one.origin.name for one in entries] == [".2024001_李四", ".张三", "ann"], source
        assert all(read(one, LAB).files == RIGHT for one in entries)


def test_a_name_with_several_numbers_is_of_all_of_them(tmp_path: Path) -> None:
    first, second = Student("2024001", "张伟"), Student("2024002", "王芳")
    both = ("2024001_张伟_2024002_王芳", (first, second))
    for name, (student, students) in {
        "2024001张伟+2024002王芳_lab2.zip": both,
        "张伟2024001_王芳2024002.zip": both,
        "2024001_张伟_2024001_张伟.zip": ("2024001_张伟", (first,)),
        "2024001_张伟_20250301_最终版.zip": ("2024001_张伟", (first,)),
        "2024001_张伟_计科2101.zip": ("2024001_张伟", (first,)),
    }.items():
        folder = laid(tmp_path / name, {name: zipped(GOOD), "2024009_李娜.zip": zipped(GOOD)})
        submissions = class_of(folder)
        assert list(submissions) == [student, "2024009_李娜"]
        assert submissions[student].origin.students == students
    loose = {f"2024001_张伟_2024002_王芳_{name}": data for name, data in GOOD.items()}
    submissions = class_of(laid(tmp_path / "loose", loose))
    assert {who: one.files for who, one in submissions.items()} == {both[0]: RIGHT}


def test_a_plain_folder_is_its_own_student(tmp_path: Path) -> None:
    submission = class_of(laid(tmp_path / "c", {**under("ann"), **under("li wei")}))["li_wei"]
    assert submission.origin.students == (Student("li wei"),)
    assert submission.origin.name == "li wei"
    assert submission.origin.attempt == 1
    assert submission.origin.late is None


# --pattern


BLACKBOARD = r"_(?P<student_id>\w+)_attempt_(?P<timestamp>[0-9-]+)_(?P<file_id>.+)"


def test_a_pattern_for_other_systems(tmp_path: Path) -> None:
    files = {
        "Lab 2_u1_attempt_2025-03-01-10-00-00_attention.py": b"A = 0\n",
        "Lab 2_u1_attempt_2025-03-02-10-00-00_attention.py": b"A = 1\n",
        "Lab 2_u1_attempt_2025-03-02-10-00-00_mlp.py": b"M = 2\n",
        "Lab 2_u2_attempt_2025-03-01-10-00-00_lab2.zip": zipped(GOOD),
        "grades.csv": b"",
        **under("ann"),
    }
    for source in every_way(tmp_path, files):
        found = survey(source, LAB, BLACKBOARD)
        submissions = {one.student: read(one, LAB) for one in found.entries}
        assert list(submissions) == ["ann", "u1", "u1-2", "u2"]
        assert submissions["u1-2"].files == submissions["u2"].files == RIGHT
        assert submissions["u1-2"].origin.attempt == 2
        assert submissions["u1-2"].origin.submitted_at == "2025-03-02T10:00:00"
        assert keys(submissions["ann"].notes) == ["unmatched_one"]
        assert submissions["ann"].files == RIGHT
        assert keys(found.remarks) == ["unmatched", "strays"]


def test_a_pattern_with_names_addresses_and_attempts(tmp_path: Path) -> None:
    pattern = (
        r"^(?P<last_name>[^,]+), (?P<first_name>[^(]+) \((?P<email>[^)]+)\)"
        r" (?P<student_id>\d+) try(?P<attempt>\d+)"
    )
    files = under("Li, Wei (li@example.edu) 7 try3")
    submissions = class_of(laid(tmp_path / "c", {**files, **under("x")}), pattern)
    origin = submissions["7"].origin
    assert origin.students == (Student("7", "Wei Li", "li@example.edu"),)
    assert origin.attempt == 3


def test_a_pattern_without_file_id_gathers_loose_files(tmp_path: Path) -> None:
    source = laid(tmp_path / "c", {"7.attention.py": b"", "7.mlp.py": b"", "8.zip": zipped(GOOD)})
    submissions = class_of(source, r"^(?P<student_id>\d+)\.")
    assert list(submissions) == ["7", "8"]
    assert keys(submissions["7"].problems.values()) == ["wrong_name", "wrong_name"]


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("(", "pattern_broken"),
        ("(?P<student_id>", "pattern_broken"),
        (r"(\d+)_.*", "pattern_lacks_id"),
        (r"(?P<student>\d+)_.*", "pattern_lacks_id"),
        (r"(?P<student_id>\d+)(?P<grade>.*)", "pattern_groups"),
        (r"(?P<student_id>\d{9})", "pattern_idle"),
        (r"(?P<student_id>)ann", "pattern_idle"),
    ],
)
def test_a_wrong_pattern_is_named_with_its_mend(tmp_path: Path, pattern: str, key: str) -> None:
    source = laid(tmp_path / "c", {**under("ann"), **under("bob")})
    for where in (source, source / "ann"):
        with pytest.raises(SourceError) as caught:
            find(where, LAB, pattern)
        assert caught.value.reason.key == f"intake.{key}"
        assert pattern in str(caught.value)
        assert render(caught.value.reason, "zh") in str(caught.value)


def test_a_pattern_on_a_single_hand_in(tmp_path: Path) -> None:
    pattern = r"^(?P<student_id>\d+)_"
    laid(tmp_path, under("77_x"))
    placed(tmp_path / "78_y.zip", zipped(GOOD))
    for name, student in (("77_x", "77"), ("78_y.zip", "78")):
        (entry,) = find(tmp_path / name, LAB, pattern)
        assert entry.student == student
        assert read(entry, LAB).files == RIGHT


# Times


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2015-02-02 15:58:23.948203 UTC", "2015-02-02T15:58:23.948203+00:00"),
        ("2025-03-01T10:00:05Z", "2025-03-01T10:00:05+00:00"),
        ("2025-03-01 10:00 +0800", "2025-03-01T10:00:00+08:00"),
        ("2025-03-01-10-00-05", "2025-03-01T10:00:05"),
        ("20250301100005", "2025-03-01T10:00:05"),
        ("20250301", "2025-03-01T00:00:00"),
        ("2025-13-01", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_times(text: str, iso: str) -> None:
    assert intake_names.iso(text) == iso
    assert (intake_names.moment(iso) is None) == (not iso)


# Hostile names


def test_hostile_names_harm_nobody(tmp_path: Path) -> None:
    names = ["a\nb", "x\u202ey", "<script>", "=1+1", "CON", "x" * 240, "аlice", "alice", "ａlice"]
    files = {key: data for name in names for key, data in under(name).items()}
    for source in (laid(tmp_path / "c", files), placed(tmp_path / "c.zip", zipped(files)),
                   placed(tmp_path / "c.tar", tarred(files))):  # fmt: skip
        entries = find(source, LAB)
        assert len(entries) == len(names)
        assert len({one.student.casefold() for one in entries}) == len(names)
        for entry in entries:
            assert all(letter.isalnum() or letter in "-_." for letter in entry.student)
            assert len(entry.student) <= 80
            assert read(entry, LAB).files == RIGHT
            shown = " ".join(render(note, "en") for note in entry.notes) + entry.origin.name
            assert shown.isprintable(), entry.student
        alike = [one.student for one in entries if "lookalike_id" in keys(one.notes)]
        assert sorted(alike) == ["alice", "аlice"]  # the full-width one became alice-2 or so


def test_a_file_drawn_like_another(tmp_path: Path) -> None:
    for name in ("аttention.py", "atten\u200btion.py", "ａttention.py", "attеntiοn.py"):
        for data in (zipped({name: b"", "mlp.py": b""}), tarred({name: b"", "mlp.py": b""})):
            (problem,) = taken(placed(tmp_path / "li.zip", data)).problems.values()
            assert problem.key == "intake.lookalike"
            assert "\u200b" not in render(problem, "en")
    nul = zipped({"AA.py": b""}).replace(b"AA.py", b"A\0.py")
    assert taken(placed(tmp_path / "li.zip", nul)).problems.keys() == {"attention.py", "mlp.py"}


def test_a_stray_list_is_cut(tmp_path: Path) -> None:
    files = {f"note{number:03}.txt": b"" for number in range(50)}
    (remark,) = survey(laid(tmp_path / "c", {**files, **under("ann")}), LAB).remarks
    text = render(remark, "en")
    assert "(50)" in text
    assert "note019.txt, …" in text


@pytest.fixture
def one_fence() -> Iterator[None]:
    """To start a process takes a hundred times as long as to read metadata in it."""
    with Fence() as fence, pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "Fence", lambda: nullcontext(fence))
        yield


@pytest.mark.usefixtures("one_fence")
@pytest.mark.parametrize("rounds", [60, pytest.param(1500, marks=pytest.mark.slow)])
def test_no_damage_to_a_download_raises_but_a_source_error(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    files = {**CANVAS, **gradescope(METADATA.encode()), **under("2024001_张伟")}
    wholes = [
        ("zip", zipped(files)),
        ("zip", zipped(gradescope(METADATA.encode()))),
        ("tar", tarred(CANVAS)),
        ("tgz", tarred(gradescope(METADATA.encode()), mode="w:gz")),
    ]
    read_some = 0
    for number in range(rounds):
        suffix, whole = chance.choice(wholes)
        spoiled = bytearray(whole)
        for _ in range(chance.randint(0, 8)):
            spoiled[chance.randrange(len(spoiled))] = chance.choice((0, 46, 47, 127, 255))
        source = placed(tmp_path / f"{number}.{suffix}", bytes(spoiled))
        try:
            entries = attempts.last(find(source, LAB))
        except SourceError:
            continue
        read_some += sum(bool(checked(read(entry, LAB)).files) for entry in entries)
        source.unlink()
    assert read_some > rounds


def test_names_that_an_unpacker_took_for_code_page_437(tmp_path: Path) -> None:
    spoiled = {name: name.encode("gbk").decode("cp437") for name in ("2024001_张伟", "王芳")}
    files = {key: data for name in spoiled.values() for key, data in under(name).items()}
    for source in every_way(tmp_path, files):
        assert list(class_of(source)) == list(spoiled), source
    for honest in ("Béatrice", "Zoë", "Müller-Lüdenscheidt", "張偉", "Ελένη"):
        assert names.readable(honest) == honest


def test_a_plain_folder_is_read_quickly(tmp_path: Path) -> None:
    files = {key: data for number in range(50) for key, data in under(f"s{number}").items()}
    entries = find(laid(tmp_path / "c", files), LAB)
    start = time.process_time()
    for entry in entries:
        assert read(entry, LAB).files == RIGHT
    assert time.process_time() - start < 50 * 0.002


@pytest.mark.parametrize("name", ["lee-smithann", "o'neilpat", "van der bergjan", "müllerjörg"])
def test_canvas_names_may_hold_more_than_letters(tmp_path: Path, name: str) -> None:
    source = tmp_path / "class"
    source.mkdir()
    for number, (file, text) in enumerate(RIGHT.items()):
        (source / f"{name}_111_{222 + number}_{file}").write_text(text)
        (source / f"li_LATE_112_{333 + number}_{file}").write_text(text)
    found = survey(source, LAB)
    assert found.remarks == () and len(found.entries) == 2
    ours = next(one for one in found.entries if one.origin.students[0].id == "111")
    assert ours.origin.students[0].name == name and read(ours, LAB).files == RIGHT


def test_a_single_source_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "attention.py").write_text("x = 1\n")
    with pytest.raises(SourceError, match="single source file"):
        survey(tmp_path / "attention.py", LAB)


MANY = {f"aaa/d{number}/x.txt": b"" for number in range(2100)}
THREE = {key: data for name in ("bob", "carol", "dave") for key, data in under(name).items()}


@pytest.mark.parametrize(
    ("around", "stray"),
    [("", {}), ("class/", {}), ("", {"attention.py": b""})],
    ids=["plain", "wrapped", "stray"],
)
def test_a_folder_of_thousands_hides_nobody(
    tmp_path: Path, around: str, stray: dict[str, bytes]
) -> None:
    files = {around + key: data for key, data in (MANY | THREE | stray).items()}
    for source in (laid(tmp_path / "c", files), placed(tmp_path / "c.zip", zipped(files))):
        assert {"bob", "carol", "dave"} <= set(class_of(source)), source


@pytest.mark.parametrize("name", ["hw.zip", "hw.ipynb", "work.tar.gz"])
def test_folders_around_archives_or_notebooks_are_a_class(tmp_path: Path, name: str) -> None:
    files = {f"{student}/{name}": b"" for student in ("bob", "carol", "dave")}
    assert list(class_of(placed(tmp_path / "c.zip", zipped(files)))) == ["bob", "carol", "dave"]
    one = files | {"bob/extra.py": b"", "notes.txt": b""}
    assert list(class_of(placed(tmp_path / "one.zip", zipped(one)))) == ["one"]


def test_a_lone_folder_taken_for_a_class_is_told(tmp_path: Path) -> None:
    source = laid(tmp_path / "c", {f"mallory/{key}": data for key, data in THREE.items()})
    (told,) = survey(source, LAB).remarks
    assert told.key == "intake.wrapped"
    assert "mallory" in render(told, "en") and "3" in render(told, "en")
    assert survey(laid(tmp_path / "d", THREE), LAB).remarks == ()


def test_more_files_than_a_class_may_have_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_folder, "MAX_MEMBERS", 5)
    for source in (
        placed(tmp_path / "c.zip", zipped(THREE)),
        placed(tmp_path / "c.tar", tarred(THREE)),
    ):
        with pytest.raises(SourceError, match="more than 5 files"):
            survey(source, LAB)
