"""A table of a TOML file that knows where it stands, so that every error can say so."""

from __future__ import annotations

from typing import Any

from autograder.course.records import LANGUAGES, Text

_Kind = type | tuple[type, ...]


class Table:
    """One table with its known keys.

    Args:
        where: how errors call it: the file and the place in it, ``a.toml: entry one``.
        raw: what the TOML file holds there.
        known: the keys that it may have.
        error: the kind of error that is raised; its text names file, place, key and the mend.
    """

    def __init__(
        self, where: str, raw: object, known: tuple[str, ...], error: type[ValueError]
    ) -> None:
        self.where, self._error = where, error
        if not isinstance(raw, dict):
            raise error(f"{where}: must be a table")
        self._raw: dict[str, Any] = raw
        for key in raw:
            if key not in known:
                raise self.error(key, f"unknown key; known are {', '.join(known)}")

    def error(self, key: str, text: str) -> ValueError:
        """The error about ``key``, to be raised."""
        return self._error(f"{self.where}: {key}: {text}")

    def value(self, key: str, kind: _Kind, default: object = None) -> Any:
        """The value under ``key``, of ``kind``."""
        value = self._raw.get(key, default)
        # True is an int to Python, but no number of points.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wanted = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
            raise self.error(key, f"is missing or not of the kind {wanted}")
        return value

    def string(self, key: str, choices: tuple[str, ...] = (), default: str | None = None) -> str:
        """The text under ``key``, which is not empty; one of ``choices`` where they are given."""
        value: str = self.value(key, str, default)
        if not value.strip() and value != default:
            raise self.error(key, "must not be empty")
        if choices and value not in choices:
            raise self.error(key, f"must be one of {', '.join(choices)}, not {value!r}")
        return value

    def strings(
        self, key: str, choices: tuple[str, ...] = (), default: list[str] | None = None
    ) -> tuple[str, ...]:
        """The list of texts under ``key``; where there are ``choices`` it is not empty."""
        values = self.value(key, list, default)
        if not all(isinstance(value, str) for value in values):
            raise self.error(key, "must hold texts only")
        for value in values:
            if choices and value not in choices:
                raise self.error(key, f"must hold some of {', '.join(choices)}, not {value!r}")
        if choices and not values:
            raise self.error(key, f"must hold at least one of {', '.join(choices)}")
        return tuple(values)

    def text(self, key: str, *, empty: bool = False) -> Text:
        """The text under ``key`` in both languages; ``empty`` allows one to be blank."""
        raw = self.value(key, dict)
        if set(raw) != set(LANGUAGES):
            raise self.error(key, "needs exactly en and zh")
        if not all(isinstance(value, str) for value in raw.values()):
            raise self.error(key, "en and zh must be texts")
        if not empty and not all(value.strip() for value in raw.values()):
            raise self.error(key, "en and zh must not be empty")
        return Text(raw["en"], raw["zh"])

    def tables(self, key: str, default: list[object] | None = None) -> list[dict[str, Any]]:
        """The tables under ``key``, ``[[key]]`` each."""
        values = self._raw.get(key, default)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.error(key, f"must hold tables, [[…{key}]], and nothing else")
        return values
