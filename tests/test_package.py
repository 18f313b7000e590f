"""The wheel that ``pip wheel`` makes of a checkout: what can be imported, and no answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from autograder.course.labfile import ROOT


def built(folder: Path) -> Path:
    """A wheel of what the checkout holds now; its build asks no network."""
    sources = folder / "sources"
    ignore = shutil.ignore_patterns("__pycache__", "tiny_qwen3", "*.bank", "cases.safetensors")
    for name in ("autograder", "labs", "solutions"):
        shutil.copytree(ROOT / name, sources / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    offline = ("--no-build-isolation", "--no-deps", "--no-index")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", *offline, "-w", folder / "out", sources],
        env=os.environ | {"SOURCE_DATE_EPOCH": "315532800"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (made,) = (folder / "out").glob("*.whl")
    return made


def test_a_wheel_has_package_and_labs_but_no_answers(tmp_path: Path) -> None:
    with zipfile.ZipFile(built(tmp_path)) as archive:
        names = set(archive.namelist())
        (entries,) = (n for n in names if n.endswith("entry_points.txt"))
        points = archive.read(entries).decode()
    tracked = {
        path.relative_to(ROOT).as_posix()
        for room in ("autograder", "labs/given")
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "tiny_qwen3" not in path.parts
    }
    assert tracked <= names  # guides, templates, sentences: all that lies beside modules
    assert {"labs/__init__.py", "labs/lab2_qwen3_block/lab.toml"} <= names
    for word in ("solutions/", "tests/", "misconceptions.toml", "pairs.bank", "spot.toml"):
        assert not [name for name in names - tracked if word in name]
    assert "autograder = autograder.cli.main:main" in points
    assert "[pytest11]\nautograder = autograder.cli.pytest_plugin" in points


def test_a_worker_does_not_find_us_where_the_checkout_is_editable() -> None:
    code = """
import sys
from pathlib import Path
class Finder:
    __module__ = "__editable___qwen3_labs_finder"
    find_spec = staticmethod(lambda *_: None)
sys.meta_path.append(Finder)
from autograder.worker import preload
preload.everything(Path.cwd())
assert Finder not in sys.meta_path and str(Path.cwd()) not in sys.path
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_modules_import_where_there_are_none_of_posix() -> None:
    code = """
import importlib, pkgutil, sys
import autograder
names = [m.name for m in pkgutil.walk_packages(autograder.__path__, "autograder.")]
names = [name for name in names if not name.endswith("__main__")]
for name in names:  # whatever other packages need of this system, they have by then
    importlib.import_module(name)
for name in [name for name in sys.modules if name.split(".")[0] == "autograder"]:
    del sys.modules[name]
sys.modules |= dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios", "tty"))
sys.platform = "win32"
import os, tempfile
from pathlib import Path
kept = ("RDONLY", "WRONLY", "RDWR", "APPEND", "CREAT", "EXCL", "TRUNC")
for name in [name for name in dir(os) if name.startswith("O_") and name[2:] not in kept]:
    delattr(os, name)
for name in names:
    importlib.import_module(name)
from autograder.course.atomic import write_atomic
from autograder.grading import output_folder
with tempfile.TemporaryDirectory() as out, output_folder.claimed(Path(out)):
    write_atomic(Path(out, "secret"), "a secret", private=True)
print(len(names))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 100
