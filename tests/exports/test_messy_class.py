"""Thirty students hand in whatever students hand in; a killed grading ends in both grade books.

Every right hand-in has its points however it was packed, nobody has a number that no check and no
person gave, and nothing else in the grade books changes.
"""

from __future__ import annotations

import csv
import io
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from autograder.cli.main import main
from autograder.course import labfile
from autograder.course.labfile import ROOT
from autograder.intake.tree import MAX_ENTRIES
from tests import hand_ins
from tests.archives import notebook, placed, tarred, under, zipped
from tests.cli.test_recovery import begun, until
from tests.warm import Run, grade, rescore

LAB = "lab2_qwen3_block"
RIGHT = {name: text.encode() for name, text in hand_ins.right().items()}
STUB = {name: text.encode() for name, text in hand_ins.stub().items()}
STYLE = {
    name: text.encode()
    for name, text in hand_ins.read(ROOT / "tests/styles/lab2/einsum_throughout").items()
}
LAB1 = {
    name: (ROOT / "solutions/lab1_foundations" / name).read_bytes()
    for name in ("attention.py", "mlp.py", "tokens.py")
}
ATTENTION, MLP = RIGHT["attention.py"], RIGHT["mlp.py"]


def _chinese(encoding: str) -> dict[str, bytes]:
    first = f"# -*- coding: {encoding} -*-\n# 注意力：先归一化，再旋转\n"
    return RIGHT | {"attention.py": (first + ATTENTION.decode()).encode(encoding)}


PROJECT = {"README.md": b"# mine\n", "Makefile": b"", "autograder/__init__.py": b""}
BOTH_LABS = under(f"labs/{LAB}", RIGHT) | under("labs/lab1_foundations", LAB1)
# What a student attaches, by name; None where no check and no person has given a number.
CLASS: Mapping[str, tuple[int | None, dict[str, bytes]]] = {
    "right loose": (100, RIGHT),
    "right zip": (100, {"lab2.zip": zipped(RIGHT)}),
    "right folder": (100, {"lab2.zip": zipped(under("my work/lab 2", RIGHT))}),
    "right project": (100, {"all.zip": zipped(under("qwen3-labs-student", PROJECT | BOTH_LABS))}),
    "right project bare": (100, {"all.zip": zipped(PROJECT | BOTH_LABS)}),
    "right labs": (100, {"labs.zip": zipped(BOTH_LABS)}),
    "right by number": (100, {"w.zip": zipped(under("lab1", LAB1) | under("lab2", RIGHT))}),
    "right tar": (100, {"lab2.tar.gz": tarred(RIGHT, mode="w:gz")}),
    "right zip in zip": (100, {"outer.zip": zipped({"inner.zip": zipped(RIGHT)})}),
    "right notebook": (
        100,
        {
            "lab2.ipynb": notebook(
                *(f"%%writefile {n}\n{text}" for n, text in hand_ins.right().items())
            )
        },
    ),
    "right gbk": (100, _chinese("gbk")),
    "right utf-8": (100, _chinese("utf-8")),
    "right bom": (100, RIGHT | {"mlp.py": b"\xef\xbb\xbf" + MLP}),
    "right windows lines": (100, {n: d.replace(b"\n", b"\r\n") for n, d in RIGHT.items()}),
    "right mac": (100, {"a.zip": zipped(RIGHT | under("__MACOSX", {"._attention.py": b"\0\5"}))}),
    "right with report": (100, RIGHT | {"report.pdf": b"%PDF-1.4\n", "notes.docx": b"PK"}),
    "right style": (100, STYLE),
    "right prints": (100, RIGHT | {"mlp.py": MLP + b"\nprint('x' * 200)\n"}),
    "half": (72, RIGHT | {"mlp.py": STUB["mlp.py"]}),
    "stub": (0, STUB),
    "syntax": (28, RIGHT | {"attention.py": ATTENTION + b"\ndef (:\n"}),
    "loops": (28, RIGHT | {"attention.py": b"while True: pass\n"}),
    "leaves": (28, RIGHT | {"attention.py": b"import os; os._exit(0)\n"}),
    "pdf": (None, {"homework.pdf": b"%PDF-1.4\n%\xe2\xe3\n"}),
    "nothing": (None, {"lab2.zip": zipped({})}),
    "damaged": (None, {"lab2.zip": zipped(RIGHT)[:-60]}),
    "too many files": (
        None,
        {"lab2.tar": tarred({f"{n}.py": b"" for n in range(MAX_ENTRIES + 1)})},
    ),
    "other names": (None, {"a.txt": b"hello", "b.c": b"int main;"}),
}


def download(system: str) -> bytes:
    """The zip that the course system gives, everybody in it."""
    files: dict[str, bytes] = {}
    for number, (name, (_, attached)) in enumerate(CLASS.items(), start=11):
        for order, (file, data) in enumerate(attached.items()):
            mark = "".join(name.split())
            place = f"{mark}_{number}_{number}{order}_{file}"  # as Canvas names it
            if system == "moodle":
                place = f"{name}_{number}_assignsubmission_file/{file}"
            files[place] = data
    return zipped(files)


def book(system: str, points: Mapping[str, int | None]) -> bytes:
    """The course system's grade book with these points; one more student handed nothing in."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n" if system == "canvas" else "\n")
    rows = [*enumerate(CLASS, start=11), (99, "absent")]
    if system == "canvas":
        writer.writerow(["Student", "ID", "SIS Login ID", "Section", "Lab 2 (7)", "Final Score"])
        writer.writerow(["    Points Possible", "", "", "", "100.00", "(read only)"])
        for number, name in rows:
            writer.writerow([name, number, f"u{number}", "A", shown(points.get(name)), "12.5"])
    else:
        writer.writerow(["标识符", "姓名", "邮箱", "状态", "成绩", "最高分", "反馈评论"])
        for number, name in rows:
            mail = f"u{number}@example.edu"
            mine = [
                f"参与人{number}",
                name,
                mail,
                "已提交",
                shown(points.get(name)),
                "100.00",
                "<p>好",
            ]
            writer.writerow(mine)
    return text.getvalue().encode("utf-8-sig")


def shown(points: int | None) -> str:
    return "" if points is None else str(points)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["canvas", "moodle"])
def test_a_messy_class_from_download_to_grade_book(
    tmp_path: Path, system: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = placed(tmp_path / "download.zip", download(system)), tmp_path / "out"
    with hand_ins.nothing_left_behind():
        process = begun(source, out)
        until(process, "[4/")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    run = grade(source, out, "--resume")
    assert "Traceback" not in run.stderr
    expected = {name: points for name, (points, _) in CLASS.items()}
    assert points_of(run) == expected
    assert points_of(rescore(out)) == expected

    # A person reads the PDF on paper, and finds the MLP in it; nobody has looked at the others yet.
    (pdf,) = [student for student in run.scores if student.startswith("pdf_")]
    lab = labfile.load(labfile.find_lab("2"))
    mlp = next(exercise for exercise in lab.exercises if exercise.id == "lab2.mlp")
    points = {check.name: check.points * (check in mlp.checks) for check in lab.checks}
    entries = (
        f'[[override]]\nstudent = "{pdf}"\ncheck = "{check}"\npoints = {given}\n'
        'reason = "on paper"\nby = "Dr. Li"\n'
        for check, given in points.items()
    )
    (out / "overrides.toml").write_text("".join(entries), encoding="utf-8")
    expected["pdf"] = sum(points.values())
    assert points_of(rescore(out)) == expected

    filled = tmp_path / "book-filled.csv"
    empty = dict.fromkeys(CLASS)
    placed(tmp_path / "book.csv", book(system, empty))
    capsys.readouterr()
    status = main(["export", system, str(out), str(tmp_path / "book.csv"), "--lang", "en"])
    told = "".join(capsys.readouterr())
    assert status in (0, 1) and filled.read_bytes() == book(system, expected)
    for name, points in expected.items():  # nobody is passed over without a word
        assert points is not None or name in told


def points_of(run: Run) -> dict[str, int | None]:
    with open(run.out / "scores.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(CLASS)
    found: dict[str, int | None] = {}
    for number, name in enumerate(CLASS, start=11):
        (row,) = [row for row in rows if row["student_id"].endswith(f"_{number}")]
        found[name] = int(row["score"]) if row["score"] else None
    return found
