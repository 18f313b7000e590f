"""Chatting through a model that is split over ranks: the text of lab 2's way, and plain errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.records import ToldError
from labs.commands import chat, rank_chat

LAB = labfile.load(labfile.find_lab("5"))
SOLUTION = labfile.SOLUTIONS / LAB.name
# Real processes, each of which imports torch.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
]


def said(lab: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autograder", "chat", "--lab", lab, "--folder", str(folder)]
    command += ["--prompt", "The whale", "--tokens", "14", "--temperature", "0", *more]
    return subprocess.run(
        command, cwd=labfile.ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def test_it_says_on_any_number_of_ranks_what_lab_2_says() -> None:
    want = said("2", labfile.SOLUTIONS / "lab2_qwen3_block")
    assert want.returncode == 0 and want.stdout.startswith("The whale")
    for ranks in ("1", "2"):
        found = said("5", SOLUTION, "--ranks", ranks)
        assert (found.returncode, found.stdout) == (0, want.stdout), found.stderr


def test_what_is_missing_is_said_once() -> None:
    found = said("5", LAB.folder, "--ranks", "2", "--lang", "en")
    assert found.returncode == 1 and found.stdout == ""
    assert found.stderr.count("Not yet: fill in lab5.") == 1


def test_labs_that_talk() -> None:
    assert chat.can_talk(LAB) and chat.is_split(LAB)
    with pytest.raises(ToldError, match="1 to 8"):
        rank_chat.start(9, ["true"])
