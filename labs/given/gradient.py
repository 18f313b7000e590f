"""The gradient of what a function returns, for checks: they call everything without gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


def gradient_of(
    function: Callable[..., torch.Tensor], tensors: Sequence[torch.Tensor], *arguments: object
) -> torch.Tensor:
    """The gradient of a scalar at the first of several tensors.

    Args:
        function: called with the list of tensors and the arguments behind it.
        tensors: floating point, of any shape.
        arguments: whatever else the function takes.

    Returns:
        A tensor like ``tensors[0]``; zeros where the result does not depend on it.
    """
    with torch.enable_grad():
        leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
        result = function(leaves, *arguments)
        if not result.requires_grad:
            return torch.zeros_like(tensors[0])
        (slope,) = torch.autograd.grad(result, leaves[:1], allow_unused=True)
    return torch.zeros_like(tensors[0]) if slope is None else slope
