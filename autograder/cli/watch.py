"""``watch``: the scoreboard again whenever a file is saved; judge and zygote stay warm."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autograder import intake
from autograder.cli import hint, student
from autograder.cli.named_checks import chosen_checks, meaning
from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import ClassRecord, Lab, Message
from autograder.grading.engine import Engine
from autograder.grading.judge_process import EngineError, Options
from autograder.report.terminal import readable, say, shows_colours

# Single keys from a terminal, or lines from whatever else standard input is.

ENTER = "\n"


@contextlib.contextmanager
def pressed() -> Iterator[Iterator[str]]:
    """Keys as they are pressed, lower case, :data:`ENTER` for Enter; the terminal is put back.

    Without a terminal a line stands for its first letter. The iterator ends with the input.
    """
    if not sys.stdin.isatty():
        yield (line[:1].lower() or ENTER for line in sys.stdin)
        return
    if sys.platform == "win32":
        import msvcrt

        yield (key.lower().replace("\r", ENTER) for key in iter(msvcrt.getwch, "\x03"))
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)  # Ctrl-C still interrupts
    try:
        # Not sys.stdin.read: a thread that waits in it keeps Python from ending.
        yield (key.decode("ascii", "ignore").lower() for key in iter(lambda: os.read(0, 1), b""))
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


STEP = 20  # ms without another change after which a save is over; an editor needs fewer
QUIET = 200  # ms after which the watcher says that nothing has changed: so it does watch
MOST = 20.0  # seconds to wait for that; without it saves may be missed, keys work
SAVED, QUIT = "saved", "q"


def run(lab_name: str, folder: Path | None, match: str, language: str) -> int:
    """Check, show, wait for a save or a key, until somebody quits.

    Returns:
        0, or 2 when nothing could be run.

    Raises:
        LabError: no lab, or no check, is called so.
    """
    language = readable(language)
    lab = labfile.load(labfile.find_lab(lab_name))
    chosen = chosen_checks(lab, match)
    watched = _FileWatch(lab, folder or lab.folder, chosen, match, language)
    happened: queue.SimpleQueue[str] = queue.SimpleQueue()
    stop, stands = threading.Event(), threading.Event()
    try:
        with Engine(lab, watched.options()) as engine, pressed() as typed:
            _start(lambda: _put(_saves(watched.folder, lab.files, stop, stands), happened))
            engine.wait_ready()
            _start(lambda: _put(typed, happened))
            stands.wait(MOST)  # a save during the first check is a save, too
            event = ""
            while event != QUIT:
                if event == "h":
                    hint.run(lab_name, folder, match, language)
                elif event in ("", SAVED, ENTER):
                    watched.show(engine, saved=event == SAVED)
                print(watched.footer(), flush=True)
                event = _next(happened)
    except EngineError as error:
        say(language, "cannot_start", text=error)
        return 2
    except KeyboardInterrupt:
        print()
    finally:
        stop.set()
    return 0


class _FileWatch:
    """The files that are watched, and their scoreboard."""

    def __init__(
        self, lab: Lab, folder: Path, chosen: tuple[str, ...], match: str, language: str
    ) -> None:
        self._match = match
        self.folder = folder
        self._lab = lab
        self._chosen = chosen
        self._language = language

    def options(self) -> Options:
        """No mistake is named here: that is what a hint is for."""
        checks = self._lab.with_needs(self._chosen)
        return Options(checks=checks, shown_folder=student.shown(self.folder), diagnose=False)

    def show(self, engine: Engine, *, saved: bool) -> None:
        """Check the files as they are now and print the scoreboard on a clean screen."""
        submission = intake.read(intake.Entry("you", self.folder), self._lab)
        (hand_in,) = engine.grade(iter([submission]))
        record = ClassRecord(self._lab, engine.isolation, {}, (hand_in,))
        text, _ = student.board(record, self._chosen, self._language, self.folder)
        clear = "\x1b[2J\x1b[H" if shows_colours() else "\n"
        said = meaning(self._lab, self._match, self._chosen, self._language)
        print(clear + (f"{said}\n" if said else "") + text)
        if saved:
            print(self._say("after_save", seconds=time.time() - self._changed()))

    def footer(self) -> str:
        """Return what is watched, and the keys."""
        return self._say("keys", files=", ".join(self._lab.files))

    def _changed(self) -> float:
        times = []
        for name in self._lab.files:
            with contextlib.suppress(OSError):
                times.append(os.stat(self.folder / name).st_mtime)
        return max(times, default=time.time())

    def _say(self, name: str, **values: object) -> str:
        return render(Message(f"board.{name}", values), self._language)


def _saves(
    folder: Path, files: tuple[str, ...], stop: threading.Event, stands: threading.Event
) -> Iterator[str]:
    """An event per save, once ``stands`` is set: what was saved before that is not seen."""
    # Imported late: no other command needs it.
    import watchfiles

    changes = watchfiles.watch(
        folder,
        watch_filter=lambda _, path: Path(path).name in files,
        step=STEP,
        stop_event=stop,
        recursive=False,
        raise_interrupt=False,
        rust_timeout=QUIET,
        yield_on_timeout=True,
    )
    for changed in changes:
        stands.set()
        if changed:
            yield SAVED


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _put(events: Iterator[str], into: queue.SimpleQueue[str]) -> None:
    for event in events:
        into.put(event)


def _next(happened: queue.SimpleQueue[str]) -> str:
    """Wait for the next event; of several saves in the meantime the last is enough."""
    event = happened.get()
    while event == SAVED and not happened.empty():
        event = happened.get()
    return event
