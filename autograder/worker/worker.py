"""The worker's loop: reads requests from a descriptor, executes them, writes replies."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any

from autograder.wire.frames import LENGTH, frame, frame_length
from autograder.wire.messages import Tensor, pack, unpack_trusted
from autograder.worker import collective, jail
from autograder.worker.session import Session


def serve(
    read_fd: int,
    write_fd: int,
    layers: tuple[str, ...],
    before_message: Callable[[], None] = lambda: None,
) -> None:
    """Take the sources (the reply names the isolation ``layers`` that bound), then requests.

    ``before_message`` is called when all prints are out and a message is about to leave.
    Returns when the judge closes its end.
    """
    _line_buffered()
    session: Session | None = None
    place: list[int] = []  # rank and number of ranks; empty in a worker that is alone

    def ask(call: str, about: str, data: bytes) -> list[bytes]:
        """Meet the other ranks at the judge, in the middle of a request."""
        told = {"call": call, "about": about}
        before_message()
        _write(write_fd, pack(told, {"b": Tensor("uint8", (len(data),), data)}))
        answer = _read(read_fd)
        if answer is None:  # the judge waits for nothing any more
            os._exit(0)
        tree, given = unpack_trusted(answer)
        return [bytes(given[str(rank)].data) for rank in range(tree["all"])]

    while (blob := _read(read_fd)) is not None:
        request, tensors = unpack_trusted(blob)
        if "sources" in request:
            if request["given"] is not None:
                _keep_given(request["given"])
            if request.get("exact"):
                jail.return_memory()
            asked = {name: request[name] for name in ("seed", "lab") if name in request}
            session = Session(request["sources"], request["paths"], **asked)
            reply: tuple[dict[str, Any], dict[str, Any]] = ({"layers": list(layers)}, {})
        else:
            assert session is not None
            if request.get("rank", place) != place:
                place = request["rank"]
                rank, world = place
                collective.join(rank, world, ask)
            reply = session.execute(request, tensors)
        _flush()
        before_message()
        _write(write_fd, pack(*reply))


def _keep_given(given: list[str]) -> None:
    """Leave only the given modules that the lab allows; no path leads to the others."""
    for name in list(sys.modules):
        if name.startswith("labs.given.") and name not in given:
            del sys.modules[name]
            # `from labs.given import norm` asks the package first, not the table of modules.
            vars(sys.modules["labs.given"]).pop(name.rpartition(".")[2], None)
    for name in ("labs", "labs.given"):
        if name in sys.modules:
            sys.modules[name].__path__ = []


def _line_buffered() -> None:
    """Prints go out at once, so that those before a crash are not lost."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(fd, "w", closefd=False)
        stream = io.TextIOWrapper(raw, "utf-8", errors="replace", write_through=True)
        setattr(sys, name, stream)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # a student may have closed or replaced it
            continue


def _read(fd: int) -> bytearray | None:
    head = _exactly(fd, 8)
    return None if head is None else _exactly(fd, frame_length(bytes(head)))


def _exactly(fd: int, count: int) -> bytearray | None:
    whole = bytearray(count)
    rest = memoryview(whole)
    while rest:
        got = os.readv(fd, [rest]) if hasattr(os, "readv") else _read_into(fd, rest)
        if not got:
            return None
        rest = rest[got:]
    return whole


def _read_into(fd: int, buffer: memoryview) -> int:  # Windows has no readv
    piece = os.read(fd, min(len(buffer), 1 << 20))
    buffer[: len(piece)] = piece
    return len(piece)


def _write(fd: int, blob: bytes) -> None:
    # A short message goes out in one call; a long one takes longer to copy than a second call.
    for part in (frame(blob),) if len(blob) < 1 << 16 else (LENGTH.pack(len(blob)), blob):
        view = memoryview(part)
        while view:
            view = view[os.write(fd, view) :]
