"""The archive of reports goes back under the names by which the course system finds students."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from autograder.cli.main import main
from tests.archives import GOOD, laid, notebook, placed, tarred, under, zipped
from tests.exports.graded import graded

CANVAS = {
    "liwei_1001_501_attention.py": GOOD["attention.py"],
    "liwei_1001_502_mlp.py": GOOD["mlp.py"],
    "王芳_LATE_1002_503_lab2.zip": zipped(under("lab2")),
    "zhao_1003_504_attention-1.py": GOOD["attention.py"],
    "zhao_1003_505_mlp.py": GOOD["mlp.py"],
    "anon_abCD1_506_lab2.zip": zipped(GOOD),
    "note_1004_507_lab2.ipynb": notebook("%%writefile attention.py\nA = 1\n"),
    "typed_1005_text.html": b"<p>my code</p>",
    "tape_1006_508_lab2.tar.gz": tarred(GOOD, mode="w:gz"),
}
FOLDERS = {
    **under("李 雷_21_assignsubmission_file"),
    "李 雷_21_assignsubmission_onlinetext/onlinetext.html": b"hello",
    **under("Han Meimei_22_assignsubmission_file_"),
    "王伟_23_assignsubmission_file/lab2.zip": zipped(GOOD),
    **under("王伟_24_assignsubmission_file"),
}
FLAT = {
    "李雷_21_assignsubmission_file_attention.py": GOOD["attention.py"],
    "李雷_21_assignsubmission_file_mlp.py": GOOD["mlp.py"],
    "Han Meimei_22_assignsubmission_file_lab2.zip": zipped(GOOD),
}


def canvas_finds(name: str) -> tuple[str, str]:
    """User and attachment as ``infer_comment_context_from_filename`` takes them from a name."""
    parts = [part for part in name.split("_") if part != "LATE"]
    if parts[0] == "anon":
        return parts[1], parts[2]
    user, attachment = [part for part in parts if part.isdecimal()][:2]
    return user, attachment


def moodle_finds(path: str) -> tuple[str, str]:
    """Participant and file as ``is_valid_filename_for_import`` takes them from a path."""
    parts = path.split("/")
    while parts:
        info = parts.pop(0).split("_", 4)
        if len(info) >= 4 and info[1].isdecimal() and info[2:4] == ["assignsubmission", "file"]:
            return info[1], "/".join([*info[4:], *parts]).lstrip("/")
    raise AssertionError(path)


def export(folder: Path, download: Path, *more: str) -> int:
    line = ["export", "feedback", str(folder / "out"), "--like", str(download)]
    return main([*line, *more, "--lang", "en"])


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def report(folder: Path, student: str, name: str = "report.html") -> bytes:
    return (folder / "out" / student / name).read_bytes()


@pytest.mark.parametrize("packed", [True, False])
def test_moodle_finds_every_report(
    tmp_path: Path, packed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    download = tmp_path / "m.zip"
    download = placed(download, zipped(FOLDERS)) if packed else laid(tmp_path / "m", FOLDERS)
    graded(download, tmp_path / "out", {"王伟_23": 60})
    assert export(tmp_path, download) == 0
    found = members(tmp_path / "out" / "feedback.zip")
    assert {moodle_finds(path): data for path, data in found.items()} == {
        ("21", "report.html"): report(tmp_path, "李_雷_21"),
        ("22", "report.html"): report(tmp_path, "Han_Meimei_22"),
        ("23", "report.html"): report(tmp_path, "王伟_23"),
        ("24", "report.html"): report(tmp_path, "王伟_24"),
    }
    assert "李 雷_21_assignsubmission_file/report.html" in found
    assert found["王伟_23_assignsubmission_file/report.html"] != report(tmp_path, "王伟_24")
    assert "4 reports" in capsys.readouterr().out


def test_loose_files_of_moodle_stay_loose(tmp_path: Path) -> None:
    download = placed(tmp_path / "m.zip", zipped(FLAT))
    graded(download, tmp_path / "out", {})
    assert export(tmp_path, download, "--to", str(tmp_path / "f.zip")) == 0
    found = members(tmp_path / "f.zip")
    assert all("/" not in name for name in found)
    assert sorted(map(moodle_finds, found)) == [("21", "report.html"), ("22", "report.html")]


@pytest.mark.parametrize("packed", [True, False])
def test_canvas_finds_every_report(
    tmp_path: Path, packed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    download = tmp_path / "c.zip"
    download = placed(download, zipped(CANVAS)) if packed else laid(tmp_path / "c", CANVAS)
    graded(download, tmp_path / "out", {})
    assert export(tmp_path, download) == 1
    found = members(tmp_path / "out" / "feedback.zip")
    assert set(found) <= set(CANVAS)  # an attachment that is not theirs would be ignored
    assert sorted(map(canvas_finds, found)) == [
        ("1001", "501"), ("1002", "503"), ("1003", "504"), ("1004", "507"), ("abCD1", "506"),
    ]  # fmt: skip
    assert found["liwei_1001_501_attention.py"] == report(tmp_path, "liwei_1001", "report.md")
    inner = zipfile.ZipFile(io.BytesIO(found["王芳_LATE_1002_503_lab2.zip"]))
    for name in ("report.html", "report.md"):
        assert inner.read(name) == report(tmp_path, "王芳_1002", name)
    (cell,) = json.loads(found["note_1004_507_lab2.ipynb"])["cells"]
    assert cell["source"].encode() == report(tmp_path, "note_1004", "report.md")
    said = capsys.readouterr()
    assert "5 reports" in said.out
    assert said.err.rstrip().endswith("tape_1006; typed_1005")


def test_equal_reports_make_equal_archives(tmp_path: Path) -> None:
    download = placed(tmp_path / "c.zip", zipped(CANVAS))
    graded(download, tmp_path / "out", {})
    export(tmp_path, download)
    first = (tmp_path / "out" / "feedback.zip").read_bytes()
    export(tmp_path, download)
    assert (tmp_path / "out" / "feedback.zip").read_bytes() == first


def test_nothing_but_reports_is_sent(tmp_path: Path) -> None:
    download = placed(tmp_path / "m.zip", zipped(FOLDERS))
    graded(download, tmp_path / "out", {"": 85})
    (tmp_path / "out" / "secret").write_text("do not send")
    (tmp_path / "out" / "王伟_23" / "notes.txt").write_text("do not send")
    assert export(tmp_path, download) == 0
    found = members(tmp_path / "out" / "feedback.zip")
    assert {PurePosixPath(name).name for name in found} == {"report.html"}
    assert not any(b"do not send" in data for data in found.values())


def test_a_report_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    download = placed(tmp_path / "m.zip", zipped(FOLDERS))
    graded(download, tmp_path / "out", {})
    (tmp_path / "out" / "王伟_23" / "report.html").unlink()
    assert export(tmp_path, download) == 1
    assert capsys.readouterr().err.rstrip().endswith(": 王伟_23")
    assert len(members(tmp_path / "out" / "feedback.zip")) == 3


def test_a_download_that_does_not_fit_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graded(placed(tmp_path / "m.zip", zipped(FOLDERS)), tmp_path / "out", {})
    plain = placed(tmp_path / "p.zip", zipped(under("alice") | under("bob")))
    other = placed(tmp_path / "o.zip", zipped(under("Zoe_77_assignsubmission_file")))
    broken = placed(tmp_path / "b.zip", b"no zip")
    for download, words in (
        (plain, "Canvas or Moodle"),
        (other, "none of its hand-ins"),
        (tmp_path / "none.zip", "none.zip"),
        (broken, "b.zip"),
    ):
        assert export(tmp_path, download) == 2
        said = capsys.readouterr()
        assert said.out == "" and len(said.err.splitlines()) == 1 and words in said.err
    for folder in (tmp_path / "out").iterdir():
        if folder.is_dir():
            (folder / "report.md").unlink()
    assert export(tmp_path, tmp_path / "m.zip") == 2
    assert "autograder report" in capsys.readouterr().err
    assert not [path for path in (tmp_path / "out").iterdir() if "zip" in path.name]
