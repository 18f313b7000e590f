"""Reads ``lab.toml`` and the docstrings of its checks into a :class:`Lab`."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

from autograder.course.records import (
    FAMILIES,
    FEEDBACK,
    LANGUAGES,
    Check,
    Exercise,
    Lab,
    Limits,
    Text,
    ToldError,
)
from autograder.worker.loader import course

# A table of a TOML file that knows where it stands, so that every error can say so.

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
                more = "; each check has its own" if key in ("needs", "points", "family") else ""
                raise self.error(key, f"unknown key; known are {', '.join(known)}{more}")

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
        """The text under ``key``, translated or not; ``empty`` allows it to be blank."""
        raw = self.value(key, dict)
        if "en" not in raw or not set(raw) <= set(LANGUAGES):
            raise self.error(key, "needs en, may have zh, and nothing else")
        if not all(isinstance(value, str) for value in raw.values()):
            raise self.error(key, "en and zh must be texts")
        if not empty and not all(value.strip() for value in raw.values()):
            raise self.error(key, "en and zh must not be empty")
        return Text(raw["en"], raw.get("zh", ""))

    def tables(self, key: str, default: list[object] | None = None) -> list[dict[str, Any]]:
        """The tables under ``key``, ``[[key]]`` each."""
        values = self._raw.get(key, default)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.error(key, f"must hold tables, [[…{key}]], and nothing else")
        return values


ROOT = course()
GRADER = Path(__file__).resolve().parents[1]  # the code of this package
if GRADER.parent != ROOT:  # not beside this grader: its code is found there
    sys.path.insert(0, str(ROOT))
LABS = ROOT / "labs"
SOLUTIONS = ROOT / "solutions"
MAX_LIMIT = 1_000_000  # seconds, MiB or workers
_FILE = re.compile(r"[A-Za-z_]\w*\.py", re.ASCII)
_FOLDER = re.compile(r"labs(?:/\w+)+", re.ASCII)
_DOTTED = re.compile(r"\w+(?:\.\w+)+")


class LabError(ToldError):
    """A lab cannot be found or read; the text names the file, the key and the mend."""


def find_lab(name: str, labs: Path = LABS) -> Path:
    """The folder of a lab: ``2``, ``lab2`` and ``lab2_qwen3_block`` all mean the same.

    Raises:
        LabError: no lab, or more than one, goes by that name.
    """
    wanted = f"lab{name}" if name.isdigit() else name.strip("/")
    folders = sorted(path.parent for path in labs.glob("*/lab.toml"))
    found = [f for f in folders if f.name == wanted] or [
        f for f in folders if f.name.startswith(wanted + "_")
    ]
    if len(found) > 1:
        several = ", ".join(f.name for f in found)
        raise LabError(
            f"{name!r} may be any of {several}; write the whole name",
            f"{name!r} 可以指 {several} 中的任何一个；请写全名",
        )
    if not found:
        known = ", ".join(f.name for f in folders) or "none"
        raise LabError(
            f"no lab is called {name!r}; the labs in {labs} are: {known}",
            f"没有名为 {name!r} 的实验；{labs} 中的实验有：{known}",
        )
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
        for node in parsed(path).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = ast.get_docstring(node) or ""
            for table in tables_of(node):
                try:
                    found |= {name: title for name, (_, title) in rows_of(table.value).items()}
                except LabError as error:
                    raise LabError(f"{path}:{node.lineno}: {error}") from None
    return found


def parsed(path: Path) -> ast.Module:
    """The syntax of a file of checks.

    Raises:
        LabError: it is no Python.
    """
    try:
        return _syntax(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LabError(f"{path}: {error}; checks have to be Python in UTF-8") from None


@lru_cache(maxsize=64)
def _syntax(text: str) -> ast.Module:
    return ast.parse(text)


def tables_of(node: ast.AST) -> Iterator[Any]:
    """The tables of ``@checks(…)`` above a function, as constants of a text."""
    for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
        match mark:
            case ast.Call(ast.Name("checks"), [ast.Constant(str()) as table, *_]):
                yield table


def rows_of(table: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """Recipes and docstring of each check in a table of :mod:`autograder.checks.contracts`.

    Raises:
        LabError: a row is not ``test_…: recipe …``, or stands twice.
    """
    found: dict[str, tuple[tuple[str, ...], list[str]]] = {}
    for line in filter(str.strip, cleandoc(table).splitlines()):
        name, colon, recipes = line.partition(":")
        if line.startswith(" ") and found:
            next(reversed(found.values()))[1].append(line.strip())
        elif not colon or not name.startswith("test_") or name in found:
            raise LabError(f"{line.strip()!r} must be a row of its own, as test_gate_runs: gate")
        else:
            found[name] = (tuple(recipes.split()), [])
    return {name: (recipes, "\n\n".join(title)) for name, (recipes, title) in found.items()}


class _Reader:
    """Takes tables apart; remembers the file so that every error can name it.

    A blank text is read: ``audit`` names it, among everything else that is wrong with words.
    """

    def __init__(self, path: Path, docstrings: dict[str, str]) -> None:
        self._path = path
        self._docstrings = docstrings
        self._families: tuple[str, ...] = FAMILIES

    def _table(self, where: str, raw: object, *known: str) -> Table:
        return Table(f"{self._path}: {where}", raw, known, LabError)

    def lab(self, raw: dict[str, Any], folder: Path) -> Lab:
        known = (
            "title",
            "files",
            "given",
            "given_for_checks",
            "forbidden",
            "families",
            "folders",
            "tests",
            "feedback",
            "after",
            "limits",
            "exercise",
        )
        top = self._table("top level", raw, *known)
        files = top.strings("files")
        if len(set(files)) < len(files) or not all(_FILE.fullmatch(name) for name in files):
            raise top.error("files", "must hold different names of modules, as x.py")
        tests = tuple(filter(None, [top.string("tests", default="")]))
        folders, roots = top.strings("folders", default=[]), (folder.parents[1], ROOT)
        for key, listed in {"folders": folders, "tests": tests}.items():
            there = (any((root / name).is_dir() for root in roots) for name in listed)
            if not all(map(_FOLDER.fullmatch, listed)) or not all(there):
                raise top.error(key, "must hold folders under labs/, as labs/given/tiny_qwen3")
        forbidden = top.strings("forbidden", default=[])
        if not all(_DOTTED.fullmatch(name) for name in forbidden):
            raise top.error("forbidden", "must hold dotted names, as torch.softmax")
        self._families = (*FAMILIES, *top.strings("families", default=[]))
        exercises = tuple(self._exercise(raw, files) for raw in top.tables("exercise"))
        for_checks = top.strings("given_for_checks", default=[])
        lab = Lab(
            name=folder.name,
            folder=folder,
            title=top.text("title", empty=True),
            files=files,
            given=for_checks + top.strings("given", default=[]),
            given_for_checks=for_checks,
            forbidden=forbidden,
            limits=self._limits(top.value("limits", dict, {})),
            exercises=exercises,
            folders=folders + tests,
            tests="".join(tests),
            feedback=top.string("feedback", FEEDBACK, default=FEEDBACK[-1]),
            after=top.string("after", default=""),
        )
        ids = [exercise.id for exercise in exercises]
        for exercise in ids:
            if ids.count(exercise) > 1:
                raise self._table(f"exercise {exercise}", {}).error("id", "stands twice")
        names = [check.name for check in lab.checks]
        for check in lab.checks:
            if names.count(check.name) > 1:
                raise self._table(check.exercise, {}).error("name", f"{check.name} stands twice")
            for need in check.needs:
                if need not in names[: names.index(check.name)]:
                    text = f"{need} must stand before it" if need in names else f"no check {need}"
                    raise self._table(check.name, {}).error("needs", text)
        return lab

    def _limits(self, raw: dict[str, Any]) -> Limits:
        fields = Limits.__dataclass_fields__
        table = self._table("[limits]", raw, *fields)
        for key in raw:
            kind = int if fields[key].type == "int" else (int, float)
            if not 0 < table.value(key, kind) <= MAX_LIMIT:  # NaN is neither
                raise table.error(key, f"must be above 0 and at most {MAX_LIMIT}")
        return Limits(**raw)

    def _exercise(self, raw: dict[str, Any], files: tuple[str, ...]) -> Exercise:
        keys = ("id", "file", "title", "hint", "check")
        table = self._table(f"exercise {raw.get('id', '?')}", raw, *keys)
        name = table.string("id")
        checks: list[Check] = []
        for entry in table.tables("check"):
            # The first check of an exercise, "it runs", is what all others build on.
            default = (checks[0].name,) if checks else ()
            checks.append(self._check(entry, name, default))
        return Exercise(
            id=name,
            file=table.string("file", files),
            title=table.text("title", empty=True),
            hint=table.text("hint", empty=True),
            checks=tuple(checks),
        )

    def _check(self, raw: dict[str, Any], exercise: str, default: tuple[str, ...]) -> Check:
        keys = ("name", "points", "family", "needs", "fresh", "optional")
        table = self._table(f"check {raw.get('name', '?')}", raw, *keys)
        name = table.string("name")
        if name not in self._docstrings:
            raise table.error("name", "no test function in checks/ is called so")
        points, optional = table.value("points", int), table.value("optional", bool, False)
        if points < 0 or (optional and points):
            raise table.error("points", "must be 0 or more, and 0 if the check is optional")
        paragraphs = [" ".join(p.split()) for p in self._docstrings[name].split("\n\n")]
        if not paragraphs[0]:
            raise table.error("name", "its docstring is its title: write one in English, Chinese")
        return Check(
            name=name,
            exercise=exercise,
            family=table.string("family", self._families),
            points=points,
            title=Text(*paragraphs[:2]),
            needs=tuple(dict.fromkeys(default + table.strings("needs", default=[]))),
            fresh=table.value("fresh", bool, False),
            optional=optional,
        )


# How many hidden cases a lab's grader runs: a number that students may know, and nothing else.

FILE = "hidden_cases.json"


def dump(count: int) -> str:
    """The text of a lab's file."""
    return json.dumps({"hidden_cases": count}) + "\n"


def of(folder: Path) -> int | None:
    """The number for the lab in ``folder``; None where the file is absent or damaged."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))["hidden_cases"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None
