"""The machine's parts of a student's report, between marks; everything else stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping

BLOCKS = ("scores", "environment", "text", "figures")
_BLOCK = re.compile(r"(<!-- machine: (\w+) -->\n)(.*?)(^<!-- end -->)", re.DOTALL | re.MULTILINE)


def filled(text: str, parts: Mapping[str, str]) -> tuple[str, list[str]]:
    """``text`` with every part between its marks, and the names of parts that have no marks.

    Line ends stay as they are; a mark that is not closed is left alone.
    """
    found: set[str] = set()

    def one(match: re.Match[str]) -> str:
        name = match[2]
        if name not in parts or "<!-- machine:" in match[3]:
            return match[0]
        found.add(name)
        # A mark inside a part, in what the model wrote, say, would end it next time.
        safe = parts[name].replace("<!--", "< !--").strip("\n")
        return f"{match[1]}{safe}\n{match[4]}"

    windows = "\r\n" in text
    done = _BLOCK.sub(one, text.replace("\r\n", "\n") if windows else text)
    return done.replace("\n", "\r\n") if windows else done, [n for n in parts if n not in found]
