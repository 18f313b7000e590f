"""FLOPs of matrix products, operator by operator: a product and its sum count as two.

Only what multiplies matrices is counted, in whichever way it is spelt; adding, scaling and
exponentials are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

Arguments = Sequence[Any]


def _product(first: int) -> Callable[[Arguments, Tensor], int]:
    """Products whose left matrix ``[..., m, k]`` is argument ``first``: 2 k per number made."""
    return lambda args, made: 2 * made.numel() * int(args[first].shape[-1])


def _added_batch(args: Arguments, made: Tensor) -> int:
    return 2 * made.numel() * int(args[1].shape[0] * args[1].shape[-1])


def _dot(args: Arguments, made: Tensor) -> int:
    return 2 * int(args[0].numel())


def _outer(args: Arguments, made: Tensor) -> int:
    return 2 * made.numel()


def _attention(args: Arguments, made: Any) -> int:
    """Two products; a causal one skips half of them, as far as anybody outside can tell."""
    q, k, v = args[:3]
    pairs = math.prod(q.shape[:-1]) * k.shape[-2]
    causal = any(flag is True for flag in args[3:])
    return int(2 * pairs * (q.shape[-1] + v.shape[-1]) // (2 if causal else 1))


def _broadcast(args: Arguments, made: Tensor) -> int:
    """A multiplication that repeats a side: ``(q[:, None] * k[None]).sum(-1)`` is a product.

    One that only scales rows, ``x * factor[:, None]``, is none.
    """
    sides = [side for side in args[:2] if isinstance(side, Tensor)]
    if len(sides) < 2:
        return 0
    small, large = sorted(sides, key=Tensor.numel)
    scales = small.numel() <= 1 or (made.numel() == large.numel() and small.shape[-1] == 1)
    return 2 * made.numel() if small.numel() < made.numel() and not scales else 0


_COUNTED: Mapping[str, Callable[[Arguments, Any], int]] = {
    "mm": _product(0),
    "bmm": _product(0),
    "mv": _product(0),
    "addmm": _product(1),
    "addmm_": _product(1),
    "baddbmm": _product(1),
    "baddbmm_": _product(1),
    "addmv": _product(1),
    "addbmm": _added_batch,
    "dot": _dot,
    "vdot": _dot,
    "addr": _outer,
    "ger": _outer,
    "_grouped_mm": _product(0),
    "mul": _broadcast,
    "mul_": _broadcast,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
}


def of(name: str, args: Arguments, made: Any) -> int:
    """FLOPs of one call of the operator ``name`` (without ``aten::`` and overload)."""
    counted = _COUNTED.get(name)
    return counted(args, made) if counted else 0
