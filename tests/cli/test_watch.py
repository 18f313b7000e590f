"""``watch``: a save brings a new verdict from processes that are warm; keys do the rest."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.authoring import stubs
from autograder.cli import watch
from autograder.course import labfile
from autograder.course.labfile import ROOT
from tests.hand_ins import nothing_left_behind

LAB = labfile.load(labfile.find_lab("2"))
SOLUTION = ROOT / "solutions" / LAB.name


class Watching:
    """A ``watch`` that runs, and what it has said since it was last asked."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "autograder", "watch", "--lab", "2", "-k", "mlp"]
        self._process = subprocess.Popen(
            [*command, "--folder", str(folder), "--lang", "en"],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def until(self, words: str) -> str:
        """Everything up to the line that holds ``words``."""
        said = ""
        while words not in said:
            said += self._lines.get(timeout=90)
        return said

    def press(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def wait(self) -> int:
        return self._process.wait(timeout=60)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in stubs.stubs(LAB).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def watching(folder: Path) -> Iterator[Watching]:
    with nothing_left_behind():
        made = Watching(folder)
        yield made
        made.end()


def test_a_save_brings_the_verdict_and_keys_do_the_rest(folder: Path, watching: Watching) -> None:
    first = watching.until("q: quit")
    assert "0 of 16 points" in first and "h: hint" in first and "after you saved" not in first
    (folder / "notes.txt").write_text("no file of the lab")
    shutil.copy(SOLUTION / "mlp.py", folder / "part")
    os.replace(folder / "part", folder / "mlp.py")  # as many editors save
    second = watching.until("q: quit")
    assert "16 of 16 points" in second and "s after you saved)" in second
    watching.press("\n")
    again = watching.until("q: quit")
    assert "16 of 16 points" in again and "after you saved" not in again
    watching.press("q\n")
    assert watching.wait() == 0


def test_a_save_is_seen_as_soon_as_the_watch_stands(tmp_path: Path) -> None:
    """On a busy machine the first verdict was there before the watch: a save then was lost."""
    stop, stands = threading.Event(), threading.Event()
    saves = watch._saves(tmp_path, ("mlp.py",), stop, stands)
    seen: queue.SimpleQueue[str] = queue.SimpleQueue()
    listener = threading.Thread(target=lambda: watch._put(saves, seen), daemon=True)
    listener.start()
    assert stands.wait(60)
    (tmp_path / "mlp.py").write_text("saved")
    assert seen.get(timeout=60) == watch.SAVED
    stop.set()
    listener.join(60)
    assert not listener.is_alive()


def test_saves_in_a_row_are_one_and_keys_are_kept() -> None:
    happened: queue.SimpleQueue[str] = queue.SimpleQueue()
    for event in (watch.SAVED, watch.SAVED, "h", watch.SAVED):
        happened.put(event)
    assert [watch._next(happened) for _ in range(2)] == ["h", watch.SAVED]


def test_without_a_terminal_lines_are_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(list[str]):
        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Pipe(["\n", "Hint\n", "q"]))
    with watch.pressed() as pressed:
        assert list(pressed) == [watch.ENTER, "h", "q"]
