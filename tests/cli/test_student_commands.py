"""What a student types: ``--help``, ``test``, ``debug``; languages and old terminals."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from autograder.authoring import stubs
from autograder.cli import hint, student
from autograder.cli.main import main
from autograder.course import labfile, suggestions
from autograder.course.labfile import ROOT
from autograder.course.records import ClassRecord
from autograder.grading import hidden_cases
from autograder.grading.judge_process import RealWeights
from tests import hand_ins, warm
from tests.warm import Run

SOLUTION = ROOT / "solutions" / "lab2_qwen3_block"
EXAMPLES = ROOT / "examples" / "submissions"
HEAVY = ("torch", "numpy", "pytest", "transformers", "safetensors", "jinja2")


def python(*arguments: str, encoding: str = "utf-8", **variables: str) -> Run:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": encoding, **variables}
    environment.pop("LAB_LANG", None) if "LAB_LANG" not in variables else None
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True
    )
    out, err = (raw.decode(encoding, errors="strict") for raw in (done.stdout, done.stderr))
    return Run(done.returncode, out, err, Path())


def command(*arguments: str, encoding: str = "utf-8", **variables: str) -> Run:
    with hand_ins.nothing_left_behind():
        return python("-m", "autograder", *arguments, encoding=encoding, **variables)


def modules(*arguments: str) -> list[str]:
    """Modules that a Python with these arguments imports in its own process."""
    listing = python("-X", "importtime", *arguments).stderr
    lines = (line for line in listing.splitlines() if line.startswith("import time:"))
    return [line.rsplit("|", 1)[1].strip() for line in lines]


def imported(*arguments: str) -> set[str]:
    """Top-level modules that a command imports in its own process."""
    return {name.split(".")[0] for name in modules("-m", "autograder", *arguments)}


# ---------------------------------------------------------------- start-up


def test_help_imports_nothing_heavy_and_little_more_than_python() -> None:
    assert "argparse" in imported("--help")
    assert not imported("--help") & {*HEAVY}
    assert len(modules("-m", "autograder", "--help")) <= 3 * len(modules("-c", "pass"))


def test_grading_starts_without_torch_pytest_and_transformers(tmp_path: Path) -> None:
    found = imported("grade", str(tmp_path / "absent"), "--out", str(tmp_path / "out"))
    assert "autograder" in found and not found & {"torch", "pytest", "transformers"}


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_names_every_command(arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert done.status == 0 and done.stderr == ""
    commands = ("grade", "test", "hint", "debug", "spot", "chat", "serve", "build", "audit")
    assert all(name in done.stdout for name in commands)


@pytest.mark.parametrize(
    "arguments", [("grade", "--jobs", "x"), ("frobnicate",), ("test", "--lang", "fr")]
)
def test_a_wrong_command_line_is_told(arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert done.status == 2 and "usage:" in done.stderr and "Traceback" not in done.stderr


# ---------------------------------------------------------------- test


def test_a_stub_is_not_started_and_gets_the_next_step(tmp_path: Path) -> None:
    for name, text in hand_ins.stub().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = command("test", "--lab", "2", "-k", "rotate", "--folder", str(tmp_path), "--lang", "en")
    assert done.status == 1 and done.stderr == ""
    assert "0 of 4 points" in done.stdout
    assert f"next: {suggestions.command('test')} --lab 2 -k rotate_half" in done.stdout
    assert "hint:" not in done.stdout  # before a first attempt it would only give things away
    assert "repeat_kv" not in done.stdout and "Traceback" not in done.stdout


def test_the_stub_of_lab_1_begins_with_its_first_exercise(tmp_path: Path) -> None:
    for name, text in stubs.stubs(labfile.load(labfile.find_lab("1"))).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = warm.run("test", "--lab", "1", "--folder", str(tmp_path), "--lang", "en")
    assert done.status == 1 and done.stderr == ""
    assert "0 of 100 points" in done.stdout
    assert f"next: {suggestions.command('test')} --lab 1 -k softmax" in done.stdout


@pytest.mark.parametrize("number", ["2", "7"])
def test_an_untouched_lab_is_not_run_and_told_as_if_it_were(
    number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = labfile.load(labfile.find_lab(number))
    every = tuple(check.name for check in lab.checks)

    def told(record: ClassRecord) -> list[str]:
        text, passed = student.board(record, every, "en", lab.folder)
        assert not passed
        return [line for line in text.splitlines() if "isolation level" not in line]

    monkeypatch.setattr(student, "Engine", warm.Warm)
    ran = student.tried(lab, lab.folder, diagnose=True)
    known = student.untouched(lab, lab.folder)
    assert known is not None and told(known) == told(ran)
    monkeypatch.setattr(hint, "STATE", tmp_path / "hints.json")
    for module in (student, hint):
        monkeypatch.setattr(module, "tried", None)  # nothing may run
    assert "0 of 100 points" in warm.run("test", "--lab", number).stdout
    assert "Hint" in warm.run("hint", "--lab", number).stdout


@pytest.mark.parametrize(("lab", "run"), [("lab1", warm.run), ("lab2", command)])
def test_a_right_solution_passes_everything(lab: str, run: Callable[..., Run]) -> None:
    solution = labfile.SOLUTIONS / labfile.find_lab(lab).name
    done = run("test", "--lab", lab, "--folder", str(solution), "--lang", "en")
    assert done.status == 0 and done.stderr == ""
    assert "100 of 100 points" in done.stdout and "hidden cases" in done.stdout
    assert "All public cases pass" in done.stdout and "isolation level: strong" in done.stdout
    assert "\x1b" not in done.stdout  # no colours into a pipe


def test_a_mistake_is_told_with_its_place_and_the_students_prints(tmp_path: Path) -> None:
    folder = shutil.copytree(SOLUTION, tmp_path / "mine")
    text = (folder / "attention.py").read_text(encoding="utf-8")
    wrong = 'def rotate_half(x):\n    print("looking at", x.shape)\n    return x.undefined\n'
    (folder / "attention.py").write_text(text + wrong, encoding="utf-8")
    done = warm.run("test", "-k", "rotate_half", "--folder", str(folder), "--lang", "en")
    assert done.status == 1
    line = text.count("\n") + 3
    assert f"{folder / 'attention.py'}:{line}" in done.stdout
    assert "return x.undefined" in done.stdout and "looking at torch.Size" in done.stdout
    assert "AttributeError" in done.stdout and "autograder/" not in done.stdout


@pytest.mark.parametrize("asked", [(), ("-k", "mlp"), ("-k", "test_mlp_parity")])
def test_a_known_mistake_is_said_to_have_a_hint(tmp_path: Path, asked: tuple[str, ...]) -> None:
    folder = shutil.copytree(SOLUTION, tmp_path / "mine")
    text = (folder / "mlp.py").read_text(encoding="utf-8")
    wrong = text.replace("F.silu(self.gate_proj(x))", "F.gelu(self.gate_proj(x))")
    assert wrong != text
    (folder / "mlp.py").write_text(wrong, encoding="utf-8")
    done = warm.run("test", "--lab", "2", *asked, "--folder", str(folder), "--lang", "en")
    assert done.status == 1 and "this looks like a known mistake" in done.stdout


@pytest.mark.slow
def test_an_endless_loop_is_told_and_ends() -> None:
    folder = str(EXAMPLES / "henry_infinite_loop")
    done = warm.run("test", "-k", "test_mlp_runs", "--folder", folder, "--lang", "en")
    assert done.status == 1 and "2 s of CPU time" in done.stdout


def test_an_exercise_brings_along_what_it_needs() -> None:
    done = warm.run("test", "-k", "test_mlp_parity", "--folder", str(SOLUTION), "--lang", "en")
    assert (
        done.status == 0 and "3 of 3 points" in done.stdout
    )  # of parity, not of what it builds on


def test_files_that_are_absent_are_told(tmp_path: Path) -> None:
    shutil.copy(SOLUTION / "attention.py", tmp_path)
    done = warm.run("test", "-k", "mlp", "--folder", str(tmp_path), "--lang", "en")
    assert done.status == 1 and "mlp.py is not in the hand-in" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["test", "-k", "nothing_like_that"], ("nothing_like_that", "no lab has one")),
        (["test", "-k", "attention"], ("LAB=", "lab1_foundations", "lab2_qwen3_block")),
        (["test", "--lab", "2", "-k", "nothing"], ("nothing", "lab2.rotate_half")),
        (["test", "--lab", "99"], ("99", "lab2_qwen3_block")),
        (["debug", "-k", "nothing_like_that"], ("nothing_like_that", "lab2.mlp")),
        (
            ["chat", "--lab", "1"],
            ("lab1_foundations has no chat; labs 2, 4, 5, 7 have it: make chat",),
        ),
        (["serve", "--lab", "2"], ("lab2_qwen3_block has no serve", "make serve LAB=7")),
        (["chat", "--lab", "3", "--lang", "zh"], ("lab3_kv_cache 没有 chat", "make chat LAB=2")),
        (["test", "--lab", "99", "--lang", "zh"], ("没有名为 '99' 的实验", "lab2_qwen3_block")),
        (["test", "-k", "none_such", "--lab", "2", "--lang", "zh"], ("没有这样命名的练习",)),
        (["test", "-k", "none_such", "--lang", "zh"], ("请用 LAB=",)),
        (["debug", "--lab", "2", "-k", "none_such", "--lang", "zh"], ("没有这样命名",)),
        (["reset", "--lab", "2", "-k", "none_such", "--lang", "zh"], ("没有这个文件",)),
        (["carry", "--from", "1", "--to", "9", "--lang", "zh"], ("没有名为 '9' 的实验",)),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    arguments: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words) and "Traceback" not in told


# ---------------------------------------------------------------- languages and terminals


LANGUAGES = (
    ((), {"LAB_LANG": "zh"}, True),
    ((), {"LAB_LANG": "en", "LANG": "zh_CN.UTF-8"}, False),
    (("--lang", "zh"), {"LAB_LANG": "en"}, True),
    (("--lang", "en"), {"LANG": "zh_CN.UTF-8"}, False),
    ((), {"LANG": "zh_CN.UTF-8"}, True),
    ((), {"LANG": "C.UTF-8"}, False),
    ((), {"LC_ALL": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}, True),
    ((), {"LC_MESSAGES": "zh_CN", "LANG": "en_US.UTF-8"}, True),
    ((), {"LANGUAGE": "en:zh", "LC_ALL": "zh_CN.UTF-8"}, False),
    ((), {"LAB_LANG": "zh", "LC_ALL": "en_US.UTF-8"}, True),
)


@pytest.mark.parametrize(("options", "variables", "chinese"), LANGUAGES)
def test_the_language_is_asked_for_by_option_or_variable(
    options: tuple[str, ...], variables: dict[str, str], chinese: bool
) -> None:
    from autograder.cli.main import _parser

    with pytest.MonkeyPatch.context() as patch:
        for name in ("LAB_LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        arguments = _parser({}).parse_args(["test", *options])
    assert arguments.lang == ("zh" if chinese else "en")


@pytest.mark.parametrize("encoding", ["gbk", "ascii"])
def test_a_terminal_of_any_encoding_shows_something_and_nothing_breaks(encoding: str) -> None:
    folder = str(EXAMPLES / "frank_interleaved_rope")
    arguments = ("test", "-k", "rotate_half", "--folder", folder)
    done = warm.run(*arguments, encoding=encoding, LAB_LANG="zh")
    assert done.status == 1 and "Traceback" not in done.stderr + done.stdout
    assert "rotate_half" in done.stdout and "test --lab 2 -k" in done.stdout
    assert ("两半互换" in done.stdout) == (encoding != "ascii")
    assert "XX " in done.stdout  # no glyph that this terminal cannot show


# ---------------------------------------------------------------- debug

# As where students are: no plugin of pytest is there that we use ourselves.
PLAIN_PYTEST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_timeout"}


@pytest.mark.slow
def test_debug_reads_commands_of_a_debugger_in_the_process_of_pytest(tmp_path: Path) -> None:
    folder = shutil.copytree(SOLUTION, tmp_path / "mine")
    text = (folder / "attention.py").read_text(encoding="utf-8")
    probe = "import sys\nprint('in process:', 'pytest' in sys.modules)\n"
    stopping = (
        "\n\n_right = rotate_half\n\ndef rotate_half(x):\n    breakpoint()\n    return _right(x)\n"
    )
    changed = text.replace(hand_ins.FUTURE, hand_ins.FUTURE + probe, 1) + stopping
    (folder / "attention.py").write_text(changed, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "autograder", "debug", "-k", "rotate_half", "--folder", str(folder)],
        input="p 'sum', 40 + 2\np tuple(x.shape)\n" + "c\n" * 99,
        cwd=ROOT, capture_output=True, text=True, timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"} | PLAIN_PYTEST,
    )  # fmt: skip
    assert done.returncode == 0 and "in process: True" in done.stdout
    assert "('sum', 42)" in done.stdout and "(Pdb)" in done.stdout


def test_what_real_weights_are_compared_with_is_gone_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Path] = []

    def built(lab: str, folder: Path, weights: str) -> RealWeights:
        made.append(folder)
        (folder / "real.safetensors").write_bytes(b"expected")
        if weights == "none":
            raise hidden_cases.PrepareError("no such weights")
        return RealWeights(folder / "real.safetensors", folder, (), 0)

    def interrupted(*arguments: object, real: RealWeights | None, **more: object) -> int:
        assert real is None or real.cases.exists()
        if real is not None:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(hidden_cases, "real_weights", built)
    monkeypatch.setattr(student, "test", interrupted)
    assert main(["test", "--lab", "2", "--weights", "none"]) == 0
    with suppress(KeyboardInterrupt):
        main(["test", "--lab", "2", "--weights", "some"])
    assert len(made) == 2 and not any(folder.exists() for folder in made)
