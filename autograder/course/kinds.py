"""Sees that records made from data hold what their types say: dataclasses take anything."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

_LARGEST = 1 << 63
_Test = Callable[[Any], bool]


def verify(record: Any) -> None:
    """Check every field of a record of :mod:`autograder.course.records`, and of those in it.

    Raises:
        TypeError: a field holds something of another type, or a number beyond 64 bits; the text
            names record, field and both kinds.
    """
    own: Any = type(record)
    for name, kind, test in _fields(own):
        value = getattr(record, name)
        if not test(value):
            wanted = getattr(kind, "__name__", str(kind)) if not get_args(kind) else str(kind)
            raise TypeError(f"{own.__name__}.{name} is {type(value).__name__}, expected {wanted}")


@cache
def _fields(record: Hashable) -> tuple[tuple[str, Any, _Test], ...]:
    """Names and types of the fields of a dataclass, and what tests a value."""
    return tuple((name, kind, _test(kind)) for name, kind in get_type_hints(record).items())


# Types are taken apart once: a class has millions of values.
@cache
def _test(kind: Any) -> _Test:
    """What tells whether a value is of a type."""
    origin: Any = get_origin(kind)
    parts = [_test(part) for part in get_args(kind) if part is not ...]
    if kind is Any:
        return lambda value: True
    if isinstance(kind, UnionType):
        return lambda value: any(test(value) for test in parts)
    if origin in (tuple, Sequence):
        return _all_of(origin, parts[0])
    if origin is Mapping:
        return _pairs_of(*parts)
    if kind in (int, float):
        return _number if kind is float else lambda value: type(value) is int and _number(value)
    return _record_of(kind) if is_dataclass(kind) else lambda value: isinstance(value, kind)


def _record_of(kind: Any) -> _Test:
    def test(value: Any) -> bool:
        if isinstance(value, kind):
            verify(value)
            return True
        return False

    return test


def _all_of(several: Any, test: _Test) -> _Test:
    return lambda value: (
        isinstance(value, several) and not isinstance(value, str) and all(map(test, value))
    )


def _pairs_of(key: _Test, item: _Test) -> _Test:
    return lambda value: (
        isinstance(value, Mapping) and all(map(key, value)) and all(map(item, value.values()))
    )


def _number(value: Any) -> bool:
    # True is an int to Python, but no number of points.
    return type(value) in (int, float) and -_LARGEST < value < _LARGEST
