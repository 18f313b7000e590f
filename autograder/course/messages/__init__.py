"""Every sentence a student or instructor reads, in English and Chinese, as TOML tables."""

from __future__ import annotations

import locale
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from autograder.course.records import Message, Text

# Sentences put together: a number has the right words with it, and spaces stand where they belong.
#
# Templates cannot know what a value will begin and end with, nor how many there will be.
# ``{points|# point|# points}`` has words for one and for other numbers, ``{late|none|# day|#
# days}`` for none as well; ``#`` is the number.

_CHINESE = r"[\u4e00-\u9fff]"
_LATIN = r"[A-Za-z0-9_)\]'`%.]"
_NO_SPACE = re.compile(f"{_LATIN}\x1c{_CHINESE}|{_CHINESE}\x1c[A-Za-z0-9_(\\[`-]")
_ONE_TOO_MANY = re.compile(f"({_CHINESE})(?: \x1c|\x1c )({_CHINESE})")
_SEAM = "\x1c"  # where a value begins and ends


def filled(template: str, values: Mapping[str, Any]) -> str:
    """``template.format(**values)``, with words for the number, and spaces where values meet text.

    Raises:
        KeyError: a value is missing.
    """
    if "{" not in template and "}" not in template:
        return template
    formatter, parts = Formatter(), []
    for literal, field, spec, conversion in formatter.parse(template):
        parts.append(literal)
        if field is not None:
            name, *forms = field.split("|")
            value = formatter.convert_field(formatter.get_field(name, (), values)[0], conversion)
            text = str(formatter.format_field(value, spec or "")).replace(_SEAM, "")
            parts.append(_form(forms, value).replace("#", text) if forms else text)
    joined = _ONE_TOO_MANY.sub(r"\1\2", _SEAM.join(parts))
    return _NO_SPACE.sub(lambda seam: seam[0].replace(_SEAM, " "), joined).replace(_SEAM, "")


def _form(forms: Sequence[str], number: object) -> str:
    """The words for a number: ``forms`` are for one and others, or for none, one and others."""
    if number == 0 and len(forms) > 2:
        return forms[0]
    return forms[-2] if number == 1 else forms[-1]


@cache
def catalogue() -> dict[str, Text]:
    """All sentences by key, ``area.name``; the area is the name of the TOML file.

    Raises:
        ValueError: an entry lacks a language (names file and key).
    """
    found: dict[str, Text] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        found |= {f"{path.stem}.{name}": text for name, text in read(path).items()}
    return found


def read(path: Path) -> dict[str, Text]:
    """The sentences of one TOML file, by name.

    Raises:
        ValueError: an entry lacks a language (names file and key).
    """
    found = {}
    for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
        if set(entry) != {"en", "zh"}:
            raise ValueError(f"{path.name}: [{name}] needs exactly the keys en and zh")
        found[name] = Text(entry["en"], entry["zh"])
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


def language() -> str:
    """``zh`` or ``en``: what ``LAB_LANG`` asks for, or what this machine speaks."""
    variables = ("LAB_LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    asked = next(filter(None, map(os.environ.get, variables)), "")
    if not asked:
        asked = locale.getlocale()[0] or ""
    return "zh" if asked.lower().startswith(("zh", "chinese")) else "en"


CUT = "[…]"  # where lines or characters were left out of the middle


def cut(lines: Sequence[str], most: int) -> list[str]:
    """The lines, or ``most`` of them: the first, a mark for what is left out, and the last."""
    if len(lines) <= most:
        return list(lines)
    if most < 3:
        return list(lines[-most:])
    tail = most // 2
    return [*lines[: most - tail - 1], CUT, *lines[-tail:]]


def cut_text(text: str, most: int) -> str:
    """A text, or its two ends with a mark between, ``most`` characters together."""
    if len(text) <= most:
        return text
    half = (most - len(CUT) - 2) // 2
    return f"{text[:half]}\n{CUT}\n{text[-half:]}"
