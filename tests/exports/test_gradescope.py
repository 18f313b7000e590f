"""The autograder zip in Gradescope's layout, with real processes; and what results.json holds."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from autograder.cli.main import main
from autograder.course import labfile
from autograder.course.late import Extension, Lateness, LateRules
from autograder.course.records import CheckResult, HandIn, Outcome, Override
from autograder.exports import gradescope, gradescope_run
from autograder.report import write
from tests import hand_ins, warm
from tests.report.test_report import ALL_PASSED, CLASS, LAB, MIXED

LABS = sorted(path.name for path in labfile.LABS.glob("lab*"))

TOP = {
    "score": (int, float), "execution_time": (int,), "output": (str,), "output_format": (str,),
    "test_output_format": (str,), "test_name_format": (str,), "visibility": (str,),
    "stdout_visibility": (str,), "extra_data": (dict,), "tests": (list,),
}  # fmt: skip
TEST = {
    "score": (int, float), "max_score": (int, float), "status": (str,), "name": (str,),
    "number": (str,), "output": (str,), "tags": (list,), "visibility": (str,),
}  # fmt: skip


def valid(document: Mapping[str, Any]) -> None:
    """By docs/specs.md: known fields of the right kinds; and no test keeps the total back."""
    for table, entry in ((TOP, document), *((TEST, test) for test in document["tests"])):
        for key, value in entry.items():
            assert isinstance(value, table[key]) and not isinstance(value, bool), (key, value)
    for test in document["tests"]:
        assert test["visibility"] == "visible" and set(map(type, test["tags"])) <= {str}
        assert test.get("status", "passed") in ("passed", "failed")
        assert ("score" in test) == ("status" in test)
        assert 0 <= test.get("score", 0) <= test["max_score"]
    for key in ("output_format", "test_output_format", "test_name_format"):
        assert document[key] == "text"
    assert document["stdout_visibility"] == "hidden"


def made(hand_in: HandIn, language: str = "en") -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        gradescope.text_of(gradescope.results(CLASS, hand_in, language, 3.4))
    )
    valid(document)
    return document


def test_points_add_up_to_the_score() -> None:
    document = made(ALL_PASSED)
    assert document["score"] == sum(test["score"] for test in document["tests"]) == 100
    assert sum(test["max_score"] for test in document["tests"]) == 100
    assert document["execution_time"] == 3 and document["tests"][0]["number"] == "1.1"
    assert not any("output" in test for test in document["tests"])


def test_what_is_not_graded_has_no_score_and_is_no_zero() -> None:
    document = made(MIXED)
    open_tests = [test for test in document["tests"] if "score" not in test]
    assert document["score"] == 20 and sum(test["max_score"] for test in open_tests) == 20
    assert (
        document["extra_data"]["to_be_decided"] == 20 and "costs you nothing" in document["output"]
    )
    assert "score" not in made(HandIn("a", ()))


def test_lateness_takes_off_the_total_and_no_test() -> None:
    late = replace(ALL_PASSED, lateness=Lateness("2026-10-12T00:00:00Z", days=2, percent=20))
    document = made(late)
    assert document["score"] == 80 and sum(test["score"] for test in document["tests"]) == 100
    assert "What counts: 80 of 100" in document["output"]
    assert "计入成绩：80 / 100" in made(late, "zh")["output"]


def test_a_hidden_case_tells_no_more_than_in_the_report() -> None:
    check = LAB.checks[0]
    result = CheckResult(
        check.name, Outcome.FAILED, hidden=True, case="secret-case", prints="secret-print"
    )
    document = made(HandIn("a", (result,)))
    assert "secret" not in json.dumps(document) and "hidden case" in document["tests"][0]["output"]


def test_a_persons_decision_counts_and_is_told() -> None:
    check = LAB.checks[0]
    result = CheckResult(check.name, Outcome.FAILED)
    hand_in = HandIn("a", (result,), overrides=(Override("a", check.name, 1, "half", "Dr. Li"),))
    test = made(hand_in)["tests"][0]
    assert test["score"] == 1 and "Dr. Li" in test["output"]


def test_odd_characters_stay_harmless() -> None:
    odd = "\x00\x1b[31m\ud800\ufffe</pre><script>\u202e"
    results = tuple(CheckResult(c.name, Outcome.FAILED, prints=odd) for c in LAB.checks)
    text = gradescope.text_of(gradescope.results(CLASS, HandIn("a" + odd, results), "en"))
    assert text.isascii() and "\\ud800" not in text and "\\u001b" not in text
    assert "<script>" in text  # as text: Gradescope is told that it is no HTML


def test_the_results_of_a_class_are_written(tmp_path: Path) -> None:
    write.class_files(CLASS, tmp_path)
    assert main(["export", "gradescope-results", str(tmp_path), "--lang", "en"]) == 0
    to = tmp_path / "elsewhere"
    line = ["export", "gradescope-results", str(tmp_path), "--to", str(to), "--lang", "zh"]
    assert main(line) == 0
    for hand_in in CLASS.hand_ins:
        valid(json.loads((tmp_path / hand_in.student / "results.json").read_text()))
        valid(json.loads((to / f"{hand_in.student}.json").read_text()))


# submission_metadata.json

METADATA = {
    "id": 123456,
    "created_at": "2026-10-14T10:00:00.365935-07:00",
    "assignment": {"due_date": "2026-10-12T23:00:00.000000-07:00", "late_due_date": None},
    "submission_method": "upload",
    "users": [{"email": "li@example.org", "id": 1234, "name": "李 雷"}],
    "previous_submissions": [{"submission_time": "2026-10-10T10:00:00-07:00", "score": 0.0}],
}


def metadata(folder: Path, told: object) -> Path:
    path = folder / "submission_metadata.json"
    path.write_text(told if isinstance(told, str) else json.dumps(told), encoding="utf-8")
    return path


def test_the_metadata_say_who_and_when(tmp_path: Path) -> None:
    student, origin = gradescope.read_metadata(metadata(tmp_path, METADATA))
    assert student == "李_雷" and origin.late is True and origin.attempt == 2
    assert origin.submitted_at == METADATA["created_at"]
    assert origin.students[0].email == "li@example.org" and origin.students[0].id == "1234"


@pytest.mark.parametrize(
    "told",
    [
        "", "[", "[]", "3", "{}", {"users": 3}, {"users": [3, {}]}, {"created_at": 3},
        {"assignment": []}, {"assignment": {"due_date": "x"}, "created_at": "2026-10-14"},
        {"users": [{"name": "../../x", "id": True}], "previous_submissions": {}},
    ],
    ids=str,
)  # fmt: skip
def test_odd_metadata_cost_nobody_their_grading(tmp_path: Path, told: object) -> None:
    student, origin = gradescope.read_metadata(metadata(tmp_path, told))
    assert student and "/" not in student and origin.attempt == 1
    assert gradescope.read_metadata(tmp_path / "absent.json")[0] == "submission"


@pytest.mark.parametrize(
    ("given", "days"),
    [
        ("ada@x.edu", 0),
        ("Ada Lovelace", 0),
        ("lovelace, ada", 0),
        ("bob@x.edu", 0),
        ("2024001", 1),
        ("998877", 1),  # a number of Gradescope's own, and perhaps somebody else's student id
    ],
)
def test_extensions_go_by_what_gradescope_tells(tmp_path: Path, given: str, days: int) -> None:
    ada = {"id": 998877, "name": "Ada Lovelace", "email": "Ada@x.edu"}
    users = [ada, {"id": 998878, "name": "Bob", "email": "bob@x.edu"}]
    _, origin = gradescope.read_metadata(metadata(tmp_path, METADATA | {"users": users}))
    due = "2026-10-14T00:00:00-07:00"
    longer = Extension(given, "2026-10-15T00:00:00-07:00", "")
    rules = LateRules(due, extensions=(longer,))
    timed = gradescope_run._timed(HandIn("ada", (), origin=origin), rules)
    assert timed.lateness is not None and timed.lateness.days == days
    assert timed.origin == origin and gradescope_run._timed(timed, None) == timed


def test_extensions_that_gradescope_may_not_match_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = tmp_path / "course.toml"
    course.write_text(COURSE + 'extensions = "extensions.csv"\n', encoding="utf-8")
    line = ["export", "gradescope", "--lab", "2", "--to", str(tmp_path / "x.zip"), "--course"]
    for students, status in (("a@x.edu", 0), ("a@x.edu,3\n2024001,3\nAda Lovelace", 1)):
        (tmp_path / "extensions.csv").write_text(f"student_id,days\n{students},3\n")
        assert main([*line, str(course), "--lang", "en"]) == status
        said = capsys.readouterr().err
        assert ("2024001; Ada Lovelace" in said) == bool(status) and "a@x.edu" not in said
        assert zipfile.is_zipfile(tmp_path / "x.zip")


# The zip


@dataclass(frozen=True)
class Container:
    """``/autograder`` in a folder of ours: what Gradescope makes of a zip."""

    root: Path
    variables: Mapping[str, str] = field(
        default_factory=lambda: {"QWEN3_LABS_PYTHON": sys.executable}
    )
    installed: str = ""  # what setup.sh has called Python with

    def run(self, script: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if name != "AUTOGRADER_SECRET"}
        ours = {"OMP_NUM_THREADS": "1", "AUTOGRADER_ROOT": str(self.root)}
        with hand_ins.nothing_left_behind():
            return subprocess.run(
                [str(script)],
                cwd=self.root,
                env=clean | ours | self.variables | variables,
                capture_output=True,
                text=True,
                encoding="utf-8",
            )

    def grade(
        self, files: Mapping[str, str], told: object = METADATA, **variables: str
    ) -> tuple[dict[str, Any], str]:
        """``results.json`` of a hand-in, and what the instructor sees."""
        shutil.rmtree(self.root / "submission", ignore_errors=True)
        (self.root / "submission").mkdir()
        for name, text in files.items():
            (self.root / "submission" / name).write_text(text, encoding="utf-8")
        metadata(self.root, told)
        done = self.run(self.root / "run_autograder", **variables)
        document = json.loads((self.root / "results" / "results.json").read_text())
        valid(document)
        return document, done.stdout


def unpacked(zipped: Path, root: Path) -> Container:
    """As Gradescope's harness does: the zip in ``source``, the script beside, folders made."""
    (root / "results").mkdir(parents=True)
    with zipfile.ZipFile(zipped) as archive:
        archive.extractall(root / "source")
        for entry in archive.infolist():
            os.chmod(root / "source" / entry.filename, entry.external_attr >> 16)
    shutil.copy(root / "source" / "run_autograder", root / "run_autograder")
    return Container(root)


COURSE = """
[due]
lab2 = 2026-10-12T23:59:00-07:00
[late]
percent_per_day = 10
"""


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zip")
    (folder / "course.toml").write_text(COURSE, encoding="utf-8")
    path = folder / "autograder.zip"
    line = ["export", "gradescope", "--lab", "lab2", "--to", str(path), "--lang", "en"]
    assert main([*line, "--course", str(folder / "course.toml")]) == 0
    return path


STUB = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >> "$LOG"
case "$*" in
"-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
"-c import ensurepip"* | "-m pip install"*) ;;
*) exec "$REAL" "$@" ;;
esac
"""


@pytest.fixture(scope="module")
def container(zipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Container:
    """Set up with a Python that writes down what is installed instead of doing it."""
    folder = tmp_path_factory.mktemp("gradescope")
    stub = folder / "bin" / "python3.13"
    stub.parent.mkdir()
    stub.write_text(STUB, encoding="utf-8")
    stub.chmod(0o755)
    variables = {"QWEN3_LABS_PYTHON": "", "QWEN3_LABS_VENV": str(folder / "venv")}
    variables |= {"LOG": str(folder / "log"), "REAL": sys.executable}
    variables |= {"PATH": f"{stub.parent}:{os.environ['PATH']}"}
    made = replace(unpacked(zipped, folder / "autograder"), variables=variables)
    done = made.run(made.root / "source" / "setup.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    return replace(made, installed=(folder / "log").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_setup_makes_an_environment_installs_and_tries_the_grader(container: Container) -> None:
    steps = [line.split() for line in container.installed.splitlines()]
    assert steps[1] == ["python3.13", "-m", "venv", container.variables["QWEN3_LABS_VENV"]]
    assert [step[-1] for step in steps[2:4]] == ["torch", "."] and len(steps) == 5
    assert all(step[:4] == ["python", "-m", "pip", "install"] for step in steps[2:4])
    assert steps[4][-1] == "prepare"
    assert list((container.root / "source" / "state").rglob("*.safetens*"))


def test_the_zip_holds_what_grades_one_lab_and_no_solution(zipped: Path) -> None:
    with zipfile.ZipFile(zipped) as archive:
        names = set(archive.namelist())
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
        whole = b"".join(archive.read(name) for name in names)
    assert {"setup.sh", "run_autograder", "secret", "settings.json", "not_graded.json"} <= names
    assert stat.S_IMODE(modes["run_autograder"]) == 0o755 and stat.S_IMODE(modes["secret"]) == 0o600
    assert stat.S_IMODE(zipped.stat().st_mode) == 0o600
    assert not [name for name in names if "/lab3" in name or "/authoring/" in name]
    assert "qwen3-labs/solutions/lab2_qwen3_block/attention.py" not in names
    assert b"BEGIN SOLUTION lab2.repeat_kv" not in whole


@pytest.mark.slow
def test_a_right_hand_in_has_every_point_less_what_lateness_costs(container: Container) -> None:
    document, stdout = container.grade(hand_ins.right())
    assert sum(test["score"] for test in document["tests"]) == 100
    assert document["score"] == 80 and "Days late: 2" in document["output"]
    assert {test["status"] for test in document["tests"]} == {"passed"}
    assert "isolation: strong" in stdout and document["extra_data"]["isolation"] == "strong"
    assert "7 public" not in document["output"] and "hidden cases" in document["output"]


@pytest.mark.slow
def test_a_wrong_hand_in_is_told_why(container: Container) -> None:
    in_time = METADATA | {"created_at": "2026-10-12T10:00:00-07:00"}
    document, _ = container.grade(hand_ins.guessing(), in_time)
    assert 0 < document["score"] < 50 and "Days late" not in document["output"]
    assert document["score"] == sum(test["score"] for test in document["tests"])
    failed = [test for test in document["tests"] if test["status"] == "failed"]
    assert failed and all(test["output"] for test in failed)


@pytest.mark.slow
def test_an_empty_hand_in_is_told_so_and_left_to_a_person(container: Container) -> None:
    document, _ = container.grade({}, "no metadata")
    assert "score" not in document and "holds no files" in json.dumps(document)


def test_what_could_not_be_read_is_no_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradescope_run, "Engine", warm.Warm)
    source, root = warm.with_cases(tmp_path / "source" / "state").parent, tmp_path / "autograder"
    (source / "secret").write_text(warm.SECRET)
    (root / "submission").mkdir(parents=True)
    (root / "submission" / "work.rar").write_bytes(b"no archive")
    lab = labfile.load(labfile.find_lab("2"))
    settings = gradescope.Settings(lab.name, "en", "weak")
    document = gradescope_run._document(lab, settings, root, source)
    valid(document)
    assert "score" not in document and not any("score" in test for test in document["tests"])
    assert document["extra_data"]["to_be_decided"] == 100 and "work.rar" in json.dumps(document)


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["python", "cases", "killed"])
def test_a_fault_of_ours_is_no_zero_and_says_so(
    container: Container, tmp_path: Path, broken: str
) -> None:
    """Whatever fails: Python itself, the making of cases; or somebody kills the grader."""
    copy = replace(container, root=tmp_path / "autograder")
    shutil.copytree(container.root, copy.root)
    code = copy.root / "source" / "qwen3-labs"
    variables = {}
    if broken == "python":
        variables = {"QWEN3_LABS_PYTHON": "/nowhere/python"}
    elif broken == "cases":
        shutil.rmtree(code / "solutions")
    else:
        path = code / "autograder" / "grading" / "engine.py"
        kill = "import os\nos.kill(os.getpid(), 9)\n"
        path.write_text(path.read_text(encoding="utf-8") + kill, encoding="utf-8")
    document, stdout = copy.grade(hand_ins.right(), **variables)
    assert "score" not in document and not any("score" in test for test in document["tests"])
    assert "not your code: it costs you nothing" in document["output"]
    assert "Traceback" not in json.dumps(document)
    assert ("absent; grading needs" in stdout) == (broken == "cases")


@pytest.mark.slow
def test_a_container_that_isolates_less_is_not_used_unless_that_was_chosen(
    container: Container, tmp_path: Path
) -> None:
    copy = replace(container, root=tmp_path / "autograder")
    shutil.copytree(container.root, copy.root)
    code = copy.root / "source" / "qwen3-labs" / "autograder" / "exports" / "gradescope_run.py"
    text = code.read_text(encoding="utf-8")
    without = text.replace("order_seed=key)", 'order_seed=key, without=("landlock_files",))')
    assert without != text
    code.write_text(without, encoding="utf-8")
    document, stdout = copy.grade(hand_ins.stub())
    assert "score" not in document and "--allow-weak-isolation" in stdout
    settings = copy.root / "source" / "settings.json"
    told = json.loads(settings.read_text())
    settings.write_text(json.dumps(told | {"least": "weak"}))
    document, stdout = copy.grade(hand_ins.stub())
    assert document["score"] == 0 and document["extra_data"]["isolation"] == "medium"
    assert "Isolation: medium" in document["output"] and "isolation: medium" in stdout


def test_equal_secrets_give_equal_zips_and_bad_ones_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef", encoding="utf-8")
    line = ["export", "gradescope", "--lab", "2", "--lang", "zh", "--secret-file", str(secret)]
    paths = [tmp_path / "one.zip", tmp_path / "two.zip"]
    for path in paths:
        assert main([*line, "--to", str(path)]) == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert "3 GB" in capsys.readouterr().out
    secret.write_text("short", encoding="utf-8")
    assert main([*line, "--to", str(paths[0])]) == 2
    assert "at least 8 characters" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS)
def test_the_zip_of_every_lab_grades_its_solution(lab: str, tmp_path: Path) -> None:
    path = tmp_path / "autograder.zip"
    assert main(["export", "gradescope", "--lab", lab, "--to", str(path), "--lang", "zh"]) == 0
    made = unpacked(path, tmp_path / "autograder")
    if lab == LABS[0]:  # a Python that is named is used; the others make their cases on the way
        done = made.run(made.root / "source" / "setup.sh")
        assert done.returncode == 0, done.stdout + done.stderr
    files = labfile.load(labfile.LABS / lab).files
    texts = {name: labfile.SOLUTIONS / lab / name for name in files}
    document, _ = made.grade({name: one.read_text("utf-8") for name, one in texts.items()})
    assert document["score"] == 100, document["output"]
