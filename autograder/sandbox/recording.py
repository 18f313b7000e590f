"""A hand-in's answers, kept in a file: asked again, it answers without running anything.

A file is a row of frames, two per entry: a JSON header and a message of
:mod:`autograder.wire.messages` (or nothing). The first entry holds the hand-in, the others what
became of one request each, found again by the hash of the request.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autograder.course.records import Frame
from autograder.sandbox.links import WorkerLost
from autograder.sandbox.ranks import OutOfStep, RankLost, RankReplies, Request
from autograder.sandbox.transport import CheckTransport, Reply, WorkerTransport
from autograder.wire.frames import LENGTH, MAX_MESSAGE, WireError, frame, frame_length
from autograder.wire.messages import Tensor, unpack

# What ranks answered, as entries of a file of kept outputs.


def digest(requests: Sequence[Request], one: Callable[..., str]) -> str:
    """Hash of what all ranks are asked, made of those of ``one`` rank."""
    text = " ".join(one(request, tensors) for request, tensors in requests)
    return hashlib.sha256(f"ranks {text}".encode()).hexdigest()


def joined(replies: Sequence[bytes]) -> bytes:
    """Raw replies by rank as one blob; an empty one stands for a rank that gave none."""
    return b"".join(frame(reply) for reply in replies)


def met_of(header: Mapping[str, Any], blob: bytes) -> RankReplies:
    """The inverse: what came back from all ranks."""
    replies: list[Reply | None] = []
    at = 0
    while at < len(blob):
        (length,) = LENGTH.unpack_from(blob, at)
        at += LENGTH.size + length
        replies.append(unpack(bytearray(blob[at - length : at])) if length else None)
    return RankReplies(tuple(replies), tuple(header["calls"]))


def to_plain(error: WorkerLost | OutOfStep) -> dict[str, Any]:
    """Return what ended a request, as JSON data."""
    if isinstance(error, OutOfStep):
        return {"out": [list(error.gone), _plain(error.waiting)]}
    frames = [[frame.file, frame.line, frame.function, frame.text] for frame in error.frames]
    lost = [str(error), error.timed_out, error.clock, error.stray, *frames]
    told: dict[str, Any] = {"lost": lost}
    if isinstance(error, RankLost):
        told["rank"] = [error.rank, error.world, _plain(error.waiting)]
    return told


def lost_of(told: Sequence[Any]) -> WorkerLost:
    """The inverse for one worker."""
    text, timed_out, clock, stray, *frames = told
    return WorkerLost(
        text,
        timed_out=timed_out,
        clock=clock,
        stray=stray,
        frames=tuple(Frame(*frame) for frame in frames),
    )


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


# Bytes of one hand-in; an honest one has a few MiB. What comes after that is as if never asked.
MAX_KEPT = 256 << 20


class NotKept(Exception):
    """A request that was never made while outputs were kept."""


class PassingTransport:
    """Stands before another transport; what is printed is taken from it after every request."""

    def __init__(self, inner: CheckTransport) -> None:
        self._inner = inner
        self._prints = ""

    @property
    def lost(self) -> int:
        """Workers lost so far."""
        return self._inner.lost

    def take_prints(self) -> str:
        """Return what student code printed since the last call."""
        prints, self._prints = self._prints, ""
        return prints

    def forgive(self) -> None:
        """The last loss is nobody's fault."""
        self._inner.forgive()
        self._prints = ""

    def renew(self) -> None:
        """Let go of the worker."""
        self._inner.renew()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """See :meth:`WorkerTransport.aside`."""
        with self._inner.aside():
            yield
        self._prints = ""


class KeepingTransport(PassingTransport):
    """Hands requests on to a worker and writes down what comes back.

    Args:
        inner: what really runs student code.
        path: where to; the file appears when :meth:`save` is called, whole or not at all.
        hand_in: what to find again in it, as plain data.
    """

    def __init__(self, inner: WorkerTransport, path: Path, hand_in: Mapping[str, Any]) -> None:
        super().__init__(inner)
        self._worker = inner
        self._path = path
        self._entries = [_entry(dict(hand_in), b"")]
        self._left = MAX_KEPT

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        """Execute in the worker; see :meth:`WorkerTransport.exchange`."""
        header: dict[str, Any] = {"request": digest_of(request, tensors)}
        try:
            reply = self._worker.exchange(request, tensors)
        except WorkerLost as lost:
            self._keep(header | to_plain(lost), b"")
            raise
        self._keep(header, self._worker.raw)  # packed anew it may be beyond what `unpack` takes
        return reply

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        """Execute on ranks; see :meth:`WorkerTransport.exchange_ranks`."""
        header: dict[str, Any] = {"request": digest(requests, digest_of)}
        blob = b""
        try:
            met = self._worker.exchange_ranks(requests)
            header["calls"] = list(met.calls)
            blob = joined(self._worker.gang.raw)
            return met
        except (WorkerLost, OutOfStep) as error:
            header |= to_plain(error)
            raise
        finally:
            self._keep(header, blob)

    def _keep(self, header: dict[str, Any], blob: bytes) -> None:
        prints = self._inner.take_prints()
        self._prints += prints
        if len(blob) <= min(self._left, MAX_MESSAGE):
            self._left -= len(blob)
            self._entries.append(_entry(header | {"prints": prints}, blob))

    def save(self) -> None:
        """Write the file. Raises OSError."""
        # What is printed on hidden cases is among it.
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        try:
            with open(temporary, "wb") as file:
                file.writelines(self._entries)
            os.replace(temporary, self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


class KeptTransport:
    """Answers from a file that :class:`KeepingTransport` has written.

    ``hand_in`` is what was put in it.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not such a file.
    """

    def __init__(self, path: Path) -> None:
        self.lost = 0
        self._prints = ""
        self._answers: dict[str, deque[tuple[dict[str, Any], bytes]]] = defaultdict(deque)
        try:
            entries = _entries(path.read_bytes())
            self.hand_in = entries.popleft()[0]
            for header, blob in entries:
                self._answers[str(header["request"])].append((header, blob))
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{path}: not a file of kept outputs ({error})") from None

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        """Return what came back when this was asked.

        Raises:
            WorkerLost: the worker was lost then.
            NotKept: it was never asked.
        """
        header, blob = self._answer(digest_of(request, tensors))
        if "lost" in header:
            self.lost += 1
            raise lost_of(header["lost"])
        return unpack(bytearray(blob))

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        """Return what came back when this was asked of ranks.

        Raises:
            RankLost, OutOfStep: so it went then.
            NotKept: it was never asked.
        """
        header, blob = self._answer(digest(requests, digest_of))
        if "lost" in header:
            self.lost += 1
        expect_met(header)
        return met_of(header, blob)

    def _answer(self, digest: str) -> tuple[dict[str, Any], bytes]:
        answers = self._answers[digest]
        if not answers:
            raise NotKept
        header, blob = answers.popleft()
        self._prints += header["prints"]
        return header, blob

    def take_prints(self) -> str:
        """Return what was printed between two answers."""
        prints, self._prints = self._prints, ""
        return prints

    def forgive(self) -> None:
        """The last loss is nobody's fault."""
        self.lost -= 1
        self._prints = ""

    def renew(self) -> None:
        """There is no worker."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """See :meth:`WorkerTransport.aside`."""
        lost = self.lost
        yield
        self.lost, self._prints = lost, ""


def hand_in_of(path: Path) -> dict[str, Any]:
    """Say what :class:`KeepingTransport` was given to find again; reads nothing else of the file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not such a file.
    """
    with open(path, "rb") as file:
        head = file.read(LENGTH.size)
        if len(head) < LENGTH.size:
            raise ValueError(f"{path}: not a file of kept outputs (it is too short)")
        told = json.loads(file.read(frame_length(head)))
    if not isinstance(told, dict):
        raise ValueError(f"{path}: not a file of kept outputs (no hand-in stands first)")
    return told


def digest_of(request: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Hash of a request by what its tensors hold: their names tell where a file lay then.

    Whether namespaces were fresh for it is left out: of the cases that a lab has later, another
    one may be the first.
    """
    text = json.dumps({**request, "fresh": None}, sort_keys=True)
    for name, tensor in tensors.items():
        content = hashlib.sha256(f"{tensor.dtype}{tensor.shape}".encode() + tensor.data)
        text = text.replace(json.dumps(name), json.dumps(content.hexdigest()))
    return hashlib.sha256(text.encode()).hexdigest()


def _entry(header: dict[str, Any], blob: bytes) -> bytes:
    return frame(json.dumps(header).encode()) + (frame(blob) if blob else LENGTH.pack(0))


def _entries(data: bytes) -> deque[tuple[dict[str, Any], bytes]]:
    found: deque[tuple[dict[str, Any], bytes]] = deque()
    at = 0

    def piece(*, empty: bool = False) -> bytes:
        nonlocal at
        head = data[at : at + LENGTH.size]
        if len(head) < LENGTH.size:
            raise WireError("the file ends in the middle of a length")
        length = 0 if empty and head == LENGTH.pack(0) else frame_length(head)
        at += LENGTH.size + length
        if at > len(data):
            raise WireError("the file ends in the middle of an entry")
        return data[at - length : at]

    while at < len(data):
        header = json.loads(piece())
        found.append((header, piece(empty=True)))
    if not found:
        raise WireError("the file is empty")
    return found
