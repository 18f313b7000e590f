"""Files of a hand-in that could not be used at all, which is told apart from wrong answers."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.course.records import CheckResult, HandIn, Lab, Message, Outcome
from autograder.course.score import decided_checks

# What ails a file, and not one exercise of it.
_OF_A_FILE = (
    "check.syntax",
    "check.import",
    "check.import_line",
    "check.file_lost",
    "check.missing",
    "check.missing_near",
    "check.wrong_lab",
    "check.empty_file",
)
_IMPORT = "import"  # the case of importing a file, see `autograder.judge.outcomes`


@dataclass(frozen=True)
class BrokenFile:
    """A file that could not be used: the first result that says so, and the checks it costs.

    ``files`` are the lab's files that it concerns, ``points`` those that cannot be earned before it
    is mended. ``open`` is True where nothing of it was graded, so that a person decides.
    """

    result: CheckResult
    files: tuple[str, ...]
    checks: tuple[str, ...]
    points: int
    open: bool

    @property
    def message(self) -> Message:
        """The sentence on it."""
        return self.result.message or Message("report.no_result")


def of_a_file(result: CheckResult) -> bool:
    """Return whether a check did not pass for what ails its file."""
    message = result.message
    if message is None or result.hidden or result.outcome is Outcome.PASSED:
        return False
    ours = result.outcome is Outcome.NOT_STARTED  # a TODO that runs while the file is imported
    known = message.key in _OF_A_FILE or message.key.startswith("intake.")
    return known or (result.case == _IMPORT and not ours)


def broken_files(lab: Lab, hand_in: HandIn) -> tuple[BrokenFile, ...]:
    """Return what ails files of a hand-in, what costs most first.

    What was skipped since it builds on such checks depends on the file, too; where a person has
    decided the points of a check, it depends on nothing any more.
    """
    results = {result.check: result for result in hand_in.results}
    if not any(map(of_a_file, hand_in.results)):
        return ()
    decided = decided_checks(lab, hand_in)
    first: dict[object, CheckResult] = {}
    depends: dict[str, object] = {}  # check: what it depends on
    for check in lab.checks:
        result = results.get(check.name)
        if result is None or check.name in decided:
            continue
        if of_a_file(result):
            depends[check.name] = _cause(result)
            first.setdefault(depends[check.name], result)
        elif result.outcome is Outcome.SKIPPED:
            missed = [need for need in check.needs if not _passed(results.get(need))]
            if missed and all(need in depends for need in missed):
                depends[check.name] = depends[missed[0]]
    points = {check.name: check.points for check in lab.checks}
    file_of = {check.name: one.file for one in lab.exercises for check in one.checks}
    found = []
    for cause, result in first.items():
        checks = tuple(name for name, one in depends.items() if one == cause)
        ailing = (name for name in checks if of_a_file(results[name]))
        files = tuple(dict.fromkeys(file_of[name] for name in ailing))
        lost = sum(points[name] for name in checks)
        found.append(BrokenFile(result, files, checks, lost, result.outcome is Outcome.NOT_GRADED))
    return tuple(sorted(found, key=lambda one: -one.points))


def _passed(result: CheckResult | None) -> bool:
    return result is not None and result.outcome is Outcome.PASSED


def _cause(result: CheckResult) -> object:
    """Return what results have in common that one fault made, in whichever files it shows."""
    message = result.message
    if message is not None and result.frames and message.key.startswith("check.import"):
        return result.frames[-1], str(message.values.get("type")), str(message.values.get("text"))
    return None if message is None else (message.key, str(message.values))
