"""A small environment per tool, in ``.others/`` at the top, beside this interpreter's torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.course.labfile import ROOT

FOLDER = ROOT / ".others"
# What the checks run on; the versions are those of grading.
SHARED = ("torch", "numpy", "safetensors", "pytest", "pytest-timeout")


class NotInstalled(RuntimeError):
    """pip could not install a tool; the text is its last line."""


def prepare(name: str, requirements: tuple[str, ...]) -> Path:
    """Make, or find made, the environment of a tool; return its Python.

    What the tool needs is installed anew there; what our checks need is found beside it.

    Raises:
        NotInstalled: pip says why.
    """
    folder = FOLDER / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    kept = [f"{package}=={version(package)}" for package in SHARED]
    stamp = "\n".join([sys.version, sys.prefix, *requirements, str(ROOT), *kept])
    ready = folder / "ready.txt"
    if ready.is_file() and ready.read_text(encoding="utf-8") == stamp:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    constraints = folder / "constraints.txt"  # no second torch is ever downloaded
    constraints.write_text("\n".join(kept), encoding="utf-8")
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    _run([*install, "-c", str(constraints), *requirements])
    own = sysconfig.get_path("purelib", "venv", {"base": str(folder)})
    # Only now, so that pip took nothing of it for the tool's; its lines are searched last.
    lines = f"{ROOT}\n{_shared(folder / 'shared')}\n"
    (Path(own) / "shared.pth").write_text(lines, encoding="utf-8")
    ready.write_text(stamp, encoding="utf-8")
    return python


def version_of(python: Path, package: str) -> str:
    """The version of a package in the environment of ``python``."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _shared(folder: Path) -> Path:
    """A folder of links to the packages of :data:`SHARED` and to all that they need.

    Not all of this interpreter's packages: a tool that finds an optional one imports it, and
    otter-grader took a second longer where it found what jsonschema can use.
    """
    folder.mkdir()
    waiting, done = list(SHARED), set[str]()
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        found = distribution(name)
        for top in {Path(file).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (folder / top).symlink_to(str(found.locate_file(top)))
        for line in found.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(canonicalize_name(needed.name))
    return folder


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise NotInstalled(said[-1] if said else f"exit status {done.returncode}")
