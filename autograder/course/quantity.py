"""Numbers with units, as people write them: ``8.19 B``, ``147,456 bytes``, ``144 KiB``, ``4x``.

Three kinds: ``count`` (things; K, M, B or 万, 亿 may follow), ``bytes`` (16.4 needs a unit, which
may be GB or GiB; 147,456 are bytes), ``ratio`` (``4``, ``4x``, ``1/4``, ``25 %``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

_KIB = 1024
_MOST_SIGNS = 80  # of one answer; as many digits still are a float
KINDS = ("count", "bytes", "ratio", "choice")
_NUMBER = re.compile(
    r"[-+]?\d[\d,，_']*(?:\.\d+)?(?:e[-+]?\d+|\s*[x×*]\s*10\s*\^?\s*[-+]?\d+)?", re.I
)
_COUNTS = {
    "": 1, "k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "b": 1e9, "g": 1e9, "billion": 1e9,
    "t": 1e12, "千": 1e3, "万": 1e4, "百万": 1e6, "亿": 1e8, "十亿": 1e9,
}  # fmt: skip
_ABOUT = re.compile(r"^(?:about|around|approx(?:imately|\.)?|ca\.?|[~≈=]|大?约)\s*", re.I)
_THINGS = re.compile(r"(?:parameters?|params?|weights?|values?|个参数|参数|个)$", re.I)
_BYTES: dict[str, float] = {"b": 1, "byte": 1, "bytes": 1, "字节": 1}
_BYTES |= {f"{p}b": 1000.0**n for n, p in enumerate("kmgt", 1)}
_BYTES |= {f"{p}ib": 1024.0**n for n, p in enumerate("kmgt", 1)}
_RATIOS = {"": 1, "x": 1, "×": 1, "times": 1, "倍": 1, "%": 0.01}


class QuantityError(ValueError):
    """Text that is no quantity of that kind; ``why`` is the end of a message's key."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def parse(text: str, kind: str) -> float:
    """The number in base units: things, bytes, or a plain ratio.

    Raises:
        QuantityError: ``empty``, ``no_number``, ``no_unit`` (of bytes, see above), ``unit``, or
            ``too_long``: more signs, or a larger number, than any answer has.
    """
    if len(text) > _MOST_SIGNS:
        raise QuantityError("too_long")
    found = _parsed(text, kind)
    if not math.isfinite(found):
        raise QuantityError("too_long")
    return found


def _parsed(text: str, kind: str) -> float:
    text = _ABOUT.sub("", text.strip("_`* \t"))
    if not text:
        raise QuantityError("empty")
    if kind == "ratio" and (fraction := re.fullmatch(r"(\d+)\s*/\s*([1-9]\d*)", text)):
        return int(fraction[1]) / int(fraction[2])
    found = _NUMBER.match(text)
    if found is None:
        raise QuantityError("no_number")
    unit = text[found.end() :].strip()
    value = _value(found[0])
    if kind == "bytes" and not unit:
        # The field says what is counted; a fraction or a small number was thought in a larger unit.
        if value < _KIB or not value.is_integer():
            raise QuantityError("no_unit")
        return value
    return value * _factor(unit, kind)


def _value(number: str) -> float:
    plain = re.sub(r"[,，_'\s]", "", number)
    return float(re.sub(r"[x×*]10\^?", "e", plain, flags=re.I))


def _factor(unit: str, kind: str) -> float:
    if kind == "bytes":
        if unit.rstrip(".").lower() not in _BYTES:
            raise QuantityError("unit")
        return _BYTES[unit.rstrip(".").lower()]
    known = _COUNTS if kind == "count" else _RATIOS
    short = _THINGS.sub("", unit).strip().lower() if kind == "count" else unit.lower()
    if short not in known:
        raise QuantityError("unit")
    return known[short]


# What may be chosen in a field of that kind, by its id; the form has answers for these.
CHOICES = {"other_size": ("0.6B", "1.7B", "4B", "14B", "32B", "30B-A3B", "235B-A22B")}


def chosen(text: str, known: Iterable[str]) -> str:
    """The size that was chosen, however it is spelt; empty if it is none of them."""

    def plain(name: str) -> str:
        return name.strip(" _").lower().removeprefix("qwen3").strip("- ").replace(" ", "")

    return next((name for name in known if plain(name) == plain(text)), "")


# Marked fields of a report: ``[[params_8b | count: 8.19 B]]``, wherever they stand.

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
        """Return whether nothing was written, beyond the line to write on."""
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
