"""``class.json``: the graded class as plain data, enough to render every report from it alone.

Top level
    ``schema`` (``"qwen3-labs.class"``), ``version`` (1), ``lab``, ``isolation``, ``versions``
    (name to version), ``cases`` (``{"public": int, "hidden": int}``), ``missing``,
    ``late_rules`` (null where no course file was given, may be absent), ``hand_ins`` (each on a
    line of its own).
late_rules (see ``autograder/course/late.py``)
    ``due``, ``grace_minutes``, ``percent_per_day``, ``max_days``, ``offset``, ``extensions`` (each
    ``student``, ``due``, ``reason``, ``handed_in``).
lab
    ``name``, ``folder`` (its name only), ``title``, ``files``, ``given``, ``forbidden``,
    ``folders``, ``feedback`` (how much of a mistake reports tell),
    ``limits`` (``cpu_seconds``, ``wall_seconds``, ``hand_in_seconds`` in s, ``memory_mib`` in MiB,
    ``lost_workers``),
    ``points``, ``exercises``. A text is ``{"en": str, "zh": str}`` everywhere.
exercise
    ``id``, ``file``, ``title``, ``hint``, ``points``, ``checks``; a check: ``name``,
    ``exercise``, ``family``, ``points``, ``title``, ``needs``, ``fresh``, ``optional``.
isolation
    ``level``, ``layers``, ``worker`` (``"fork"`` or ``"spawn"``).
hand-in
    ``student``, ``score`` (``earned``, ``gradable``, ``total``, ``undecided``, ``late_penalty``,
    ``final``: earned less the penalty), ``needs_human``,
    ``notes`` and ``marks`` (messages), ``digests`` (file to hash), ``results``, ``origin``
    (``name``, ``students``, ``submitted_at``, ``late``, ``attempt``), ``overrides`` (each
    ``student``, ``check``, ``exercise``, ``points`` (in halves, or null), ``bonus`` (below 0: a
    penalty), ``looked_at``, ``reason``, ``by``; one without check and exercise is on the whole
    hand-in),
    ``findings`` (may be absent), ``lateness`` (``due``, ``extended``, ``days``, ``percent``,
    ``closed``, ``why``, ``told_by_hand``; null or absent where the lab has no due time).
finding (what diagnosis makes of exercises that failed)
    ``exercises``, ``certainty`` (a value of ``Certainty``), ``misconceptions`` (each ``id``,
    ``group``, ``name``, ``sees``, ``hint``, ``section``, ``anchor``, ``source``), ``either`` (one
    of them rather than all), ``checks`` (that revealed it), ``known`` (messages).
student (of an origin, and of ``missing``: who is on the roster and handed in nothing)
    ``id``, ``name``, ``email``, ``first_name``, ``last_name`` (both may be absent).
result
    ``check``, ``outcome`` (a value of ``Outcome``), ``message`` (or null), ``hidden``, ``case``,
    ``prints``, ``frames`` (each ``file``, ``line``, ``function``, ``text``).
message
    ``key`` (``area.name`` of the catalogue), ``values``. A value is a JSON scalar, a list, an
    object, or one of ``{"$tuple": [...]}``, ``{"$float": "nan" | "inf" | "-inf"}``,
    ``{"$pairs": [[key, value], ...]}`` (an object whose keys JSON or these marks would confuse).

``points``, ``score`` and ``needs_human`` are there for other programs: reading ignores them and
derives them again from the checks and results.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, AnyStr

from autograder.course.plain import from_plain, to_plain
from autograder.course.records import (
    ClassRecord,
    HandIn,
    Lab,
    LazyHandIns,
)
from autograder.course.score import final_of, late_penalty_of, needs_human, score_of
from autograder.report.class_summary import look

_JSON: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False}
SCHEMA = "qwen3-labs.class"
VERSION = 1


def to_json(record: ClassRecord) -> dict[str, Any]:
    """The record as dicts, lists and JSON scalars."""
    head = {"schema": SCHEMA, "version": VERSION, "lab": lab_to_plain(record.lab)}
    own = ("isolation", "versions", "missing", "late_rules")
    return {
        **head,
        **{name: to_plain(getattr(record, name)) for name in own},
        "cases": {"public": record.public_cases, "hidden": record.hidden_cases},
        "hand_ins": [hand_in_to_plain(record.lab, hand_in) for hand_in in record.hand_ins],
    }


class ClassText:
    """The JSON text of a class, given out in pieces, one hand-in at a time and a line for each.

    Args:
        record: everything but the hand-ins, which are taken one by one.
        write: takes the pieces.
    """

    def __init__(self, record: ClassRecord, write: Callable[[str], object]) -> None:
        head = json.dumps(to_json(replace(record, hand_ins=())), indent=1, **_JSON)
        before, self._after = head.rsplit("[]", 1)  # the list of hand-ins is the last value
        self._lab = record.lab
        self._write = write
        self._separator = "\n"
        write(before + "[")

    def take(self, hand_in: HandIn) -> None:
        """One more hand-in."""
        # Without indent, which only the slow encoder of the standard library knows.
        text = json.dumps(hand_in_to_plain(self._lab, hand_in), **_JSON)
        self._write(self._separator + text)
        self._separator = ",\n"

    def end(self) -> None:
        """There are no more."""
        self._write("\n]" + self._after + "\n")


def text_of(record: ClassRecord) -> str:
    """The whole JSON text."""
    pieces: list[str] = []
    text = ClassText(record, pieces.append)
    look(record.hand_ins, [text])
    text.end()
    return "".join(pieces)


def from_json(data: Mapping[str, Any]) -> ClassRecord:
    """The record again; ``lab.folder`` holds the folder's name only.

    Raises:
        ValueError: not a record of ours, another version, or damaged; says where and how to mend.
    """
    if not isinstance(data, Mapping):
        raise ValueError("class.json: holds no object; is it our file?")
    schema, version = data.get("schema"), data.get("version")
    if schema != SCHEMA:
        found = repr(schema)[:80]
        raise ValueError(f"class.json: schema is {found}, expected {SCHEMA!r}; is it our file?")
    if version != VERSION:
        found = repr(version)[:80]
        raise ValueError(
            f"class.json: version is {found}, expected {VERSION}; grade again with this release"
        )
    where = "the top level"
    try:
        cases = {f"{kind}_cases": data["cases"][kind] for kind in ("hidden", "public")}
        record = from_plain(ClassRecord, {**data, **cases, "hand_ins": ()})
        hand_ins = []
        for index, entry in enumerate(data["hand_ins"]):
            where = f"hand_ins[{index}]"
            hand_ins.append(hand_in_from_plain(entry))
        return replace(record, hand_ins=tuple(hand_ins))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        text = f"{type(error).__name__}: {error}"[:200]
        raise ValueError(f"class.json: damaged in {where} ({text}); grade again") from None


def lab_to_plain(lab: Lab) -> dict[str, Any]:
    """A lab as it stands in ``class.json``."""
    exercises = [{**to_plain(one), "points": one.points} for one in lab.exercises]
    return {**to_plain(lab), "points": lab.points, "exercises": exercises}


def hand_in_to_plain(lab: Lab, hand_in: HandIn) -> dict[str, Any]:
    """One hand-in as it stands in ``class.json``."""
    score = score_of(lab, hand_in)
    derived = {
        **to_plain(score),
        "undecided": score.undecided,
        "late_penalty": late_penalty_of(lab, hand_in),
        "final": final_of(lab, hand_in),
    }
    whole = {**to_plain(hand_in), "score": derived, "needs_human": needs_human(lab, hand_in)}
    whole.pop("cases")  # of plain pytest, which writes no class
    return whole


def hand_in_from_plain(data: Mapping[str, Any]) -> HandIn:
    """The inverse of :func:`hand_in_to_plain`.

    Raises:
        ValueError: it is damaged.
    """
    overrides = data.get("overrides", ()) if isinstance(data, Mapping) else ()
    if isinstance(overrides, list) and all(isinstance(one, dict) for one in overrides):
        # Older releases left the student out.
        data = {**data, "overrides": [{"student": data.get("student"), **one} for one in overrides]}
    return from_plain(HandIn, data)


# ``class.json`` read one hand-in at a time, so that a large class needs no large memory.

_BEGIN = '"hand_ins": ['  # where the hand-ins begin, at the end of a line: one follows per line


def opened(folder: Path) -> tuple[ClassRecord, Iterator[HandIn]]:
    """``FOLDER/class.json``: the class without its hand-ins, and those one after the other.

    Raises:
        ValueError: see :func:`read`.
    """
    record = read(folder)
    return replace(record, hand_ins=()), iter(record.hand_ins)


def read(folder: Path) -> ClassRecord:
    """``FOLDER/class.json``, whose hand-ins are read whenever one is looked at.

    A file that is formatted otherwise, by an older release, say, is read as a whole.

    Raises:
        ValueError: it is absent, damaged or not one of ours (names it and the mend); also while
            the hand-ins are read.
    """
    path = folder / "class.json"
    try:
        with path.open(encoding="utf-8") as stream:
            head = "".join(_head(stream, _BEGIN))
            first = next(stream, "").strip().removesuffix(",")
        if not head.rstrip().endswith(_BEGIN) or first == "{":
            return from_json(_parsed(path, path.read_text(encoding="utf-8")))
        hand_ins = StoredHandIns(path)
    except (OSError, UnicodeDecodeError) as error:
        text = error.strerror if isinstance(error, OSError) else f"damaged ({error})"
        raise ValueError(f"{path}: {text}; give the folder that grade has written") from None
    return replace(from_json(_parsed(path, head + "]}")), hand_ins=hand_ins)


class StoredHandIns(LazyHandIns):
    """The hand-ins of a ``class.json``, of which nothing but their places is kept.

    Raises:
        ValueError: the file ends too early, or a hand-in that is looked at is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = array("Q")
        with path.open("rb") as stream:
            place = sum(map(len, _head(stream, _BEGIN.encode())))
            for line in stream:
                if line.strip().startswith(b"]"):
                    return
                self._starts.append(place)
                place += len(line)
        raise ValueError(f"{path}: damaged, it ends within the hand-ins; grade again")

    def __len__(self) -> int:
        return len(self._starts)

    def _at(self, place: int) -> HandIn:
        with self._path.open("rb") as stream:
            stream.seek(self._starts[place])
            line = stream.readline()
        try:
            return hand_in_from_plain(json.loads(line.strip().removesuffix(b",")))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            told = f"{type(error).__name__}: {error}"[:200]
            raise ValueError(
                f"{self._path}: damaged in hand_ins[{place}] ({told}); grade again"
            ) from None


def _head(stream: IO[AnyStr], begin: AnyStr) -> Iterator[AnyStr]:
    """The lines up to where the hand-ins begin, or all of them."""
    for line in stream:
        yield line
        if line.rstrip().endswith(begin):
            return


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{path}: damaged ({error}); give a folder that grade has written"
        ) from None


# Whose class a ``class.json`` is, told without holding the whole class in memory.

_OPENS, _CLOSES = '"hand_ins": [', "]"


def whose(path: Path) -> tuple[str, set[str]]:
    """The lab's name, and the ids of the students who stand in the file.

    Raises:
        OSError, ValueError, LookupError, TypeError: it cannot be read, or is not one of ours.
    """
    try:
        return _by_lines(path)
    except ValueError:  # not in lines as we write it: an editor, or an older release, did that
        found = json.loads(path.read_text(encoding="utf-8"))
        return _lab(found), {_student(one) for one in found["hand_ins"]}


def _by_lines(path: Path) -> tuple[str, set[str]]:
    """Raises ValueError where a hand-in is not on a line of its own."""
    with path.open(encoding="utf-8") as file:
        head, students = "", set()
        for line in file:
            head += line
            if line.strip() == _OPENS:
                break
        for line in file:
            if line.strip() == _CLOSES:
                break
            students.add(_student(json.loads(line.rstrip().removesuffix(","))))
        return _lab(json.loads(f"{head}]{file.read()}")), students


def _lab(found: Any) -> str:
    return str(found["lab"]["name"])


def _student(hand_in: Any) -> str:
    return str(hand_in["student"])
