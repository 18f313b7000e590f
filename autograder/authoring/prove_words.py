"""Promises about words: hints, descriptions and messages, in English and in Chinese."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autograder.authoring.pages import CHINESE, chinese_of, pages, sections
from autograder.authoring.place import LabSources, read
from autograder.authoring.stubs import blocks
from autograder.course import chart_labels
from autograder.course.records import Outcome, Text

# The promise that every page and message calls a thing by the glossary's word for it.

GLOSSARY = "labs/glossary.md"


@dataclass(frozen=True)
class Term:
    """A word in both languages, and words that stand for the same and are not used here."""

    en: str
    zh: str
    avoided: tuple[str, ...]


def terms(place: LabSources) -> tuple[Term, ...]:
    """The rows of the glossary.

    Raises:
        ValueError: the glossary is absent, holds no table, or a row of other cells.
    """
    path = place.root / GLOSSARY
    if not path.is_file():
        raise ValueError(f"{GLOSSARY} is absent; it holds the words that pages and messages use")
    found = []
    for number, line in enumerate(read(path).splitlines(), 1):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not line.startswith("|") or cells[0] == "English" or cells[0].startswith("---"):
            continue
        if len(cells) != 4 or not all(cells[:3]):
            raise ValueError(f"{GLOSSARY}:{number}: a row is “| English | 中文 | meaning | not |”")
        words = tuple(word.strip() for word in cells[3].split(",") if word.strip())
        found.append(Term(cells[0], cells[1], words))
    if not found:
        raise ValueError(f"{GLOSSARY}: has no table “| English | 中文 | meaning | not |”; add it")
    return tuple(found)


# Turns of phrase that came up again and again, and what to write instead.
_FORMS = (
    (re.compile(r"[小少低慢短]了[^，。；：、（）]{0,12}倍(?!数)"), "倍 only grows; write 只有 1/n"),
    (
        re.compile(
            r"\btak(?:e|es|en|ing) off (?:the|no) (?:mean|maximum)\b"
            r"|\b(?:mean|maximum) (?:\w+ )?taken off\b",
            re.IGNORECASE,
        ),
        "write “subtract”",
    ),
    (re.compile(r"\bstands? there\b", re.IGNORECASE), "write “is there” or “occurs”"),
)


def breaches(place: LabSources) -> Iterator[str]:
    """Words that the glossary says are not used, and turns of phrase that nobody would write.

    They are looked for where a reader would meet them.
    """
    if not place.is_chinese and not (place.root / GLOSSARY).is_file():
        return
    known = terms(place)
    for en in pages(place):
        for page in (en, chinese_of(en)):
            if page.is_file() and page.name not in (Path(GLOSSARY).name, f"glossary{CHINESE}"):
                yield from _in_page(place, page, known)
    for path in _sources(place):
        for number, line in enumerate(read(path).splitlines(), 1):
            for term, word in _avoided(line, known, only_chinese=True):
                yield _said(place.shown(path), number, word, term)
            if path.suffix == ".toml":
                yield from _forms(place.shown(path), number, line)


def _in_page(place: LabSources, page: Path, known: tuple[Term, ...]) -> Iterator[str]:
    for section in sections(read(page)):
        text = f"{section.title}\n{section.prose}"
        for term, word in _avoided(text, known):
            yield _said(place.shown(page), section.line, word, term)
        yield from _forms(place.shown(page), section.line, text)


def _sources(place: LabSources) -> Iterator[Path]:
    """Files with words for students inside: English ones stand in code, too, Chinese do not."""
    yield from sorted((place.root / "autograder" / "course" / "messages").glob("*.toml"))
    yield from sorted(place.folder.glob("checks/*.py"))
    yield place.folder / "lab.toml"
    yield from sorted(place.solution.glob("*.toml"))
    yield from sorted(place.solution.glob("cases/*.py"))
    yield from place.notebooks
    yield from place.root.glob(chart_labels.FILE)


def _avoided(
    text: str, known: tuple[Term, ...], *, only_chinese: bool = False
) -> Iterator[tuple[Term, str]]:
    for term in known:
        for word in term.avoided:
            if not word.isascii():
                found = word in text
            else:
                found = not only_chinese and bool(re.search(rf"\b{re.escape(word)}\b", text))
            if found:
                yield term, word


def _forms(shown: str, line: int, text: str) -> Iterator[str]:
    for form, instead in _FORMS:
        for found in form.finditer(" ".join(text.split())):
            yield f"{shown}:{line}: says “{found[0]}”; {instead}"


def _said(shown: str, line: int, word: str, term: Term) -> str:
    right = term.en if word.isascii() else term.zh
    return f"{shown}:{line}: says “{word}”; the glossary says “{right}” ({GLOSSARY})"


# Finds the message keys that code asks for, from the syntax tree.
#
# Keys are literals in calls of ``Message`` and ``CheckFailed``, and in calls of functions that
# put an area in front: ``def say(key): … Message(f"grade.{key}")``. What is computed at run
# time stays unseen.

_MAKERS = ("Message", "CheckFailed")
_LABEL = re.compile(r"""\blabel\(\s*["'](\w+)["']""")
_SAY = re.compile(r"""\bsay\(\s*["'](\w+)["']\s*[,)]""")  # in the page of the class
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Use:
    """A key, and where it is asked for."""

    path: Path
    line: int
    key: str


@dataclass(frozen=True)
class _Forwarder:
    """A function that puts ``area`` in front of its argument number ``index``."""

    area: str
    index: int


@dataclass(frozen=True)
class _Call:
    """A call: of what, where, and the texts that each of its arguments may be."""

    name: str
    line: int
    literals: tuple[list[str], ...]


@dataclass(frozen=True)
class _Outline:
    """A file's calls, names imported, and functions that put an area in front of a key."""

    calls: tuple[_Call, ...]
    imported: frozenset[str]
    forwarders: dict[str, _Forwarder]


def uses(root: Path) -> Iterator[Use]:
    """Every use in the code of the autograder, in its templates, and in the labs' checks."""
    paths = sorted((root / "autograder").rglob("*.py")) + sorted(root.glob("labs/*/checks/*.py"))
    outlines = {path: _outline(read(path)) for path in paths}
    exported = {name: f for outline in outlines.values() for name, f in outline.forwarders.items()}
    for path, outline in outlines.items():
        known = {name: found for name, found in exported.items() if name in outline.imported}
        yield from _uses(path, outline.calls, known | outline.forwarders)
    for path in sorted((root / "autograder" / "report" / "templates").glob("*.j2")):
        for number, line in enumerate(read(path).splitlines(), 1):
            for name in _LABEL.findall(line):
                yield Use(path, number, f"report.{name}")
            for name in _SAY.findall(line):
                yield Use(path, number, f"dashboard.{name}")


@cache  # by text: who looks at the project again finds most of it as it was
def _outline(text: str) -> _Outline:
    calls: list[_Call] = []
    imported: set[str] = set()
    forwarders: dict[str, _Forwarder] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            calls.append(_Call(_called(node), node.lineno, tuple(map(_literals, node.args))))
        elif isinstance(node, ast.ImportFrom):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, _Function) and child.name == "__init__":
                    forwarders |= _forwarder(child, node.name, skip=1)
        elif isinstance(node, _Function) and node.name != "__init__":
            forwarders |= _forwarder(node, node.name, skip=0)
    return _Outline(tuple(calls), frozenset(imported), forwarders)


def _uses(path: Path, calls: Iterable[_Call], known: dict[str, _Forwarder]) -> Iterator[Use]:
    for call in calls:
        if call.name in _MAKERS and call.literals:
            for key in call.literals[0]:
                yield Use(path, call.line, key)
        elif call.name in known and len(call.literals) > known[call.name].index:
            for key in call.literals[known[call.name].index]:
                yield Use(path, call.line, f"{known[call.name].area}.{key}")


def _forwarder(function: _Function, name: str, skip: int) -> dict[str, _Forwarder]:
    parameters = [argument.arg for argument in function.args.args][skip:]
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _called(node) in _MAKERS and node.args:
            first = node.args[0]
            if isinstance(first, ast.JoinedStr) and len(first.values) == 2:
                area, value = first.values
                if (
                    isinstance(area, ast.Constant)
                    and isinstance(value, ast.FormattedValue)
                    and isinstance(value.value, ast.Name)
                    and value.value.id in parameters
                ):
                    index = parameters.index(value.value.id)
                    return {name: _Forwarder(str(area.value).rstrip("."), index)}
    return {}


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _literals(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return _literals(node.body) + _literals(node.orelse)
    return []


_CJK = re.compile("[\u4e00-\u9fff]")
_WORD = re.compile("[a-z]")
_PLACEHOLDER = re.compile(r"\{[^}]*\}")


def exercises(place: LabSources) -> Iterator[str]:
    """Exercises without a TODO, checks or hint, and solution blocks without an exercise."""
    toml = place.shown(place.folder / "lab.toml")
    marked = {
        name: {exercise for exercise, _, _ in blocks(read(place.solution / name), name)}
        for name in place.lab.files
    }
    for exercise in place.lab.exercises:
        if exercise.id not in marked[exercise.file]:
            where = place.shown(place.solution / exercise.file)
            yield f"{where}: no block is marked # BEGIN SOLUTION {exercise.id}; lab.toml has it"
        if not exercise.checks:
            yield f"{toml}: exercise {exercise.id}: has no check; add one to check = [ … ]"
        if not exercise.title.en.strip() or not exercise.title.zh.strip():
            yield f"{toml}: exercise {exercise.id}: title: a language is empty; write it"
        if not exercise.hint.en.strip():
            yield f"{toml}: exercise {exercise.id}: hint: is empty; write it"
    known = {(exercise.file, exercise.id) for exercise in place.lab.exercises}
    for name, ids in marked.items():
        for extra in sorted(ids - {id_ for file, id_ in known if file == name}):
            where = place.shown(place.solution / name)
            yield f"{where}: {extra} is marked, but lab.toml has no such exercise in {name}; add it"


def docstrings(place: LabSources) -> Iterator[str]:
    """Hints and docstrings of checks that are not English and then Chinese."""
    toml = place.shown(place.folder / "lab.toml")
    for exercise in place.lab.exercises:
        for fault in _language_faults(exercise.hint):
            yield f"{toml}: exercise {exercise.id}: hint: {fault}"
    for check in place.lab.checks:
        for fault in _language_faults(check.title):
            yield f"{place.shown(place.folder)}/checks: {check.name}: docstring: {fault}"


def messages(place: LabSources) -> Iterator[str]:
    """Messages that lack a language, or whose languages take different values."""
    for path, name, entry in _messages(place):
        where = f"{place.shown(path)}: [{name}]"
        if set(entry) != {"en", "zh"}:
            yield f"{where} needs exactly the keys en and zh"
            continue
        # "{earned} / {total}" and "MLP" are the same in every language.
        wordless = entry["zh"].strip() and not _WORD.search(_PLACEHOLDER.sub("", entry["zh"]))
        for fault in _language_faults(Text(entry["en"], entry["zh"]), wordless=bool(wordless)):
            yield f"{where}: {fault}"
        en, zh = _placeholders(entry["en"]), _placeholders(entry["zh"])
        if en != zh:
            odd = ", ".join(sorted(en ^ zh))
            yield f"{where}: {odd} stands in one language only; write it the same in both"


def absent_messages(place: LabSources) -> Iterator[str]:
    """Keys that code or a template asks for, and no table of messages holds."""
    if not place.holds_the_grader:
        return
    known = {f"{path.stem}.{name}" for path, name, _ in _messages(place)}
    for use in uses(place.root):
        if use.key not in known:
            yield f"{place.shown(use.path)}:{use.line}: {_is_absent(use.key)}"
    for outcome in Outcome:
        if f"outcome.{outcome.value}" not in known:
            yield f"the outcome {outcome.value}: {_is_absent(f'outcome.{outcome.value}')}"


def _is_absent(key: str) -> str:
    area, _, name = key.partition(".")
    return f"the message {key} does not exist; add [{name}] to messages/{area}.toml"


def _messages(place: LabSources) -> Iterator[tuple[Path, str, Mapping[str, str]]]:
    """Read anew, since :func:`autograder.course.messages.catalogue` stops at the first fault.

    Raises:
        ValueError: a file is no TOML, or an entry no table of texts (names both).
    """
    for path in sorted((place.root / "autograder" / "course" / "messages").glob("*.toml")):
        try:
            tables = tomllib.loads(read(path))
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{place.shown(path)}: {error}") from None
        for name, entry in tables.items():
            if not isinstance(entry, dict) or not all(type(v) is str for v in entry.values()):
                raise ValueError(f"{place.shown(path)}: [{name}] needs the texts en and zh")
            yield path, name, entry


def _placeholders(text: str) -> set[str]:
    """``{name:format}`` of a format string; both languages have to show a value alike.

    The words that a number has with it are each language's own.
    """
    parts = [
        (name.partition("|")[0], form)
        for _, name, form, _ in string.Formatter().parse(text)
        if name
    ]
    return {f"{{{name}:{form}}}" if form else f"{{{name}}}" for name, form in parts}


def _language_faults(text: Text, *, wordless: bool = False) -> Iterator[str]:
    if not text.en.strip() or _CJK.search(text.en):
        yield "the English is empty or holds Chinese; English stands first"
    if not wordless and not _CJK.search(text.zh):
        yield f"the Chinese holds no Chinese character (“{text.zh}”); write it in Chinese"
