"""Files as they are handed out: a banner tells whether somebody has worked in them since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

FILE = "handed_out.json"  # in a lab of a student's copy: its files as they came
_BANNERS = {
    "en": "# Generated from the course's sources (stub {}): fill in the TODOs.",
    "zh": "# 由课程的源文件生成（stub {}）：请补全所有 TODO。",
}


def with_banner(body: str, language: str = "en") -> str:
    """A stub with the line in front that :func:`is_untouched` reads."""
    return f"{_banner(body, language)}\n{body}"


def is_untouched(text: str) -> bool:
    """Return whether a file is a stub as it was generated, whatever release it came from.

    Git on Windows writes other line ends, an editor a byte order mark: neither is work.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first, _, body = text.partition("\n")
    return any(first == _banner(body, language) for language in _BANNERS)


def dump(texts: Mapping[str, Mapping[str, str]]) -> str:
    """The text of :data:`FILE`, from files by language and name."""
    return json.dumps(texts, indent=1) + "\n"


def load(folder: Path, language: str) -> dict[str, str] | None:
    """The files of the lab in ``folder`` as they came; None where that is not known."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))[language]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _banner(body: str, language: str) -> str:
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return _BANNERS[language].format(digest)
