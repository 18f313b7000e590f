"""A page of Markdown as sections, and what of a section no language may change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

_HEADING = re.compile(r"(#{1,6}) +(.+?) *")
_MADE_OF = re.compile(r"<!-- en: ([0-9a-f]{12}) -->")
_FENCE = re.compile(r"^```.*?^```[^\S\n]*$", re.MULTILINE | re.DOTALL)
# Both may go on in the next line, though not in the next paragraph.
_FORMULA = re.compile(r"(?<![\\$])\$(?!\$)((?:[^$\n]|\n(?!\s*\n))+)\$")
_CODE = re.compile(r"`((?:[^`\n]|\n(?!\s*\n))+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# Markdown makes a space of a line break, and between these characters none belongs.
_BROKEN = re.compile(r"[\u3001-\u3011\u4e00-\u9fff\uff01-\uff1f]\n[\u3001-\u3011\u4e00-\u9fff]")
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
        text = _FENCE.sub("", self.body)
        found = _BROKEN.search(text)
        return "" if found is None else text[: found.start() + 1].rpartition("\n")[2][-12:]

    @property
    def fixed(self) -> Mapping[str, list[str]]:
        """What has to be the same in every language, by kind: code blocks in their order."""
        bare = _COMMENT.sub(" ", _FENCE.sub(" ", self.body))
        formulas = _FORMULA.findall(_CODE.sub(" ", bare))
        codes = _CODE.findall(bare)
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
    return "\n".join(lines)
