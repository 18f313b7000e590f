"""From whatever was downloaded to submissions: the only door is this module.

``find`` and ``survey`` list a source, ``read`` reads one hand-in; those of a class are read
``fenced``: in a process of its own. Nothing is extracted to disk,
executed or parsed as Python; whatever is wrong with a hand-in becomes a message of that one.
"""

from autograder.intake.listing import SourceError, Survey, find, survey
from autograder.intake.reading import fenced, read, unread
from autograder.intake.tree import Entry, Piece

__all__ = [
    "Entry", "Piece", "SourceError", "Survey", "fenced", "find", "read", "survey", "unread",
]  # fmt: skip
