"""Times as course systems write them, brought to ISO 8601; what cannot be read stays empty."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# 2025-03-01 12:30:05.123456 UTC · 2025-03-01T12:30:05Z · 2025-03-01-12-30-05 · 20250301123005
_TIME = re.compile(
    r"(?P<year>\d{4})(?P<dash>[-/._]?)(?P<month>\d{2})(?P=dash)(?P<day>\d{2})"
    r"(?:[T _\-.]?(?P<hour>\d{2})[:\-_.h]?(?P<minute>\d{2})(?:[:\-_.m]?(?P<second>\d{2}))?"
    r"(?:\.(?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
)


def iso(text: str) -> str:
    """``text`` as ISO 8601, with its zone where it names one; empty if it is no time."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return ""
    year, month, day = (int(match[name]) for name in ("year", "month", "day"))
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    micro = int((match["fraction"] or "0")[:6].ljust(6, "0"))
    try:
        found = datetime(year, month, day, hour, minute, second, micro)
        zone = match["zone"]
        if zone in ("Z", "UTC", "GMT"):
            found = found.replace(tzinfo=UTC)
        elif zone:
            found = datetime.fromisoformat(f"{found.isoformat()}{zone[:3]}:{zone[-2:]}")
    except ValueError:
        return ""
    return found.isoformat()


def moment(text: str) -> datetime | None:
    """What :func:`iso` has written, or a date and time of another program, to compare."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
