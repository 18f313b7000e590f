"""What torch makes while a call runs: a few numbers for every tensor, whatever its layout.

They do not depend on the order of a tensor's elements, so that a step is found again in code that
splits, moves or names its axes in another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

MAX_STEPS = 500
MAX_NUMEL = 1 << 20
COLUMNS = 6  # how many elements, means of x, x^2, x^3 and x^4, and one that hangs on their order


def summary(tensor: torch.Tensor) -> list[float]:
    """``COLUMNS`` numbers of a tensor of floats."""
    flat = tensor.detach().reshape(-1).double()
    powers = [float((flat**power).mean()) for power in (1, 2, 3, 4)]
    order = torch.cos(torch.arange(flat.numel(), dtype=torch.float64))
    return [float(flat.numel()), *powers, float((flat * order).mean())]


class _Steps(TorchFunctionMode):
    """Summarises every tensor of floats that a torch function returns."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[list[float]] = []

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for made in result if isinstance(result, (tuple, list)) else (result,):
            if len(self._rows) < MAX_STEPS and _is_plain(made):
                self._rows.append(summary(made))
        return result

    def table(self) -> torch.Tensor:
        """float64 ``[steps, COLUMNS]``."""
        return torch.tensor(self._rows, dtype=torch.float64).reshape(-1, COLUMNS)


def _is_plain(value: Any) -> bool:
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or not value.is_floating_point():
        return False
    return value.layout is torch.strided and 0 < value.numel() <= MAX_NUMEL


@contextmanager
def recorded() -> Iterator[_Steps]:
    """The steps that torch makes inside the block."""
    with _Steps() as steps:
        yield steps
