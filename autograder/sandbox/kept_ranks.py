"""What ranks answered, as entries of a file of kept outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autograder.sandbox.framing import LENGTH, frame
from autograder.sandbox.link import WorkerLost
from autograder.sandbox.ranks import Met, OutOfStep, RankLost, Reply, Request
from autograder.sandbox.wire import unpack


def digest(requests: Sequence[Request], one: Callable[..., str]) -> str:
    """Hash of what all ranks are asked, made of those of ``one`` rank."""
    text = " ".join(one(request, tensors) for request, tensors in requests)
    return hashlib.sha256(f"ranks {text}".encode()).hexdigest()


def joined(replies: Sequence[bytes]) -> bytes:
    """Raw replies by rank as one blob; an empty one stands for a rank that gave none."""
    return b"".join(frame(reply) for reply in replies)


def met_of(header: Mapping[str, Any], blob: bytes) -> Met:
    """The inverse: what came back from all ranks."""
    replies: list[Reply | None] = []
    at = 0
    while at < len(blob):
        (length,) = LENGTH.unpack_from(blob, at)
        at += LENGTH.size + length
        replies.append(unpack(bytearray(blob[at - length : at])) if length else None)
    return Met(tuple(replies), tuple(header["calls"]))


def to_plain(error: WorkerLost | OutOfStep) -> dict[str, Any]:
    """What ended a request, as JSON data."""
    if isinstance(error, OutOfStep):
        return {"out": [list(error.gone), _plain(error.waiting)]}
    told: dict[str, Any] = {"lost": [str(error), error.timed_out, error.clock, error.stray]}
    if isinstance(error, RankLost):
        told["rank"] = [error.rank, error.world, _plain(error.waiting)]
    return told


def lost_of(told: Sequence[Any]) -> WorkerLost:
    """The inverse for one worker."""
    text, timed_out, clock, stray = told
    return WorkerLost(text, timed_out=timed_out, clock=clock, stray=stray)


def expect_met(header: Mapping[str, Any]) -> None:
    """Raise what ended the request of ranks then: RankLost, WorkerLost, OutOfStep; or nothing."""
    if "out" in header:
        gone, waiting = header["out"]
        raise OutOfStep(gone, _by_rank(waiting))
    if "rank" in header:
        rank, world, waiting = header["rank"]
        raise RankLost(lost_of(header["lost"]), rank, world, _by_rank(waiting))
    if "lost" in header:
        raise lost_of(header["lost"])


def _plain(waiting: Mapping[int, str]) -> list[list[Any]]:
    return [[rank, call] for rank, call in waiting.items()]


def _by_rank(waiting: Sequence[Sequence[Any]]) -> dict[int, str]:
    return {int(rank): str(call) for rank, call in waiting}
