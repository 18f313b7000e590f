"""A folder for what the fuzzed readers read: in memory where the machine has such a place."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

_MEMORY = "/dev/shm"


@cache
def _made() -> tempfile.TemporaryDirectory[str]:
    memory = _MEMORY if os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory)


def folder(name: str) -> Path:
    """A folder of this process called ``name``; it goes when the process ends."""
    path = Path(_made().name, name)
    path.mkdir(parents=True, exist_ok=True)
    return path
