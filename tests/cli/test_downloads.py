"""``grade`` on what course systems hand out: attempts, rosters, names of one's own."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import pytest

from autograder.course import labfile
from tests import hand_ins
from tests.warm import Run, grade, rescore

RIGHT, STUB = hand_ins.right(), hand_ins.stub()
HALF = RIGHT | {"mlp.py": STUB["mlp.py"]}


def zipped(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def gradescope_like(path: Path) -> Path:
    """Two attempts of one student: the better one first; and a group of two."""
    members = {}
    for number, files in ((1, RIGHT), (2, HALF), (3, RIGHT)):
        members |= {f"assignment_9_export/submission_{number}/{n}": t for n, t in files.items()}
    ann = (
        '  ":submitters":\n  - ":name": Ann Li\n    ":sid": "101"\n    ":email": ann@example.org\n'
    )
    pair = ann.replace("Ann Li", "Bo").replace("101", "102").replace("ann@", "bo@")
    pair += '  - ":name": Cy\n    ":sid": "103"\n    ":email": cy@example.org\n'
    about = ""
    for number, who, day in ((1, ann, 1), (2, ann, 2), (3, pair, 3)):
        about += f"submission_{number}:\n{who}"
        about += f'  ":created_at": 2026-11-0{day} 10:00:00.000000000 Z\n'
    members["assignment_9_export/submission_metadata.yml"] = "---\n" + about
    return zipped(path, members)


def rows(run: Run) -> dict[str, dict[str, str]]:
    text = (run.out / "scores.csv").read_text(encoding="utf-8")
    return {row["student_id"]: row for row in csv.DictReader(io.StringIO(text))}


@pytest.mark.parametrize(
    ("attempt", "points"), [pytest.param("last", 72, marks=pytest.mark.slow), ("best", 100)]
)
def test_a_download_is_graded_as_it_came(tmp_path: Path, attempt: str, points: int) -> None:
    source = gradescope_like(tmp_path / "export.zip")
    listed = tmp_path / "roster.csv"
    listed.write_text("学号,姓名,邮箱\n101,Ann Li,\n103,Cy,\n104,韩梅梅,\n", encoding="gbk")
    options = ("--roster", str(listed), "--attempt", attempt)
    run = grade(source, tmp_path / "out", *options)
    assert run.status == 0, run.stderr
    record = run.record
    found = {h["origin"]["students"][0]["name"]: h for h in record["hand_ins"]}
    assert set(found) == {"Ann Li", "Bo"}
    assert found["Ann Li"]["score"]["earned"] == points
    assert found["Bo"]["score"]["earned"] == 100
    assert [one["name"] for one in found["Bo"]["origin"]["students"]] == ["Bo", "Cy"]
    assert found["Ann Li"]["origin"]["submitted_at"].startswith("2026-11-0")
    assert [one["id"] for one in record["missing"]] == ["104"]
    assert "韩梅梅" in run.stdout
    for hand_in in record["hand_ins"]:
        assert (run.out / hand_in["student"] / "report.html").exists()
    bo = next(row for row in rows(run).values() if row["students"].startswith("Bo"))
    assert (bo["sids"], bo["emails"]) == ("102; 103", "bo@example.org; cy@example.org")
    scores = rows(run)
    assert scores["104"]["status"] == "nothing handed in"
    folders = {path.name for path in run.out.iterdir() if path.is_dir() and path.name[0] != "."}
    assert folders == {hand_in["student"] for hand_in in record["hand_ins"]}


def two_attempts(path: Path) -> Path:
    """The second attempt is the better one; another person has handed in once."""
    path.mkdir()
    for name, files in (("x1-1", STUB), ("x1-2", HALF), ("x2-1", RIGHT)):
        zipped(path / f"{name}.zip", files)
    return path


@pytest.mark.slow
def test_the_attempt_that_counts_keeps_counting(tmp_path: Path) -> None:
    """Whatever is done later with a class of which the best attempts count."""
    source, out = two_attempts(tmp_path / "class"), tmp_path / "out"
    listed = tmp_path / "roster.csv"
    listed.write_text("id\nx1\nx2\nx3\n")
    options = ("--attempt", "best", "--pattern", r"(?P<student_id>x\d)-(?P<attempt>\d)")
    first = grade(source, out, *options, "--keep-outputs", "--roster", str(listed))
    assert first.scores == {"x1": 72, "x2": 100}, first.stderr
    whole = (out / "class.json").read_bytes()
    anew = rescore(out)
    assert "No outputs" not in anew.stderr and (out / "class.json").read_bytes() == whole
    alone = grade(source, out, *options, "--only", "x1", "--resume")
    assert "/2]" in alone.stderr and (out / "class.json").read_bytes() == whole
    decision = '[[override]]\nstudent = "x1"\ncheck = "{}"\npoints = {}\nreason = "r"\nby = "b"\n'
    text = "".join(
        decision.format(check.name, check.points)
        for check in labfile.load(labfile.find_lab("2")).checks
        if check.points and check.exercise != "lab2.attention"
    )
    (out / "overrides.toml").write_text(text)
    decided = grade(source, out, *options, "--resume", "--roster", str(listed))
    assert decided.scores == {"x1": 100, "x2": 100}, decided.stderr
    (record,) = [h for h in decided.record["hand_ins"] if h["student"] == "x1"]
    assert record["origin"]["attempt"] == 2


def test_names_of_ones_own_need_a_pattern(tmp_path: Path) -> None:
    source = tmp_path / "class"
    source.mkdir()
    for name, files in (("hw2-x77-final", RIGHT), ("hw2-x78-v2", STUB)):
        zipped(source / f"{name}.zip", files)
    (source / "readme.txt").write_text("about this class")
    run = grade(source, tmp_path / "out", "--pattern", r"hw2-(?P<student_id>x\d+)-")
    assert run.status == 0, run.stderr
    assert run.scores == {"x77": 100, "x78": 0}
    assert "readme.txt" in run.stderr  # belongs to nobody
    wrong = grade(source, tmp_path / "other", "--pattern", r"(x\d+)")
    assert wrong.status == 2 and "student_id" in wrong.stderr and not (tmp_path / "other").exists()


def test_a_roster_that_cannot_be_read_is_told_before_grading(tmp_path: Path) -> None:
    source = gradescope_like(tmp_path / "export.zip")
    listed = tmp_path / "roster.csv"
    listed.write_text("colour,taste\nred,sweet\n")
    run = grade(source, tmp_path / "out", "--roster", str(listed))
    assert run.status == 2 and "roster.csv" in run.stderr
    assert "Traceback" not in run.stderr and not (tmp_path / "out").exists()


CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Lab 2 (77)
,,,,,Manual Posting
    Points Possible,,,,,100
"Li, Ann",2023001,,ann@example.org,A,
"王, 芳",2023002,,fang@example.org,A,
"Chen, Cy",2023003,,cy@example.org,A,
"Du, Dee",2023004,,dee@example.org,A,
"Student, Test",9,,0a1b,A,
"""
COURSE = """[due]
lab2 = 2026-10-12T23:59:00+08:00
[late]
extensions = "extensions.csv"
"""
DECIDED = """[[override]]
student = "{}"
check = "{}"
points = 1
reason = "seen"
by = "me"
"""


def test_one_identity_per_person_in_every_file(tmp_path: Path) -> None:
    """Whatever names the hand-ins, the roster, extensions and overrides give to a person."""
    source = tmp_path / "class"
    source.mkdir()
    for name in ("2023001_李安_作业2", "王芳", "cy@example.org", "2023009_生客_作业2"):
        zipped(source / f"{name}.zip", STUB)
    listed, course = tmp_path / "roster.csv", tmp_path / "course.toml"
    listed.write_text(CANVAS, encoding="utf-8-sig")
    course.write_text(COURSE)
    more = "student_id,days\nAnn Li,1\nFANG@example.org,2\nDee Du,3\n生客,4\n"
    (tmp_path / "extensions.csv").write_text(more)
    checks = [check for check in labfile.load(labfile.find_lab("2")).checks if check.points]
    decided = tmp_path / "overrides.toml"
    named = ("Li, Ann", "fang@example.org", "2023003", "生客")
    decided.write_text("".join(DECIDED.format(who, checks[0].name) for who in named))
    options = ("--overrides", str(decided), "--course", str(course))
    run = grade(source, tmp_path / "out", *options, "--roster", str(listed))
    assert run.status == 0, run.stderr
    ids = {"2023001": 1, "2023002": 2, "2023003": 0, "2023009_生客": 4}
    assert run.scores == dict.fromkeys(ids, 1)
    due = {h["student"]: h["lateness"]["due"] for h in run.record["hand_ins"]}
    assert due == {who: f"2026-10-{12 + days}T23:59:00+08:00" for who, days in ids.items()}
    assert [one["id"] for one in run.record["missing"]] == ["2023004"]
    assert {path.name for path in run.out.iterdir() if path.is_dir() and path.name[0] != "."} == {
        *ids
    }
    table = rows(run)
    assert set(table) == {*ids, "2023004"}
    assert (table["2023002"]["first_name"], table["2023002"]["last_name"]) == ("芳", "王")
    assert (table["2023004"]["first_name"], table["2023004"]["last_name"]) == ("Dee", "Du")
    assert "Not on the roster" in run.stderr and "2023009_生客" in run.stderr
    assert "Test" not in run.stdout + run.stderr
    alone = grade(source, run.out, *options, "--only", "Ann Li", "--only", "cy@example.org")
    assert alone.status == 0 and "/2]" in alone.stderr
    assert rows(alone) == table
    unclear = grade(source, run.out, *options, "--only", "nobody")
    assert unclear.status == 2 and "2023002" in unclear.stderr


def test_what_was_not_graded_is_said_last_and_in_the_status(tmp_path: Path) -> None:
    source = tmp_path / "class"
    source.mkdir()
    zipped(source / "ann.zip", STUB)
    (source / "bob.zip").write_bytes(b"PK\3\4 no archive")
    (source / "attention.py").write_text("x = 1\n")
    run = grade(source, tmp_path / "out")
    assert run.status == 1
    assert run.stderr.count("Sources that belong to no hand-in") == 2
    assert rows(run)["bob"]["status"] == "to be decided" and not rows(run)["bob"]["score"]
    assert "for a human: 1" in run.stdout
    report = (run.out / "bob" / "report.md").read_text(encoding="utf-8")
    assert "nothing in this hand-in could be read" in report


@pytest.mark.slow
def test_two_hand_ins_of_one_student_without_an_order_go_to_a_human(tmp_path: Path) -> None:
    source = tmp_path / "class"
    source.mkdir()
    for name in ("2023001_张三_作业2", "2023001_张三_第二次"):
        zipped(source / f"{name}.zip", STUB)
    run = grade(source, tmp_path / "out")
    assert run.status == 1
    assert "for a person to choose" in run.stderr and "2023001" in run.stderr
    assert {row["status"] for row in rows(run).values()} == {"for a human"}
