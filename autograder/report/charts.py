"""Small charts as SVG: no library, readable in any viewer, light or dark behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_COLOURS = ("#2f6fb3", "#d9822b", "#3d9a5f", "#b23b4d", "#7a5cb0", "#5b6770")
_WIDTH, _HEIGHT = 640, 340
_LEFT, _TOP, _BOTTOM = 70, 56, 40
_RIGHT = 130  # room for the legend
_INK = "#24292f"


def shares(title: str, bars: Sequence[tuple[str, int, int]]) -> str:
    """One bar per label: how much of the whole is reached."""
    step = (_WIDTH - _LEFT - 20) / max(1, len(bars))
    parts = []
    for number, (label, earned, worth) in enumerate(bars):
        x, thick = _LEFT + number * step + step * 0.2, step * 0.6
        high = (_HEIGHT - _TOP - _BOTTOM) * earned / max(1, worth)
        whole = _HEIGHT - _TOP - _BOTTOM
        parts.append(_box(x, _TOP, thick, whole, "#e4e7eb"))
        parts.append(_box(x, _TOP + whole - high, thick, high, _COLOURS[0]))
        parts.append(_words(x + thick / 2, _HEIGHT - 18, label, "middle"))
        parts.append(_words(x + thick / 2, _TOP + whole - high - 6, f"{earned}", "middle"))
    return _picture(title, parts)


def lines(title: str, axis: str, series: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """One line per name through points ``(x, y)``; both axes begin at 0."""
    right = max((x for points in series.values() for x, _ in points), default=1) or 1
    top = max((y for points in series.values() for _, y in points), default=1) or 1
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = _grid(top, wide)
    for part in range(5):
        value = right * part / 4
        parts.append(_words(_LEFT + wide * part / 4, _HEIGHT - 22, f"{value:,.0f}", "middle"))
    parts.append(_words(_LEFT + wide / 2, _HEIGHT - 6, axis, "middle"))
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        way = " ".join(
            f"{_LEFT + wide * x / right:.1f},{_TOP + high * (1 - y / top):.1f}" for x, y in points
        )
        line = f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>'
        parts += [line, *_key(number, name, colour)]
    return _picture(title, parts)


def stacks(title: str, columns: Mapping[str, Mapping[str, float]]) -> str:
    """One column per name, made of named parts, as shares of its whole."""
    names = list(dict.fromkeys(part for parts in columns.values() for part in parts))
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    step = wide / max(1, len(columns))
    parts = _grid(100, wide, " %")
    for number, (column, sizes) in enumerate(columns.items()):
        whole, below = sum(sizes.values()) or 1, float(_TOP + high)
        for index, name in enumerate(names):
            tall = high * sizes.get(name, 0) / whole
            below -= tall
            colour = _COLOURS[index % len(_COLOURS)]
            parts.append(_box(_LEFT + number * step + step * 0.2, below, step * 0.6, tall, colour))
        parts.append(_words(_LEFT + (number + 0.5) * step, _HEIGHT - 18, column, "middle"))
    for index, name in enumerate(names):
        parts += _key(index, name, _COLOURS[index % len(_COLOURS)])
    return _picture(title, parts)


def _grid(top: float, wide: float, unit: str = "") -> list[str]:
    parts = []
    for part in range(5):
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - part / 4)
        ends = f'x1="{_LEFT}" x2="{_LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {ends} stroke="#d0d7de" stroke-width="1"/>')
        parts.append(_words(_LEFT - 8, y + 4, f"{top * part / 4:.3g}{unit}", "end"))
    return parts


def _key(number: int, name: str, colour: str) -> list[str]:
    x, y = _WIDTH - _RIGHT + 14, _TOP + 8 + 22 * number
    return [_box(x, y, 12, 12, colour), _words(x + 18, y + 11, name, "start")]


def _box(x: float, y: float, wide: float, high: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{colour}"/>'


def _words(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _picture(title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12" '
        f'fill="{_INK}" role="img">'
    )
    name = f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="#ffffff"/>'
    heading = f'<text x="20" y="24" font-size="15">{escape(title)}</text>'
    return "\n".join([head, name, heading, *parts, "</svg>", ""])
