"""Outcomes of code that raised, ended or hung: one outcome and one sentence for the student."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from autograder.course.labfile import GRADER
from autograder.course.records import CheckResult, Lab, Message, Outcome, Text
from autograder.reference.cases import Case
from autograder.sandbox.links import MAX_PRINTS, MAX_TEXT, StudentError, WorkerLost
from autograder.sandbox.ranks import MOST_COLLECTIVES, OutOfStep, RankLost

# What a student reads when the ranks of a hand-in do not find together.


def out_of_step(error: OutOfStep, case: Case) -> Message:
    """Ranks returned while others wait, or they wait in different calls."""
    if error.gone:
        call = next(iter(error.waiting.values())).partition(" ")[0]
        values = {"gone": _ranks(error.gone), "call": call, "waiting": _ranks([*error.waiting])}
        return Message("check.rank_left", values | {"case": case.words})
    by_call: dict[str, list[int]] = {}
    for rank, call in error.waiting.items():
        by_call.setdefault(call, []).append(rank)
    (call, first), (other_call, others), *_ = by_call.items()
    values = {"first": _ranks(first), "others": _ranks(others)}
    calls = {"call": call, "other_call": other_call, "case": case.words}
    return Message("check.ranks_differ", values | calls)


def lost_ranks(error: RankLost, case: Case, ending: Mapping[str, str]) -> CheckResult:
    """The worker of a rank died, or was stopped."""
    values = {"rank": error.rank, "world": error.world, "case": case.words}
    if error.timed_out:
        clock = {"en": error.clock, "zh": "CPU" if error.clock == "CPU" else "实际"}
        told = values | {"seconds": float(str(error)), "clock": clock}
        if not error.waiting:
            message = Message("check.rank_timed_out", told)
        else:
            message = Message("check.rank_timed_out_alone", told | _who_waits(error.waiting))
        return CheckResult("", Outcome.TIMED_OUT, message, case=case.name)
    told = values | {"text": dict(ending)}
    if not error.waiting:
        message = Message("check.rank_crashed", told)
    else:
        message = Message("check.rank_crashed_alone", told | _who_waits(error.waiting))
    return CheckResult("", Outcome.CRASHED, message, case=case.name)


def _who_waits(waiting: Mapping[int, str]) -> dict[str, object]:
    call = next(iter(waiting.values())).partition(" ")[0]
    return {"waiting": _ranks([*waiting]), "call": call}


def _ranks(ranks: Sequence[int]) -> dict[str, str]:
    """Ranks by number, in words."""
    *most, last = map(str, ranks)
    if not most:
        return {"en": f"rank {last}", "zh": f"rank {last}"}
    return {"en": f"ranks {', '.join(most)} and {last}", "zh": f"rank {'、'.join([*most, last])}"}


IMPORT = Case("import", "", False, Text("import", "导入"), {})  # the case of importing a file
# How Python says that a module lacks a name. Students can raise the same words with a name of
# their choice, so nothing is taken from them but identifiers.
_DEFINITION = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w{1,80})", re.M)
_MOST_NAMES = 200  # of a file, compared with one that is missing
_ABSENT = re.compile(r"AttributeError: module '(\w+)' has no attribute '(\w+)'$")


def raised(
    error: StudentError, case: Case, *, file: str, exercise: str, given: Sequence[str]
) -> CheckResult:
    """Student code raised.

    Args:
        error: what came back.
        case: the case it was called with, or :data:`IMPORT`.
        file: the file of the exercise.
        exercise: id of the exercise that is checked; the TODO that was reached may be of another.
        given: modules that the lab allows beside torch and the standard library.
    """
    if error.todo and error.todo != exercise and case is not IMPORT:
        message = Message("check.todo_elsewhere", {"todo": error.todo, "exercise": exercise})
        return CheckResult("", Outcome.SKIPPED, message, case=case.name, frames=error.frames)
    if error.todo:
        return CheckResult(
            "", Outcome.NOT_STARTED, Message("check.not_started", {"todo": error.todo})
        )
    message = _sentence(error, case, file, given)
    return CheckResult("", Outcome.FAILED, message, case=case.name, frames=error.frames)


def _sentence(error: StudentError, case: Case, file: str, given: Sequence[str]) -> Message:
    # What reaches us at its full length was cut off on its way.
    text = error.text if len(error.text) < MAX_TEXT else error.text[:-1] + "…"
    words: dict[str, Any] = {"case": case.words, "text": text, "type": error.type}
    if isinstance(error, OutOfStep):
        return out_of_step(error, case)
    absent = _ABSENT.match(f"{error.type}: {error.text}")
    last = error.frames[-1] if error.frames else None
    if error.stage == "syntax":
        where = {"file": last.file if last else file, "line": last.line if last else 0}
        return Message("check.syntax", words | where)
    if error.type in ("SystemExit", "KeyboardInterrupt"):
        return Message("check.exit", {"text": f"{error.type} {error.text}".strip()})
    if error.type == "BdbQuit":
        return Message("check.breakpoint")
    if error.stage == "weights":
        if error.shapes:
            name, got, want = error.shapes[0]
            values = {"name": name, "got": got, "want": want, "case": case.words}
            sizes = [sorted(re.findall(r"\d+", shape)) for shape in (got, want)]
            key = "weights_order" if sizes[0] == sizes[1] else "weights_shape"
            return Message(f"check.{key}", values)
        if not error.lacking and not error.extra:
            return Message("check.exception", words)
        if error.plain:
            plain = ", ".join(error.plain)
            return Message("check.weights_plain", {"lacking": plain, "case": case.words})
        lists = {"lacking": ", ".join(error.lacking), "extra": ", ".join(error.extra)}
        values = {name: listed for name, listed in lists.items() if listed}
        return Message(f"check.weights{_kind(error)}", values | {"case": case.words})
    if absent and not last:
        return Message("check.missing", {"file": f"{absent[1]}.py", "name": absent[2]})
    if error.type == "ModuleNotFoundError" or (
        error.type == "PermissionError" and "site-packages" in error.text
    ):
        if not given:
            return Message("check.nothing_given", words)
        listed = {"en": ", ".join(given), "zh": "、".join(given)}
        return Message("check.not_importable", words | {"given": listed})
    if case is IMPORT and last is not None:
        here = last.file.rpartition("/")[2] == file  # it may be shown with its folder
        where = {
            "en": f"line {last.line}" if here else f"{last.file}, line {last.line}",
            "zh": f"第 {last.line} 行" if here else f"{last.file} 第 {last.line} 行",
        }
        return Message("check.import_line", words | {"file": file, "where": where})
    if case is IMPORT:
        return Message("check.import", words | {"file": file})
    return Message("check.exception" if error.text else "check.exception_alone", words)


def _kind(error: StudentError) -> str:
    """Return which sentence parameters of other names get."""
    if error.lacking and error.extra:
        return ""
    if error.lacking:
        return "_lacking"
    return "_bias" if all(name.endswith("bias") for name in error.extra) else "_extra"


def lost(error: WorkerLost, case: Case) -> CheckResult:
    """The worker died or was stopped while it ran student code."""
    if error.timed_out and error.clock == "whole":
        message = Message("check.hand_in_timed_out", {"seconds": float(str(error))})
        return CheckResult("", Outcome.TIMED_OUT, message, case=case.name)
    if isinstance(error, RankLost):
        return lost_ranks(error, case, ending(error))
    if error.timed_out:
        clock = {"en": error.clock, "zh": "CPU" if error.clock == "CPU" else "实际"}
        values = {"seconds": float(str(error)), "clock": clock, "case": case.words}
        message = Message("check.timed_out", values)
        return CheckResult("", Outcome.TIMED_OUT, message, case=case.name, frames=error.frames)
    message = Message("check.crashed", {"text": ending(error), "case": case.words})
    return CheckResult("", Outcome.CRASHED, message, case=case.name)


def ending(error: WorkerLost) -> dict[str, str]:
    """Return how a worker ended, in both languages."""
    text = str(error)
    for english, chinese in _ENDINGS:
        if text.startswith(english):
            return {"en": text, "zh": chinese + text.removeprefix(english)}
    # Whatever is left are lies on the wire: not our protocol.
    return {"en": text, "zh": "它的回复不符合约定的格式"}


_ENDINGS = (
    ("signal ", "信号 "),
    ("exit status ", "退出状态 "),
    ("it closed its channel", "它关闭了通信通道"),
    (f"more than {MAX_PRINTS >> 20} MiB were printed", f"打印超过 {MAX_PRINTS >> 20} MiB"),
    (f"more than {MOST_COLLECTIVES} collectives", f"集合通信超过 {MOST_COLLECTIVES} 次"),
)


def of_files(
    lab: Lab, files: Mapping[str, str], results: Sequence[CheckResult]
) -> tuple[CheckResult, ...]:
    """The results, where a name is missing or a file cannot be imported, with what ails the file.

    It may be empty, that of another lab, or define something under nearly the right name. This is
    read from the text: nothing that ran is asked.
    """
    return tuple(_of_file(lab, files, result) for result in results)


def _of_file(lab: Lab, files: Mapping[str, str], result: CheckResult) -> CheckResult:
    message = result.message
    missing = message is not None and message.key == "check.missing"
    ailing = missing or (result.case == IMPORT.name and result.outcome is Outcome.FAILED)
    if message is None or not ailing or message.key == "check.syntax":
        return result
    file = str(message.values.get("file", ""))
    if not file:  # what was imported has no name here, but it is the file of the check
        file = next(e.file for e in lab.exercises if any(c.name == result.check for c in e.checks))
    text = files.get(file)
    if text is None:
        return result
    name = str(message.values.get("name", ""))
    if missing and not re.search(r"^[ \t]*[^#\s]", text, re.M):
        return replace(result, message=Message("check.empty_file", {"file": file}))
    own, asked = _defined(text), _defined_in(lab.folder / file)
    other = _other_lab(lab, file, own, asked)
    if other:
        return replace(result, message=Message("check.wrong_lab", {"file": file, "lab": other}))
    near = get_close_matches(name, sorted(own - asked)[:_MOST_NAMES], 1) if missing else []
    if near:
        values = {"file": file, "name": name, "found": near[0]}
        return replace(result, message=Message("check.missing_near", values))
    return result


def _other_lab(lab: Lab, file: str, own: set[str], asked: set[str]) -> str:
    """The lab whose file this is, by the names that it defines; empty for this one or none."""
    best, most = "", max(0.5, _share(own, asked))
    for path in sorted(lab.folder.parent.glob(f"*/{file}")):
        share = _share(own, _defined_in(path))
        if share > most:
            best, most = path.parent.name, share
    return best


def _share(own: set[str], asked: set[str]) -> float:
    return len(own & asked) / max(1, len(asked))


def _defined_in(path: Path) -> set[str]:
    """The names that a stub defines."""
    return _defined(path.read_text(encoding="utf-8")) if path.is_file() else set()


def _defined(text: str) -> set[str]:
    return set(_DEFINITION.findall(text))


def fault(error: Exception) -> CheckResult:
    """Whatever else goes wrong is ours: not graded, never a zero."""
    values = {"text": f"{type(error).__name__}: {error}"[:300]}
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/checks/" in Path(frame.filename).as_posix()]
    own = [frame for frame in own if not Path(frame.filename).is_relative_to(GRADER)]
    for frame in (own or frames)[-1:]:  # of the lab's check, if it is one
        name = Path(frame.filename).name
        values["place"] = f"{type(error).__name__} in {name}:{frame.lineno}"
    return CheckResult("", Outcome.NOT_GRADED, Message("check.grader_fault", values))


def without_data(result: CheckResult) -> CheckResult:
    """A hidden case decided: keep the outcome, see :class:`CheckResult`."""
    return result if result.outcome is Outcome.PASSED else replace(result, hidden=True)
