"""Gradients of what functions and modules return, for checks: they call all without gradients."""

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


def parameter_gradient(
    module: torch.nn.Module, name: str, *arguments: object, item: int | None = None
) -> torch.Tensor:
    """The gradient of the sum of what a module returns, at one of its parameters.

    Args:
        module: called with the arguments.
        name: of a parameter.
        arguments: whatever the module takes.
        item: which of several results is meant.

    Returns:
        A tensor like the parameter; zeros where the result does not depend on it.
    """
    leaf = module.get_parameter(name)
    with torch.enable_grad():
        made = module(*arguments)
        result = (made if item is None else made[item]).sum()
        if not result.requires_grad:
            return torch.zeros_like(leaf)
        (slope,) = torch.autograd.grad(result, [leaf], allow_unused=True)
    return torch.zeros_like(leaf) if slope is None else slope
