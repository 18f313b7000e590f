"""``reset``: the files come back as they were handed out, and nobody's work is lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.authoring import stubs
from autograder.cli import own_files
from autograder.cli.main import main
from autograder.course import handed_out, labfile
from autograder.course.labfile import ROOT

LAB = labfile.load(labfile.find_lab("2"))
ORIGINAL = stubs.stubs(LAB)
WORK = (ROOT / "solutions" / LAB.name / "mlp.py").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's folder: one file is work, the other is untouched."""
    monkeypatch.setattr(own_files, "BACKUPS", tmp_path / "backups")
    monkeypatch.delenv("AUTOGRADER_MAKE", raising=False)
    place = tmp_path / "mine"
    place.mkdir()
    (place / "attention.py").write_text(ORIGINAL["attention.py"], encoding="utf-8")
    (place / "mlp.py").write_text(WORK, encoding="utf-8")
    return place


def test_work_is_kept_and_the_place_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reset", "--folder", str(folder), "--lang", "en"]) == 0
    (kept,) = (folder.parent / "backups").rglob("*.py")
    assert kept.read_text(encoding="utf-8") == WORK and kept.name == "mlp.py"
    assert (folder / "mlp.py").read_text(encoding="utf-8") == ORIGINAL["mlp.py"]
    said = capsys.readouterr().out
    assert str(kept) in said and "unchanged" in said and "test --lab 2" in said


def test_what_one_command_overwrites_lies_in_one_folder_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(10))
    ticking = SimpleNamespace(strftime=lambda form: f"at-{next(seconds)}")
    monkeypatch.setattr(own_files, "time", ticking)  # a second passes between any two looks at it
    (folder / "attention.py").write_text("x = 1\n", encoding="utf-8")
    assert main(["reset", "--folder", str(folder)]) == 0
    kept = sorted((folder.parent / "backups").rglob("*.py"))
    assert [path.name for path in kept] == ["attention.py", "mlp.py"]
    assert len({path.parent for path in kept}) == 1

    monkeypatch.setattr(
        own_files, "time", SimpleNamespace(strftime=lambda form: "at-0")
    )  # the same
    (folder / "mlp.py").write_text("y = 2\n", encoding="utf-8")
    assert main(["reset", "--folder", str(folder)]) == 0
    texts = {path.read_text(encoding="utf-8") for path in (folder.parent / "backups").rglob("*.py")}
    assert texts == {"x = 1\n", "y = 2\n", WORK}


def test_one_file_alone_and_in_chinese(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "attention.py").write_text("x = 1\n", encoding="utf-8")
    assert main(["reset", "-k", "mlp", "--folder", str(folder), "--lang", "zh"]) == 0
    assert (folder / "attention.py").read_text(encoding="utf-8") == "x = 1\n"
    assert "已保留你的文件" in capsys.readouterr().out
    assert main(["reset", "-k", "nothing", "--folder", str(folder)]) == 2
    assert "no file of lab2_qwen3_block: attention.py, mlp.py" in capsys.readouterr().err


def test_a_file_that_is_gone_comes_back(folder: Path) -> None:
    (folder / "mlp.py").unlink()
    assert main(["reset", "--folder", str(folder)]) == 0
    assert (folder / "mlp.py").read_text(encoding="utf-8") == ORIGINAL["mlp.py"]
    assert not (folder.parent / "backups").exists()


def test_a_students_copy_carries_its_own_originals(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = tmp_path / "labs" / LAB.name
    shutil.copytree(LAB.folder, lab, ignore=shutil.ignore_patterns("*.bank", "__pycache__"))
    texts = {"en": {**ORIGINAL, "mlp.py": "# ours\n"}, "zh": {**ORIGINAL, "mlp.py": "# 我们的\n"}}
    (lab / handed_out.FILE).write_text(handed_out.dump(texts))
    monkeypatch.setattr(labfile, "find_lab", lambda name: lab)
    monkeypatch.setattr(own_files, "STUBS", "autograder_is_not_here.stubs")
    for language, text in (("en", "# ours\n"), ("zh", "# 我们的\n")):
        assert main(["reset", "--folder", str(folder), "--lang", language]) == 0
        assert (folder / "mlp.py").read_text(encoding="utf-8") == text


def test_docstrings_come_back_in_the_language_of_the_student(folder: Path) -> None:
    assert main(["reset", "-k", "attention", "--folder", str(folder), "--lang", "zh"]) == 0
    chinese = (folder / "attention.py").read_text(encoding="utf-8")
    assert handed_out.is_untouched(chinese) and "注意力" in chinese
    assert main(["reset", "-k", "attention", "--folder", str(folder), "--lang", "en"]) == 0
    assert (folder / "attention.py").read_text(encoding="utf-8") == ORIGINAL["attention.py"]
    assert not (folder.parent / "backups").exists()  # nothing of the student's was in it


def test_where_there_are_no_originals_nothing_is_touched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(own_files, "STUBS", "autograder_is_not_here.stubs")
    assert main(["reset", "--folder", str(folder)]) == 1
    assert (folder / "mlp.py").read_text(encoding="utf-8") == WORK
    assert "handed_out.json" in capsys.readouterr().err
