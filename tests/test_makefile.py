"""What make writes to: our own environment, once; one of the user's own only when asked to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.course.labfile import ROOT

FILES = ("Makefile", "pyproject.toml", "constraints.txt")


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run make as a student's shell does."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=folder, capture_output=True, text=True, env=environment
    )


def test_an_environment_of_the_users_own_is_not_written_to(tmp_path: Path) -> None:
    own = tmp_path / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True)
    before = sorted(own.rglob("*"))
    done = make("test", "LAB=2", f"VENV={own}")
    assert done.returncode == 2 and sorted(own.rglob("*")) == before
    assert f"{own}/bin/python -m pip install 'torch>=2.6,<3'" in done.stderr
    there = make("-n", "setup", f"VENV={own}").stdout
    assert "pip install" in there and "constraints" not in there  # its torch stays


def test_what_is_not_there_is_not_made_unasked(tmp_path: Path) -> None:
    done = make("test", f"VENV={tmp_path / 'none'}")
    assert done.returncode == 2 and "make setup VENV=" in done.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("changed", [False, True])
def test_a_copied_folder_is_set_up_anew_only_where_it_asks_for_other_packages(
    tmp_path: Path, changed: bool
) -> None:
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").touch()
    told = make("-n", "test", folder=tmp_path).stdout.split()
    (stamp,) = {Path(word.strip('"')) for word in told if ".ready-core" in word}
    (tmp_path / stamp).touch()
    later = time.time() + 60
    for name in FILES:  # as a copy is newer
        os.utime(tmp_path / name, (later, later))
    if changed:
        (tmp_path / "constraints.txt").write_text("numpy==2.0.0\n")
    assert ("pip install" in make("-n", "test", folder=tmp_path).stdout) == changed


@pytest.mark.parametrize(
    "words",
    [
        ("test", "LAB=2", "K=none_such"),
        ("test", "LAB=2", "K=rotate_half"),
        ("hint", "LAB=99"),
        ("debug", "LAB=2", "K=none_such"),
        ("submit", "LAB=2"),
        ("chat", "LAB=1"),
        ("serve", "LAB=1", "PORT=8001"),
        ("carry", "FROM=1", "TO=99"),
        ("reset", "LAB=2", "K=none_such"),
    ],
)
def test_no_error_of_makes_stands_below_a_sentence(words: tuple[str, ...]) -> None:
    done = make(*words, f"PY={sys.executable}", "READY_CORE=")
    assert done.returncode == 0 and "Error" not in done.stderr and "***" not in done.stderr
    assert done.stdout + done.stderr != ""


def test_a_shells_own_name_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "desktop")
    assert '--name ""' in make("-n", "submit", "ID=1").stdout
    assert '--name "x"' in make("-n", "submit", "ID=1", "NAME=x").stdout


def test_the_prompt_of_a_shell_is_no_text_for_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMPT", "$P$G")
    shows = tmp_path / "python"
    shows.write_text('#!/bin/sh\necho "<$AUTOGRADER_PROMPT|$AUTOGRADER_PROMPT2>"\n')
    shows.chmod(0o755)
    chat = "chat", f"PY={shows}", "READY_CORE="
    assert make(*chat).stdout == "<|>\n"
    typed = """it's "$HOME", `ls`"""
    assert make(*chat, f"PROMPT={typed}", "PROMPT2=鲸").stdout == f"<{typed}|鲸>\n"


def test_torch_is_the_build_for_the_cpu_where_no_gpu_is(tmp_path: Path) -> None:
    copied(tmp_path)
    said = make("-n", "setup", folder=tmp_path).stdout
    assert "nvidia-smi" in said and said.index("whl/cpu") < said.index('-e ".[chat]"')
    own = make("-n", "setup", "TORCH_INDEX=somewhere", folder=tmp_path).stdout
    assert '--index-url "somewhere" torch' in own and "whl/cpu" not in own


def test_a_folder_of_wheels_is_one_variable(tmp_path: Path) -> None:
    copied(tmp_path)
    said = make("-n", "setup", "WHEELS=there", folder=tmp_path).stdout.replace("\\\n", "")
    installs = [line for line in said.splitlines() if "pip install" in line]
    assert installs and all('--no-index --find-links "there"' in line for line in installs)
    assert "index-url" not in said


def test_the_grader_comes_from_the_wheel_beside_the_course(tmp_path: Path) -> None:
    copied(tmp_path)
    assert ".whl" not in make("-n", "setup", folder=tmp_path).stdout
    before = make("-n", "setup", folder=tmp_path).stdout
    (tmp_path / "grader").mkdir()
    (tmp_path / "grader" / "qwen3_labs-1-py3-none-any.whl").write_bytes(b"new")
    after = make("-n", "setup", folder=tmp_path).stdout
    assert "grader/qwen3_labs-1-py3-none-any.whl" in after
    assert after.splitlines()[-1] != before.splitlines()[-1]  # another stamp: installed anew


@pytest.mark.parametrize(
    "lacks, word", [("version_info", "python3.11"), ("ensurepip", "python3-venv")]
)
def test_what_a_bare_ubuntu_lacks_is_said_in_one_line(
    tmp_path: Path, lacks: str, word: str
) -> None:
    copied(tmp_path)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncase "$2" in *{lacks}*) exit 1;; esac\n')
    python.chmod(0o755)
    done = make("setup", f"PYTHON={python}", folder=tmp_path)
    (said,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode == 2 and word in said and "uv" in said
    assert not (tmp_path / ".venv").exists()


def copied(folder: Path) -> None:
    """The files that set-up reads."""
    for name in FILES:
        shutil.copy(ROOT / name, folder)


@pytest.mark.parametrize("shell", ["en_US.UTF-8", "zh_CN.UTF-8"])
def test_make_speaks_the_language_of_the_labs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.setenv("LC_ALL", shell)
    menus = {lang: make("help", f"LAB_LANG={lang}").stdout for lang in ("en", "zh")}
    commands = [re.findall(r"make ([a-z-]+)", menu) for menu in menus.values()]
    assert commands[0] == commands[1] and "test" in commands[0]
    assert "学生" in menus["zh"] and menus["en"].replace("…", "").isascii()
    assert make("help").stdout == menus[shell[:2]] == make().stdout
    told = {
        lang: make("setup", "PYTHON=/absent", f"LAB_LANG={lang}", folder=tmp_path).stderr
        for lang in menus
    }
    assert "is missing or older than 3.11" in told["en"] and "其版本低于 3.11" in told["zh"]
