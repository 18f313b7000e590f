"""Whose a print is, where replies and prints of a spawned worker come by different ways."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from autograder.course.labfile import ROOT
from autograder.course.records import Limits
from autograder.sandbox import workers
from autograder.sandbox.links import WorkerLost
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Sources, WorkerTransport
from autograder.sandbox.workers import MARK, SpawnedLink
from autograder.wire.messages import Tensor

SOURCE = f"""
import os, sys, time

MARK = {MARK!r}
def quiet(x): return 2 * x
def speak(x): print("I speak"); return 2 * x
def die(x): print("last words"); os.abort()
def half(x): os.write(1, MARK[:3]); return 2 * x
def broken(x): os.write(2, MARK[:3]); time.sleep(0.1); os.write(2, b" a line"); return 2 * x
def ends(x): os.write(2, b"end" + MARK[:3]); os.abort()
def forge(x): os.write(2, 3 * MARK + b"forged"); return 2 * x
def shut(x): os.close(1); os.close(2); return 2 * x
def mute(x):
    own = os.fstat(2).st_ino
    for fd in range(1, 64):
        try:
            if os.fstat(fd).st_ino == own: os.close(fd)
        except OSError: continue
    return 2 * x
"""
LATE = 0.3  # seconds by which what was printed is read late
X = Tensor.of(np.arange(3, dtype=np.float32))


@pytest.fixture(scope="module")
def transport() -> Iterator[WorkerTransport]:
    """A worker whose prints are read late, as on a machine that is busy.

    It stays from test to test; what spoils its marks begins with another one.
    """
    keep = SpawnedLink._keep

    def late(self: SpawnedLink, *args: Any, **kwargs: Any) -> None:
        time.sleep(LATE)
        keep(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpawnedLink, "_keep", late)
        start = partial(SpawnedLink, ROOT, 1 << 30)
        made = WorkerTransport(start, Sources({"answer.py": SOURCE}), Limits())
        yield made
        made.renew()


def said(transport: WorkerTransport, name: str) -> str:
    """What a function prints."""
    student = Student(transport, fresh=False)
    student.call(f"answer.{name}", X)
    try:
        student.flush()
    except WorkerLost:
        assert name in ("die", "ends")
    return transport.take_prints()


@pytest.mark.slow
def test_a_late_print_is_of_the_call_that_printed(transport: WorkerTransport) -> None:
    names = ("speak", "quiet", "speak", "quiet")
    assert [said(transport, name) for name in names] == ["I speak\n", "", "I speak\n", ""]


@pytest.mark.slow
def test_what_begins_like_a_mark_is_text_unless_it_goes_on_like_one(
    transport: WorkerTransport,
) -> None:
    begun = MARK[:3].decode()
    assert said(transport, "half") == begun
    assert said(transport, "broken") == f"{begun} a line"
    assert said(transport, "quiet") == ""


@pytest.mark.slow
def test_last_words_are_kept(transport: WorkerTransport) -> None:
    assert said(transport, "die") == "last words\n"
    assert said(transport, "quiet") == ""
    assert said(transport, "ends") == "end" + MARK[:3].decode()


@pytest.mark.slow
def test_who_forges_marks_is_read_early_and_nothing_else(transport: WorkerTransport) -> None:
    transport.renew()
    lost = transport.lost
    assert said(transport, "forge") == "forged"
    early = said(transport, "speak")
    time.sleep(3 * LATE)
    assert early + said(transport, "quiet") == "I speak\n"
    assert transport.lost == lost


@pytest.mark.skipif(sys.platform == "win32", reason="needs descriptors that can be compared")
@pytest.mark.parametrize("name", ["mute", pytest.param("shut", marks=pytest.mark.slow)])
def test_a_worker_that_marks_nothing_is_waited_for_once(
    transport: WorkerTransport, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    transport.renew()
    lost = transport.lost
    monkeypatch.setattr(workers, "MARK_SECONDS", 3.0)
    said(transport, name)
    assert said(transport, "quiet") == ""
    monkeypatch.setattr(workers, "MARK_SECONDS", 3600.0)  # more than a test may take
    assert said(transport, "quiet") == ""
    assert transport.lost == lost
