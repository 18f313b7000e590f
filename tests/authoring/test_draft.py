"""A lab that is being written: begun from a tiny one, tried in seconds, told what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.authoring import audit, build, new_lab, prove_lab
from autograder.authoring.place import LabSources
from autograder.course.labfile import LabError

NAME = "lab97_gate"


@pytest.fixture
def place(tmp_path: Path) -> LabSources:
    new_lab.run(NAME, ["attention.py", "mlp.py"], tmp_path)
    return LabSources(tmp_path, NAME)


def tried(place: LabSources, capsys: pytest.CaptureFixture[str]) -> str:
    """The lines of ``try`` that speak of a fault."""
    status = audit.run_draft("97", place.root)
    lines = capsys.readouterr().out.splitlines()
    faults = [line for line in lines if line.startswith("   ")]
    assert status == bool(faults)
    return "\n".join(faults)


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_new_lab_holds_what_it_promises(
    place: LabSources, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tried(place, capsys) == ""
    assert list(prove_lab.handout_breaches(place)) == []
    list(build.build(place))  # its banks
    assert list(prove_lab.stale(place)) == []
    assert list(prove_lab.unfair_scores(place)) == []  # as a class is graded
    assert list(prove_lab.leaks(place)) == []
    with pytest.raises(LabError, match=f"{NAME} exists"):
        new_lab.run(NAME, ["gate.py"], place.root)


@pytest.mark.parametrize(
    ("name", "files"),
    [("Lab 7", ["a.py"]), ("../x", ["a.py"]), ("lab7", ["a"]), ("lab7", ["a.py", "a.py"])],
)
def test_names_that_are_none_are_refused(name: str, files: list[str], tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"no name of a|stands twice"):
        new_lab.run(name, files, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("files", [["a.py b.py"], ["a.py,b.py"], ["a.py,", "b.py"], ["a.py;b.py"]])
def test_several_names_in_one_argument_are_told_apart(files: list[str], tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"one name per argument.*: --files a\.py b\.py$"):
        new_lab.run("lab7", files, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_another_lab_has_is_refused_and_the_next_free_one_named(
    tmp_path: Path,
) -> None:
    for name in ("lab7_gate", "lab11_norm", "lstm"):
        new_lab.run(name, ["gate.py"], tmp_path)
    for name, rest in (("lab7_rope", "rope"), ("lab11", "gate")):
        with pytest.raises(LabError, match=f"the next free name is lab12_{rest}$"):
            new_lab.run(name, ["gate.py"], tmp_path)
    assert not (tmp_path / "labs" / "lab7_rope").exists()


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("solution/mlp.py", "x * factor", "x * 2", "solution: test_mlp is failed"),
        ("lab/lab.toml", "points = 50", "points = 49", "sum to 99"),
        ("solution/misconceptions.toml", "return x * factor", "return y", "attention_unscaled"),
        (
            "solution/misconceptions.toml",
            "return x + factor",
            "return 1 * x",
            "entries attention_unscaled and attention_added answer every public case alike",
        ),
        (
            "solution/misconceptions.toml",
            "return x + factor",
            "return factor * x",
            "entry attention_added: no public case costs it a point (nor any hidden one)",
        ),
        (
            "solution/misconceptions.toml",
            "return x + factor",
            "return x * (factor if factor > 1 and x.shape[0] == 2 else 2)",
            "entry attention_added: no public case costs it a point (test_attention fails on a",
        ),
        (
            "solution/misconceptions.toml",
            'file = "mlp.py"',
            'file = "mlp.py"\nfamilies = ["GQA"]',
            'entry mlp_unscaled: families: none of them loses points; write ["numeric parity"]',
        ),
        ("solution/cases/__init__.py", "def mlp", "def other", "has no such recipe"),
        (
            "solution/cases/__init__.py",
            "x.double() * factor}, f",
            "y.double() * factor}, f",
            "recipe attention fails in __init__.py:16: NameError",
        ),
        ("solution/misconceptions.toml", "return x + factor", "return (x +", "is no Python"),
        (
            "solution/misconceptions.toml",
            "return x + factor",
            "return xx + factor",
            "entry attention_added: raises call: NameError | name 'xx' is not defined",
        ),
        ("lab/checks/test_mlp.py", 'case["y"]', 'case["t"]', "itself fails, in test_mlp.py:16"),
        ("solution/mlp.py", "return x * factor", "return (x", "mlp.py cannot be read as Python"),
        (
            "lab/lab.toml",
            'family = "numeric parity"',
            'family = "numeric parity", needs = ["no"]',
            "no check no",
        ),
        (
            "lab/lab.toml",
            'file = "mlp.py"',
            'file = "mlp.py"\nneeds = []',
            "each check has its own",
        ),
        ("solution/attention.py", "# BEGIN SOLUTION", "# ", "END SOLUTION without a BEGIN"),
    ],
)
def test_one_line_says_what_is_wrong(
    place: LabSources,
    capsys: pytest.CaptureFixture[str],
    file: str,
    old: str,
    new: str,
    told: str,
) -> None:
    folder, _, name = file.partition("/")
    edited((place.folder if folder == "lab" else place.solution) / name, old, new)
    try:
        found = tried(place, capsys)
    except ValueError as error:  # what cannot even be read
        found = str(error)
    assert told in found and "Traceback" not in found


def test_an_exercise_of_which_nothing_is_told_is_named(place: LabSources) -> None:
    page = place.folder / "README.md"
    for _ in range(2):
        edited(page, "The idea, the formula, the steps. Then", "Test:")
    faults = list(prove_lab.handout_breaches(place))
    assert len(faults) == 2 and all("write the idea and the steps" in one for one in faults)
    told = "### What it is\n\nEvery number is multiplied by the factor.\n\n"
    text = page.read_text(encoding="utf-8").replace("### TODO", f"{told}### TODO")
    page.write_text(text, encoding="utf-8")
    assert list(prove_lab.handout_breaches(place)) == []


@pytest.mark.slow
def test_a_mistake_without_an_end_ends(
    place: LabSources, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.authoring.answers.SLOWER", -1.5)
    mistakes = place.solution / "misconceptions.toml"
    edited(mistakes, "return x + factor", "while True:\n        x = x + factor")
    assert tried(place, capsys) == ""  # a check that takes too long costs points
    edited(place.solution / "mlp.py", "return x * factor", "while True:\n        pass")
    assert "solution: test_mlp is timed_out" in tried(place, capsys)


def test_what_hangs_on_the_rest_is_not_looked_at_while_that_is_wrong(
    place: LabSources, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(place.folder / "checks" / "test_mlp.py", "import cases", "import no_cases, cases")
    assert audit.run_draft("97", place.root) == 1
    told = capsys.readouterr().out
    assert told.count("no_cases") == 1 and told.count("mend what is said above first") == 2
    assert "weights" not in told


@pytest.mark.slow
def test_a_lab_may_be_taught_in_english_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new_lab.run(NAME, ["gate.py", "mlp.py"], tmp_path, english=True)
    place = LabSources(tmp_path, NAME)
    texts = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.*")]
    assert not any("\u4e00" <= sign <= "\u9fff" for text in texts for sign in text)
    assert tried(place, capsys) == ""
    list(build.build(place))
    page = place.folder / "README.md"
    assert "`autograder test --lab 97 -k gate`" in page.read_text(encoding="utf-8")
    status, told = audit.run("97", root=tmp_path), capsys.readouterr().out
    assert status == 0, told
    assert "Chinese" not in told and "two languages" not in told
    edited(page, "-k gate", "-k gaet")
    assert list(prove_lab.handout_breaches(place)) != []


def test_a_course_without_a_lab_is_one(tmp_path: Path) -> None:
    for name in ("labs", "solutions"):
        (tmp_path / "course" / name).mkdir(parents=True)
    line = [sys.executable, "-m", "autograder", "new-lab", "lab98_gate", "--files", "gate.py"]
    here = tmp_path / "course" / "labs"
    done = subprocess.run(line, cwd=here, capture_output=True, text=True, check=True)
    assert f"course     {tmp_path / 'course'}\n" in done.stdout
    assert (tmp_path / "course" / "labs" / "lab98_gate" / "lab.toml").is_file()


def test_a_style_that_is_wrong_is_told(
    place: LabSources, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.authoring.styles.SOLUTIONS", place.solutions)
    style = place.root / "tests" / "styles" / "lab97" / "other"
    style.mkdir(parents=True)
    over = "# over the solution\n\n\ndef mlp(x: Tensor, factor: float) -> Tensor:\n    return "
    (style / "mlp.py").write_text(f"{over}x + x * (factor - 1)\n", encoding="utf-8")
    assert tried(place, capsys) == ""
    (style / "mlp.py").write_text(f"{over}x + factor - 1\n", encoding="utf-8")
    assert "style other: test_mlp is failed" in tried(place, capsys)


@pytest.mark.slow
def test_a_course_begins_where_one_is(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        line = [sys.executable, "-m", "autograder", *words]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    run("new-lab", "lstm", "--files", "model.py")
    assert (tmp_path / "labs" / "lstm" / "lab.toml").is_file()
    assert "7 promises kept, 0 broken" in run("try", "--lab", "lstm")
    (tmp_path / "empty").mkdir()
    run("--course", "empty", "new-lab", "gate", "--files", "gate.py")
    assert (tmp_path / "empty" / "labs" / "gate" / "lab.toml").is_file()
    run("--course", "empty", "try", "--lab", "gate")
    run("--course", "empty", "grade", "empty/solutions/gate", "--lab", "gate", "--out", "graded")
    assert json.loads((tmp_path / "graded" / "class.json").read_text())["hand_ins"]
    run("--course", str(tmp_path), "new-lab", "other", "--files", "model.py")
    assert (tmp_path / "solutions" / "other" / "model.py").is_file()
    there = subprocess.run(
        [sys.executable, "-m", "autograder", "--course", "nowhere", "try"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert there.returncode == 2 and "nowhere: no such folder" in there.stderr
