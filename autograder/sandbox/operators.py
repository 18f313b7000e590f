"""Which operators student code dispatches: what the syntax of a file cannot hide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base has no types
    """Writes down the name of every operator that reaches the dispatcher."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.seen.append(str(getattr(func, "name", lambda: func)()))
        return func(*args, **(kwargs or {}))


@contextmanager
def recorded(active: bool) -> Iterator[list[str]]:
    """Names of the operators that run inside the block (nothing when not ``active``)."""
    if not active:
        yield []
        return
    with _Recorder() as recorder:
        yield recorder.seen
