"""A course that is not ours: its own folder, the grader from a wheel, nothing of this checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from autograder.course.labfile import ROOT
from autograder.diagnosis import misconceptions
from tests.test_package import built

EXAMPLE = ROOT / "examples" / "other_course"


class OtherCourse:
    """The example's own files in a folder, beside an environment with the wheel."""

    def __init__(self, base: Path) -> None:
        self.root, self.classroom = base / "course", base / "class"
        tracked = ["git", "-C", str(EXAMPLE), "ls-files", "-z"]
        names = subprocess.run(tracked, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(EXAMPLE / name, self.root / name)
        self.lines = sum(
            len(path.read_text(encoding="utf-8").splitlines())
            for path in self.root.rglob("*")
            if path.is_file()
        )
        venv.create(base / "env", symlinks=True)
        (site,) = (base / "env" / "lib").glob("python*/site-packages")
        with zipfile.ZipFile(built(base / "wheel")) as archive:
            archive.extractall(site)
        # torch and the rest; a path in such a file brings no editable checkout along.
        (site / "rest.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        self._python = base / "env" / "bin" / "python"

    def run(self, *words: str, status: int = 0) -> str:
        """What a command prints, given in the folder of the course."""
        done = subprocess.run(
            [self._python, "-m", "autograder", *words],
            cwd=self.root,
            env={k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "AUTOGRADER"))}
            | {"LAB_LANG": "en"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> OtherCourse:
    return OtherCourse(tmp_path_factory.mktemp("other"))


def notebook(text: str) -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [cell | {"source": "%%writefile model.py\n" + text}]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.mark.slow
def test_a_class_of_another_course_is_graded(course: OtherCourse) -> None:
    assert course.lines <= 300
    assert "7 promises kept, 0 broken" in course.run("try", "--lab", "lstm")
    course.run("build", "--lab", "lstm")
    sources = {"model.py": (course.root / "solutions/lstm/model.py").read_text(encoding="utf-8")}
    known = misconceptions.load(course.root / "solutions/lstm/misconceptions.toml", sources)
    hand_ins = {one.id: misconceptions.apply(one, sources)["model.py"] for one in known.entries}
    hand_ins["stub"] = (course.root / "labs/lstm/model.py").read_text(encoding="utf-8")
    for name, text in hand_ins.items():
        folder = course.classroom / name
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(text, encoding="utf-8")
    (course.classroom / "right").mkdir()
    (course.classroom / "right" / "work.ipynb").write_text(notebook(sources["model.py"]))
    out = course.root / "graded"
    course.run("grade", str(course.classroom), "--lab", "lstm", "--out", str(out), "--jobs", "2")
    graded = json.loads((out / "class.json").read_text(encoding="utf-8"))
    totals = {one["student"]: one["score"]["earned"] for one in graded["hand_ins"]}
    assert (totals["right"], totals["stub"]) == (100, 0)
    for name in known.classes:
        assert 0 < totals[name] < 100
        page = (out / name / "report.md").read_text(encoding="utf-8")
        assert known.classes[name].name.en in page
        assert not any("\u4e00" <= sign <= "\u9fff" for sign in page)


@pytest.mark.slow
def test_its_students_test_their_own_files(course: OtherCourse) -> None:
    if not (course.root / "labs/lstm/model.py").exists():
        course.run("try", "--lab", "lstm")
    board = course.run("test", "--lab", "lstm", status=1)
    assert "0 of 100 points" in board and "the next TODO: labs/lstm/model.py:" in board
    shutil.copy(course.root / "solutions/lstm/model.py", course.root / "labs/lstm/model.py")
    assert "100 of 100 points" in course.run("test", "--lab", "lstm")
