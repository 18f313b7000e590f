"""``grade --course``: late hand-ins from the download to the table, and all that comes after."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from autograder.cli.main import main
from autograder.course import labfile
from autograder.course.records import (
    CheckResult,
    ClassRecord,
    HandIn,
    Isolation,
    Message,
    Origin,
    Outcome,
)
from autograder.grading import late
from autograder.intake.extensions import Clock
from autograder.report.write import class_files
from tests import hand_ins
from tests.warm import Run, grade, rescore

COURSE = """
[due]
lab2 = 2026-10-12T23:59:00+08:00
[late]
grace_minutes = 15
percent_per_day = 15
max_days = 5
extensions = "extensions.csv"
"""
EXTENSIONS = "student_id,days,reason\nzoe,3,a private reason\nnobody,3,\n"
# Due at 15:59 UTC.
CLASS = {
    "amy+lab2+2026-10-12 16:13:59 UTC": "right",
    "ben+lab2+2026-10-13 17:00:00 UTC": "guessing",
    "eve+lab2+2026-10-19 00:00:00 UTC": "right",
    "zoe+lab2+2026-10-15 16:00:00 UTC": "guessing",
    "max": "stub",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("late")
    for name, kind in CLASS.items():
        (folder / "class" / name).mkdir(parents=True)
        for file, text in getattr(hand_ins, kind)().items():
            (folder / "class" / name / file).write_text(text, encoding="utf-8")
    (folder / "course.toml").write_text(COURSE, encoding="utf-8")
    (folder / "extensions.csv").write_text(EXTENSIONS, encoding="utf-8")
    course = ("--course", str(folder / "course.toml"))
    return grade(folder / "class", folder / "out", *course, "--keep-outputs")


def rows(out: Path, *names: str) -> dict[str, list[str]]:
    with (out / "scores.csv").open(encoding="utf-8-sig") as stream:
        return {row["student_id"]: [row[name] for name in names] for row in csv.DictReader(stream)}


def test_lateness_stands_beside_the_raw_score_everywhere(run: Run) -> None:
    names = ("days_late", "raw_score", "late_submission_penalty", "score")
    ben = run.scores["ben"]
    assert rows(run.out, *names) == {
        "amy": ["0", "100", "0", "100"],
        "ben": ["2", str(ben), str(ben * 30 // 100), str(ben - ben * 30 // 100)],
        "eve": ["7", "100", "100", "0"],
        "max": ["", "0", "0", "0"],
        "zoe": ["0", str(ben), "0", str(ben)],
    }
    assert f"days late: 2, −{ben * 30 // 100}" in run.stdout
    report = (run.out / "eve" / "report.md").read_text(encoding="utf-8")
    assert "**100 of 100 points**" in report and "What counts: 0 of 100 points" in report
    assert "a private reason" not in (run.out / "zoe" / "report.md").read_text(encoding="utf-8")


def test_what_a_person_has_to_know_is_said(run: Run) -> None:
    assert run.status == 1 and "these lines change nothing: nobody" in run.stderr
    assert "1 hand-in has no known time" in run.stderr


def test_rescore_keeps_the_rules_and_takes_new_ones(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(run.out, out)
    names = ("duedate", "days_late", "score")
    before = rows(out, *names)
    assert rescore(out).status == 1
    assert rows(out, *names) == before
    course = tmp_path / "course.toml"
    course.write_text("[due]\nlab2 = 2026-10-20T00:00:00Z\n", encoding="utf-8")
    assert rescore(out, "--course", course).status == 0
    assert rows(out, *names)["eve"] == ["2026-10-20T00:00:00+00:00", "0", "100"]


def test_rules_of_a_rescore_stay_when_the_course_file_is_gone(run: Run, tmp_path: Path) -> None:
    out, course = tmp_path / "out", tmp_path / "course.toml"
    shutil.copytree(run.out, out)
    course.write_text("[due]\nlab2 = 2026-10-20T00:00:00Z\n", encoding="utf-8")
    assert rescore(out, "--course", course).status == 0
    course.unlink()
    after = rows(out, "duedate", "score")
    again = grade(run.out.parent / "class", out, "--resume", "--keep-outputs")
    assert again.status == 0 and rows(out, "duedate", "score") == after


def test_another_attempt_may_be_the_best_one_after_an_extension(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out, course = tmp_path / "out", tmp_path / "course.toml"
    course.write_text(COURSE, encoding="utf-8")
    table = tmp_path / "extensions.csv"
    table.write_text("student_id,days\n")
    lab = labfile.load(labfile.find_lab("2"))
    hand_ins = [
        HandIn(
            student,
            tuple(CheckResult(check.name, Outcome.PASSED) for check in lab.checks),
            (Message("intake.best_attempt", {}),) * several,
            origin=Origin(student, submitted_at="2026-10-12T08:00:00+00:00", attempt=1),
        )
        for student, several in (("amy", 1), ("ben", 1), ("eve", 0))
    ]
    rules = late.read(course, lab)
    timed = [Clock(rules).timed(one) for one in hand_ins]
    out.mkdir()
    class_files(ClassRecord(lab, Isolation("", (), ""), {}, timed, late_rules=rules), out)
    command = ["rescore", str(out), "--course", str(course), "--lang", "en"]
    assert main(command) == 0
    table.write_text("student_id,days\nben,3\neve,3\n")
    for _ in range(2):  # once said, it stays until somebody chooses
        capfd.readouterr()
        assert main(command) == 1
        told = capfd.readouterr().err
        assert "grade --resume does: ben\n" in told
    assert rows(out, "status")["ben"] == ["for a human"]


def test_what_goes_on_with_a_class_goes_on_by_its_rules(run: Run, tmp_path: Path) -> None:
    """``--resume`` grades nothing again, and neither needs ``--course`` nor forgets it."""
    out = tmp_path / "out"
    shutil.copytree(run.out, out)
    before = json.loads((out / "class.json").read_text(encoding="utf-8"))
    (out / "class.json").unlink()
    again = grade(run.out.parent / "class", out, "--resume", "--keep-outputs")
    assert again.record == before and again.status == 1
    only = grade(run.out.parent / "class", out, "--only", "max", "--keep-outputs")
    assert only.record == before


@pytest.mark.slow
def test_shards_merge_into_the_same_class(run: Run, tmp_path: Path) -> None:
    source, course = run.out.parent / "class", str(run.out.parent / "course.toml")
    parts = [tmp_path / "1", tmp_path / "2"]
    for number, part in enumerate(parts, 1):
        options = ("--shard", f"{number}/2", "--course", course)
        told = grade(source, part, *options).stderr
        assert "these lines change nothing: nobody" in told and "nothing: zoe" not in told
    merged = tmp_path / "merged"
    assert main(["merge", str(merged), *map(str, parts), "--lang", "en"]) == 1
    assert json.loads((merged / "class.json").read_text(encoding="utf-8")) == run.record
    for part in parts:
        (part / "shard.json").unlink()
    assert main(["merge", str(tmp_path / "no"), *map(str, parts), "--lang", "en"]) == 2


def test_a_course_file_that_cannot_be_used_ends_before_anything_is_graded(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    course = tmp_path / "course.toml"
    course.write_text(COURSE.replace("15", "'15'"), encoding="utf-8")
    out = tmp_path / "out"
    line = ["grade", str(run.out.parent / "class"), "--out", str(out), "--course", str(course)]
    assert main([*line, "--lang", "en"]) == 2
    told = capfd.readouterr().err
    assert f"{course}: [late]: grace_minutes" in told and "Traceback" not in told
    assert not (out / "class.json").exists()


def test_rules_that_were_kept_and_are_damaged_are_named(tmp_path: Path) -> None:
    assert late.kept(tmp_path) is None
    for text in ("{", "[]", '{"due": 1, "extensions": []}', '{"extensions": 3}'):
        (tmp_path / late.NAME).write_text(text)
        with pytest.raises(ValueError, match="damaged; give --course again"):
            late.kept(tmp_path)
    late.keep(tmp_path, None)
    assert late.kept(tmp_path) is None
