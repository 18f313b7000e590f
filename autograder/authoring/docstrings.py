"""The Chinese docstrings of a lab's stubs, which an author keeps beside the solution."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path

import msgspec

from autograder.authoring import pages
from autograder.authoring.pages import Pair, Section
from autograder.authoring.place import LabSources, read
from autograder.course import suggestions

FILE = "docstrings.zh.toml"
MODULE = "module"  # what stands for the docstring of the file itself
_LEFT_ALONE = ("# BEGIN SOLUTION", "# END SOLUTION", "# GIVEN", "# TODO", "# type:", "# noqa")


class Chinese(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One docstring or comment in Chinese; ``en`` is the digest of the English it was made of."""

    zh: str
    en: str = ""


# By file, then by qualified name; a comment goes by its own words.
Catalogue = Mapping[str, Mapping[str, Chinese]]


def load(solution: Path) -> Catalogue:
    """The catalogue in the folder of a solution; empty where there is none.

    Raises:
        ValueError: it cannot be read; names file and place.
    """
    path = solution / FILE
    if not path.is_file():
        return {}
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, dict[str, Chinese]])
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}") from None


def in_chinese(text: str, known: Mapping[str, Chinese]) -> str:
    """A stub with its docstrings and comments in Chinese; those not ``known`` stay English."""
    lines = text.split("\n")
    for name, node in _documented(ast.parse(text)).items():
        if name in known:
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            lines[first : last + 1] = _quoted(known[name].zh, node.col_offset)
    text = "\n".join(lines)
    for comment, said in known.items():
        if comment.startswith("# "):
            text = text.replace(comment, said.zh.strip())
    return text


def _quoted(words: str, indent: int) -> list[str]:
    """The lines of a docstring, as they stand in a function that is indented so far."""
    space = " " * indent
    lines = words.strip("\n").split("\n")
    raw = "r" if "\\" in words else ""
    lines[0] = f'{raw}"""{lines[0]}'
    lines = [space + line if line else "" for line in lines]
    return [*lines[:-1], f'{lines[-1]}"""'] if len(lines) == 1 else [*lines, f'{space}"""']


def _documented(tree: ast.Module) -> dict[str, ast.stmt]:
    """The statement that holds the docstring, by qualified name, the last of the file first."""
    found: dict[str, ast.stmt] = {}

    def visit(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> None:
        if ast.get_docstring(node, clean=False) is not None:
            found[name or MODULE] = node.body[0]
        for child in node.body if not isinstance(node, ast.FunctionDef) else ():
            if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
                visit(child, f"{name}.{child.name}" if name else child.name)

    visit(tree, "")
    return dict(reversed(found.items()))


def english(stub: str) -> dict[str, str]:
    """The docstrings and comments of an English stub, by name, in their order."""
    found = _documented(ast.parse(stub))
    words: dict[str, str] = {}
    for name, node in reversed(found.items()):
        assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        words[name] = cleandoc(str(node.value.value))
    for token in tokenize.generate_tokens(io.StringIO(stub).readline):
        if token.type == tokenize.COMMENT and token.start[0] > 1:  # the first line is the banner
            comment = token.string
            if not comment.startswith(_LEFT_ALONE):
                words[comment] = comment
    return words


def _pairs(place: LabSources, catalogue: Catalogue) -> Iterator[Pair]:
    """Each docstring in both languages, as sections, which know how to compare themselves."""
    for file in place.lab.files:
        words = english(read(place.folder / file))
        known = catalogue.get(file, {})
        for name in dict.fromkeys([*words, *known]):
            title = f"{file}: {name}"
            en = Section(1, title, 0, words[name]) if name in words else None
            zh = None
            if name in known:
                zh = Section(1, title, 0, known[name].zh.strip("\n"), known[name].en)
            yield Pair(en, zh)


def breaches(place: LabSources) -> Iterator[str]:
    """Docstrings without a Chinese one, and Chinese ones that are stale or differ in a fact."""
    path = place.solution / FILE
    for pair in _pairs(place, load(place.solution)):
        yield from _faults(pair, place.shown(path))
        if pair.both is not None and pages.is_stale(*pair.both):
            yield (
                f"{place.shown(path)}: {pair.both[0].title} was made from another English text; "
                f"bring it up to date, then run: {suggestions.command('translated')} "
                f"{place.shown(path)}"
            )


def _faults(pair: Pair, shown: str) -> Iterator[str]:
    """Return what ails a Chinese docstring, but that it is stale."""
    if pair.both is None:
        one = pair.english or pair.chinese
        assert one is not None
        yield f"{shown}: {one.title} " + (
            "has no Chinese text; add its table" if pair.english else "is in no stub; take it out"
        )
        return
    en, zh = pair.both
    for kind, wanted in en.fixed.items():
        if zh.fixed[kind] != wanted:
            differs = pages.difference(wanted, zh.fixed[kind])
            yield f"{shown}: {en.title} has other {kind}s than the English: {differs}"
    if _arguments(en.body) != _arguments(zh.body):
        yield f"{shown}: {en.title} tells other arguments, or in another order, than the English"


def _arguments(words: str) -> list[str]:
    """The sections of a docstring, and the names that begin their lines."""
    return re.findall(r"^(?: {4}\w+(?=:)|(?:Args|Returns|Raises|Yields):)", words, re.MULTILINE)


def run(path: Path) -> int:
    """Write into a catalogue which English texts its Chinese ones are made of now.

    Returns:
        0, or 1 when nothing was written since the languages differ in what neither may change.

    Raises:
        ValueError: the catalogue cannot be read, or belongs to no lab.
    """
    solution = path.resolve().parent
    place = LabSources.find(solution.name, solution.parent.parent)
    known = load(solution)
    found = list(_pairs(place, known))
    if differ := [fault for pair in found for fault in _faults(pair, str(path))]:
        print(*differ, "nothing was written: mend this first", sep="\n")
        return 1
    both = [pair.both for pair in found if pair.both]
    stale = [en.title for en, zh in both if pages.is_stale(en, zh)]
    tables = [_table(en.title, Chinese(zh.body, en.digest)) for en, zh in both]
    path.write_text("\n".join(tables), encoding="utf-8", newline="\n")
    for title in stale or ["nothing was stale"]:
        print(f"{'current' if stale else 'unchanged'}    {path}: {title}")
    return 0


def _table(title: str, one: Chinese) -> str:
    file, _, name = title.partition(": ")
    key = name if re.fullmatch(r"\w+", name) else f'"{name}"'
    return f"[\"{file}\".{key}]\nen = \"{one.en}\"\nzh = '''\n{one.zh}\n'''\n"
