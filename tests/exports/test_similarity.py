"""The bundle for similarity tools holds what intake reads, as those tools document their input."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.authoring.stubs import stubs
from autograder.cli.main import main
from autograder.course import labfile
from tests.archives import laid, notebook, placed, zipped

LAB = labfile.load(labfile.find_lab("lab2"))
FILES = {name: text.encode() for name, text in stubs(LAB).items()}


def bundle(source: Path, to: Path, *more: str, language: str = "en") -> int:
    line = ["bundle-for-similarity", str(source), "--lab", "2", "--to", str(to), *more]
    return main([*line, "--lang", language])


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def hand_ins(folder: Path) -> Path:
    return laid(
        folder,
        {
            "李 雷_21_assignsubmission_file/attention.py": b"A = 1\n",
            "李 雷_21_assignsubmission_file/mlp.py": "# 中文\n".encode("gbk"),
            "li_1001_501_lab2.zip": zipped({"x/attention.py": b"A = 2\n", "x/mlp.py": b"M = 2\n"}),
            "note/lab.ipynb": notebook("%%writefile attention.py\nA = 3\n", "1 + 1"),
            "note/secret.txt": b"never copied",
            "-evil;rm/attention.py": b"A = 4\n",
            "-evil;rm/mlp.py": b"M = 4\n",
            "nothing/readme.txt": b"",
        },
    )


def test_every_hand_in_has_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "new" / "bundle"
    assert bundle(hand_ins(tmp_path / "class"), to) == 1
    assert files(to / "base") == FILES
    assert files(to / "submissions") == {
        "_evil_rm/attention.py": b"A = 4\n",
        "_evil_rm/mlp.py": b"M = 4\n",
        "li_1001/attention.py": b"A = 2\n",
        "li_1001/mlp.py": b"M = 2\n",
        "note/attention.py": b"A = 3\n",
        "李_雷_21/attention.py": b"A = 1\n",
        "李_雷_21/mlp.py": "# 中文\n".encode(),
    }
    said = capsys.readouterr()
    page = (to / "README.md").read_text(encoding="utf-8")
    for command in (
        "java -jar jplag.jar submissions -l python3 -bc base",
        'compare50 submissions/* -d base/* -i "*.py"',
    ):
        assert command in said.out and page.count(command) == 2  # once in each language
    assert "similarity" in page and "相似度" in page
    assert "4 hand-ins" in said.out
    assert said.err.splitlines()[-2].endswith(": nothing")
    assert said.err.splitlines()[-1].endswith(": note")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["bundle"]


def test_the_last_attempt_is_compared(tmp_path: Path) -> None:
    source = laid(
        tmp_path / "class",
        {
            f"{name}_{number}/{file}": f"N = {number}\n".encode()
            for name in ("ann", "bo")
            for number in (1, 2)
            for file in FILES
        },
    )
    pattern = r"(?P<student_id>[a-z]+)_(?P<attempt>\d)"
    assert bundle(source, tmp_path / "bundle", "--pattern", pattern) == 0
    found = files(tmp_path / "bundle" / "submissions")
    assert found == {f"{name}/{file}": b"N = 2\n" for name in ("ann", "bo") for file in FILES}


def test_a_folder_that_is_not_free_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = hand_ins(tmp_path / "class")
    taken = laid(tmp_path / "taken", {"thesis.txt": b"mine"})
    (tmp_path / "empty").mkdir()
    before = files(tmp_path)
    for to, words in (
        (taken, "holds something"),
        (taken / "thesis.txt", "holds something"),
        (source / "bundle", "folder of hand-ins"),
    ):
        for language in ("en", "zh"):
            assert bundle(source, to, language=language) == 2
            said = capsys.readouterr()
            assert said.out == "" and len(said.err.splitlines()) == 1
            assert language == "zh" or words in said.err
    assert bundle(tmp_path / "none", tmp_path / "empty") == 2
    assert bundle(placed(tmp_path / "one.py", b""), tmp_path / "empty") == 2
    (tmp_path / "one.py").unlink()
    assert files(tmp_path) == before
    assert bundle(source, tmp_path / "empty") == 1
    assert (tmp_path / "empty" / "README.md").exists()
