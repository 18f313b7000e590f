"""Whether a call costs more than it has to: an answer like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograder.worker.costs import measure


def over(
    function: Callable[..., Any], args: tuple[Any, ...], *, flops: float = float("inf"), size: int
) -> dict[str, Any]:
    """Whether a call takes more FLOPs than these, and whether it holds more bytes at a time."""
    _, table = measure(function, args, {}, {})
    return {"too many FLOPs": table["flops"] > flops, "too many bytes": table["peak"] > size}
