"""What random cases are drawn with: equal numbers draw equal cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Dice:
    """Draws of one case: equal numbers draw equal values."""

    def __init__(self, number: int) -> None:
        self._generator = torch.Generator().manual_seed(number)

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return int(torch.randint(low, high + 1, (), generator=self._generator))

    def normal(self, *shape: int) -> torch.Tensor:
        """float32 N(0, 1) of ``shape``."""
        return torch.randn(shape, generator=self._generator)

    def uniform(self, *shape: int) -> torch.Tensor:
        """float32 from 0 to 1."""
        return torch.rand(shape, generator=self._generator)

    def pick(self, options: Sequence[Any]) -> Any:
        """Any of ``options``."""
        return options[self.integer(0, len(options) - 1)]

    def positions(self, *shape: int) -> torch.Tensor:
        """int64 of ``shape``: in order, out of order, or far away; rows may differ."""
        steps = torch.arange(shape[-1]).expand(shape)
        start = torch.randint(0, 40, (*shape[:-1], 1), generator=self._generator)
        anywhere = torch.randint(0, 40_960, shape, generator=self._generator)
        drawn: torch.Tensor = self.pick((steps + start, steps * 3 + start, anywhere))
        return drawn
