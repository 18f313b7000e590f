"""Where a heading of a page on GitHub can be linked to."""

from __future__ import annotations

import re


def anchor(heading: str) -> str:
    """GitHub's: lower case, letters of any script, hyphens for spaces, no other signs."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
