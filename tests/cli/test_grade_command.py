"""``grade`` from the command line: what stands on disk, on the terminal and in the exit status."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.cli.main import main
from autograder.course.labfile import ROOT
from autograder.grading import run as grading_run
from autograder.grading.engine import Engine
from autograder.report.class_file import from_json
from tests import hand_ins
from tests.warm import SECRET, Run, Warm, grade, with_cases

EXAMPLES = ROOT / "examples" / "submissions"
LOOPING = "henry_infinite_loop"
RUNAWAY = "def f():\n    return (\n"


def command(source: Path, out: Path, *options: str, **variables: str) -> Run:
    line = [sys.executable, "-m", "autograder", "grade", str(source), "--out", str(out), *options]
    kept = {name: value for name, value in os.environ.items() if name != "AUTOGRADER_SECRET"}
    environment = kept | {"OMP_NUM_THREADS": "1", "LAB_LANG": "en"} | variables
    with hand_ins.nothing_left_behind():
        done = subprocess.run(
            line, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8"
        )
    return Run(done.returncode, done.stdout, done.stderr, out)


def write(folder: Path, **files: str | bytes) -> Path:
    folder.mkdir()
    for name, data in files.items():
        raw = data.encode() if isinstance(data, str) else data
        (folder / f"{name}.py").write_bytes(raw)
    return folder


def bad_inputs(source: Path) -> None:
    """One hand-in per thing that can be wrong with files, beside the sample class."""
    attention, mlp = hand_ins.right()["attention.py"], hand_ins.right()["mlp.py"]
    write(source / "missing", attention=attention)
    write(source / "wrong-name", attention=attention, Mlp_final=mlp)
    write(source / "syntax", attention=attention + RUNAWAY, mlp=mlp)
    chinese = "# -*- coding: gbk -*-\n# 注意力\n" + attention
    write(source / "gbk", attention=chinese.encode("gbk"), mlp=mlp)
    write(source / "gbk-undeclared", attention=("# 注意力\n" + attention).encode("gbk"), mlp=mlp)
    write(source / "bom", attention=attention.encode("utf-8-sig"), mlp=mlp.replace("\n", "\r\n"))
    write(source / "huge", attention=attention + "# padding\n" * (1 << 18), mlp=mlp)
    write(source / "<b>html&", attention="raise ValueError('<script>=1+1\\x1b[31m')", mlp=mlp)
    write(source / "symlink", mlp=mlp)
    (source / "symlink" / "attention.py").symlink_to(EXAMPLES / "alice_right" / "attention.py")
    (source / "empty-folder").mkdir()
    (source / "no-zip.zip").write_bytes(b"not a zip")
    zipfile.ZipFile(source / "empty.zip", "w").close()
    with zipfile.ZipFile(source / "zipped.zip", "w") as archive:
        archive.writestr("homework/attention.py", attention)
        archive.writestr("homework/mlp.py", mlp)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The sample class, but for the one that loops, and every bad input."""
    source = tmp_path_factory.mktemp("class")
    for folder in sorted(EXAMPLES.iterdir()):
        if folder.name != LOOPING:
            shutil.copytree(folder, source / folder.name)
    bad_inputs(source)
    return command(source, tmp_path_factory.mktemp("graded") / "out")


FULL = (
    "alice_right", "bob_right_einsum", "bom", "gbk", "gbk-undeclared", "zipped",
)  # fmt: skip
SAMPLES = (
    "carol_norm_after_rope", "dan_tiled_kv_heads", "erin_no_causal_mask",
    "frank_interleaved_rope", "grace_gate_up_swapped", "ivan_exits_in_forward",
)  # fmt: skip
NOTHING = ("empty", "empty-folder", "no-zip")
HALF = ("missing", "wrong-name", "syntax", "huge", "symlink")


def test_a_right_hand_in_has_every_point_however_it_is_packed(run: Run) -> None:
    totals = {h["student"]: h["score"]["gradable"] for h in run.record["hand_ins"]}
    assert {name: run.scores[name] for name in FULL} == {name: totals[name] for name in FULL}
    assert totals == {name: 0 if name in NOTHING else 100 for name in totals}


def test_a_mistake_costs_a_part_and_a_bad_file_its_own_exercises(run: Run) -> None:
    assert all(50 <= run.scores[name] < 100 for name in SAMPLES), run.scores
    assert {name: run.scores[name] for name in NOTHING} == dict.fromkeys(NOTHING, 0)
    mlp_points, attention_points = 28, 72
    expected = {"missing": attention_points, "wrong-name": attention_points}
    expected |= dict.fromkeys(("syntax", "huge", "symlink"), mlp_points)
    assert {name: run.scores[name] for name in HALF} == expected


LAST_LINE = hand_ins.right()["attention.py"].count("\n") + 2  # where RUNAWAY opens a bracket
PROBLEMS = {
    "missing": ("mlp.py is not in the hand-in",),
    "wrong-name": ("Mlp_final.py", "name the file exactly mlp.py"),
    "syntax": ("attention.py", "cannot be read as Python", f"(line {LAST_LINE})"),
    "huge": ("attention.py is larger than 1024 KiB",),
    "symlink": ("symbolic link",),
    "empty": ("holds no files",),
    "empty-folder": ("holds no files",),
    "no-zip": ("cannot be read as an archive",),
    "gbk-undeclared": ("attention.py", "GB"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_report_says_what_is_wrong_with_a_file(run: Run, name: str) -> None:
    text = (run.out / name / "report.md").read_text(encoding="utf-8").replace("\\", "")
    for words in PROBLEMS[name]:
        assert words in text, text
    assert "Traceback" not in text


def test_mistakes_are_named_in_reports_and_counted_for_the_class(run: Run) -> None:
    rows = csv.DictReader((run.out / "misconceptions.csv").open(encoding="utf-8"))
    named = {student: row for row in rows for student in row["students"].split("; ")}
    assert set(SAMPLES) - set(named) == {"ivan_exits_in_forward"}  # it gives no answer
    assert not set(FULL) & set(named)
    page = (run.out / "dashboard.html").read_text(encoding="utf-8")
    assert page.count("<tr data-place") == len(list(run.out.glob("*/report.html")))
    table = (run.out / "misconceptions.md").read_text(encoding="utf-8")
    for student, row in named.items():
        report = (run.out / student / "report.md").read_text(encoding="utf-8").replace("\\", "")
        assert f"known mistake: **{row['misconception']}**." in report and row["section"] in report
        assert row["check"] in table and row["misconception"][:40] in run.stdout


def test_everybody_has_reports_and_a_row_everywhere(run: Run) -> None:
    students = set(run.scores)
    given = {path.name for path in EXAMPLES.iterdir()} - {LOOPING}
    assert students >= given | {*FULL, *NOTHING, *HALF}
    assert len(students) == len(given | {*FULL, *NOTHING, *HALF}) + 1
    for name in students:
        for file in ("report.md", "report.html"):
            assert (run.out / name / file).stat().st_size > 500
    rows = list(csv.DictReader((run.out / "scores.csv").open(encoding="utf-8-sig")))
    assert {row["student_id"]: int(row["raw_score"]) for row in rows} == run.scores
    for name, points in run.scores.items():
        (line,) = [ln for ln in run.stdout.splitlines() if ln.split()[:1] == [name]]
        assert f" {points}" in line
    assert len(from_json(run.record).hand_ins) == len(students)


def test_nothing_hostile_in_names_and_texts_reaches_a_report(run: Run) -> None:
    (odd,) = [name for name in run.scores if "html" in name]
    assert not set(odd) & set("<>&/\\ ")
    page = (run.out / odd / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page and "\x1b" not in page and "&lt;script&gt;" in page
    assert "\x1b" not in run.stdout + run.stderr


def test_the_exit_status_says_whether_a_person_has_to_decide(run: Run) -> None:
    undecided = [h["student"] for h in run.record["hand_ins"] if h["score"]["undecided"]]
    unread = {"empty", "empty-folder", "no-zip"}
    assert run.status == (1 if undecided or unread else 0)
    last = run.stderr.splitlines()[-1]
    assert all(name in last for name in unread)
    assert "Traceback" not in run.stderr


def test_the_terminal_names_progress_isolation_and_files(run: Run) -> None:
    assert f"[{len(run.scores)}/{len(run.scores)}]" in run.stderr
    assert "Isolation level: strong" in run.stderr and "class.json" in run.stderr


def test_the_secret_is_kept_private_and_shown_nowhere(run: Run) -> None:
    secret = run.out / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    key = secret.read_text().strip()
    assert len(key) >= 32
    shown = [path for path in run.out.rglob("*") if path.is_file() and path != secret]
    assert not [path for path in shown if key.encode() in path.read_bytes()]
    assert key not in run.stdout + run.stderr
    for path in (run.out / ".cases").iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_reports_say_nothing_about_hidden_cases(run: Run) -> None:
    """A hidden failure shows no numbers, no prints, no lines."""
    found = [r for h in run.record["hand_ins"] for r in h["results"] if r["hidden"]]
    for result in found:
        assert result["message"]["key"] in ("check.hidden", "check.hidden_slow")
        assert result["message"]["values"] == {}
        assert (result["prints"], result["frames"], result["case"]) == ("", [], "")


@pytest.mark.slow
def test_another_secret_gives_the_same_scores(tmp_path: Path) -> None:
    runs = []
    for number in range(2):
        secret = tmp_path / f"secret-{number}"
        secret.write_text((SECRET, "another secret")[number])
        out = tmp_path / f"out-{number}"
        runs.append(grade(EXAMPLES, out, "--secret-file", str(secret), "--jobs", "2"))
    first, second = runs
    assert first.scores == second.scores
    assert set(first.scores) == {path.name for path in EXAMPLES.iterdir()}
    assert first.status == second.status
    cases = [{path.name for path in (r.out / ".cases").iterdir()} for r in runs]
    assert not cases[0] & cases[1] and not (first.out / "secret").exists()
    outcomes = [
        {(h["student"], r["check"]): r["outcome"] for h in r_["hand_ins"] for r in h["results"]}
        for r_ in (first.record, second.record)
    ]
    assert outcomes[0] == outcomes[1]
    assert 0 < first.scores[LOOPING] < 100


@pytest.mark.slow
def test_the_same_folder_again_asks_the_same_questions(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = command(EXAMPLES / "alice_right", out)
    before = {path.name for path in (out / ".cases").iterdir()}
    again = command(EXAMPLES / "alice_right", out, "--again", LAB_LANG="zh")
    assert {path.name for path in (out / ".cases").iterdir()} == before
    assert again.scores == first.scores == {"alice_right": 100}
    assert "隔离级别" in again.stderr and (out / "secret").read_text().strip()


def test_a_class_is_not_lost_to_a_part_of_it(run: Run, tmp_path: Path) -> None:
    out = shutil.copytree(run.out, tmp_path / "out")
    before = (out / "class.json").read_bytes()
    refused = command(EXAMPLES / "alice_right", out, "--again")
    assert refused.status == 2 and "not in this class" in refused.stderr
    assert (out / "class.json").read_bytes() == before


def test_what_was_finished_before_an_interrupt_is_on_disk(tmp_path: Path) -> None:
    out = with_cases(tmp_path / "out")
    arguments = ["grade", str(EXAMPLES), "--out", str(out), "--jobs", "1", "--lang", "en"]
    with hand_ins.nothing_left_behind():
        grading = subprocess.Popen(
            [sys.executable, "-m", "autograder", *arguments, "--allow-weak-isolation"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"AUTOGRADER_SECRET": SECRET}, preexec_fn=hand_ins.heed_interrupts,
        )  # fmt: skip
        assert grading.stderr is not None
        first = grading.stderr.readline()
        grading.send_signal(signal.SIGINT)
        _, said = grading.communicate(timeout=60)
    assert grading.returncode == 130 and "Traceback" not in said
    assert "Interrupted" in said and "[1/" in first
    kept = json.loads((out / "class.json").read_text(encoding="utf-8"))
    assert 1 <= len(kept["hand_ins"]) < len(list(EXAMPLES.iterdir()))


# ---------------------------------------------------------------- what cannot start


Failing = Callable[[Path], list[str]]
NOT_STARTED: dict[str, tuple[Failing, tuple[str, ...]]] = {
    "an unknown lab": (
        lambda _: [str(EXAMPLES), "--lab", "77"],
        ("no lab is called '77'", "lab2_qwen3_block"),
    ),
    "no folder": (lambda tmp: [str(tmp / "nowhere")], ("nowhere",)),
    "an empty folder": (lambda tmp: [str(tmp)], ()),
    "no secret file": (
        lambda tmp: [str(EXAMPLES), "--secret-file", str(tmp / "absent")],
        ("absent", "--secret-file"),
    ),
    "a short secret": (
        lambda tmp: [str(EXAMPLES), "--secret-file", os.devnull],
        ("at least 8 characters",),
    ),
}


@pytest.mark.parametrize("name", NOT_STARTED)
def test_what_cannot_start_is_told_in_a_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, words = NOT_STARTED[name]
    empty = tmp_path / "empty"
    empty.mkdir()
    status = main(["grade", *arguments(empty), "--out", str(tmp_path / "out")])
    told = capsys.readouterr()
    assert status == 2 and told.out == ""
    assert told.err.startswith("autograder: ") and "Traceback" not in told.err
    assert all(word in told.err for word in words), told.err


def elsewhere(engine: type[Engine], level: str) -> type[Engine]:
    """An engine on a machine where fewer layers bind; grading there must not begin."""

    class Elsewhere(engine):  # type: ignore[misc, valid-type]
        def wait_ready(self) -> None:
            super().wait_ready()
            self.isolation = replace(self.isolation, level=level)

    return Elsewhere


@pytest.mark.parametrize(
    ("engine", "level", "options", "status"),
    [
        (Engine, "medium", [], 3),
        (Warm, "weak", ["--min-isolation", "medium"], 3),
        (Warm, "medium", ["--min-isolation", "medium"], 0),
        (Warm, "weak", ["--allow-weak-isolation"], 0),
    ],
)
def test_below_the_level_asked_for_nothing_is_graded(
    engine: type[Engine],
    level: str,
    options: list[str],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(grading_run, "Engine", elsewhere(engine, level))
    monkeypatch.setenv("AUTOGRADER_SECRET", SECRET)
    out = with_cases(tmp_path / "out")
    source = shutil.copytree(EXAMPLES / "alice_right", tmp_path / "class" / "alice").parent
    with hand_ins.nothing_left_behind() if engine is Engine else nullcontext():
        came = main(["grade", str(source), "--out", str(out), "--lang", "en", *options])
    told = capsys.readouterr()
    if status == 3:
        assert came == 3 and not (out / "class.json").exists() and not (out / "alice").exists()
        assert level in told.err and "--allow-weak-isolation" in told.err
    else:
        assert came in (0, 1) and (out / "alice" / "report.md").exists()
        record = json.loads((out / "class.json").read_text(encoding="utf-8"))
        assert record["isolation"]["level"] == level
        assert level in (out / "alice" / "report.md").read_text(encoding="utf-8")
