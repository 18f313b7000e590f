"""One zygote for all judges of a test process that would start an equal one.

A zygote serves whoever holds its control socket, one judge or several, and keeps nothing of a
hand-in. To start one costs an import of torch, so tests share it; those that end it or look into
it ask for their own.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from autograder.grading.judge_process import JudgeProcess
from tests.hand_ins import STAYING

_start = JudgeProcess._start_zygote


@dataclass(frozen=True)
class SharedZygote:
    """What a judge process may see of a zygote that goes on when it ends."""

    process: subprocess.Popen[bytes]
    stdin: None = None
    stdout: None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """Do nothing: its workers end as their judge does."""

    def wait(self, timeout: float | None = None) -> int:
        """Return at once."""
        return 0


_shared: dict[tuple[Any, ...], tuple[SharedZygote, socket.socket]] = {}


def share() -> None:
    """From now on judge processes of this process share zygotes."""
    patch.object(JudgeProcess, "_start_zygote", _share).start()
    STAYING.append(lambda: {zygote.pid for zygote, _ in _shared.values()})


@contextmanager
def own() -> Iterator[None]:
    """Judge processes that are started in the block have zygotes of their own."""
    with patch.object(JudgeProcess, "_start_zygote", _start):
        yield


def _share(judge: Any, memory: str) -> socket.socket:
    """The judge's end of a control socket; the zygote ends when this process and all judges do."""
    options, lab = judge._options, judge._lab
    if judge._files is not None or options.real is not None:
        return _start(judge, memory)
    key = memory, tuple(lab.preloaded), options.without
    if key not in _shared or _shared[key][0].process.poll() is not None:
        control = _start(judge, memory)
        _shared[key] = SharedZygote(judge.zygote), control
    judge.zygote, control = _shared[key]
    return control.dup()
