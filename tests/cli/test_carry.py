"""``carry``: a student's files of one lab arrive in another, and work is never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.cli import own_files
from autograder.cli.main import main
from autograder.course import labfile

SOLUTION = labfile.SOLUTIONS / "lab2_qwen3_block"
LAB2, LAB4 = (labfile.find_lab(name) for name in ("2", "4"))
NAMES = ("attention.py", "mlp.py")


@pytest.fixture
def lab4(tmp_path: Path) -> Path:
    """A folder with lab 4 as it is handed out."""
    folder = tmp_path / "lab4"
    folder.mkdir()
    for name in (*NAMES, "model.py"):
        (folder / name).write_bytes((LAB4 / name).read_bytes())
    return folder


def carried(to: Path, *more: str, source: Path = SOLUTION) -> int:
    folders = ["--from-folder", str(source), "--folder", str(to)]
    return main(["carry", "--from", "2", "--to", "4", "--lang", "en", *folders, *more])


def test_both_files_arrive_byte_for_byte(lab4: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = (lab4 / "model.py").read_bytes()
    assert carried(lab4) == 0
    for name in NAMES:
        assert (lab4 / name).read_bytes() == (SOLUTION / name).read_bytes()
    assert (lab4 / "model.py").read_bytes() == model
    said = capsys.readouterr().out
    assert said.count("carried") == 2
    assert "test --lab 4" in said
    assert carried(lab4) == 0  # once more changes nothing
    assert capsys.readouterr().out.count("unchanged") == 2


def test_work_is_not_overwritten_unless_asked(
    lab4: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(own_files, "BACKUPS", tmp_path / "backups")
    (lab4 / "mlp.py").write_text("mine\n", encoding="utf-8")
    before = (lab4 / "attention.py").read_bytes()
    assert carried(lab4) == 1
    said = capsys.readouterr().err
    assert "mlp.py in" in said and "FORCE=1" in said
    assert (lab4 / "mlp.py").read_text(encoding="utf-8") == "mine\n"
    assert (lab4 / "attention.py").read_bytes() == before  # all or none
    assert carried(lab4, "--force") == 0
    assert (lab4 / "mlp.py").read_bytes() == (SOLUTION / "mlp.py").read_bytes()
    (kept,) = (tmp_path / "backups").rglob("*.py")  # what was untouched is no loss
    assert kept.read_text(encoding="utf-8") == "mine\n" and str(kept) in capsys.readouterr().out


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_not_done_is_not_carried(
    lab4: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    before = {name: (lab4 / name).read_bytes() for name in NAMES}
    stubs = tmp_path / "lab2"
    stubs.mkdir()
    for name in NAMES:
        (stubs / name).write_text((LAB2 / name).read_text("utf-8"), "utf-8", newline=end)
    assert carried(lab4, source=stubs) == 1
    assert "still as it was handed out" in capsys.readouterr().err
    assert carried(lab4, source=tmp_path) == 1
    assert "attention.py is absent" in capsys.readouterr().err
    assert {name: (lab4 / name).read_bytes() for name in NAMES} == before


def test_a_lab_that_builds_on_another_one_takes_no_files_of_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab3 = tmp_path / "lab3"
    lab3.mkdir()
    for name in NAMES:
        (lab3 / name).write_bytes((labfile.find_lab("3") / name).read_bytes())
    before = {name: (lab3 / name).read_bytes() for name in NAMES}
    folders = ["--from-folder", str(SOLUTION), "--folder", str(lab3)]
    says = {"en": "lab3_kv_cache does not build on lab2_qwen3_block", "zh": "不以"}
    for language, words in says.items():
        asked = ["--from", "2", "--to", "3", "--lang", language]
        assert main(["carry", *asked, *folders]) == 1
        said = capsys.readouterr().err
        assert words in said and "KVCache" in said
    assert {name: (lab3 / name).read_bytes() for name in NAMES} == before


def test_work_that_is_no_python_yet_is_carried_all_the_same(lab4: Path, tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    for name in NAMES:
        text = (SOLUTION / name).read_text(encoding="utf-8")
        (source / name).write_text(text + "def half(\n", encoding="utf-8")
    assert carried(lab4, source=source) == 0
