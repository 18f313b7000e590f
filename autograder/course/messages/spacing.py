"""Sentences put together: between Chinese and Latin letters stands one space, and none elsewhere.

Templates cannot know what a value will begin and end with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

_CHINESE = r"[\u4e00-\u9fff]"
_LATIN = r"[A-Za-z0-9_)\]'`%.]"
_NO_SPACE = re.compile(f"{_LATIN}\x1c{_CHINESE}|{_CHINESE}\x1c[A-Za-z0-9_(\\[`-]")
_ONE_TOO_MANY = re.compile(f"({_CHINESE})(?: \x1c|\x1c )({_CHINESE})")
_SEAM = "\x1c"  # where a value begins and ends


def filled(template: str, values: Mapping[str, Any]) -> str:
    """``template.format(**values)``, with the spaces right where values begin and end.

    Raises:
        KeyError: a value is missing.
    """
    formatter, parts = Formatter(), []
    for literal, field, spec, conversion in formatter.parse(template):
        parts.append(literal)
        if field is not None:
            value = formatter.convert_field(formatter.get_field(field, (), values)[0], conversion)
            parts.append(str(formatter.format_field(value, spec or "")).replace(_SEAM, ""))
    joined = _ONE_TOO_MANY.sub(r"\1\2", _SEAM.join(parts))
    return _NO_SPACE.sub(lambda seam: seam[0].replace(_SEAM, " "), joined).replace(_SEAM, "")
