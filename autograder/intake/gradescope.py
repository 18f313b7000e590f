"""``submission_metadata.yml`` of a Gradescope export: who handed in which folder, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from importlib import import_module
from typing import Any

from autograder.course.records import Student
from autograder.intake.timestamps import iso

# What PyYAML itself raises on values that are not what their tags say, or beyond all dates.
_DAMAGE = (ValueError, TypeError, LookupError, RecursionError, AttributeError, OverflowError)


@dataclass(frozen=True)
class Submitted:
    """What the metadata tells of one folder. ``attempt`` counts those before it, too."""

    students: tuple[Student, ...]
    submitted_at: str
    attempt: int


def parse(data: bytes) -> dict[str, Submitted]:
    """The folders by name (``submission_<number>``); those of odd entries are left out.

    Keys are Ruby symbols: ``:submitters`` (each ``:name``, ``:sid``, ``:email``),
    ``:created_at``, ``:history`` (earlier submissions).

    Raises:
        ValueError: no YAML, or no mapping.
    """
    yaml: Any = import_module("yaml")  # only an export needs it
    safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C, many times faster
    # Tags of Ruby classes become plain values; nothing is ever constructed from them.
    loader: Any = type("Loader", (safe,), {})

    def bare(self: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)

    loader.add_multi_constructor("!", bare)
    try:
        found = yaml.load(data, loader)  # a SafeLoader
    except (yaml.YAMLError, *_DAMAGE) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None
    if not isinstance(found, dict):
        raise ValueError("no mapping of folders")
    return {
        str(name): _submitted(entry) for name, entry in found.items() if isinstance(entry, dict)
    }


def _submitted(entry: Mapping[Any, Any]) -> Submitted:
    told = _plain_keys(entry)
    submitters = told.get("submitters")
    people = [
        _plain_keys(person)
        for person in (submitters if isinstance(submitters, list) else [])
        if isinstance(person, dict)
    ]
    students = tuple(_student(person) for person in people)
    history = told.get("history")
    earlier = len(history) if isinstance(history, list) else 0
    return Submitted(students, _time(told.get("created_at")), earlier + 1)


def _student(told: Mapping[str, Any]) -> Student:
    name, email = _text(told.get("name")), _text(told.get("email"))
    return Student(_text(told.get("sid")) or email or name, name, email)


def _plain_keys(entry: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key).lstrip(":"): value for key, value in entry.items()}


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _time(value: Any) -> str:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return iso(_text(value))
