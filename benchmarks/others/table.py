"""The results as a table in ``benchmarks/RESULTS.md`` between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BEGIN = "<!-- make bench-others: begin -->"
END = "<!-- make bench-others: end -->"
_HEAD = (
    "| Tool | Alone | In a class | Over ours: of 10 | of 100 | Points | Hostile hand-in |",
    "| --- | ---: | ---: | ---: | ---: | --- | --- |",
)


@dataclass(frozen=True)
class Row:
    """One tool; CPU seconds per hand-in, medians over the rounds.

    ``in_class`` is of the class of 10; ``over_ten`` and ``over_hundred`` are that cost over ours in
    classes of 10 and 100, taken within each round. ``points`` are those of a right hand-in, of each
    wrong one and of the stub; ``missing`` says why there are no figures.
    """

    tool: str
    version: str
    alone: float | None = None
    in_class: float = 0.0
    over_ten: float = 1.0
    over_hundred: float = 1.0
    points: str = ""
    hostile: str = ""
    missing: str = ""


def table(rows: Sequence[Row], heading: str) -> str:
    """The heading and a line per tool, in Markdown."""
    return "\n".join([heading, "", *_HEAD, *(_line(row) for row in rows)])


def _line(row: Row) -> str:
    tool = f"{row.tool} {row.version}".strip()
    if row.missing:
        return f"| {tool} | not measured: {row.missing.replace('|', '/')} | | | | | |"
    alone = "" if row.alone is None else f"{row.alone:.2f} s"
    figures = f"{alone} | {row.in_class:.2f} s"
    over = f"{row.over_ten:.1f} | {row.over_hundred:.1f}"
    return f"| {tool} | {figures} | {over} | {row.points} | {row.hostile} |"


def put(text: str, page: str) -> str:
    """``page`` with ``text`` between its two marks.

    Raises:
        ValueError: the marks are not there, once each and in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise ValueError(f"benchmarks/RESULTS.md: expected {BEGIN} and below it {END}, once each")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"
