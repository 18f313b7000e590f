"""A page of Markdown as sections, and what of a section no language may change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path

from autograder.authoring.place import LabSources, read
from autograder.course import suggestions

_HEADING = re.compile(r"(#{1,6}) +(.+?) *")
_MADE_OF = re.compile(r"<!-- en: ([0-9a-f]{12}) -->")
_FENCE = re.compile(r"^```.*?^```[^\S\n]*$", re.MULTILINE | re.DOTALL)
# Both may go on in the next line, though not in the next paragraph.
_FORMULA = re.compile(r"(?<![\\$])\$(?!\$)((?:[^$\n]|\n(?!\s*\n))+)\$")
_CODE = re.compile(r"(``?)((?:[^`\n]|\n(?!\s*\n))+)\1")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# Markdown makes a space of a line break, and between these characters none belongs.
_BROKEN = re.compile(r"[\u3001-\u3011\u4e00-\u9fff\uff01-\uff1f]\n[\u3001-\u3011\u4e00-\u9fff]")
# These marks are as wide as a character and bring their own distance: no space after them.
_SPACED = re.compile(r"(?<=[\u3001-\u3003\u3009-\u3011\uff01-\uff1f]) (?=[^ |])")
_WIDE = re.compile("[\u3001-\u3011\u4e00-\u9fff\uff01-\uff1f“”‘’…—]")
_BEGINS = re.compile(r"\s*(?:[-*+] |\d+\. |#|\||<!--|>|```|$)")  # a line that goes on no other
# A link to a page of ours leads to the page in the reader's language.
_CHINESE = re.compile(r"\.zh-CN(?=\.md)")


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, up to the next heading of any level.

    ``line`` counts from 1; ``made_of`` is the digest that a Chinese section carries, or empty.
    """

    level: int
    title: str
    line: int
    body: str
    made_of: str = ""

    @cached_property
    def digest(self) -> str:
        """Of title and words; where lines are broken does not matter."""
        words = " ".join(f"{self.title}\n{self.body}".split())
        return hashlib.sha256(words.encode()).hexdigest()[:12]

    @property
    def prose(self) -> str:
        """The body without code, formulas, comments and the addresses of links."""
        bare = _CODE.sub(" ", _COMMENT.sub(" ", _FENCE.sub(" ", self.body)))
        return _LINK.sub("]", _FORMULA.sub(" ", bare))

    @property
    def broken(self) -> str:
        """The end of the first Chinese line that goes on in the next one; empty for none."""
        return self._end_before(_BROKEN, 1)

    @property
    def spaced(self) -> str:
        """The end of the first Chinese words that a space follows although a mark ends them."""
        return self._end_before(_SPACED, 0)

    @property
    def cut_row(self) -> str:
        """The end of the first row of a table that goes on in the next line; empty for none."""
        rows = (line.rstrip() for line in _FENCE.sub("", self.body).split("\n"))
        return next((row[-24:] for row in rows if row.startswith("|") and row[-1] != "|"), "")

    def _end_before(self, pattern: re.Pattern[str], kept: int) -> str:
        text = _FENCE.sub("", self.body)
        found = pattern.search(text)
        return "" if found is None else text[: found.start() + kept].rpartition("\n")[2][-12:]

    @property
    def fixed(self) -> Mapping[str, list[str]]:
        """Return what has to be the same in every language, by kind: code blocks in their order."""
        bare = _COMMENT.sub(" ", _FENCE.sub(" ", self.body))
        formulas = _FORMULA.findall(_CODE.sub(" ", bare))
        codes = [code for _, code in _CODE.findall(bare)]
        links = [link for link in _LINK.findall(bare) if not link.startswith("#")]
        return {
            "code block": _FENCE.findall(self.body),
            "code word": sorted({" ".join(code.split()) for code in codes}),
            "formula": sorted({" ".join(formula.split()) for formula in formulas}),
            "link": sorted({_CHINESE.sub("", link) for link in links}),
            "number": sorted(set(_NUMBER.findall(f"{self.title}\n{self.prose}"))),
        }


def sections(text: str) -> Iterator[Section]:
    """The sections of a page; headings inside code blocks are none.

    Raises:
        ValueError: there is text before the first heading.
    """
    level, title, start, made_of = 0, "", 0, ""
    body: list[str] = []
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        heading = None if fenced else _HEADING.fullmatch(line)
        if heading is None:
            fenced ^= line.startswith("```")
            found = _MADE_OF.fullmatch(line.strip())
            if found and number == start + 1:
                made_of = found[1]
            elif level or not line.strip():
                body.append(line)
            else:
                raise ValueError(f"line {number}: a page begins with its heading")
            continue
        if level:
            yield Section(level, title, start, "\n".join(body), made_of)
        level, title, start, made_of = len(heading[1]), heading[2], number, ""
        body = []
    if level:
        yield Section(level, title, start, "\n".join(body), made_of)


def with_digests(text: str, digests: Mapping[int, str]) -> str:
    """The page with these digests (by the line of a heading) under its headings."""
    lines = text.split("\n")
    for line in sorted(digests, reverse=True):
        carries = line < len(lines) and _MADE_OF.fullmatch(lines[line].strip())
        lines[line : line + bool(carries)] = [f"<!-- en: {digests[line]} -->"]
    return "\n".join(lines)


def unbroken(text: str) -> str:
    """A Chinese page with every paragraph and item on one line: a break would show as a space."""
    lines: list[str] = []
    fenced = alone = False
    for line in text.split("\n"):
        starts = fenced or alone or not lines or bool(_BEGINS.match(line))
        fenced ^= line.startswith("```")
        alone = not line.strip() or line.startswith(("#", "|", "<!--", "```"))
        if starts:
            lines.append(line)
            continue
        before, after = lines[-1].rstrip(), line.strip()
        wide = _WIDE.match(before[-1]) and (_WIDE.match(after[0]) or after.startswith("*"))
        lines[-1] = before + ("" if wide else " ") + after
    fenced = False
    for number, line in enumerate(lines):
        fenced ^= line.startswith("```")
        lines[number] = line if fenced else _SPACED.sub("", line)
    return "\n".join(lines)


# Which Chinese sections were made from which English ones, and which of them are stale.

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


def pages(place: LabSources) -> Iterator[Path]:
    """The English pages that need a Chinese one: of this lab, and those of the whole project."""
    shared = (".", "labs", "autograder/guides", "student")
    for folder in (place.folder, *(place.root / name for name in shared)):
        for path in sorted(folder.glob("*.md")):
            if not path.name.endswith(CHINESE) and path.name not in ELSEWHERE:
                yield path


def chinese_of(path: Path) -> Path:
    """Return where the Chinese page of an English one lies."""
    return path.with_name(path.name.removesuffix(".md") + CHINESE)


def breaches(place: LabSources) -> Iterator[str]:
    """Pages without a Chinese one, and sections that are absent, stale or different."""
    for path in pages(place):
        chinese = chinese_of(path)
        if not chinese.is_file():
            then = f"{suggestions.command('translated')} FILE"
            yield f"{place.shown(path)} has no {chinese.name}; write it, then {then}"
            continue
        yield from faults(path, chinese, place.shown(chinese))


def faults(english: Path, chinese: Path, shown: str) -> Iterator[str]:
    """Return what ails a Chinese page, which goes by the name ``shown``."""
    for pair in paired(english, chinese):
        yield from odd(pair, english.name, shown)
        if pair.both is not None and is_stale(*pair.both):
            en, zh = pair.both
            made = "was made from another" if zh.made_of else "does not say from which"
            version = "version of" if zh.made_of else "version it was made of"
            yield (
                f"{shown}:{zh.line}: “{zh.title}” {made} {version} “{en.title}” "
                f"({english.name}:{en.line}); bring the Chinese up to date, then run: "
                f"{suggestions.command('translated')} {shown} --section '{en.title}'"
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
    """Return whether the Chinese was made from other words than stand there now."""
    return chinese.made_of != english.digest


def odd(pair: Pair, english: str, shown: str) -> Iterator[str]:
    """Return what differs although no language may change it: sections, code, formulas, numbers."""
    if pair.both is None:
        if pair.english is not None:
            one = pair.english
            yield (
                f"{shown}: nothing tells “{one.title}” ({english}:{one.line}); translate this "
                f"section, then run: {suggestions.command('translated')} {shown}"
            )
        elif pair.chinese is not None:
            one = pair.chinese
            yield f"{shown}:{one.line}: “{one.title}” has no section in {english}; take it out"
        return
    en, zh = pair.both
    for page, one in ((english, en), (shown, zh)):
        if one.cut_row:
            yield (
                f"{page}:{one.line}: “{one.title}”: a row of a table ends with “{one.cut_row}” "
                "and no |; write every row on one line, however long"
            )
    if zh.broken:
        yield (
            f"{shown}:{zh.line}: “{zh.title}”: a line ends with “{zh.broken}” and its sentence "
            "goes on in the next; a reader sees a space there: "
            f"{suggestions.command('translated')} joins them"
        )
    if zh.spaced:
        yield (
            f"{shown}:{zh.line}: “{zh.title}”: a space follows “{zh.spaced}”, whose mark is wide "
            f"enough: {suggestions.command('translated')} takes it out"
        )
    for kind, wanted in en.fixed.items():
        found = zh.fixed[kind]
        if found != wanted:
            yield (
                f"{shown}:{zh.line}: “{zh.title}” has other {kind}s than “{en.title}” "
                f"({english}:{en.line}): {difference(wanted, found)}; write them the same"
            )


def difference(wanted: Iterable[str], found: Iterable[str]) -> str:
    """Return what one list lacks, and what it has beside."""
    lacking = [one for one in wanted if one not in found]
    extra = [one for one in found if one not in wanted]
    told = [f"lacks {_shown(lacking)}"] if lacking else []
    told += [f"has {_shown(extra)} beside"] if extra else []
    return " and ".join(told) or "in another order, or not as often"


def _shown(texts: Sequence[str]) -> str:
    return ", ".join(f"“{' '.join(text.split())[:60]}”" for text in texts[:4])


# ``translated``: an author has looked at Chinese sections, and says that they are current.


def run(page: Path, titles: Sequence[str]) -> int:
    """Write the digests of English sections under the Chinese headings, and say which.

    Lines of the Chinese page that go on in the next one are joined on the way.

    Args:
        page: the Chinese page, or its English one.
        titles: English titles of the sections that were looked at; all stale ones for none.

    Returns:
        0, or 1 when nothing was written because the two pages differ in what no language changes.

    Raises:
        ValueError: a page is absent, or a title is none of the page's.
    """
    chinese = page if page.name.endswith(CHINESE) else chinese_of(page)
    english = chinese.with_name(chinese.name.removesuffix(CHINESE) + ".md")
    for path in (english, chinese):
        if not path.is_file():
            raise ValueError(f"{path}: there is no such page; give one that has both languages")
    written = read(chinese)
    whole = unbroken(written)
    if whole != written:
        chinese.write_text(whole, encoding="utf-8", newline="\n")
        print(f"joined     {chinese}: lines of one paragraph")
    pairs = paired(english, chinese)
    known = [pair.english.title for pair in pairs if pair.english is not None]
    for title in titles:
        if title not in known:
            raise ValueError(f"{english}: no section is called “{title}”; it has: {known}")
    wanted = [p for p in pairs if not titles or (p.english and p.english.title in titles)]
    differ = [fault for pair in wanted for fault in odd(pair, english.name, str(chinese))]
    if differ:
        print(*differ, "nothing was written: mend this first", sep="\n")
        return 1
    stale = [pair.both for pair in wanted if pair.both is not None and is_stale(*pair.both)]
    text = with_digests(whole, {zh.line: en.digest for en, zh in stale})
    chinese.write_text(text, encoding="utf-8", newline="\n")
    for en, zh in stale:
        print(f"current    {chinese}: “{zh.title}” (“{en.title}”)")
    if not stale:
        print(f"unchanged  {chinese}: nothing was stale")
    return 0
