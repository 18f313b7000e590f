"""Changes to valid data: of JSON-like trees, and of bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

Place = tuple[Any, Any]  # a dict or list, and a key or index of it


def deep(levels: int) -> Any:
    """A list in a list in a list …"""
    tree: Any = []
    for _ in range(levels):
        tree = [tree]
    return tree


TEXTS = (
    "", "x", "x" * 5000, "\0", "a\nb", "../x", "/etc/passwd", "{0} {x!r} {", "%s", "\ud800",
    "\udcff", "\x1b[31m", "\u202egnp", "<script>", "=1+1", "passed", "9" * 4299, "1e999", "nan",
    "旋转",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 255, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, -(1 << 70), 10**400, 10**4299,
    0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
SHAPELESS = (None, True, False, [], {}, [[]], [None] * 300, {"": {}}, {"en": 1}, {"$t": 0})


def copied(tree: Any) -> Any:
    """A copy that shares nothing; unlike copy.deepcopy it takes deep trees."""
    return json.loads(json.dumps(tree))


def odd(dice: random.Random) -> Any:
    """A value that has nothing to do with what stood there."""
    family = dice.randrange(8)
    if family < 3:
        return dice.choice(NUMBERS)
    if family < 6:
        return dice.choice(TEXTS)
    if family == 6:
        return copied(dice.choice(SHAPELESS))
    return deep(dice.choice((3, 60, 200)))


def places(tree: Any) -> Iterator[Place]:
    """Every place in a tree that holds a value."""
    items: Any = ()
    if isinstance(tree, dict):
        items = tree.items()
    elif isinstance(tree, list):
        items = enumerate(tree)
    for key, value in items:
        yield tree, key
        yield from places(value)


def change_tree(tree: Any, dice: random.Random) -> None:
    """Change one field of a tree in place: its value, its name, its number, its type."""
    found = list(places(tree))
    if not found:
        return
    holder, key = dice.choice(found)
    value = holder[key]
    action = dice.randrange(9)
    if action <= 2:
        holder[key] = odd(dice)
    elif action == 3:
        del holder[key]
    elif action == 4:
        holder[key] = nearby(value, dice)
    elif action == 5 and isinstance(holder, dict):
        holder[str(odd(dice))] = holder.pop(key)
    elif action == 5:
        holder.insert(key, copied(value))
    elif action == 6 and isinstance(holder, dict):
        holder[dice.choice(TEXTS)] = odd(dice)
    elif action == 7:
        other, place = dice.choice(found)
        holder[key] = copied(other[place])
    else:
        holder[key] = dice.choice(([value], {"x": value}, str(value)[:200]))


def nearby(value: Any, dice: random.Random) -> Any:
    """A value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int) and abs(value) < 1 << 64:
        return dice.choice((value + 1, value - 1, -value, 2 * value, value << 40))
    if isinstance(value, float):
        return dice.choice((-value, value * 1e300, value + 1))
    if isinstance(value, str):
        cut = dice.randint(0, len(value))
        return value[:cut] + dice.choice(TEXTS)[:40] + value[cut + 1 :]
    if isinstance(value, list):
        return value * dice.choice((0, 2, 3)) if len(value) < 100 else value[1:]
    return {} if isinstance(value, dict) else odd(dice)


def change_bytes(data: bytes, dice: random.Random) -> bytes:
    """Change one run of bytes: cut, flipped, put in, taken out, swapped, repeated."""
    at = dice.randint(0, len(data))
    run = dice.choice((1, 1, 2, 4, 8, 64))
    action = dice.randrange(7)
    if action == 0:
        return data[:at]
    if action == 1:
        return data[:at] + dice.randbytes(run) + data[at:]
    if action == 2:
        return data[:at] + data[at + run :]
    if action == 3:
        return data[:at] + dice.randbytes(run) + data[at + run :]
    if action == 4:
        return data[:at] + dice.choice((b"\0", b"\xff", b"9", b"[", b'"')) * run + data[at + run :]
    if action == 5:
        piece = data[at : at + run]
        return data[:at] + piece * 3 + data[at + run :]
    flipped = bytearray(data)
    if flipped:
        flipped[min(at, len(data) - 1)] ^= 1 << dice.randrange(8)
    return bytes(flipped)


def noise(dice: random.Random) -> bytes:
    """Bytes that mean nothing."""
    return dice.randbytes(dice.choice((0, 1, 7, 8, 9, 30, 100, 400)))
