"""Text from students, made harmless for the medium it goes to (HTML is escaped by Jinja2)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from autograder.course.messages import cut, cut_text

MAX_LINES = 30
MAX_BLOCK = 8000
MAX_LINE = 600

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
# Controls, surrogates, and what is invisible or turns the direction of writing.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
# Where a path begins: not within a word, another path or an address. In quotes, and alone, it may
# hold spaces.
_BEGIN = r"(?:file://)?(?:[A-Za-z]:[\\/]|~?/)"
_QUOTED_PATH = re.compile(rf"""(\A|['"]){_BEGIN}(?:[^'"\n\\/]+[\\/]+)+""")
_PATH = re.compile(rf"""(?<![\w./\\:)\]…-]){_BEGIN}(?:[^\s'"<>|*?,;:()\[\]\\/]+[\\/]+)+""")
_MARKDOWN = re.compile(
    r"[\\`*<>&\[\]|~!#$@{}]|(?<!\w)_|_(?!\w)|__|://|www\."
    r"|^(?:[-+=]|\d+[.)](?:\s|$))",  # would begin a list or underline a heading
    re.IGNORECASE,
)
_CODE = re.compile(r"(`[^`]+`)")
_PROSE = re.compile(r"[\\`*<>&\[\]|~$]|(?<!\w)_|_(?!\w)")
# Where a line may be broken: after spaces, and after a wide sign unless a stop follows it; but not
# where a quoted text, or a line in it, begins with spaces: nobody would see them at the end of a
# line.
_PIECES = re.compile(
    r"(?:[(\[b]*['\"]|[^\s\u2e80-\u9fff]*\\n)\s+[^\s\u2e80-\u9fff]+\s*|"
    r"[^\s\u2e80-\u9fff]*[\u2e80-\u9fff][\u3000-\u303f\uff00-\uffef]*\s*|[^\s\u2e80-\u9fff]+\s*|\s+"
)
# Two signs of one word or number, and what there is of a word at the end of a text.
_INSIDE = re.compile(r"[\w.,+-][\w.,+-]", re.ASCII)
_LAST_WORD = re.compile(r"[\w.,+-]+$", re.ASCII)
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # Excel takes the full-width forms too
_BEHIND = re.compile(r"; *(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")  # where a comma is no separator


def plain(text: str) -> str:
    """Several lines without ANSI sequences, controls and invisible characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSEEN.sub("", _ANSI.sub("", text))


def placeless(text: str) -> str:
    """Without folders of the machine where this was graded: of a whole path its end stays."""
    text = _QUOTED_PATH.sub(r"\1…/", text)
    return _PATH.sub("…/", text)


def block(text: str) -> str:
    """Say what a student printed: ``plain``, and of more than 30 lines the first and the last."""
    lines = cut_text(plain(text).strip("\n"), MAX_BLOCK).split("\n")
    return "\n".join(cut(lines, MAX_LINES))


def line(text: str) -> str:
    """``plain`` on one line, cut to 600 characters. Right for a terminal."""
    text = text[: 4 * MAX_LINE]
    # Nothing that `plain` takes out is printable; most texts need not be searched.
    joined = " ".join((text if text.isprintable() else plain(text)).split())
    return joined if len(joined) <= MAX_LINE else joined[: MAX_LINE - 1] + "…"


def markdown(text: str) -> str:
    """One line that Markdown cannot read as markup: as it is if harmless, else a code span."""
    text = line(text)
    if not _MARKDOWN.search(text):
        return text
    ticks = _longer_than_any(text, 1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"{ticks}{text}{ticks}"


def prose(text: str) -> str:
    """One line of the course's own words: code in backticks stays code, the rest is literal."""
    pieces = _CODE.split(text)
    return "".join(
        piece if number % 2 else _PROSE.sub(r"\\\g<0>", piece)
        for number, piece in enumerate(pieces)
    )


def fence(text: str, indent: str = "") -> str:
    """A Markdown code block with a fence longer than any inside, every line indented."""
    text = plain(text)  # first: what it takes out may join two runs of backticks
    ticks = _longer_than_any(text, 3)
    lines = [f"{ticks}text", *text.split("\n"), ticks]
    return "\n".join(indent + each if each else "" for each in lines)


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula, nor one that splits cells at semicolons."""
    text = line(text) if not text.startswith(_FORMULA) else "'" + line(text)
    return _BEHIND.sub(r"\g<0>'", "'" + text if text.startswith(_FORMULA) else text)


def csv_list(texts: Iterable[str]) -> str:
    """Texts in one cell, ``; `` between them; each of them may be cut, the list is not."""
    text = "; ".join(map(line, texts))
    return _BEHIND.sub(r"\g<0>'", "'" + text if text.startswith(_FORMULA) else text)


def width(text: str) -> int:
    """Columns of a terminal that ``text`` takes (East Asian Width, Unicode annex 11)."""
    if text.isascii():
        return len(text)
    columns = 0
    for character in text:
        if unicodedata.category(character) in ("Mn", "Me", "Cf"):
            continue
        columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return columns


def fitted(text: str, columns: int) -> str:
    """``text`` cut or padded with spaces to exactly ``columns`` columns; a cut shows as ``..``.

    No word or number is cut in its middle, unless hardly anything would be left.
    """
    text = line(text)
    if width(text) > columns:
        whole = text
        while text and width(text) > columns - 2:
            text = text[:-1]
        if _INSIDE.match(whole, len(text) - 1):
            shorter = _LAST_WORD.sub("", text)
            text = shorter if 2 * width(shorter) > width(text) else text
        text = text.rstrip() + ".."
    return text + " " * (columns - width(text))


def folded(text: str, columns: int) -> list[str]:
    """``text`` as lines of at most ``columns`` columns, broken at spaces or between wide signs."""
    lines, now = [], ""
    for piece in _PIECES.findall(line(text)):
        if now and width(now + piece.rstrip()) > columns:
            lines.append(now.rstrip())
            now = piece.lstrip()
        else:
            now += piece
    return [*lines, now.rstrip()] if now.strip() else lines


def _longer_than_any(text: str, least: int) -> str:
    """Backticks, more than ``text`` holds in a row and at least ``least``."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
