"""Writes plain data as TOML; the standard library only reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dumps(table: Mapping[str, Any]) -> str:
    """A document that :mod:`tomllib` reads as ``table``, or as near as TOML comes to it.

    Values that TOML does not know (None) become a word that it cannot read. Tables are written
    in full, lists of tables as ``[[name]]``, all else on one line.
    """
    return "\n".join(_table(table, "")) + "\n"


def _table(table: Mapping[str, Any], path: str) -> list[str]:
    lines = [f"{_text(k)} = {_value(v)}" for k, v in table.items() if not _nested(v)]
    for key, value in table.items():
        name = f"{path}{_text(key)}"
        if isinstance(value, dict) and _nested(value):
            lines += [f"[{name}]", *_table(value, name + ".")]
        elif _nested(value):
            for item in value:
                lines += [f"[[{name}]]", *_table(item, name + ".")]
    return lines


def _nested(value: Any) -> bool:
    """Whether a value is written under a head of its own."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value)
    return isinstance(value, dict) and bool(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)} = {_value(v)}" for k, v in value.items()) + "}"
    return "null"


def _text(value: str) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f").encode("utf-8", "backslashreplace").decode()
