"""Numbers with units are read as people write them, and what is unclear is asked back."""

from __future__ import annotations

import pytest

from autograder.course.quantity import QuantityError, fields, parse


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("8,190,735,360", "count", 8_190_735_360),
        ("8190735360 parameters", "count", 8_190_735_360),
        ("8_190_735_360", "count", 8_190_735_360),
        (" **8.19 B** ", "count", 8.19e9),
        ("about 8.19B parameters", "count", 8.19e9),
        ("≈ 8.19 billion", "count", 8.19e9),
        ("81.9 亿", "count", 8.19e9),
        ("约 81.9亿个参数", "count", 8.19e9),
        ("1.39M", "count", 1.39e6),
        ("1.394336e6", "count", 1_394_336),
        ("8.19 x 10^9", "count", 8.19e9),
        ("8.19×10^9", "count", 8.19e9),
        ("256", "count", 256),
        ("147,456 bytes", "bytes", 147_456),
        ("147456 B", "bytes", 147_456),
        ("147456 字节", "bytes", 147_456),
        ("144 KiB", "bytes", 147_456),
        ("144 kib", "bytes", 147_456),
        ("16.38 GB", "bytes", 16.38e9),
        ("15.26 GiB", "bytes", 15.26 * 2**30),
        ("1.125GiB", "bytes", 1.125 * 2**30),
        ("0.47 TB.", "bytes", 0.47e12),
        ("4", "ratio", 4),
        ("4x", "ratio", 4),
        ("4 倍", "ratio", 4),
        ("1/4", "ratio", 0.25),
        ("25 %", "ratio", 0.25),
    ],
)
def test_what_people_write(text: str, kind: str, value: float) -> None:
    assert parse(text, kind) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("", "count", "empty"),
        ("____", "bytes", "empty"),
        ("many", "count", "no_number"),
        ("16.38", "bytes", "no_unit"),
        ("144", "bytes", "no_unit"),
        ("1e400", "bytes", "no_unit"),
        ("16.38 G", "bytes", "unit"),
        ("8.19 GB", "count", "unit"),
        ("4 KiB", "ratio", "unit"),
        ("8.19 B or so", "count", "unit"),
    ],
)
def test_what_is_unclear_is_named(text: str, kind: str, why: str) -> None:
    with pytest.raises(QuantityError) as error:
        parse(text, kind)
    assert error.value.why == why


def test_fields_are_found_wherever_they_stand() -> None:
    text = """Words [[a | count: 8.19 B]] and [[ b|bytes ： 144 KiB ]]; [[c | count: ____]].
| [[d | ratio: 4]] | [[not a field]] | [[example | bytes: 3.5 GiB]] |
[[a | count: ___]] later copies do not empty it; [[d | ratio: 5]] the last one filled in holds."""
    found = fields(text)
    assert {name: field.text for name, field in found.items() if not field.empty} == {
        "a": "8.19 B",
        "b": "144 KiB",
        "d": "5",
    }
    assert found["c"].empty and found["b"].kind == "bytes" and "example" not in found
