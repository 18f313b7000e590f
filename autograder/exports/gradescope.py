"""Gradescope's ``results.json`` of one graded hand-in.

Read in gradescope/autograder_samples: docs/specs.md. Every test is ``visible``: one that is shown
only later would keep the total from students, and a check's text never tells more of a hidden case
than that it was one. What the autograder prints stays hidden.

A check that could not be graded has neither score nor status, and the total is that of the others;
where nothing could be graded there is no total, either. That is no zero: Gradescope then has no
score for this hand-in until the autograder is run again or a person enters one.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course.late import LateRules
from autograder.course.messages import render
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import ClassRecord, HandIn, Lab, Message, Origin, Student
from autograder.course.score import final_of, late_penalty_of, score_of
from autograder.exports.junit import CheckLine, check_lines, prints_of, title_of
from autograder.intake.names import moment, safe_id
from autograder.report import escape
from autograder.report.hints import recognised, wording
from autograder.report.view import family_name, label, student_view

_FORMATS = {
    "output_format": "text",
    "test_output_format": "text",
    "test_name_format": "text",
    "visibility": "visible",
    "stdout_visibility": "hidden",
}


def results(
    record: ClassRecord, hand_in: HandIn, language: str, seconds: float | None = None
) -> dict[str, Any]:
    """Return what ``results.json`` holds.

    Args:
        record: lab, isolation and counts of cases; its hand-ins do not matter.
        hand_in: the graded hand-in.
        language: ``en`` or ``zh``.
        seconds: of wall-clock time that grading took, where that is known.
    """
    score = score_of(record.lab, hand_in)
    told: dict[str, Any] = {"score": final_of(record.lab, hand_in)} if score.gradable else {}
    if seconds is not None:
        told["execution_time"] = round(seconds)
    lines = list(check_lines(record, hand_in, language))
    return {
        **told,
        "output": "\n".join(_output(record, hand_in, language)),
        **_FORMATS,
        "extra_data": {
            "lab": record.lab.name,
            "earned": score.earned,
            "late_penalty": late_penalty_of(record.lab, hand_in),
            "to_be_decided": score.undecided,
            "isolation": record.isolation.level,
        },
        "tests": [_test(line, language) for line in lines if line.state != "absent"],
    }


def not_graded(lab: Lab, language: str) -> dict[str, Any]:
    """Say what ``results.json`` holds where the grader itself has failed: texts, and no score."""
    word = render(Message("outcome.not_graded"), language)
    return {
        "output": render(Message("results.not_graded"), language),
        **_FORMATS,
        "extra_data": {"lab": lab.name, "to_be_decided": lab.points},
        "tests": [
            {
                "name": f"{exercise.id}: {check.title.in_(language).replace('`', '')}",
                "number": f"{place}.{number}",
                "max_score": check.points,
                "tags": [family_name(check.family, language)],
                "visibility": "visible",
                "output": word,
            }
            for place, exercise in enumerate(lab.exercises, 1)
            for number, check in enumerate(exercise.checks, 1)
            if not check.optional
        ],
    }


def text_of(document: dict[str, Any]) -> str:
    """The file's text: ASCII, so that no reader has to guess an encoding."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _test(line: CheckLine, language: str) -> dict[str, Any]:
    view = line.view
    told: dict[str, Any] = {
        "name": title_of(line),
        "number": line.number,
        "max_score": view.points,
        "tags": [view.family],
        "visibility": "visible",
    }
    if line.state != "open":
        told["score"] = view.earned
        told["status"] = "passed" if line.state == "passed" else "failed"
    if line.state != "passed" or view.decided:
        told["output"] = "\n\n".join(filter(None, (line.text, prints_of(line, language))))
    return told


def _output(record: ClassRecord, hand_in: HandIn, language: str) -> Iterator[str]:
    """Return what is said of the whole hand-in, as in the student's report."""
    view = student_view(record, hand_in, language, quote=escape.line)
    if view.about:
        yield " · ".join(view.about)
    if view.late:
        yield view.late
    if view.score.undecided:
        yield label("undecided_why", language)
        yield label("to_be_decided", language, points=view.score.undecided)
    yield from (one.said for one in view.broken)
    yield from view.decided
    yield from (said for one in view.exercises for said in one.decided)
    for heading, sentences in (
        ("marks_seen" if view.looked_at else "marks", view.marks),
        ("notes", view.notes),
    ):
        if sentences:
            yield ""
            yield label(heading, language)
            yield from (f"- {one}" for one in sentences)
    yield from _mistakes(record, hand_in, language)
    yield ""
    yield label("cases", language, public=record.public_cases, hidden=record.hidden_cases)
    isolation = record.isolation
    layers = ", ".join(isolation.layers) or label("no_layers", language)
    values = {"level": isolation.level, "layers": layers, "worker": isolation.worker}
    yield label("isolation", language, **values)


def _mistakes(record: ClassRecord, hand_in: HandIn, language: str) -> Iterator[str]:
    found = recognised(record.lab, hand_in, language, quote=escape.line)
    if found:
        yield ""
        yield wording("title", language)
    for finding in found:
        said = "".join(piece for piece, _ in finding.said)
        yield f"- {finding.exercises}: {said}".rstrip()
        for one in finding.mistakes:
            yield from (f"  {text}" for text in (one.sees, one.hint, one.section) if text)
        yield from (f"  {text}" for text in finding.known)


# ``submission_metadata.json``: whose hand-in Gradescope wants graded, and when it came.
#
# Read in gradescope/autograder_samples: docs/submission_metadata.md.


def read_metadata(path: Path) -> tuple[str, Origin]:
    """An id for the hand-in, and its origin; what the file does not tell stays empty.

    Never raises: a hand-in is graded even where nobody knows whose it is.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        told = None
    data = told if isinstance(told, dict) else {}
    users = data.get("users")
    students = tuple(
        Student(_text(one, "id") or _text(one, "email"), _text(one, "name"), _text(one, "email"))
        for one in (users if isinstance(users, list) else [])
        if isinstance(one, dict)
    )
    assignment = data.get("assignment")
    due = _text(assignment, "due_date") if isinstance(assignment, dict) else ""
    earlier = data.get("previous_submissions")
    submitted_at = _text(data, "created_at")
    origin = Origin(
        name=f"submission_{_text(data, 'id')}" if _text(data, "id") else "submission",
        students=students,
        submitted_at=submitted_at if moment(submitted_at) else "",
        late=_late(submitted_at, due),
        attempt=1 + (len(earlier) if isinstance(earlier, list) else 0),
    )
    names = [one.name or one.email or one.id for one in students]
    return safe_id(", ".join(names) or origin.name), origin


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _late(submitted_at: str, due: str) -> bool | None:
    """By Gradescope's own due date; None where either time is not known."""
    at, by = moment(submitted_at), moment(due)
    if at is None or by is None or (at.utcoffset() is None) != (by.utcoffset() is None):
        return None
    return at > by


# What an autograder zip was made for: ``settings.json`` beside the code.

SETTINGS = "settings.json"


@dataclass(frozen=True)
class Settings:
    """Lab (name of its folder), language of results, least level of isolation, late hand-ins."""

    lab: str
    language: str
    least: str
    rules: LateRules | None = None


def settings_text(settings: Settings) -> str:
    """The file's text."""
    return json.dumps(to_plain(settings), indent=1) + "\n"


def read_settings(path: Path) -> Settings:
    """The settings of this copy.

    Raises:
        ValueError: absent or damaged; the text names the file and the mend.
    """
    try:
        return from_plain(Settings, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}; export the autograder again") from None


# The autograder zip for Gradescope: ``setup.sh``, ``run_autograder`` and a copy of what grades.
#
# Layout (gradescope/autograder_samples: docs/specs.md): both scripts at the root; everything lands
# in ``/autograder/source``. Beside them ``qwen3-labs/`` (the code, one lab, the recipes of its
# hidden cases), ``secret``, ``settings.json``, and ``not_graded.json`` for when not even Python
# starts. Equal sources, settings and secret give equal bytes.

CODE = "qwen3-labs"
SCRIPTS = Path(__file__).parent / "gradescope_scripts"
RUNNABLE = ("setup.sh", "run_autograder")
_INSTALLED = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE")
_CODE = (".py", ".toml", ".j2")
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold


def contents(root: Path, lab: Lab, settings: Settings, secret: bytes) -> dict[str, bytes]:
    """Every file of the zip by its path, in order.

    Args:
        root: the checkout.
        lab: the lab that is graded.
        settings: how.
        secret: what hidden cases are drawn from.
    """
    files = {name: (SCRIPTS / name).read_bytes() for name in RUNNABLE}
    files["secret"] = secret + b"\n"
    files[SETTINGS] = settings_text(settings).encode()
    ours = text_of(not_graded(lab, settings.language))
    files["not_graded.json"] = ours.encode()
    for path in sources(root, lab, hidden=True):
        files[f"{CODE}/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    return dict(sorted(files.items()))


def packed(files: dict[str, bytes]) -> bytes:
    """The zip; the scripts are executable in it, and the secret is its owner's."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, blob in files.items():
            entry = zipfile.ZipInfo(path, _TIME)
            mode = 0o755 if path in RUNNABLE else 0o600 if path == "secret" else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3  # Unix, whatever machine writes it
            archive.writestr(entry, blob, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def sources(root: Path, lab: Lab, *, hidden: bool) -> Iterator[Path]:
    """The autograder without what authors do, the lab, and what its hidden cases are made of."""
    yield from (root / name for name in _INSTALLED)
    for path in _files(root / "autograder"):
        inside = path.relative_to(root / "autograder").parts[0]
        if path.suffix in _CODE and inside != "authoring":
            yield path
    yield root / "labs" / "__init__.py"
    yield from _files(root / "labs" / "given")
    yield from _files(lab.folder)
    if hidden:
        solutions = root / "solutions" / lab.name
        yield from _files(solutions / "cases")
        yield from _files(root / "solutions" / "reference")
        yield from sorted(solutions.glob("*.bank"))


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder but hidden ones and what Python leaves behind."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in parts):
            yield path
