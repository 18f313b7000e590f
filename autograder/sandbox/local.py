"""The in-process twin of a worker: for breakpoints, and as a yardstick. No isolation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autograder.sandbox.session import Session
from autograder.sandbox.transport import Reply, Sources
from autograder.sandbox.wire import Tensor


class LocalTransport:
    """Executes requests here.

    Args:
        sources: text and shown paths of the hand-in's files.
        debug: let exceptions of student code through, so that ``pdb`` stops in them.
    """

    def __init__(self, sources: Sources, *, debug: bool = False) -> None:
        self._session = Session(sources.files, sources.paths)
        self._debug = debug

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        """Execute one request in this process."""
        return self._session.execute(request, tensors, debug=self._debug)

    def close(self) -> None:
        """Take the student's modules out of this process again."""
        self._session.modules.remove()
