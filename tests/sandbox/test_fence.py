"""A process that reads for us: what it cannot read costs that input only, and nothing is left."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from typing import Any

import pytest

from autograder.sandbox.fence import Fence, FenceError, untimed
from tests import hand_ins

HANGS = (re.match, r"(a+)+$", "a" * 60 + "b")
FAST = {"seconds": 0.3, "memory": 256 << 20}


def work(seconds: float) -> str:
    worked = time.process_time() + seconds
    while time.process_time() < worked:
        pass
    return "done"


def work_untimed(seconds: float) -> str:
    with untimed():
        return work(seconds)


def die(number: int) -> None:
    os.kill(os.getpid(), number)


def say(text: str) -> str:
    print(text)
    os.write(1, text.encode())
    return text


@pytest.mark.parametrize(
    ("call", "why", "text"),
    [
        (HANGS, "slow", ""),
        ((bytearray, 1 << 30), "memory", ""),
        ((int, "x"), "broken", "ValueError: invalid literal"),
        ((die, signal.SIGKILL), "broken", f"status {-signal.SIGKILL}"),
        ((sys.exit, 3), "broken", "status 3"),
    ],
    ids=["hangs in C", "memory", "raises", "is killed", "leaves"],
)
def test_what_cannot_be_read_is_told_and_the_next_is_read(
    call: tuple[Any, ...], why: str, text: str
) -> None:
    with hand_ins.nothing_left_behind(), Fence(**FAST) as fence:
        assert fence(len, "before") == 6
        with pytest.raises(FenceError) as told:
            fence(*call)
        assert told.value.why == why and told.value.text.startswith(text)
        assert fence(len, "behind") == 6


def test_one_process_serves_many_calls_each_with_its_own_seconds() -> None:
    with Fence(**FAST) as fence:
        first = fence(os.getpid)
        assert [fence(work, 0.15) for _ in range(3)] == ["done"] * 3
        assert fence(work_untimed, 0.5) == "done"
        assert fence(os.getpid) == first != os.getpid()
        assert fence(say, "no answer of ours") == "no answer of ours"


def test_an_interrupt_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with hand_ins.nothing_left_behind(), pytest.raises(KeyboardInterrupt), Fence() as fence:
        fence(len, "x")
        monkeypatch.setattr("pickle.load", interrupted)
        fence(len, "x")
