"""Reads ``lab.toml`` and the docstrings of its checks into a :class:`Lab`."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

from autograder.course.records import FAMILIES, Check, Exercise, Lab, Limits, Text

ROOT = Path(__file__).resolve().parents[2]
LABS = ROOT / "labs"
SOLUTIONS = ROOT / "solutions"
MAX_LIMIT = 1_000_000  # seconds, MiB or workers
_FILE = re.compile(r"[A-Za-z_]\w*\.py", re.ASCII)
_DOTTED = re.compile(r"\w+(?:\.\w+)+")
_Kind = type | tuple[type, ...]


class LabError(ValueError):
    """A lab cannot be found or read; the text names the file, the key and the mend."""


def find_lab(name: str, labs: Path = LABS) -> Path:
    """The folder of a lab: ``2``, ``lab2`` and ``lab2_qwen3_block`` all mean the same.

    Raises:
        LabError: no lab, or more than one, goes by that name.
    """
    wanted = f"lab{name}" if name.isdigit() else name.strip("/")
    folders = sorted(path.parent for path in labs.glob("*/lab.toml"))
    found = [f for f in folders if f.name == wanted or f.name.startswith(wanted + "_")]
    if len(found) != 1:
        known = ", ".join(f.name for f in folders) or "none"
        raise LabError(f"no lab is called {name!r}; the labs in {labs} are: {known}")
    return found[0]


def load(folder: Path) -> Lab:
    """Read ``lab.toml`` of ``folder``.

    Raises:
        LabError: the file does not parse, a key is missing, unknown or of the wrong kind,
            the points do not sum to 100, or a check has no test function.
    """
    path = folder / "lab.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # a number of 5000 digits; [[[[[…
        raise LabError(f"{path}: {error}") from None
    reader = _Reader(path, _docstrings(folder / "checks"))
    lab = reader.lab(raw, folder)
    if lab.points != 100:
        raise LabError(f"{path}: the points sum to {lab.points}; a lab is worth 100")
    return lab


def _docstrings(checks: Path) -> dict[str, str]:
    """Docstrings of the test functions, read without importing them."""
    found: dict[str, str] = {}
    for path in sorted(checks.glob("test_*.py")):
        try:
            body = ast.parse(path.read_text(encoding="utf-8")).body
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise LabError(f"{path}: {error}; checks have to be Python in UTF-8") from None
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = ast.get_docstring(node) or ""
    return found


class _Reader:
    """Takes tables apart; remembers the file so that every error can name it."""

    def __init__(self, path: Path, docstrings: dict[str, str]) -> None:
        self._path = path
        self._docstrings = docstrings

    def lab(self, raw: dict[str, Any], folder: Path) -> Lab:
        where = "top level"
        known = ("title", "files", "given", "forbidden", "limits", "exercise")
        self._only(raw, where, known)
        limits = self._get(raw, where, "limits", dict, {})
        self._only(limits, "[limits]", tuple(Limits.__dataclass_fields__))
        for key in limits:
            kind = int if Limits.__dataclass_fields__[key].type == "int" else (int, float)
            if not 0 < self._get(limits, "[limits]", key, kind) <= MAX_LIMIT:  # NaN is neither
                raise self._error("[limits]", key, f"must be above 0 and at most {MAX_LIMIT}")
        files = self._texts(raw, where, "files", None)
        if len(set(files)) < len(files) or not all(_FILE.fullmatch(name) for name in files):
            raise self._error(where, "files", "must hold different names of modules, as x.py")
        forbidden = self._texts(raw, where, "forbidden", [])
        if not all(_DOTTED.fullmatch(name) for name in forbidden):
            raise self._error(where, "forbidden", "must hold dotted names, as torch.softmax")
        exercises = tuple(self._exercise(e, files) for e in self._tables(raw, where, "exercise"))
        lab = Lab(
            name=folder.name,
            folder=folder,
            title=self._text(raw, where, "title"),
            files=files,
            given=self._texts(raw, where, "given", []),
            forbidden=forbidden,
            limits=Limits(**limits),
            exercises=exercises,
        )
        ids = [exercise.id for exercise in exercises]
        for exercise in ids:
            if ids.count(exercise) > 1:
                raise self._error(f"exercise {exercise}", "id", "stands twice")
        names = [check.name for check in lab.checks]
        for check in lab.checks:
            if names.count(check.name) > 1:
                raise self._error(check.exercise, "name", f"{check.name} stands twice")
            for need in check.needs:
                if need not in names[: names.index(check.name)]:
                    raise self._error(check.name, "needs", f"{need} must stand before it")
        return lab

    def _exercise(self, raw: dict[str, Any], files: tuple[str, ...]) -> Exercise:
        where = f"exercise {raw.get('id', '?')}"
        self._only(raw, where, ("id", "file", "title", "hint", "check"))
        name = self._get(raw, where, "id", str)
        if self._get(raw, where, "file", str) not in files:
            raise self._error(where, "file", f"must be one of {', '.join(files)}")
        checks: list[Check] = []
        for entry in self._tables(raw, where, "check"):
            # The first check of an exercise, "it runs", is what all others build on.
            default = (checks[0].name,) if checks else ()
            checks.append(self._check(entry, name, default))
        return Exercise(
            id=name,
            file=raw["file"],
            title=self._text(raw, where, "title"),
            hint=self._text(raw, where, "hint"),
            checks=tuple(checks),
        )

    def _check(self, raw: dict[str, Any], exercise: str, default: tuple[str, ...]) -> Check:
        where = f"check {raw.get('name', '?')}"
        self._only(raw, where, ("name", "points", "family", "needs", "fresh", "optional"))
        name = self._get(raw, where, "name", str)
        family = self._get(raw, where, "family", str)
        if family not in FAMILIES:
            raise self._error(where, "family", f"must be one of {', '.join(FAMILIES)}")
        if name not in self._docstrings:
            raise self._error(where, "name", "no test function in checks/ is called so")
        points = self._get(raw, where, "points", int)
        optional = self._get(raw, where, "optional", bool, False)
        if points < 0 or (optional and points):
            raise self._error(where, "points", "must be 0 or more, and 0 if the check is optional")
        paragraphs = [" ".join(p.split()) for p in self._docstrings[name].split("\n\n")]
        if len(paragraphs) < 2:
            raise self._error(where, "name", "its docstring needs two paragraphs: English, Chinese")
        return Check(
            name=name,
            exercise=exercise,
            family=family,
            points=points,
            title=Text(*paragraphs[:2]),
            needs=tuple(dict.fromkeys(default + self._texts(raw, where, "needs", []))),
            fresh=self._get(raw, where, "fresh", bool, False),
            optional=optional,
        )

    def _error(self, where: str, key: str, text: str) -> LabError:
        return LabError(f"{self._path}: {where}: {key}: {text}")

    def _only(self, raw: dict[str, Any], where: str, known: tuple[str, ...]) -> None:
        for key in raw:
            if key not in known:
                raise self._error(where, key, f"unknown key; known are {', '.join(known)}")

    def _get(
        self, raw: dict[str, Any], where: str, key: str, kind: _Kind, default: Any = None
    ) -> Any:
        value = raw.get(key, default)
        # True is an int to Python, but no number of points.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wanted = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
            raise self._error(where, key, f"is missing or not of the kind {wanted}")
        return value

    def _texts(
        self, raw: dict[str, Any], where: str, key: str, default: list[str] | None
    ) -> tuple[str, ...]:
        values = self._get(raw, where, key, list, default)
        if not all(isinstance(value, str) for value in values):
            raise self._error(where, key, "must hold texts only")
        return tuple(values)

    def _tables(self, raw: dict[str, Any], where: str, key: str) -> list[dict[str, Any]]:
        values: list[dict[str, Any]] = self._get(raw, where, key, list)
        if not all(isinstance(value, dict) for value in values):
            raise self._error(where, key, f"must hold tables, [[…{key}]], only")
        return values

    def _text(self, raw: dict[str, Any], where: str, key: str) -> Text:
        table = self._get(raw, where, key, dict)
        if set(table) != {"en", "zh"}:
            raise self._error(where, key, "needs exactly en and zh")
        if not all(isinstance(value, str) for value in table.values()):
            raise self._error(where, key, "en and zh must be texts")
        return Text(table["en"], table["zh"])
