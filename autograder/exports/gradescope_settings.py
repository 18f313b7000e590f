"""What an autograder zip was made for: ``settings.json`` beside the code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from autograder.course.kinds import verify
from autograder.course.plain import late_rules_from_plain, late_rules_to_plain
from autograder.course.records import LateRules

SETTINGS = "settings.json"


@dataclass(frozen=True)
class Settings:
    """Lab (name of its folder), language of results, least level of isolation, late hand-ins."""

    lab: str
    language: str
    least: str
    rules: LateRules | None = None


def text_of(settings: Settings) -> str:
    """The file's text."""
    told = {"lab": settings.lab, "language": settings.language, "least": settings.least}
    rules = late_rules_to_plain(settings.rules)
    return json.dumps({**told, "rules": rules}, indent=1) + "\n"


def read(path: Path) -> Settings:
    """The settings of this copy.

    Raises:
        ValueError: absent or damaged; the text names the file and the mend.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        rules = late_rules_from_plain(told["rules"])
        settings = Settings(told["lab"], told["language"], told["least"], rules)
        verify(settings)
        return settings
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{path}: {error}; export the autograder again") from None
