"""The image for instructors without Linux, as far as one can tell without Docker."""

from __future__ import annotations

import fnmatch
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.cli.main import _parser
from autograder.course.labfile import ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = [
    tuple(line.split(maxsplit=1))
    for line in re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()
    if line.strip()
]
KNOWN = {
    "FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "ENTRYPOINT", "CMD",
}  # fmt: skip


def values(name: str) -> list[str]:
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def copied() -> list[str]:
    return [source for line in values("COPY") for source in line.split()[:-1]]


def test_every_line_is_an_instruction() -> None:
    assert {name for name, _ in INSTRUCTIONS} <= KNOWN and INSTRUCTIONS[0][0] == "FROM"
    assert re.fullmatch(r"python:3\.\d+-slim", values("FROM")[0])


def test_what_it_copies_exists_and_is_not_ignored() -> None:
    assert copied()
    rules = [
        line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]  # fmt: skip
    for source in copied():
        assert (ROOT / source).exists(), source
        kept = True
        for rule in rules:  # the last one that fits decides
            if fnmatch.fnmatch(source, rule.removeprefix("!")):
                kept = rule.startswith("!")
        assert kept, f"{source} is in .dockerignore"
    # What is let through is what is copied, and no more: no secret, no hand-in, no .git.
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == set(copied())


def test_the_image_holds_what_grading_needs() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    if not tracked:  # a copy without git
        tracked = [str(path.relative_to(ROOT)) for path in ROOT.glob("autograder/**/*.py")]
    for path in tracked:
        top = path.split("/")[0]
        if top in ("autograder", "labs", "solutions"):
            assert top in copied()
    assert {"pyproject.toml", "constraints.txt", "README.md"} <= set(copied())
    readme = re.search(r'readme = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert readme and readme[1] in copied()  # the build reads it


def test_it_runs_as_an_ordinary_user_and_starts_the_command_line() -> None:
    assert values("USER")[-1] not in ("root", "0")
    order = [name for name, _ in INSTRUCTIONS]
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert "RUN" not in order[order.index("USER") :]
    assert values("ENTRYPOINT") == ['["python", "-m", "autograder"]']
    assert values("WORKDIR") and values("CMD") == ['["doctor"]']
    assert any("chown" in line and "/out" in line for line in values("RUN"))


def test_torch_comes_from_an_index_that_can_be_named() -> None:
    (index,) = values("ARG")
    assert index.startswith("TORCH_INDEX=https://download.pytorch.org/")
    assert any('--index-url "$TORCH_INDEX" torch' in line for line in values("RUN"))


def test_commands_in_its_comment_are_ours() -> None:
    comment = re.sub(r" \\\n#\s+", " ", TEXT)
    runs = re.findall(r"docker run .*? qwen3-labs (.*)", comment)
    assert len(runs) == 2
    for run in runs:
        arguments = _parser({}).parse_args(shlex.split(run))
        assert arguments.command in ("doctor", "grade")
    assert "/in:ro" in comment and "/out" in comment


@pytest.mark.slow
def test_the_core_can_be_built_from_what_is_copied(tmp_path: Path) -> None:
    """``pip install .`` sees these files alone; nothing is fetched here."""
    for name in ("pyproject.toml", "constraints.txt", "README.md"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    code = "from setuptools.build_meta import prepare_metadata_for_build_wheel as p; print(p('.'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    metadata = next(tmp_path.glob("*.dist-info/METADATA")).read_text(encoding="utf-8")
    assert "Requires-Dist: torch" in metadata
