"""What notebooks use: a TODO is a sentence, files are read anew, magics do what make does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.cli import notebook
from autograder.course import chart_labels, labfile
from autograder.course.labfile import ROOT


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab 2 of its own, with nothing written."""
    folder = tmp_path / "lab2_qwen3_block"
    shutil.copytree(ROOT / "labs" / folder.name, folder)
    monkeypatch.setattr(labfile, "find_lab", lambda name: folder)
    return folder


def test_a_todo_is_one_sentence_in_both_languages(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with notebook.your_code("lab2") as mine:
        mine.rotate_half(None)
        print("not reached")
    said = capsys.readouterr().out
    assert said.count("\n") == 2 and said.startswith(f"{notebook.TODO}: lab2.rotate_half.")
    assert "save, and run this cell again." in said and "请在 labs/lab2_qwen3_block" in said
    assert "attention" not in sys.modules


def test_a_cell_reads_the_files_anew(lab: Path) -> None:
    for number in (1, 2):
        (lab / "mlp.py").write_text(f"number = {number}\n", encoding="utf-8")
        with notebook.your_code("lab2") as mine:
            assert mine.number == number


def test_an_error_of_the_student_is_shown_as_python_shows_it(lab: Path) -> None:
    (lab / "mlp.py").write_text("def broken():\n    return [][1]\n", encoding="utf-8")
    with pytest.raises(IndexError), notebook.your_code("lab2") as mine:
        mine.broken()
    (lab / "mlp.py").write_text("def other():\n    raise NotImplementedError('x')\n")
    with pytest.raises(NotImplementedError), notebook.your_code("lab2") as mine:
        mine.other()
    assert "mlp" not in sys.modules


def test_a_cell_shows_the_same_every_time(lab: Path) -> None:
    import torch

    drawn = []
    for _ in range(2):
        with notebook.your_code("lab2"):
            weight = torch.nn.Linear(2, 2).weight
            drawn.append((weight * 1).tolist())
            assert not (weight * 1).requires_grad
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("lab4", ["--lab", "lab4"]),
        ("3 rotary", ["--lab", "3", "-k", "rotary"]),
        ("", ["--lab", "5"]),
        ("lab5.qkv", ["--lab", "5", "-k", "lab5.qkv"]),
    ],
)
def test_magics_are_the_commands_of_the_command_line(
    line: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(
            command, 1, "next: 'my own/bin/python' -m autograder test --lab 2 -k mlp\n"
            "stuck? .venv/bin/python -m autograder hint --lab 2\n"
        )  # fmt: skip

    monkeypatch.setattr(notebook, "_last", "5")
    monkeypatch.setattr(subprocess, "run", run)
    notebook.check(line)
    assert asked == [[sys.executable, "-m", "autograder", "test", *words]]
    assert capsys.readouterr().out == "next: %check lab2 mlp\nstuck? %hint lab2\n"


def test_the_extension_costs_nothing_until_it_is_loaded() -> None:
    code = (
        "import sys, autograder\n"
        "assert not [name for name in sys.modules if name.startswith('autograder.')]\n"
        "class Shell(dict):\n"
        "    def register_magic_function(self, function, kind, name):\n"
        "        self[name] = kind\n"
        "shell = Shell()\n"
        "autograder.load_ipython_extension(shell)\n"
        "assert shell == {'check': 'line', 'hint': 'line'}\n"
        "assert not {'torch', 'IPython', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


ENGLISH = ["layer 2, head 0, no mask", "KV cache, GiB", "0.6B: 8 kv heads", "my own", "8 bits"]
CHINESE = ["第 2 层，头 0，无掩码", "KV 缓存（GiB）", "0.6B: 8 个键值头", "my own", "8 位"]


@pytest.mark.parametrize(
    ("language", "font", "shown"),
    [
        ("zh", "DejaVu Sans", CHINESE),  # comes with matplotlib
        ("en", "DejaVu Sans", ENGLISH),
        ("zh", "no such font", ENGLISH),  # rather than boxes
    ],
)
def test_charts_are_labelled_in_the_language_of_the_reader(
    language: str, font: str, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import figure, rc_context, text

    monkeypatch.setattr(text.Text, "set_text", text.Text.set_text)  # put back afterwards
    monkeypatch.setattr(notebook, "_CHINESE", (font,))
    monkeypatch.setenv("LAB_LANG", language)
    title, ylabel, *legend, tick = ENGLISH
    with rc_context():
        for _ in range(2):  # loaded twice
            notebook.draw_chinese()
        axes = figure.Figure().subplots()
        axes.set(title=title, ylabel=ylabel, xticks=[0], xticklabels=[tick])
        told = axes.legend([axes.plot([0])[0] for _ in legend], legend).get_texts()
    found = [axes.title, axes.yaxis.label, *told, *axes.get_xticklabels()]
    assert [one.get_text() for one in found] == shown


def test_a_course_may_have_no_labels_and_a_broken_table_is_named(tmp_path: Path) -> None:
    assert chart_labels.load(tmp_path) == {}
    (tmp_path / "notebooks").mkdir()
    (tmp_path / chart_labels.FILE).write_text("no table\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"notebooks/labels.zh.toml: .*line 1"):
        chart_labels.load(tmp_path)


@pytest.mark.parametrize(
    ("fonts", "family"),
    [
        (["DejaVu Sans", "SimHei", "PingFang SC"], ["sans-serif", "PingFang SC"]),
        (["DejaVu Sans"], ["sans-serif"]),
    ],
)
def test_charts_take_chinese_from_a_font_that_has_it(
    fonts: list[str], family: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import font_manager, rc_context, rcParams

    known = [SimpleNamespace(name=name) for name in fonts]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", known)
    with rc_context():
        for _ in range(2):  # loaded twice
            notebook.draw_chinese()
        assert rcParams["font.family"] == family
