"""Shards of a class: which hand-ins are whose, and the file that says what a graded part is.

A job array grades every shard into an output folder of its own. Whose shard a hand-in is in
follows from who handed it in and from nothing else, so all attempts of a person are together, and
neither the order of a listing nor who else handed in moves anybody.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.course.atomic import write_atomic
from autograder.course.late import LateRules
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import Isolation, Lab, Message, Origin
from autograder.grading import hidden_cases, journal
from autograder.grading.engine import kept_name
from autograder.intake.attempts import people
from autograder.intake.tree import Entry
from autograder.report.class_file import lab_to_plain

NAME = "shard.json"
SCHEMA, VERSION = "qwen3-labs.shard", 1


class ShardError(ValueError):
    """A shard or a part cannot be used; the text names it and the mend."""


@dataclass(frozen=True)
class Shard:
    """The ``number``-th of ``count`` shards, counted from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def own(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those entries that are in this shard, in their order."""
        return [entry for entry in entries if self._place(entry) == self.number]

    def _place(self, entry: Entry) -> int:
        """The shard that an entry is in, the same on every machine and in every run."""
        who = "\n".join(sorted(people(entry)))
        digest = hashlib.sha256(who.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.count + 1


def parse(text: str) -> Shard:
    """``2/16`` as a shard.

    Raises:
        ValueError: it is written in another way, or is not within its count.
    """
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"{text!r}: expected NUMBER/COUNT with NUMBER from 1 to COUNT, as 2/16")
    return Shard(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class Participant:
    """A student or group that handed in; enough to find them on a roster."""

    student: str
    origin: Origin


@dataclass(frozen=True)
class Part:
    """The record of a graded shard: from what and by what; written when all of it is graded.

    ``lab`` and ``grader`` are hashes of the lab as reports show it and of all code that decides,
    ``secret`` one of the secret, ``source`` one of the listing of the whole class. ``attempt`` is
    ``last`` or ``best``. ``graded`` are the ids of the hand-ins; ``handed`` holds all attempts of
    these people. ``no_weights`` says why checks on real weights were not graded,
    ``late_rules`` what the course says of late hand-ins.
    """

    shard: Shard
    lab_name: str
    lab: str
    grader: str
    secret: str
    source: str
    attempt: str
    versions: Mapping[str, str]
    isolation: Isolation
    hidden_cases: int
    public_cases: int
    graded: tuple[str, ...]
    handed: tuple[Participant, ...]
    remarks: tuple[Message, ...]
    no_weights: Message
    late_rules: LateRules | None = None


def digest_of_lab(lab: Lab) -> str:
    """Hash of the lab as reports show it."""
    return hashlib.sha256(json.dumps(lab_to_plain(lab), sort_keys=True).encode()).hexdigest()


def digest_of_source(entries: Sequence[Entry]) -> str:
    """Hash of who handed in, and when; not of where the folder lies, nor of the files' text."""
    state = hashlib.sha256()
    for entry in entries:
        told = to_plain([entry.student, entry.origin, entry.notes])
        state.update(json.dumps(told, sort_keys=True).encode())
    return state.hexdigest()


def forget(out: Path) -> None:
    """While a part is graded, it is none that can be merged."""
    (out / NAME).unlink(missing_ok=True)


def write(out: Path, part: Part) -> None:
    """Write ``OUT/shard.json``. Raises OSError."""
    data = {"schema": SCHEMA, "version": VERSION, **to_plain(part)}
    write_atomic(out / NAME, json.dumps(data) + "\n", durable=True)


def read(out: Path) -> Part:
    """``OUT/shard.json``.

    Raises:
        ShardError: absent, damaged, or of another version (names it and the mend).
    """
    path = out / NAME
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ShardError(
            f"{path}: absent, so this is no part that is graded to its end; give folders that "
            "grade --shard has written, and run a shard that was interrupted with --resume"
        ) from None
    except (OSError, ValueError) as error:
        raise ShardError(f"{path}: cannot be read ({error}); grade this shard again") from None
    try:
        if (data["schema"], data["version"]) != (SCHEMA, VERSION):
            raise ValueError(f"{data['schema']} {data['version']}")
        return from_plain(Part, data)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        text = f"{type(error).__name__}: {error}"[:200]
        raise ShardError(f"{path}: damaged, or of another release ({text}); grade again") from None


# What parts of one grading have in common: the field, how it is called, and the mend.
_COMMON = {
    "lab_name": ("another lab", "merge each lab by itself"),
    "secret": ("another secret", "grade all shards with the same --secret-file"),
    "source": ("other hand-ins", "run every shard again with --resume"),
    "lab": ("another version of the lab", "run every shard again with --resume"),
    "grader": ("another version of the grader", "run every shard again with --resume"),
    "versions": ("other releases of Python or packages", "grade in equal environments"),
    "attempt": ("another --attempt", "grade all shards with the same one"),
    "late_rules": ("another course file", "run every shard again with --resume and --course"),
}


def together(parts: Mapping[Path, Part]) -> list[int]:
    """Numbers of the shards that are absent.

    Raises:
        ShardError: the parts are not of one grading of one class, or two hold the same hand-ins.
    """
    (first_path, first), *others = parts.items()
    numbers = {first.shard.number: first_path}
    for path, part in others:
        for field, (what, mend) in _COMMON.items():
            if getattr(part, field) != getattr(first, field):
                raise ShardError(f"{path}: graded with {what} than {first_path}; {mend}")
        if part.shard.count != first.shard.count:
            raise ShardError(
                f"{path}: shard {part.shard} overlaps with shard {first.shard} in {first_path}; "
                "merge shards of one and the same COUNT"
            )
        if part.shard.number in numbers:
            raise ShardError(
                f"{path}: shard {part.shard} is already in {numbers[part.shard.number]}; "
                "give every shard once"
            )
        numbers[part.shard.number] = path
    return [number for number in range(1, first.shard.count + 1) if number not in numbers]


# Brings what parts of a class have left into one output folder.

OUTPUTS = ".outputs"


def gather(parts: Mapping[Path, Part], out: Path) -> None:
    """Put the records of all parts, and what hand-ins answered where that was kept, into ``out``.

    So ``out`` is what one run over the whole class would have left: ``grade --resume`` and
    ``rescore`` go on from there. Nothing of a part is changed.

    Raises:
        ShardError: a record is not where the part says.
        OSError: ``out`` cannot be written to.
    """
    for path, part in parts.items():
        (out / journal.FOLDER).mkdir(parents=True, exist_ok=True)
        for student in part.graded:
            name = Path(journal.FOLDER, journal.file_name(student))
            if not _brought(path / name, out / name):
                raise ShardError(f"{path / name}: absent; run this shard again with --resume")
            kept = Path(OUTPUTS, kept_name(student))
            if (path / kept).exists():
                (out / OUTPUTS).mkdir(exist_ok=True)
                _brought(path / kept, out / kept)
        _brought(path / hidden_cases.CHECK, out / hidden_cases.CHECK)


def _brought(source: Path, target: Path) -> bool:
    """Return whether ``source`` was there; a second name of one file costs a large class no space.

    Whoever writes such a file later moves a new one to its place, so the other name keeps what it
    had.
    """
    if not source.exists():
        return False
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, temporary)
    os.replace(temporary, target)
    # Of two names of one file nothing is moved.
    temporary.unlink(missing_ok=True)
    return True
