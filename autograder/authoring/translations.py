"""Which Chinese sections were made from which English ones, and which of them are stale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from autograder.authoring.pages import Section, sections
from autograder.authoring.place import Place, read
from autograder.course import asked

CHINESE = ".zh-CN.md"
# Students fill in the one, in the language they like; the other is for programs.
ELSEWHERE = ("report_template.md", "AGENTS.md")


@dataclass(frozen=True)
class Pair:
    """An English section and the Chinese one that tells the same; one of them may be absent."""

    english: Section | None
    chinese: Section | None

    @property
    def both(self) -> tuple[Section, Section] | None:
        if self.english is None or self.chinese is None:
            return None
        return self.english, self.chinese


def pages(place: Place) -> Iterator[Path]:
    """The English pages that need a Chinese one: of this lab, and those of the whole project."""
    shared = (".", "labs", "autograder/guides", "student")
    for folder in (place.folder, *(place.root / name for name in shared)):
        for path in sorted(folder.glob("*.md")):
            if not path.name.endswith(CHINESE) and path.name not in ELSEWHERE:
                yield path


def chinese_of(path: Path) -> Path:
    """Where the Chinese page of an English one lies."""
    return path.with_name(path.name.removesuffix(".md") + CHINESE)


def breaches(place: Place) -> Iterator[str]:
    """Pages without a Chinese one, and sections that are absent, stale or different."""
    for path in pages(place):
        chinese = chinese_of(path)
        if not chinese.is_file():
            then = f"{asked.command('translated')} FILE"
            yield f"{place.shown(path)} has no {chinese.name}; write it, then {then}"
            continue
        yield from faults(path, chinese, place.shown(chinese))


def faults(english: Path, chinese: Path, shown: str) -> Iterator[str]:
    """What ails a Chinese page, which goes by the name ``shown``."""
    for pair in paired(english, chinese):
        yield from odd(pair, english.name, shown)
        if pair.both is not None and is_stale(*pair.both):
            en, zh = pair.both
            made = "was made from another" if zh.made_of else "does not say from which"
            version = "version of" if zh.made_of else "version it was made of"
            yield (
                f"{shown}:{zh.line}: “{zh.title}” {made} {version} “{en.title}” "
                f"({english.name}:{en.line}); bring the Chinese up to date, then run: "
                f"{asked.command('translated')} {shown} --section '{en.title}'"
            )


def paired(english: Path, chinese: Path) -> list[Pair]:
    """The sections of two pages, side by side.

    Raises:
        ValueError: a page does not begin with a heading (names it).
    """
    found = []
    for path in (english, chinese):
        try:
            found.append(list(sections(read(path))))
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None
    return pair_up(*found)


def pair_up(english: Sequence[Section], chinese: Sequence[Section]) -> list[Pair]:
    """Sections that agree by digest hold the others in place, which pair up in their order."""
    pairs: list[Pair] = []
    carried = [one.made_of for one in chinese]
    digests = [one.digest for one in english]
    for _, a, b, c, d in SequenceMatcher(None, digests, carried, autojunk=False).get_opcodes():
        pairs += _in_order(english[a:b], chinese[c:d])
    return pairs


def _in_order(english: Sequence[Section], chinese: Sequence[Section]) -> Iterator[Pair]:
    """Neither stands between two that agree: paired while their levels are the same."""
    rest = list(chinese)
    for one in english:
        if rest and rest[0].level == one.level:
            yield Pair(one, rest.pop(0))
        else:
            yield Pair(one, None)
    yield from (Pair(None, one) for one in rest)


def is_stale(english: Section, chinese: Section) -> bool:
    """Whether the Chinese was made from other words than stand there now."""
    return chinese.made_of != english.digest


def odd(pair: Pair, english: str, shown: str) -> Iterator[str]:
    """What differs although no language may change it: sections, code, formulas, numbers."""
    if pair.both is None:
        if pair.english is not None:
            one = pair.english
            yield (
                f"{shown}: nothing tells “{one.title}” ({english}:{one.line}); translate this "
                f"section, then run: {asked.command('translated')} {shown}"
            )
        elif pair.chinese is not None:
            one = pair.chinese
            yield f"{shown}:{one.line}: “{one.title}” has no section in {english}; take it out"
        return
    en, zh = pair.both
    if zh.broken:
        yield (
            f"{shown}:{zh.line}: “{zh.title}”: a line ends with “{zh.broken}” and its sentence "
            "goes on in the next; a reader sees a space there: "
            f"{asked.command('translated')} joins them"
        )
    for kind, wanted in en.fixed.items():
        found = zh.fixed[kind]
        if found != wanted:
            yield (
                f"{shown}:{zh.line}: “{zh.title}” has other {kind}s than “{en.title}” "
                f"({english}:{en.line}): {_difference(wanted, found)}; write them the same"
            )


def _difference(wanted: Iterable[str], found: Iterable[str]) -> str:
    lacking = [one for one in wanted if one not in found]
    extra = [one for one in found if one not in wanted]
    told = [f"lacks {_shown(lacking)}"] if lacking else []
    told += [f"has {_shown(extra)} beside"] if extra else []
    return " and ".join(told) or "in another order, or not as often"


def _shown(texts: Sequence[str]) -> str:
    return ", ".join(f"“{' '.join(text.split())[:60]}”" for text in texts[:4])
