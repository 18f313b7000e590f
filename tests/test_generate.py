"""Greedy generation: the likeliest token, one at a time, or a friendly refusal."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from labs.given.generate import generate


def test_generate_is_greedy_and_streams() -> None:
    calls = []

    class Successor(nn.Module):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:  # [1, T] -> [1, T, 10]
            calls.append(ids.shape[1])
            return torch.nn.functional.one_hot((ids + 1) % 10, 10).float()

    stream = generate(Successor(), [3, 7], 4)
    assert calls == []
    assert next(stream) == 8
    assert calls == [2]  # nothing is computed before it is asked for
    assert list(stream) == [9, 0, 1]
    assert calls == [2, 3, 4, 5]


def test_generate_refuses_what_it_cannot_continue() -> None:
    with pytest.raises(ValueError, match="holds no token"):
        next(generate(nn.Identity(), [], 1))

    class Broken(nn.Module):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.full((1, ids.shape[1], 10), float("nan"))

    with pytest.raises(ValueError, match="NaN"):
        next(generate(Broken(), [1], 1))
