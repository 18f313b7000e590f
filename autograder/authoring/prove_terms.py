"""The promise that every page and message calls a thing by the glossary's word for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.pages import sections
from autograder.authoring.place import Place, read
from autograder.authoring.translations import CHINESE, chinese_of, pages

GLOSSARY = "labs/glossary.md"


@dataclass(frozen=True)
class Term:
    """A word in both languages, and words that stand for the same and are not used here."""

    en: str
    zh: str
    avoided: tuple[str, ...]


def terms(place: Place) -> tuple[Term, ...]:
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


def breaches(place: Place) -> Iterator[str]:
    """Words that the glossary says are not used, where a reader would meet them."""
    known = terms(place)
    for en in pages(place):
        for page in (en, chinese_of(en)):
            if page.is_file() and page.name not in (Path(GLOSSARY).name, f"glossary{CHINESE}"):
                yield from _in_page(place, page, known)
    for path in _sources(place):
        for number, line in enumerate(read(path).splitlines(), 1):
            for term, word in _avoided(line, known, only_chinese=True):
                yield _said(place.shown(path), number, word, term)


def _in_page(place: Place, page: Path, known: tuple[Term, ...]) -> Iterator[str]:
    for section in sections(read(page)):
        for term, word in _avoided(f"{section.title}\n{section.prose}", known):
            yield _said(place.shown(page), section.line, word, term)


def _sources(place: Place) -> Iterator[Path]:
    """Files with words for students inside: English ones stand in code, too, Chinese do not."""
    yield from sorted((place.root / "autograder" / "course" / "messages").glob("*.toml"))
    yield from sorted(place.folder.glob("checks/*.py"))
    yield place.folder / "lab.toml"
    yield from sorted(place.solution.glob("*.toml"))
    yield from sorted(place.solution.glob("cases/*.py"))
    yield from place.notebooks


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


def _said(shown: str, line: int, word: str, term: Term) -> str:
    right = term.en if word.isascii() else term.zh
    return f"{shown}:{line}: says “{word}”; the glossary says “{right}” ({GLOSSARY})"
