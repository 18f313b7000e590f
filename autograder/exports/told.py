"""What the name of a hand-in in its course system's download tells, long after it was graded.

``class.json`` keeps the name (``origin.name``), though a roster may have put other ids in place of
the system's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograder.course.records import HandIn
from autograder.intake import download_names
from autograder.intake.roster_csv import folded

# Moodle calls a student so where names are hidden ('participant' and 'hiddenuser' in the language
# packs of mod/assign), Canvas "anon".
_HIDDEN = re.compile(r"(?:participant|参与者|参与人|参加者|參與者|anon)?", re.IGNORECASE)


@dataclass(frozen=True)
class Told:
    """The system (``canvas``, ``moodle``, …), its number of the student, and the name there.

    Number and name are empty where the system does not tell them.
    """

    platform: str
    number: str
    name: str


def told(hand_in: HandIn) -> Told | None:
    """What the name tells, or None."""
    found = download_names.parse(hand_in.origin.name)
    if found is None:
        return None
    platform, student = found.group[0], found.student
    number = "" if student.id == student.name else folded(student.id)
    return Told(platform, number, _shown(student.name))


def _shown(name: str) -> str:
    return "" if _HIDDEN.fullmatch(name) else name
