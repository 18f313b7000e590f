"""From the bytes of a source file to its text; what cannot be read is named."""

from __future__ import annotations

import codecs
import re

from autograder.course.records import Message

MAX_SOURCE_BYTES = 1 << 20

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
# Only codecs written in C: `punycode` on a megabyte would hold the grader for minutes.
_COOKIE_CODECS = frozenset(
    (
        *("gbk", "gb2312", "gb18030", "big5", "big5hkscs"),
        *("shift_jis", "cp932", "euc_jp", "euc_kr", "cp949"),
        *("iso8859-1", "iso8859-15", "cp1252", "cp1251", "koi8-r", "cp437", "cp850", "mac-roman"),
    )
)


class RefusedError(Exception):
    """A file, or a whole hand-in, that cannot be taken; ``reason`` says why."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.reason = Message(f"intake.{key}", values)


def decode(data: bytes, file: str) -> tuple[str, Message | None]:
    """Read ``data`` as UTF-8, else by its PEP 263 cookie, else as GB18030.

    Returns:
        The text with ``\\n`` line ends and without a byte order mark, and a note where the
        encoding had to be guessed.

    Raises:
        RefusedError: UTF-16, NUL bytes, or no encoding fits.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise RefusedError("utf16", file=file)
    if b"\0" in data:
        raise RefusedError("nul", file=file)
    text = _decode_as(data, "utf-8-sig")
    if text is not None:
        return _unix_lines(text), None
    cookie = _cookie(data)
    if cookie and (text := _decode_as(data, cookie)) is not None:
        return _unix_lines(text), None
    if (text := _decode_as(data, "gb18030")) is not None:
        return _unix_lines(text), Message("intake.gbk", {"file": file})
    raise RefusedError("undecodable", file=file)


def _decode_as(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _cookie(data: bytes) -> str | None:
    """The encoding that line 1 or 2 declares, if it is one of the known ones."""
    lines = data[:1000].splitlines()[:2]
    for line in lines:
        if match := _COOKIE.match(line):
            try:
                name = codecs.lookup(match[1].decode("ascii", "replace")).name
            except LookupError:
                return None
            return name if name in _COOKIE_CODECS else None
        if not _BLANK.match(line):
            return None
    return None


def _unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
