"""Writes a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


def write_atomic(
    path: Path, text: str | bytes | Iterable[str | bytes], *, durable: bool = False
) -> None:
    """Write ``text``, whole or in pieces, as :func:`writing` does."""
    with writing(path, durable=durable) as write:
        for piece in (text,) if isinstance(text, (str, bytes)) else text:
            write(piece)


@contextlib.contextmanager
def writing(path: Path, *, durable: bool = False) -> Iterator[Callable[[str | bytes], object]]:
    """Write what is given piece by piece beside ``path``, and move it there at the end.

    So nobody ever reads half a file; one that is ``durable`` is whole after a power cut, too.
    Text is UTF-8, and a lone surrogate, which UTF-8 cannot hold, is written as ``\\udXXX``
    (right in JSON). Bytes stay as they are. Whatever is raised meanwhile leaves ``path`` as it was.
    """
    # One run at a time writes there, so what a killed one has left is written over.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as stream:
            yield lambda piece: stream.write(piece if isinstance(piece, bytes) else _utf8(piece))
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
