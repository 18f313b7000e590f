"""Reads what a worker replies: values from trees, and whether extras have their form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autograder.sandbox.wire import MAX_SIDES, Tensor

MAX_TEXT = 400


class Other:
    """A result that is neither data nor a plain tensor, in words."""

    def __init__(self, description: str) -> None:
        self.description = description

    def __repr__(self) -> str:
        return self.description


def expect_echo(step: Mapping[str, Any], value: Any) -> None:
    """``[result, args, kwargs]``, with the arguments of the call; checks take them for granted.

    Raises:
        ValueError, TypeError: something else came back.
    """
    _, args, kwargs = value
    if type(args) is not list or len(args) != len(step["args"]):
        raise ValueError("other arguments than those of the call")
    if type(kwargs) is not dict or kwargs.keys() != step["kwargs"].keys():
        raise ValueError("other keywords than those of the call")


def expect_cost(value: Any) -> None:
    """``[result, whole number]``, or a dict of such numbers in its place.

    Raises:
        ValueError, TypeError: something else came back.
    """
    _, cost = value
    numbers = list(cost.values()) if type(cost) is dict else [cost]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("costs that are no whole numbers")


_COUNTS = ("peak", "alive", "flops", "largest", "line")
_TRUTHS = ("over", "fenced", "kept")
_NAMES = ("operator", "kind", "file")


def expect_measured(value: Any) -> None:
    """``[result, costs]`` of a measured call; its texts are names, so that they may be shown.

    Raises:
        ValueError, TypeError, KeyError: something else came back.
    """
    _, costs = value
    if costs.keys() != {*_COUNTS, *_TRUTHS, *_NAMES, "shape"} or len(costs["shape"]) > MAX_SIDES:
        raise ValueError("other costs than those that are counted")
    numbers = [*(costs[name] for name in _COUNTS), *costs["shape"]]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("costs that are no whole numbers")
    if not all(type(costs[name]) is bool for name in _TRUTHS):
        raise TypeError("costs that are neither kept nor broken")
    if not all(re.fullmatch(r"[\w.]{0,80}", costs[name], re.ASCII) for name in _NAMES):
        raise ValueError("names that are none")


def decode(tree: Any, arrays: dict[str, Tensor]) -> Any:
    """A reply tree as values; whatever does not fit the form becomes :class:`Other`.

    Tensors are taken out of ``arrays``: each stands in one place, and what is left is nowhere.
    """
    if isinstance(tree, dict):
        if "$t" in tree:
            return arrays.pop(str(tree["$t"]), Other("nothing"))
        if "$tuple" in tree:
            return tuple(decode(item, arrays) for item in tree["$tuple"])
        if "$list" in tree:
            return [decode(item, arrays) for item in tree["$list"]]
        if "$dict" in tree:
            return {str(key): decode(item, arrays) for key, item in tree["$dict"]}
        return Other(str(tree.get("$other"))[:MAX_TEXT])
    if isinstance(tree, list) or (type(tree) is int and abs(tree) >= 1 << 63):
        return Other("a list" if isinstance(tree, list) else "a number beyond 64 bits")
    return tree[:MAX_TEXT] if isinstance(tree, str) else tree
