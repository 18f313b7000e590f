"""A download of each system goes in, is graded for real, and its grade file comes back filled."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from autograder.cli.main import main
from tests import hand_ins
from tests.archives import placed, zipped
from tests.warm import grade

RIGHT = {name: text.encode() for name, text in hand_ins.right().items()}
STUB = {name: text.encode() for name, text in hand_ins.stub().items()}
HALF = RIGHT | {"mlp.py": STUB["mlp.py"]}


def canvas(user: int, name: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Loose files as lib/content_zipper.rb names them."""
    return {
        f"{name}_{user}_{user}{number}_{file}": data
        for number, (file, data) in enumerate(files.items())
    }


def moodle(number: int, name: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """A folder as mod/assign/classes/downloader.php names it."""
    return {f"{name}_{number}_assignsubmission_file/{f}": data for f, data in files.items()}


CANVAS = (
    "Student,ID,SIS Login ID,Section,Lab 2 (7),Final Score\r\n"
    "    Points Possible,,,,100.00,(read only)\r\n"
    '"王, 小明",11,xm@example.edu,A,{a},\r\n'
    '"Li, Wei",12,=cmd,A,{b},50.0\r\n'
    '"王, 小明",13,xm2@example.edu,B,{c},\r\n'
    '"韩, 梅梅",14,@han,B,,\r\n'
)
MOODLE = (
    "标识符,姓名,邮箱,状态,成绩,最高分,允许更改成绩,上次修改（作业）,上次修改（评分）,反馈评论\n"
    '参与人11,"王 小明",xm@example.edu,已提交,{a},100.00,是,"2026年11月2日, 09:00",-,\n'
    '参与人12,"Li Wei",w@example.edu,已提交,{b},100.00,是,"2026年11月2日, 09:01",-,"<p>a,b</p>"\n'
    "参与人13,王小明,x@example.edu,已提交,{c},100.00,是,-,-,\n"
    "参与人14,=韩梅梅,h@example.edu,没有作业,,100.00,是,-,-,\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["canvas", "moodle"])
def test_a_class_goes_in_and_its_grade_file_comes_back(
    tmp_path: Path, system: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("王小明", "liwei", "王小明") if system == "canvas" else ("王 小明", "Li Wei", "王小明")
    named = canvas if system == "canvas" else moodle
    members: dict[str, bytes] = {}
    for number, name, files in zip((11, 12, 13), names, (RIGHT, HALF, STUB), strict=True):
        members |= named(number, name, files)
    download = placed(tmp_path / "download.zip", zipped(members))
    roster = placed(tmp_path / "roster.csv", "学号,姓名\nS1,Li Wei\nS2,韩梅梅\n".encode())
    run = grade(download, tmp_path / "out", "--lab", "2", "--roster", str(roster))
    assert run.status == 0, run.stderr
    capsys.readouterr()

    text = CANVAS if system == "canvas" else MOODLE
    book = placed(tmp_path / "book.csv", text.format(a="", b='"3,5"', c="").encode("utf-8-sig"))
    assert main(["export", system, str(run.out), str(book), "--lang", "en"]) == 0
    points = {student.rpartition("_")[2]: earned for student, earned in run.scores.items()}
    assert points == {"11": 100, "S1": 72, "13": 0}  # the roster knows one of them
    filled = text.format(a=100, b='"72"', c=0).encode("utf-8-sig")
    assert (tmp_path / "book-filled.csv").read_bytes() == filled
    assert "1 row without a hand-in" in capsys.readouterr().out

    feedback = ["export", "feedback", str(run.out), "--like", str(download), "--lang", "en"]
    assert main(feedback) == 0
    with zipfile.ZipFile(run.out / "feedback.zip") as archive:
        assert len(archive.namelist()) == 3
        for name in archive.namelist():
            number = next(part for part in name.split("_") if part.isdecimal())
            ending = "S1" if number == "12" else f"_{number}"
            student = next(one for one in run.scores if one.endswith(ending))
            ending = "html" if system == "moodle" else "md"
            theirs = (run.out / student / f"report.{ending}").read_bytes()
            assert archive.read(name) == theirs
