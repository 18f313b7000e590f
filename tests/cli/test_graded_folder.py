"""The folder of a graded class: it is not overwritten, and it knows what it was graded with."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from autograder.cli.main import main
from autograder.grading import output_folder
from tests import hand_ins, warm
from tests.warm import SECRET, Run, grade, rescore

COURSE = "[due]\nlab2 = 2026-10-12T23:59:00+08:00\n[late]\nextensions = 'extensions.csv'\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A class graded with one of everything, by paths relative to a folder."""
    folder = tmp_path_factory.mktemp("graded")
    for name in ("ann", "bo"):
        (folder / "class" / name).mkdir(parents=True)
        for file, text in hand_ins.stub().items():
            (folder / "class" / name / file).write_text(text, encoding="utf-8")
    (folder / "roster.csv").write_text("id,name\nann,Ann Li\nbo,Bo\ncy,Cy\n")
    (folder / "course.toml").write_text(COURSE)
    (folder / "extensions.csv").write_text("student_id,days\nann,1\n")
    (folder / "key").write_text(f"{SECRET}\n")
    named = {"roster": "roster.csv", "course": "course.toml", "secret-file": "key"}
    options = [text for name, path in named.items() for text in (f"--{name}", folder / path)]
    relative = [os.path.relpath(text) if isinstance(text, Path) else text for text in options]
    source, out = (Path(os.path.relpath(folder / name)) for name in ("class", "out"))
    done = grade(source, out, *relative, "--keep-outputs", "--lang", "zh")
    assert done.status == 0, done.stderr
    return Run(done.status, done.stdout, done.stderr, folder / "out")


def copied(run: Run, folder: Path) -> Path:
    """The graded folder beside all that it was graded with, which it goes on to name."""
    return Path(shutil.copytree(run.out, folder / "out"))


def state(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(out.rglob("*"))}


def without(run: Run, *arguments: object) -> Run:
    """A command that is told nothing but this, in another working directory."""
    done = warm.run(*arguments, LAB_LANG="")
    return Run(done.status, done.stdout, done.stderr, run.out)


def test_a_graded_class_is_not_overwritten(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = copied(run, tmp_path)
    line = ["grade", str(run.out.parent / "class"), "--out", str(out)]
    for interrupted in (False, True):
        if interrupted:  # records alone are work, too
            (out / "class.json").unlink()
        before = state(out)
        for language in ("en", "zh"):
            assert main([*line, "--lang", language]) == 2
            said = capsys.readouterr()
            assert "--resume" in said.err and "--again" in said.err and not said.out
            assert ("。" in said.err) == (language == "zh")
        assert state(out) == before
    assert main([*line, "--resume", "--again"]) == 2 and state(out) == before


def test_grading_goes_on_from_what_the_folder_knows(run: Run, tmp_path: Path) -> None:
    out = copied(run, tmp_path)
    whole = (out / "class.json").read_bytes()
    (out / "class.json").unlink()
    resumed = without(run, "grade", "--resume", out)
    assert resumed.status == 0 and "分" in resumed.stdout, resumed.stderr
    assert (out / "class.json").read_bytes() == whole
    only = without(run, "grade", "--only", "Ann Li", "--out", out)
    assert only.status == 0 and "[1/1]" in only.stderr
    assert (out / "class.json").read_bytes() == whole
    everything = without(run, "grade", "--again", out)
    assert everything.status == 0 and "[2/2]" in everything.stderr
    assert (out / "class.json").read_bytes() == whole


@pytest.mark.parametrize("attempt", ["last", "best"])
def test_one_graded_anew_and_the_others_have_the_decisions_of_today(
    run: Run, tmp_path: Path, attempt: str
) -> None:
    out, course = copied(run, tmp_path), tmp_path / "course.toml"
    course.write_text(COURSE + "percent_per_day = 10\n")
    late = "student_id,lab,handed_in\nann,lab2,2026-10-14T11:00:00+08:00\n"
    (tmp_path / "extensions.csv").write_text(late)
    (out / "overrides.csv").write_text("student,points,reason,by\nann,95,seen,Dr. Li\n")
    options = ("--only", "bo", "--attempt", attempt, "--course", course, "--lang", "en")
    only = without(run, "grade", "--out", out, *options)
    assert only.status == 0 and "[1/1]" in only.stderr, only.stderr
    table = (out / "scores.csv").read_text(encoding="utf-8-sig")
    assert "ann" in table and ",95,19,76,100," in table
    report = (out / "ann" / "report.md").read_text(encoding="utf-8")
    assert "Dr. Li" in report and "What counts: 76 of 100" in report
    before = state(out / "ann")
    assert without(run, "grade", "--out", out, *options).status == 0
    assert attempt == "best" or state(out / "ann") == before  # nothing has changed


def test_rescore_knows_the_secret_and_the_course(run: Run, tmp_path: Path) -> None:
    out = copied(run, tmp_path)
    before = (out / "class.json").read_bytes()
    anew = without(run, "rescore", out)
    assert anew.status == 0 and "分" in anew.stdout and "--keep-outputs" not in anew.stderr
    assert (out / "class.json").read_bytes() == before
    course = tmp_path / "course.toml"
    for due in ("2026-10-20", "2026-10-25"):  # that one now, and as it stands then
        course.write_text(f"[due]\nlab2 = {due}T00:00:00Z\n")
        options = ("--course", course) if due.endswith("20") else ()
        found = Run(0, "", "", rescore(out, *options, key="").out).record["hand_ins"][0]
        assert found["lateness"]["due"] == f"{due}T00:00:00+00:00"


def test_the_secret_itself_is_nowhere(run: Run) -> None:
    text = (run.out / output_folder.NAME).read_text(encoding="utf-8")
    assert SECRET not in text and str(run.out.parent / "key") in text
    known = output_folder.read(run.out)
    assert known is not None and known.roster == run.out.parent / "roster.csv"
    assert known.extensions == run.out.parent / "extensions.csv"


def test_without_anything_to_go_on_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    for options in ([], ["--resume"], ["--again"], ["--only", "ann"]):
        assert main(["grade", "--out", str(out), *options, "--lang", "en"]) == 2
        assert "hand-ins" in capsys.readouterr().err and not out.exists()
    out.mkdir()
    for text in ("hand_ins = 3\n", "[", "colour = 'red'\n", "hand_ins = 'x'\nattempt = 'no'\n"):
        (out / output_folder.NAME).write_text(text)
        assert main(["grade", "--resume", str(out), "--lang", "en"]) == 2
        assert output_folder.NAME in capsys.readouterr().err


def test_whatever_paths_hold_is_written_and_read(tmp_path: Path) -> None:
    odd = tmp_path / 'a "quoted" \\ 文件 \x7f'
    setup = output_folder.Setup(
        odd, "lab2_qwen3_block", roster=odd, pattern=r'(?P<student_id>\d+"\\)'
    )
    output_folder.write(tmp_path, setup)
    assert output_folder.read(tmp_path) == setup
    lost = output_folder.Setup(Path(os.fsdecode(b"/x/\xff")), "lab2_qwen3_block")
    output_folder.write(tmp_path, lost)
    assert output_folder.read(tmp_path) is None
