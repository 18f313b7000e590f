"""Which torch functions student code calls: what the syntax of a file can hide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode


class _Recorder(TorchFunctionMode):
    """Writes down every function that reaches torch, ``torch.ops`` among them.

    Not a dispatch mode: the first one in a process imports 800 modules.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.seen.append(str(getattr(func, "__name__", func)))
        return func(*args, **(kwargs or {}))


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Names of the functions that run inside the block."""
    with _Recorder() as recorder:
        yield recorder.seen
