"""Frames of messages: eight bytes of length in front. The standard library only."""

from __future__ import annotations

import struct

MAX_MESSAGE = 64 << 20  # bytes
LENGTH = struct.Struct("<Q")


class WireError(ValueError):
    """The other side sent something that is not a message of ours."""


def frame(blob: bytes) -> bytes:
    """A message with its length in front, as it travels."""
    return LENGTH.pack(len(blob)) + blob


def frame_length(head: bytes) -> int:
    """Length of the message that follows the first eight bytes.

    Raises:
        WireError: it is empty, beyond :data:`MAX_MESSAGE`, or cut short; nothing has been
            allocated for it.
    """
    if len(head) != LENGTH.size:
        raise WireError(f"a length of {len(head)} bytes; it takes {LENGTH.size}")
    length: int = LENGTH.unpack(head)[0]
    if not 0 < length <= MAX_MESSAGE:
        raise WireError(f"a message of {length} bytes; 1 to {MAX_MESSAGE} are taken")
    return length
