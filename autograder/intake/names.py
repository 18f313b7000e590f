"""Names as students write them: made readable, made visible, compared by how they look."""

from __future__ import annotations

import os
import re
import unicodedata

MAX_SHOWN = 120

# Letters of other scripts that are drawn like a Latin one, after case folding.
# Source: the confusables of Unicode Technical Standard 39, those of Cyrillic, Greek, Armenian.
_ALIKE = str.maketrans(
    "аеорсухіјѕԁһӏвкмнтгпԛԝαοινρτυκχγөɑɡıոսհցօ",
    "aeopcyxijsdhlbkmhtrnqwaoivptukxyoagiouhgo",
)
_BOXES = re.compile("[\u2500-\u259f]")
_COPIED = re.compile(r"(?:\.py|\.pyw|\.ipynb|\.txt)+$")


def readable(name: str) -> str:
    """A name from a Chinese archive as it was meant, whatever an unpacker has made of its bytes.

    Bytes that are no UTF-8 are GBK as a rule. Lines and blocks in a name are GBK that was taken
    for code page 437: there, the first bytes of common Chinese characters draw boxes.
    """
    if name.isascii():
        return name
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode("gb18030", errors="replace")
    if _BOXES.search(name):
        try:
            return name.encode("cp437").decode("gb18030")
        except UnicodeError:
            pass
    return name


def shown(name: str) -> str:
    """A name for a message: what is invisible or turns the text is written as an escape."""
    if not name.isprintable():
        name = "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode()
            for character in name[: 2 * MAX_SHOWN]
        )
    return name if len(name) <= MAX_SHOWN else name[: MAX_SHOWN - 1] + "…"


def skeleton(name: str) -> str:
    """Equal for names that a reader takes for the same: width, case, script, invisible signs."""
    if name.isascii() and name.isprintable():
        return name.lower()
    name = name[: 4 * MAX_SHOWN]
    folded = unicodedata.normalize("NFKC", name).casefold()
    kept = (one for one in folded if unicodedata.category(one) not in ("Cf", "Cc", "Mn"))
    return "".join(kept).translate(_ALIKE)


def is_lookalike(name: str, file: str) -> bool:
    """Whether ``name`` is drawn like ``file`` and yet spelt with other signs."""
    return not name.isascii() and skeleton(name) == file.lower()


def is_meant(name: str, file: str) -> bool:
    """Whether a student may have meant ``file``: other case, a copy's number, a small slip."""
    import difflib  # only needed when something is wrong

    if len(name) > MAX_SHOWN:  # nobody means so much, and comparing would take long
        return False
    lowered = unicodedata.normalize("NFKC", name).lower()
    if lowered.startswith("test_"):
        return False
    if not re.search(r"\.(?:py|pyw|ipynb|txt)$", lowered):
        return False
    stem = file.rsplit(".", 1)[0].lower()
    bare = _COPIED.sub("", lowered)
    if re.search(rf"(?<![a-z]){re.escape(stem)}(?![a-z])", bare):
        return True
    return difflib.SequenceMatcher(None, bare, stem).ratio() >= 0.85
