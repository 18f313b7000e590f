"""What is kept of a hostile worker's replies: nothing of it is lost or becomes something else."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from autograder.course.records import Limits
from autograder.sandbox.links import Budget, WorkerLost
from autograder.sandbox.recording import KeepingTransport, KeptTransport
from autograder.sandbox.transport import Sources, WorkerTransport
from autograder.wire.messages import MAX_HEADER, pack

HELLO = pack({"layers": []}, {})


class Padding:
    """A worker whose replies grow when they are packed anew: JSON escapes what is no ASCII."""

    def __init__(self) -> None:
        tree = '{"values": [5], "padding": "' + "é" * 400_000 + '"}'
        header = json.dumps({"__metadata__": {"m": tree}}, ensure_ascii=False).encode()
        self.reply = struct.pack("<Q", len(header)) + header
        self.greeted = False

    def exchange(self, blob: bytes, budget: Budget) -> bytes:
        reply, self.greeted = self.reply if self.greeted else HELLO, True
        return reply

    def take_prints(self) -> str:
        return ""

    def close(self) -> None:
        return None


def test_a_reply_is_kept_as_it_came(tmp_path: Path) -> None:
    worker = Padding()
    assert len(worker.reply) < MAX_HEADER
    path = tmp_path / "kept"
    keeping = KeepingTransport(
        WorkerTransport(lambda: worker, Sources({}), Limits()), path, {"files": {}}
    )
    first, _ = keeping.exchange({"steps": []}, {})
    keeping.save()
    again, _ = KeptTransport(path).exchange({"steps": []}, {})
    assert first == again and first["values"] == [5]


class Dying(Padding):
    """A worker that prints, and then is gone."""

    def exchange(self, blob: bytes, budget: Budget) -> bytes:
        if self.greeted:
            raise WorkerLost("signal SIGSEGV")
        return super().exchange(blob, budget)

    def take_prints(self) -> str:
        return "a line\n"


class Waiting(Padding):
    """A worker that takes its time for every answer, by a clock of its own."""

    now = 0.0

    def exchange(self, blob: bytes, budget: Budget) -> bytes:
        self.budget = budget
        self.now += 0.1 if self.greeted else 0
        return super().exchange(blob, budget)


def test_what_is_asked_aside_has_seconds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.sandbox.transport.ASIDE_SECONDS", 0.6)
    worker = Waiting()
    monkeypatch.setattr("time.monotonic", lambda: worker.now)
    transport = WorkerTransport(lambda: worker, Sources({}), Limits())
    transport.exchange({"steps": []}, {})
    usual, left, started = worker.budget, transport._seconds_left, worker.now
    with transport.aside(), pytest.raises(WorkerLost) as lost:
        for _ in range(100):
            transport.exchange({"steps": []}, {})
            assert worker.budget.wall_seconds <= 0.3  # so that the last call ends in time
    assert lost.value.clock == "whole" and worker.now - started < 0.6
    transport.exchange({"steps": []}, {})
    assert worker.budget == usual and left - 0.3 < transport._seconds_left < left


def test_what_is_asked_aside_costs_the_hand_in_nothing(tmp_path: Path) -> None:
    """Diagnosis comes between public and hidden cases; a loss in it is no loss of theirs."""
    path = tmp_path / "kept"
    real = WorkerTransport(Dying, Sources({}), Limits(hand_in_seconds=1.0))
    keeping = KeepingTransport(real, path, {"files": {}})
    left = real._seconds_left
    with keeping.aside(), pytest.raises(WorkerLost):
        keeping.exchange({"steps": []}, {})
    assert (keeping.lost, real._seconds_left, keeping.take_prints()) == (0, left, "")
    keeping.save()
    kept = KeptTransport(path)
    with kept.aside(), pytest.raises(WorkerLost):
        kept.exchange({"steps": []}, {})
    assert (kept.lost, kept.take_prints()) == (0, "")
    with pytest.raises(WorkerLost):
        keeping.exchange({"steps": []}, {})
    assert keeping.lost == 1
