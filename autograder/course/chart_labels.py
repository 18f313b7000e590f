"""The labels of charts in Chinese, from a table that lies beside the notebooks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

FILE = "notebooks/labels.zh.toml"  # by the English label; {} stands for a value
FIELD = "{}"


def load(root: Path) -> dict[str, str]:
    """The table of the course at ``root``; empty where there is none.

    Raises:
        ValueError: it cannot be read (names it and the line).
    """
    if not (root / FILE).is_file():
        return {}
    try:
        return tomllib.loads((root / FILE).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{FILE}: {error}") from None


def entry(label: str, table: Mapping[str, str]) -> tuple[str, tuple[str, ...]] | None:
    """The key of ``table`` that tells ``label``, and the values in it; None where none does."""
    if label in table:
        return label, (FIELD,) * label.count(FIELD)
    for key in sorted(table, key=len, reverse=True):  # the longest says most
        if FIELD in key:
            found = re.fullmatch(re.escape(key).replace(r"\{\}", "(.+?)"), label)
            if found is not None:
                return key, found.groups()
    return None


def in_chinese(label: str, table: Mapping[str, str]) -> str:
    """A label and the words given to it in Chinese; what ``table`` does not hold stays."""
    found = entry(label, table)
    if found is None:
        return label
    key, values = found
    return table[key].format(*(in_chinese(value, table) for value in values))
