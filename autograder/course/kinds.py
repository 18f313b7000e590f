"""Sees that records made from data hold what their types say: dataclasses take anything."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

_LARGEST = 1 << 63


def verify(record: Any) -> None:
    """Check every field of a record of :mod:`autograder.course.records`, and of those in it.

    Raises:
        TypeError: a field holds something of another type, or a number beyond 64 bits; the text
            names record, field and both kinds.
    """
    own: Any = type(record)
    for name, kind in _kinds(own):
        value = getattr(record, name)
        if not _is(value, kind):
            wanted = getattr(kind, "__name__", str(kind)) if not get_args(kind) else str(kind)
            raise TypeError(f"{own.__name__}.{name} is {type(value).__name__}, expected {wanted}")


@cache
def _kinds(record: Hashable) -> tuple[tuple[str, Any], ...]:
    """Names and types of the fields of a dataclass."""
    return tuple(get_type_hints(record).items())


def _is(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    arguments = get_args(kind)
    if isinstance(kind, UnionType):
        return any(_is(value, one) for one in arguments)
    if get_origin(kind) in (tuple, Sequence):
        several = isinstance(value, get_origin(kind)) and not isinstance(value, str)
        return several and all(_is(item, arguments[0]) for item in value)
    if get_origin(kind) is Mapping:
        return isinstance(value, Mapping) and all(
            _is(key, arguments[0]) and _is(item, arguments[1]) for key, item in value.items()
        )
    if kind in (int, float):  # True is an int to Python, but no number of points
        number = isinstance(value, int) or (kind is float and isinstance(value, float))
        return number and not isinstance(value, bool) and -_LARGEST < value < _LARGEST
    if not isinstance(value, kind):
        return False
    if is_dataclass(kind):
        verify(value)
    return True
