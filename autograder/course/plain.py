"""Records as plain JSON data, and back: between processes, and in the files that we write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from autograder.course.records import Message, Values

_T = TypeVar("_T")
_LARGEST = 1 << 63


def to_plain(value: Any) -> Any:
    """A record, or several of them, as objects, lists and scalars of JSON.

    Of a path its name is left, no more. The values of a :class:`Message` are JSON scalars, lists,
    objects, or marked: ``{"$tuple": [...]}``, ``{"$float": "nan" | "inf" | "-inf"}`` and
    ``{"$pairs": [[key, value], ...]}``, an object whose keys JSON or these marks would confuse.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Message):
        return {"key": value.key, "values": {k: _value_out(v) for k, v in value.values.items()}}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, (tuple, list)):
        return [to_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: to_plain(one) for key, one in value.items()}
    return value.name if isinstance(value, Path) else value


def from_plain(kind: type[_T], data: Any) -> _T:
    """The inverse of :func:`to_plain`; keys that ``kind`` does not have are left out.

    Raises:
        ValueError: the data does not fit the types of ``kind``; says what, and where.
    """
    import msgspec  # where data is read, and not before: doctor answers without any package

    try:
        if not _bounded(data):
            raise ValueError("a number is beyond 64 bits, or none")
        return msgspec.convert(data, kind, dec_hook=_special)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from None


def _bounded(value: Any) -> bool:
    """Return whether all numbers are such as the arithmetic on them expects.

    Those in a message are shown, and may be a student's: any number at all.
    """
    if isinstance(value, dict):
        return all(_bounded(one) for name, one in value.items() if name != "values")
    if isinstance(value, (list, tuple)):
        return all(map(_bounded, value))
    return not isinstance(value, (int, float)) or -_LARGEST < value < _LARGEST


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _special(kind: type, raw: Any) -> Any:
    if kind is Values and isinstance(raw, dict):
        return Values(  # type: ignore[abstract, call-arg]
            {name: _value_in(value) for name, value in raw.items()}
        )
    if kind is Path and isinstance(raw, str):
        return Path(raw)
    raise ValueError(f"Expected `{kind.__name__}`, got `{type(raw).__name__}`")


def _value_out(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return {"$tuple": [_value_out(item) for item in value]}
    if isinstance(value, list):
        return [_value_out(item) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _value_out(item) for key, item in value.items()}
        return {"$pairs": [[_value_out(key), _value_out(item)] for key, item in value.items()]}
    return str(value)  # a path, a shape object: what matters is how it reads


def _value_in(value: Any) -> Any:
    if isinstance(value, list):
        return [_value_in(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float(value["$float"])
    if "$tuple" in value:
        return tuple(_value_in(item) for item in value["$tuple"])
    if "$pairs" in value:
        return {_value_in(key): _value_in(item) for key, item in value["$pairs"]}
    return {key: _value_in(item) for key, item in value.items()}
