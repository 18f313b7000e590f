"""An LSTM cell, the loss of its predictions, and the shuffle of its data."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def shuffle(x: Tensor, y: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs ``x`` [N, ...] and targets ``y`` [N] in one random order that ``seed`` decides."""
    # BEGIN SOLUTION lstm.shuffle
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    return x[order], y[order]
    # END SOLUTION


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean of -log p(target) over all tokens that are no padding.

    Args:
        logits: [B, T, classes].
        targets: [B, T]; -1 is padding.
    """
    # BEGIN SOLUTION lstm.loss
    told = targets >= 0
    chosen = logits.log_softmax(-1)[told].gather(-1, targets[told][:, None])
    return -chosen.mean()
    # END SOLUTION


class Cell(nn.Module):
    """One step of an LSTM; ``gates`` gives input, forget, candidate and output, in this order."""

    def __init__(self, inputs: int, size: int) -> None:  # GIVEN
        super().__init__()
        self.gates = nn.Linear(inputs + size, 4 * size)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The next ``h`` and ``c`` [B, size]; ``x`` [B, inputs] goes before h."""
        # BEGIN SOLUTION lstm.cell
        i, f, g, o = self.gates(torch.cat([x, h], -1)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
        # END SOLUTION
