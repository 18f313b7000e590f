"""Single keys from a terminal, or lines from whatever else standard input is."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

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
