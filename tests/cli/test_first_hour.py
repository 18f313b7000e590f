"""What a student meets in the first hour: ``K=``, ``submit``, prints, ``debug``, chance."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from autograder import intake
from autograder.authoring import stubs
from autograder.cli import submit
from autograder.cli.named_checks import chosen_checks, meaning
from autograder.course import course_file, labfile
from autograder.course.course_file import CourseError
from autograder.course.labfile import ROOT, LabError
from autograder.course.messages import CUT, cut, cut_text
from autograder.grading import written_report
from autograder.grading.judge_process import EngineError
from autograder.report.escape import block
from tests import hand_ins, warm

LAB = labfile.load(labfile.find_lab("2"))
SOLUTION = labfile.SOLUTIONS / LAB.name
WHO = ("--id", "2024001", "--name", "张三")


def of(*exercises: str) -> tuple[str, ...]:
    return tuple(c.name for c in LAB.checks if c.exercise.split(".")[1] in exercises)


# ---------------------------------------------------------------- K=


@pytest.mark.parametrize(
    "match", ["apply_rotary", "Apply_Rotary", "apply rotary", "lab2.apply-rotary"]
)
def test_an_exercise_goes_by_its_name_in_any_case(match: str) -> None:
    assert chosen_checks(LAB, match) == of("apply_rotary")


def test_words_of_names_match_and_parts_within_words_do_not() -> None:
    assert chosen_checks(LAB, "rotate") == of("rotate_half")
    assert set(chosen_checks(LAB, "ROTARY")) >= {*of("rotary_embedding", "apply_rotary")}
    assert (
        chosen_checks(LAB, "test_mlp_runs") == chosen_checks(LAB, "MLP_runs") == ("test_mlp_runs",)
    )
    assert chosen_checks(LAB, "两半互换") == of("rotate_half")
    with pytest.raises(LabError):
        chosen_checks(LAB, "otate")


def test_what_was_matched_is_said_where_it_is_not_plain() -> None:
    assert meaning(LAB, "rotate_half", of("rotate_half"), "en") == ""
    assert "rotate_half" in meaning(LAB, "rotate", of("rotate_half"), "en")
    assert "test_mlp_runs" in meaning(LAB, "mlp_runs", ("test_mlp_runs",), "zh")


def test_a_miss_says_what_is_near() -> None:
    with pytest.raises(LabError, match="did you mean rotary_embedding") as caught:
        chosen_checks(LAB, "rotary_embeding")
    assert "rotary_embedding 吗" in caught.value.said.zh
    done = warm.run("test", "-k", "kv_cach_bites", "--lang", "en")
    assert done.status == 2 and "kv_cache_bytes" in done.stderr


# ---------------------------------------------------------------- test


def test_the_next_todo_has_its_file_and_line(tmp_path: Path) -> None:
    for name, text in hand_ins.stub().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = warm.run("test", "--lab", "2", "--folder", str(tmp_path), "--lang", "en")
    lines = (tmp_path / "attention.py").read_text(encoding="utf-8").splitlines()
    place = next(n for n, text in enumerate(lines, 1) if "TODO lab2.rotate_half" in text)
    assert f"{tmp_path / 'attention.py'}:{place}" in done.stdout


def test_the_look_at_all_labs_names_a_todo_too() -> None:
    done = warm.run("test", "--lang", "en")
    assert "TODO: labs/lab1_foundations" in done.stdout


def test_all_points_lead_to_chat_to_handing_in_and_to_the_next_lab() -> None:
    done = warm.run("test", "--lab", "2", "--folder", str(SOLUTION), "--lang", "en")
    order = [
        done.stdout.index(word) for word in ("all by yourself", " chat ", " submit ", "next: ")
    ]
    assert order == sorted(order) and "--lab 3" in done.stdout[order[-1] :]
    assert "--id … --name …" in done.stdout[order[2] : order[3]]  # it asks for both


def test_prints_of_passing_checks_are_shown_when_asked_for(tmp_path: Path) -> None:
    folder = shutil.copytree(SOLUTION, tmp_path / "mine")
    text = (folder / "attention.py").read_text(encoding="utf-8")
    noisy = "\n\n_right = rotate_half\n\ndef rotate_half(x):\n"
    noisy += "    print('begin', *range(99), 'end', sep='\\n')\n    return _right(x)\n"
    (folder / "attention.py").write_text(text + noisy, encoding="utf-8")
    asked = "test", "--lab", "2", "-k", "rotate_half", "--folder", str(folder), "--lang", "en"
    quiet, loud = warm.run(*asked), warm.run(*asked, "--prints")
    assert quiet.status == loud.status == 0 and "begin" not in quiet.stdout
    assert loud.stdout.count("begin") >= 3 and "end" in loud.stdout and CUT in loud.stdout


def test_what_is_long_is_cut_in_the_middle() -> None:
    lines = [str(number) for number in range(100)]
    short = cut(lines, 9)
    assert len(short) == 9 and short[0] == "0" and CUT in short and short[-1] == "99"
    assert cut(lines[:9], 9) == lines[:9] and cut(lines, 1) == ["99"]
    text = cut_text("a" * 999 + "z" * 999, 100)
    assert len(text) <= 100 and text[0] == "a" and CUT in text and text[-1] == "z"
    assert len(block("\n".join(lines)).splitlines()) == 30


def test_json_has_a_version(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    folder = "--folder", str(SOLUTION)
    warm.run("test", "--lab", "2", "-k", "rotate_half", *folder, "--json", str(path))
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["version"] == 1 and found["lab"] == LAB.name and found["score"] == 4


# ---------------------------------------------------------------- submit


def test_the_zip_holds_what_is_handed_in_and_grading_gives_it_the_same_score(
    tmp_path: Path,
) -> None:
    mine = shutil.copytree(SOLUTION, tmp_path / "mine")
    (mine / "notes.txt").write_text("mine", encoding="utf-8")
    with open(mine / "mlp.py", "a", encoding="utf-8") as stream:
        stream.write("\n\ndef count_parameters(config):\n    return 0\n")
    for out in ("class", "again"):
        (tmp_path / out).mkdir()
        done = warm.run(
            "submit", "--lab", "2", *WHO, "--folder", mine, "--out", tmp_path / out, "--lang", "en"
        )
        assert done.status == 0 and done.stderr == ""
    name = "2024001_张三_lab2.zip"
    found = re.search(r"(\d+) of 100 points", done.stdout)
    assert found is not None and int(found[1]) < 100 and "count_parameters" in done.stdout
    assert name in done.stdout and "attention.py" in done.stdout and "notes" not in done.stdout
    packed = tmp_path / "class" / name
    assert list(packed.parent.iterdir()) == [packed]
    assert packed.read_bytes() == (tmp_path / "again" / name).read_bytes()
    with zipfile.ZipFile(packed) as archive:
        assert archive.namelist()[: len(LAB.files)] == list(LAB.files)
        assert archive.read("mlp.py") == (mine / "mlp.py").read_bytes()
    graded = tmp_path / "graded"
    assert warm.grade(tmp_path / "class", graded).status == 0
    with open(graded / "scores.csv", encoding="utf-8-sig", newline="") as sheet:
        (row,) = csv.DictReader(sheet)
    assert row["student_id"] == "2024001_张三" and float(row["score"]) == float(found[1])


def test_the_report_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(submit, "tried", no_checks)
    (tmp_path / "report_figures").mkdir()
    for name in ("my_report.md", "report_figures/scores.svg", "other.md"):
        (tmp_path / name).write_text("mine", encoding="utf-8")
    assert submit.run("2", SOLUTION, ("1", "x"), "en") == 0
    with zipfile.ZipFile(tmp_path / "1_x_lab2.zip") as archive:
        own = [*LAB.files, "my_report.md", "report_figures/scores.svg"]
        assert archive.namelist() == own


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_pictures_that_the_report_links_to_go_along(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    encoding: str,
) -> None:
    place = tmp_path / "course"
    monkeypatch.setattr(submit, "tried", no_checks)
    here = ["layer.png", "图/我的 图.JPG", "a (1).svg", "sub/b.pdf", "ref.gif", "tag.png"]
    for name in (*here, "../outside.png", "photo.heic", "notes.txt", "unlinked.png"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"\x89PNG\n\0")
    monkeypatch.chdir(place)
    links = [
        "![my layer](layer.png) ![again](./layer.png)", "![图](<图/我的 图.JPG> 'mine')",
        "![x](a%20(1).svg)", '[as a page](sub\\b.pdf "title")', "[1]: ref.gif",
        '<img width="3" src="tag.png">', "![gone](gone.png) ![out](../outside.png)",
        f"![abs]({tmp_path}/outside.png) ![phone](photo.heic) [notes](notes.txt)",
        "![web](https://example.org/x.png) [[layer_8b | count: 1]]",
        "![data](data:image/png;base64,x)",
    ]  # fmt: skip
    (place / "my_report.md").write_text("\n\n".join(links), encoding=encoding)
    out = tmp_path / "class"
    out.mkdir()
    assert submit.run("2", SOLUTION, ("1", "x"), "en", out=out) == 0
    with zipfile.ZipFile(out / "1_x_lab2.zip") as archive:
        assert archive.namelist() == [*LAB.files, "my_report.md", *here]
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "not packed" in line]
    lost = f"gone.png, ../outside.png, {tmp_path}/outside.png, photo.heic. "
    assert f"not packed: {lost}" in said
    graded = written_report.load()
    (entry,) = intake.survey(out, graded.lab, None).entries
    assert intake.read(entry, graded.lab).files.keys() == {"my_report.md"}
    (entry,) = intake.survey(out, LAB, None).entries
    read = intake.read(entry, LAB)
    assert read.files.keys() == set(LAB.files) and not read.problems and not read.notes


def test_pictures_have_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(submit, "tried", no_checks)
    monkeypatch.setattr(submit, "MAX_PICTURES_MIB", 1)
    for name, kib in {"a.png": 600, "b.png": 600, "c.png": 400}.items():
        (tmp_path / name).write_bytes(bytes(kib << 10))
    (tmp_path / "my_report.md").write_text("![](a.png) ![](b.png) ![](c.png)", encoding="utf-8")
    assert submit.run("2", SOLUTION, ("1", "x"), "zh") == 0
    with zipfile.ZipFile(tmp_path / "1_x_lab2.zip") as archive:
        assert archive.namelist() == [*LAB.files, "my_report.md", "a.png", "c.png"]
    assert "没有打包：b.png。" in capsys.readouterr().out


def no_checks(*arguments: object) -> None:
    raise EngineError("no engine")


@pytest.mark.parametrize(("before", "end"), [("", "\n"), ("", "\r\n"), ("\ufeff", "\r\n")])
def test_an_untouched_file_is_told_whatever_its_line_ends(
    tmp_path: Path, before: str, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in stubs.stubs(LAB).items():
        (tmp_path / name).write_text(before + text, encoding="utf-8", newline=end)
    assert submit.run("2", tmp_path, ("1", "x"), "en", out=tmp_path) == 2
    assert "from the stub: attention.py, mlp.py" in capsys.readouterr().out


def test_what_lacks_something_is_packed_only_when_forced(tmp_path: Path) -> None:
    asked = "submit", "--lab", "2", *WHO, "--folder", tmp_path, "--out", tmp_path, "--lang", "en"
    assert warm.run(*asked, "--force").status == 2  # nothing is there
    (tmp_path / "attention.py").write_text(stubs.stubs(LAB)["attention.py"], encoding="utf-8")
    done = warm.run(*asked)
    assert done.status == 2 and not list(tmp_path.glob("*.zip"))
    assert "Missing: mlp.py" in done.stdout and "from the stub: attention.py" in done.stdout
    assert "--force" in done.stdout
    done = warm.run(*asked, "--force")
    assert done.status == 0 and "0 of 100 points" in done.stdout
    assert len(list(tmp_path.glob("*.zip"))) == 1


@pytest.mark.parametrize(
    "who", [(), ("--id", "1"), ("--name", "x"), ("--id", "../1", "--name", "x")]
)
def test_nobody_s_hand_in_is_not_packed(tmp_path: Path, who: tuple[str, ...]) -> None:
    done = warm.run("submit", "--lab", "2", *who, "--out", tmp_path, "--lang", "en")
    assert done.status == 2 and len(done.stderr.splitlines()) == 1 and not list(tmp_path.iterdir())


def test_a_course_names_the_zips(tmp_path: Path) -> None:
    path = tmp_path / "course.toml"
    assert course_file.zip_pattern(path) == course_file.ZIP_NAME
    path.write_text('[submit]\nname = "lab{lab}-{id}.zip"\n', encoding="utf-8")
    assert course_file.zip_pattern(path) == "lab{lab}-{id}.zip"
    for wrong in ("{id}.zip", "{lab}.zip", "../{id}{lab}.zip", "{id}_{lab}_{x}.zip", "{id}{lab}"):
        path.write_text(f'[submit]\nname = "{wrong}"\n', encoding="utf-8")
        with pytest.raises(CourseError, match="name"):
            course_file.zip_pattern(path)


# ---------------------------------------------------------------- debug


@pytest.mark.parametrize(
    "ending", ["return mine", pytest.param("return mine.undefined", marks=pytest.mark.slow)]
)
def test_debug_stops_in_the_students_file(tmp_path: Path, ending: str) -> None:
    folder = shutil.copytree(SOLUTION, tmp_path / "mine")
    with open(folder / "attention.py", "a", encoding="utf-8") as stream:
        stream.write(f"\n\ndef rotate_half(x):\n    mine = -x\n    {ending}\n")
    asked = "debug", "--lab", "2", "-k", "rotate_half"
    done = subprocess.run(
        [sys.executable, "-m", "autograder", *asked, "--folder", str(folder), "--lang", "en"],
        input="p 'sum', 40 + 2, mine.shape == x.shape\nq\n", cwd=ROOT, capture_output=True,
        text=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 1 and "('sum', 42, True)" in done.stdout
    assert "1 failed" in done.stdout
    assert f"-> {ending}" in done.stdout and "INTERNALERROR" not in done.stdout + done.stderr


# ---------------------------------------------------------------- chat


def test_chance_is_the_same_every_time_and_can_be_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from labs.commands.chat import run

    files = {name: str(SOLUTION / name) for name in LAB.files}
    texts = []
    for temperature, seed in ((0.0, 0), (0.9, 0), (0.9, 0), (0.9, 1)):
        tiny = labfile.LABS / "given" / "tiny_qwen3"
        assert run(files, tiny, "The whale", 20, "en", temperature=temperature, seed=seed) == 0
        texts.append(capsys.readouterr().out)
    assert texts[1] == texts[2] and len(set(texts)) == 3
