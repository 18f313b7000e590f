"""Every sentence a student or instructor reads, in English and Chinese, as TOML tables."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from autograder.course.messages.spacing import filled
from autograder.course.records import Message, Text


@cache
def catalogue() -> dict[str, Text]:
    """All sentences by key, ``area.name``; the area is the name of the TOML file.

    Raises:
        ValueError: an entry lacks a language (names file and key).
    """
    found: dict[str, Text] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if set(entry) != {"en", "zh"}:
                raise ValueError(f"{path.name}: [{name}] needs exactly the keys en and zh")
            found[f"{path.stem}.{name}"] = Text(entry["en"], entry["zh"])
    return found


def render(message: Message, language: str) -> str:
    """The sentence in ``language``. A value that is a mapping of languages is chosen from.

    Raises:
        KeyError: the key is in no table, or a value is missing.
    """
    values = {
        name: value.get(language, value.get("en")) if isinstance(value, dict) else value
        for name, value in message.values.items()
    }
    return filled(catalogue()[message.key].in_(language), values)


def both(message: Message) -> str:
    """English and Chinese side by side, for a terminal before a language is chosen."""
    return f"{render(message, 'en')} / {render(message, 'zh')}"
