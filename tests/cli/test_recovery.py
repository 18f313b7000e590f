"""Nothing is lost: kills, a full disk, two runs at once, single hand-ins, kept outputs."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course.labfile import ROOT
from autograder.course.records import Message, Outcome, Submission
from autograder.grading import hidden_cases, journal
from tests import hand_ins, warm
from tests.cli.test_grade_command import EXAMPLES
from tests.report import classes
from tests.warm import SECRET, Run, grade, rescore, with_cases

ANOTHER = "another secret of the class"
NAMES = ("alice_right", "carol_norm_after_rope", "dan_tiled_kv_heads", "judy_untouched_stub")
SLOW = "zoe_slow"  # the last one, so that there is time to break in


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    for name in NAMES:
        shutil.copytree(EXAMPLES / name, folder / name)
    (folder / SLOW).mkdir()
    slow = hand_ins.with_code(hand_ins.right(), "import time; time.sleep(0.02)")
    for name, text in slow.items():
        (folder / SLOW / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nobody disturbed; its outputs are kept."""
    out = tmp_path_factory.mktemp("whole") / "out"
    run = grade(source, out, "--keep-outputs")
    assert run.status == 0, run.stderr
    return run


def begun(source: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "autograder", "grade", str(source), "--out", str(with_cases(out))]
    environment = os.environ | {"AUTOGRADER_SECRET": SECRET, "LAB_LANG": "en"}
    return subprocess.Popen(
        [*line, "--jobs", "1", *options],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hand_ins.heed_interrupts,
    )


def until(process: subprocess.Popen[str], words: str) -> str:
    """Read what it says until these words come."""
    said = ""
    assert process.stderr is not None
    while words not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


def class_file(out: Path) -> bytes:
    return (out / "class.json").read_bytes()


def resumed(source: Path, out: Path) -> Run:
    return grade(source, out, "--resume")


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGTERM, signal.SIGINT],
)
@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(
    source: Path, whole: Run, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    with hand_ins.nothing_left_behind():
        process = begun(source, out)
        until(process, "[2/5]")
        process.send_signal(number)
        _, rest = process.communicate(timeout=60)
    if number is not signal.SIGKILL:
        assert process.returncode == 130 and "--resume" in rest
        assert 2 <= len(Run(130, "", "", out).scores) < 5  # what is done can be read
    before = {path: path.stat().st_mtime_ns for path in (out / ".records").iterdir()}
    assert len(before) >= 2
    run = resumed(source, out)
    assert run.status == 0 and class_file(out) == class_file(whole.out)
    for path, modified in before.items():  # none of these was graded again
        assert path.stat().st_mtime_ns == modified
    for name in (*NAMES, SLOW):
        for report in ("report.md", "report.html"):
            assert (out / name / report).read_bytes() == (whole.out / name / report).read_bytes()
    assert not list(out.rglob("*.tmp"))


def test_a_record_holds_for_this_hand_in_and_this_grader_alone(tmp_path: Path) -> None:
    lab = classes.lab(3, 1)
    record = classes.hand_in(lab, 1, lambda *_: Outcome.FAILED)
    submission = Submission(record.student, {"attention.py": "x = 1\n"})
    book = journal.Journal(tmp_path, lab, b"this grader")
    book.keep(submission, record)
    assert book.known(submission) is not None
    assert book.known(replace(submission, files={"attention.py": "x = 2\n"})) is None
    assert book.known(replace(submission, problems={"": Message("intake.empty")})) is None
    assert journal.Journal(tmp_path, lab, b"another").known(submission) is None


@pytest.mark.slow
def test_what_has_changed_meanwhile_is_graded_again(
    source: Path, whole: Run, tmp_path: Path
) -> None:
    changed, out = tmp_path / "class", tmp_path / "out"
    shutil.copytree(source, changed)
    shutil.copytree(whole.out, out)
    shutil.copy(source / "alice_right" / "mlp.py", changed / "judy_untouched_stub" / "mlp.py")
    (out / ".records" / f"{SLOW}.json").write_text("{")
    before = {path.name: path.stat().st_mtime_ns for path in (out / ".records").iterdir()}
    run = resumed(changed, out)
    after = {path.name: path.stat().st_mtime_ns for path in (out / ".records").iterdir()}
    again = {name for name in after if after[name] != before[name]}
    assert again == {"judy_untouched_stub.json", f"{SLOW}.json"}
    assert run.scores == whole.scores | {"judy_untouched_stub": 28}
    before = class_file(out)
    other = grade(changed, out, "--resume", AUTOGRADER_SECRET=ANOTHER)
    assert other.status == 2 and "another secret" in other.stderr
    only = warm.run("grade", changed, "--out", out, "--only", "alice_right")  # and none at all
    assert only.status == 2 and "another secret" in only.stderr
    assert class_file(out) == before and not (out / "secret").exists()
    anew = grade(changed, out, "--again", AUTOGRADER_SECRET=ANOTHER)
    assert anew.status == 0 and anew.scores == run.scores


# The limit holds for the bytecode of a module, too, which Python leaves behind cut short.
FULL = {"AUTOGRADER_SECRET": SECRET, "LAB_LANG": "en", "PYTHONDONTWRITEBYTECODE": "1"}


def full_disk(size: int) -> Callable[[], None]:
    def limit() -> None:
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        )

    return limit


@pytest.mark.slow
def test_a_full_disk_is_named_and_costs_nothing(source: Path, whole: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out / ".cases", out / ".cases")
    line = [sys.executable, "-m", "autograder", "grade", str(source), "--out", str(out)]
    with hand_ins.nothing_left_behind():
        done = subprocess.run(
            line,
            cwd=ROOT,
            env=os.environ | FULL,
            capture_output=True,
            text=True,
            preexec_fn=full_disk(24_000),  # enough for reports, too little for the class
        )
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr and "--resume" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (out / "class.json").exists() and not list(out.rglob("*.tmp"))
    assert resumed(source, out).status == 0 and class_file(out) == class_file(whole.out)


@pytest.mark.parametrize("task", [pytest.param("rescore", marks=pytest.mark.slow), "report"])
def test_a_full_disk_is_named_by_whatever_writes(whole: Run, tmp_path: Path, task: str) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    done = subprocess.run(
        [sys.executable, "-m", "autograder", task, str(out)],
        cwd=ROOT,
        env=os.environ | FULL,
        capture_output=True,
        text=True,
        preexec_fn=full_disk(2_000),
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.splitlines()[-1].startswith("autograder: ")
    assert "File too large" in done.stderr and class_file(out) == class_file(whole.out)


@pytest.mark.slow
def test_a_reader_that_goes_away_is_not_taken_for_a_full_disk(
    source: Path, whole: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    line = [sys.executable, "-m", "autograder", "grade", str(source), "--out", str(out)]
    reading, writing = os.pipe()
    os.close(reading)
    with hand_ins.nothing_left_behind():
        done = subprocess.run(
            [*line, "--resume"],
            cwd=ROOT,
            env=os.environ
            | {"AUTOGRADER_SECRET": SECRET, "LAB_LANG": "en", "PYTHONUNBUFFERED": "1"},
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
        )
    os.close(writing)
    assert done.returncode == 1 and "cannot be written" not in done.stderr, done.stderr
    assert class_file(out) == class_file(whole.out)


@pytest.mark.slow
def test_two_runs_do_not_write_to_one_folder(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = begun(source, out)
    until(process, "[1/5]")
    second = grade(source, out, "--again")
    assert second.status == 2 and "another run is writing there" in second.stderr
    process.communicate(timeout=120)
    assert process.returncode == 0


@pytest.mark.slow
def test_one_hand_in_is_graded_anew_and_the_others_stay(
    source: Path, whole: Run, tmp_path: Path
) -> None:
    changed, out = tmp_path / "class", tmp_path / "out"
    shutil.copytree(source, changed)
    shutil.copytree(whole.out, out)
    shutil.copy(source / "alice_right" / "mlp.py", changed / "judy_untouched_stub" / "mlp.py")
    (out / "grade.toml").unlink()  # it knows that outputs are kept, and judy's would be
    options = ("--only", "judy_untouched_stub")
    run = grade(changed, out, *options)
    assert run.status == 0 and "[1/1]" in run.stderr
    assert run.scores == whole.scores | {"judy_untouched_stub": 28}
    assert run.stdout.count("judy") == 1 and "alice" in run.stdout
    again = rescore(out)  # what was kept of judy belongs to other files than were graded
    assert again.scores == run.scores and "judy_untouched_stub" in again.stderr
    kept = out / ".outputs" / "judy_untouched_stub.outputs"
    before = kept.read_bytes()
    options = ("--resume", "--keep-outputs", *options)
    resumed = grade(changed, out, *options)
    assert resumed.scores == run.scores and kept.read_bytes() != before
    assert "judy_untouched_stub" not in rescore(out).stderr
    wrong = grade(changed, out, "--only", "nobody")
    assert wrong.status == 2 and "nobody" in wrong.stderr and "alice_right" in wrong.stderr


def test_reports_do_not_go_among_the_hand_ins(source: Path) -> None:
    for out in (source, source / "graded", source / "alice_right" / "x"):
        run = grade(source, out)
        assert run.status == 2 and "give an --out beside it" in run.stderr
    assert {path.name for path in source.iterdir()} == {*NAMES, SLOW}


def test_a_damaged_class_file_is_not_written_over(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "class.json").write_text("{")
    run = grade(source, out, "--again")
    assert run.status == 2 and "move it away" in run.stderr
    assert (out / "class.json").read_text() == "{"


def test_a_run_that_breaks_off_leaves_a_whole_class_as_it_was(
    source: Path, whole: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    process = begun(source, out, "--again")
    until(process, "[1/5]")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130 and class_file(out) == class_file(whole.out)


OVERRIDE = """
[[override]]
student = "carol_norm_after_rope"
check = "test_attention_parity"
points = 2
reason = "a slip that I explained wrongly"
by = "Dr. Li"
"""


def test_rescoring_gives_the_same_and_applies_decisions(whole: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    with hand_ins.nothing_left_behind():
        line = [sys.executable, "-m", "autograder", "rescore", str(out)]
        same = subprocess.run(line, cwd=ROOT, env=os.environ | {"AUTOGRADER_SECRET": SECRET})
    assert same.returncode == 0
    assert class_file(out) == class_file(whole.out)
    (out / "overrides.toml").write_text(OVERRIDE)
    run = rescore(out)
    expected = whole.scores["carol_norm_after_rope"] + 2
    assert run.scores == whole.scores | {"carol_norm_after_rope": expected}
    report = (out / "carol_norm_after_rope" / "report.md").read_text(encoding="utf-8")
    assert "Dr. Li" in report and "a slip that I explained wrongly" in report


def test_what_could_not_be_read_is_left_to_a_person_by_whatever_judges(tmp_path: Path) -> None:
    source, out = tmp_path / "class", tmp_path / "out"
    shutil.copytree(EXAMPLES / "judy_untouched_stub", source / "judy")
    (source / "eve").mkdir()
    (source / "eve" / "work.rar").write_bytes(b"no archive")
    graded = grade(source, out, "--keep-outputs")
    before = class_file(out)
    assert graded.status == 1 and "eve" in graded.stderr
    for _ in range(2):
        again = rescore(out)
        assert again.status == 1 and "eve" in again.stderr and class_file(out) == before
    (out / "overrides.csv").write_text("student,points,reason,by\neve,50,seen,Li\n")
    assert rescore(out).scores == {"eve": 50, "judy": 0}


@pytest.mark.parametrize("key", ["", ANOTHER])
def test_rescoring_with_another_secret_is_refused(whole: Run, tmp_path: Path, key: str) -> None:
    """Its hidden cases were never asked: all of them would be left to a person."""
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    for known in (hidden_cases.remembered(out), ""):
        run = rescore(out, key=key)
        assert run.status == 2 and "--secret-file" in run.stderr and "Traceback" not in run.stderr
        assert class_file(out) == class_file(whole.out) and not (out / "secret").exists()
        assert hidden_cases.remembered(out) == known
        (out / hidden_cases.CHECK).unlink(missing_ok=True)


def test_a_secret_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(count: int) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.delenv(hidden_cases.VARIABLE, raising=False)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr(hidden_cases.secrets, "token_hex", full)
        hidden_cases.find(None, tmp_path)
    assert not list(tmp_path.iterdir())
    made = hidden_cases.find(None, tmp_path)
    assert hidden_cases.find(None, tmp_path) == made
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_the_class_of_another_lab_stays(whole: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    text = class_file(whole.out).decode().replace("lab2_qwen3_block", "lab3_other")
    (out / "class.json").write_text(text)
    for options in (("--again",), ("--only", "alice_right")):
        run = grade(EXAMPLES, out, *options)
        assert run.status == 2 and "lab3_other" in run.stderr
    assert class_file(out).decode() == text


@pytest.mark.slow
def test_decisions_survive_grading_again(source: Path, whole: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    (out / "overrides.toml").write_text(OVERRIDE + OVERRIDE.replace("carol_norm_after_rope", "eve"))
    run = resumed(source, out)
    assert run.scores["carol_norm_after_rope"] == whole.scores["carol_norm_after_rope"] + 2
    assert "eve" in run.stderr and run.status == 1  # a decision for nobody is said
    (out / "overrides.toml").write_text(OVERRIDE.replace("= 2", "= 500"))
    wrong = resumed(source, out)
    assert wrong.status == 2 and "points is 500" in wrong.stderr
    absent = grade(source, out, "--again", "--overrides", str(tmp_path / "none"))
    assert absent.status == 2 and "no such file" in absent.stderr


@pytest.mark.slow
def test_without_kept_outputs_only_decisions_are_applied(whole: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out, ignore=shutil.ignore_patterns(".outputs"))
    (out / "overrides.toml").write_text(OVERRIDE)
    run = rescore(out)
    assert run.status == 0 and "alice_right" in run.stderr
    assert run.scores["carol_norm_after_rope"] == whole.scores["carol_norm_after_rope"] + 2


def test_a_damaged_file_of_outputs_costs_nobody_anything(whole: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    (out / ".outputs" / "alice_right.outputs").write_bytes(b"\1\2")
    run = rescore(out)
    assert run.status == 0 and run.scores == whole.scores and "alice_right" in run.stderr
    nothing = rescore(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    assert nothing.status == 2 and "give the folder that grade has written" in nothing.stderr
