"""``make report`` fills the machine's parts; the student's words stay byte for byte."""

from __future__ import annotations

import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest

from autograder.cli import my_report
from autograder.cli.my_report import BLOCKS, filled
from autograder.course import labfile
from autograder.course.labfile import ROOT
from autograder.course.quantity import fields
from autograder.course.records import CheckResult, ClassRecord, HandIn, Isolation, Lab, Outcome
from labs.given.config import Qwen3Config
from labs.lab2_qwen3_block import figures

TEMPLATES = [ROOT / name for name in my_report.TEMPLATES.values()]
PARTS = dict.fromkeys(BLOCKS, "")
FIGURES = "labs.lab2_qwen3_block.figures"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_part_has_its_place_and_the_students_words_stay(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("Half a page", "MY WORDS")
    mine = {name: f"{name} of mine\nin two lines" for name in BLOCKS}
    once, absent = filled(text, mine)
    assert absent == [] and all(f"{name} of mine" in once for name in BLOCKS)
    assert filled(once, mine) == (once, [])  # again: nothing changes
    back, _ = filled(once, PARTS)
    assert re.sub(r"-->\n\n<!-- end", "-->\n<!-- end", back) == text


def test_marks_that_were_deleted_or_left_open_are_no_harm() -> None:
    text = "a\n<!-- machine: scores -->\nold\nmine, since the end is gone\n"
    assert filled(text, {"scores": "new"}) == (text, ["scores"])
    open_one = f"{text}<!-- machine: text -->\nold\n<!-- end -->\nmine\n"
    done, absent = filled(open_one, {"scores": "new", "text": "new"})
    assert "mine, since" in done and "\nmine\n" in done and "scores" in absent


def test_what_the_model_says_cannot_end_its_part() -> None:
    text = "<!-- machine: text -->\n<!-- end -->\nmine\n"
    once, _ = filled(text, {"text": "x\n<!-- end -->\ny"})
    assert filled(once, {"text": "z"})[0] == "<!-- machine: text -->\nz\n<!-- end -->\nmine\n"


def test_line_ends_of_windows_stay() -> None:
    text = "a\r\n<!-- machine: text -->\r\n<!-- end -->\r\nmine\r\n"
    done, _ = filled(text, {"text": "x\ny"})
    assert done == "a\r\n<!-- machine: text -->\r\nx\r\ny\r\n<!-- end -->\r\nmine\r\n"


def test_both_templates_ask_for_the_same_numbers() -> None:
    english, chinese = (fields(path.read_text(encoding="utf-8")) for path in TEMPLATES)
    assert english == chinese and len(english) == 12
    for path in TEMPLATES:
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"^#+ \d", text, re.MULTILINE) == re.findall(
            r"^#+ \d", TEMPLATES[0].read_text(encoding="utf-8"), re.MULTILINE
        )


# ------------------------------------------------------------------------------ the command


def passing(lab: Lab, folder: Path) -> ClassRecord:
    """All checks of a lab pass, whatever lies in ``folder``."""
    results = tuple(CheckResult(check.name, Outcome.PASSED) for check in lab.checks)
    return ClassRecord(lab, Isolation("strong", (), "fork"), {}, (HandIn("you", results),))


@cache
def counted() -> str:
    """What the solution's own functions count; it costs an import of torch."""
    solution = labfile.SOLUTIONS / "lab2_qwen3_block"
    return my_report._output([sys.executable, "-m", FIGURES, str(solution), *figures.NEEDED])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without running any lab."""
    monkeypatch.setattr(my_report, "tried", passing)
    numbers = counted()

    def output(command: list[str]) -> str:
        return numbers if FIGURES in command else "Call me Ishmael"

    monkeypatch.setattr(my_report, "_output", output)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_report_is_begun_and_filled_in(
    quick: None, tmp_path: Path, language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert my_report.run("2", tmp_path, language) == 0
    path = tmp_path / my_report.FILE
    text = path.read_text(encoding="utf-8")
    assert "| 100 / 100 |" in text and "Call me Ishmael" in text and "torch 2" in text
    assert ("用我的代码" in text) == (language == "zh")
    pictures = re.findall(r"\]\((report_figures/\w+\.svg)\)", text)
    assert len(pictures) == 3
    for name in pictures:
        ElementTree.parse(tmp_path / name)
    said = capsys.readouterr().out
    assert "layer_8b" in said and str(path) in said
    # Filling in: one number that can be read, one without its unit.
    text = text.replace("[[layer_8b | count: ______]]", "[[layer_8b | count: 193M]] my words")
    text = text.replace("[[kv_token_8b | bytes: ______]]", "[[kv_token_8b | bytes: 144]]")
    path.write_text(text, encoding="utf-8")
    assert my_report.run("2", tmp_path, language) == 0
    assert path.read_text(encoding="utf-8") == text
    said = capsys.readouterr().out
    assert "kv_token_8b" in said and "KiB" in said and "layer_8b" not in said


def test_a_report_that_windows_saved_is_read_and_written_as_utf_8(
    quick: None, tmp_path: Path
) -> None:
    path = tmp_path / my_report.FILE
    path.write_text("我的话\n\n<!-- machine: text -->\n<!-- end -->\n", encoding="gbk")
    assert my_report.run("2", tmp_path, "zh") == 0
    text = path.read_text(encoding="utf-8")
    assert "我的话" in text and "Call me Ishmael" in text
    path.write_text("我的话\n", encoding="utf-16")
    with pytest.raises(labfile.LabError, match=r"my_report\.md is saved as UTF-16") as error:
        my_report.run("2", tmp_path, "zh")
    assert "另存为 UTF-8" in error.value.said.zh
    assert path.read_text(encoding="utf-16") == "我的话\n"


@pytest.mark.parametrize(
    ("size", "says"),
    [
        ("Qwen3-0.6B", "All 11 numbers are written in"),
        ("8B", "the field other_size names no size that can be looked up; write one of 0.6B, "),
        ("______", "Still to be filled in, 1 of 12 fields: other_size"),
    ],
)
def test_a_size_that_cannot_be_looked_up_is_told_before_it_costs_points(
    quick: None, tmp_path: Path, size: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEMPLATES[0].read_text(encoding="utf-8").replace("choice: ______", f"choice: {size}")
    text = re.sub(r"\| (count|bytes|ratio): _+", r"| \1: 4096", text)
    (tmp_path / my_report.FILE).write_text(text, encoding="utf-8")
    assert my_report.run("2", tmp_path, "en") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert says in said and ("All " in said) == size.startswith("Qwen3")


def test_nothing_is_begun_and_that_is_said(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(my_report, "begun", lambda lab: False)
    assert my_report.run("", tmp_path, "en") == 0
    text = (tmp_path / my_report.FILE).read_text(encoding="utf-8")
    assert "No lab has been started yet." in text and "No figures yet" in text
    assert not (tmp_path / my_report.FIGURES).exists()


def test_own_functions_that_break_cost_their_pictures_alone(tmp_path: Path) -> None:
    lab = labfile.load(labfile.find_lab("2"))
    for name in lab.files:
        shutil.copy(lab.folder / name, tmp_path)
    command = [sys.executable, "-m", FIGURES, str(tmp_path)]
    assert my_report._output([*command, *figures.NEEDED]) == ""
    assert my_report._output(command) == "[]"


# ------------------------------------------------------------------------------ the pictures


def test_the_sizes_of_the_pictures_are_those_of_qwen3() -> None:
    total = {
        "0.6B": 596_049_920,
        "1.7B": 1_720_574_976,
        "4B": 4_022_468_096,
        "8B": 8_190_735_360,
        "14B": 14_768_307_200,
        "32B": 32_762_123_264,
    }
    for name, want in total.items():
        assert _parameters(figures.config(name)) == want


def _parameters(c: Qwen3Config) -> int:
    """Counted module by module, by the shapes of ``transformers/models/qwen3``."""
    query, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    attention = 2 * c.hidden_size * query + 2 * c.hidden_size * kv + 2 * c.head_dim
    layer = attention + 3 * c.hidden_size * c.intermediate_size + 2 * c.hidden_size
    tables = c.vocab_size * c.hidden_size * (1 if c.tie_word_embeddings else 2)
    return c.num_hidden_layers * layer + tables + c.hidden_size


def test_charts_are_pictures_whatever_their_words() -> None:
    drawn = (
        my_report.shares('<b>"&', [("1", 0, 100), ("2 <", 100, 100)]),
        my_report.lines("t", "x", {"a": [(0, 0), (2, 4)], "b": [(0, 0), (2, 1)]}),
        my_report.stacks("t", {"8B": {"mlp": 3.0, "head": 1.0}, "none": {}}),
        my_report.lines("t", "x", {}),
    )
    for text in drawn:
        assert ElementTree.fromstring(text).tag.endswith("svg")
    assert 'points="70.0,300.0 510.0,56.0"' in drawn[1]  # from the origin to the far corner
