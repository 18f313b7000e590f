"""Marked fields of a report: ``[[params_8b | count: 8.19 B]]``, wherever they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass

EXAMPLE = "example"  # shows how fields are written, and asks for nothing
_FIELD = re.compile(r"\[\[\s*(\w+)\s*\|\s*(\w+)\s*[:：]([^\[\]\n]*)\]\]")


@dataclass(frozen=True)
class Field:
    """A field: what it is called, the kind of its quantity, and what was written into it."""

    id: str
    kind: str
    text: str

    @property
    def empty(self) -> bool:
        """Whether nothing was written, beyond the line to write on."""
        return not self.text.strip(" _\t")


def fields(text: str) -> dict[str, Field]:
    """The fields of a report by id; of one that stands twice, the last that is filled in."""
    found: dict[str, Field] = {}
    for name, kind, written in _FIELD.findall(text):
        if name == EXAMPLE:
            continue
        field = Field(name, kind, written.strip())
        if not field.empty or name not in found:
            found[name] = field
    return found
