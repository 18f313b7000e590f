"""Sentences put together: a number has the right words with it, and spaces stand where they belong.

Templates cannot know what a value will begin and end with, nor how many there will be.
``{points|# point|# points}`` has words for one and for other numbers, ``{late|none|# day|# days}``
for none as well; ``#`` is the number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

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
