"""Feeds hand-ins to a judge process, yields their records, and mends what ends meanwhile.

A hand-in whose judge, or the whole judge process, is lost is tried once more, alone: so a second
loss tells whose it is, costs nobody else anything, and leaves that hand-in to a human.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.course.plain import from_plain, to_plain
from autograder.course.records import (
    CheckResult,
    HandIn,
    Isolation,
    Lab,
    Message,
    Outcome,
    Submission,
)
from autograder.grading.judge_process import EngineError, JudgeProcess, JudgeProcessLost, Options
from autograder.worker.jail import level

STARTS = 3  # of a judge process, before we give up
__all__ = ["Engine", "EngineError", "Options"]


def kept_name(student: str) -> str:
    """The file that holds what a hand-in answered."""
    return f"{student}.outputs"


def order_of(seed: bytes, student: str) -> str:
    """Say what decides in which order the cases are asked: nobody knows it without the secret."""
    return hashlib.sha256(seed + student.encode()).hexdigest()


def digests(files: Mapping[str, str]) -> dict[str, str]:
    """Hash of the text of every file, by its name."""
    return {
        name: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        for name, text in files.items()
    }


class Engine:
    """Grades hand-ins of one lab; a context manager that ends its judge process."""

    def __init__(self, lab: Lab, options: Options) -> None:
        self._lab = lab
        self._options = options
        self.processes: JudgeProcess | None = None
        self.counts: Mapping[str, int] = {}
        self._checks: list[str] = []
        self._shares = False
        self.workers = 1  # machines, as of a cluster
        self.isolation = Isolation("weak", (), "spawn" if options.spawn else "fork")

    def __enter__(self) -> Engine:
        self.processes = JudgeProcess(self._lab, self._options)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.processes is not None:
            self.processes.end(kill=kind is not None)

    def wait_ready(self) -> None:
        """Wait until judge and zygote stand; learn the cases and the isolation that binds.

        Raises:
            EngineError: one of them could not start.
        """
        self.counts, layers = self._ready()
        self.isolation = Isolation(level(layers), layers, self.isolation.worker)

    def grade(
        self,
        submissions: Iterator[Submission],
        checks: Sequence[str] | None = None,
        *,
        shares: bool = False,
    ) -> Iterator[HandIn]:
        """Grade hand-ins, at most ``jobs`` at a time; yield each record when it is done.

        Args:
            submissions: what was handed in.
            checks: names of the checks to run, those that they need among them; without it those
                of the options.
            shares: answer one hand-in as another where they have the same text to answer with;
                for known ones, whose code does nothing beyond that.

        Raises:
            EngineError: the judge process ended and could not be started again.
            OSError: what a hand-in answered could not be kept.
        """
        assert self.processes is not None
        self._checks = list(self._options.checks if checks is None else checks)
        self._shares = shares
        working: dict[str, Submission] = {}
        suspects: deque[Submission] = deque()  # lost once; each is tried again alone
        alone = False
        while True:
            if suspects:
                if not working:
                    alone = True
                    self._tell(working, suspects.popleft())
            else:
                while not alone and len(working) < self._options.jobs:
                    submission = next(submissions, None)
                    if submission is None:
                        break
                    self._tell(working, submission)
            if not working:
                return
            try:
                answer = self.processes.hear()
            except JudgeProcessLost as lost:
                why, gone = str(lost), list(working.values())
                self._start_again()
            else:
                submission = working.pop(answer["hand_in"])
                if "record" in answer:
                    alone = False
                    yield self._hand_in(submission, answer["record"])
                    continue
                if "unwritten" in answer:
                    raise OSError(*answer["unwritten"])
                gone = [submission]
                why = f"its judge ended with {answer.get('lost')}"
                if "no_worker" in answer:  # for none of them, then
                    why = answer["no_worker"]
                    gone += working.values()
                    self._start_again()
            for submission in gone:
                working.pop(submission.student, None)
                if alone:
                    yield ungraded(self._lab, submission, f"twice: {why}")
                else:
                    suspects.append(submission)
            alone = False

    def _start_again(self) -> None:
        """Replace a judge process that is lost; the new one has to isolate as the first did."""
        self._replace_processes()
        _, layers = self._ready()
        if layers != self.isolation.layers:
            raise EngineError(
                "after a restart other isolation layers bind "
                f"({', '.join(layers)}) than before ({', '.join(self.isolation.layers)})"
            )

    def _ready(self) -> tuple[Mapping[str, int], tuple[str, ...]]:
        """Wait for the judge process; one that somebody kills meanwhile is replaced a few times."""
        why = ""
        for _ in range(STARTS):
            assert self.processes is not None
            try:
                return self.processes.ready()
            except JudgeProcessLost as lost:
                why = str(lost)
                if lost.gave_up:
                    break  # it would again
            self._replace_processes()
        raise EngineError(f"the judge did not start: {why}")

    def _replace_processes(self) -> None:
        assert self.processes is not None
        self.processes.end(kill=True)
        self.processes = JudgeProcess(self._lab, self._options)

    def _tell(self, working: dict[str, Submission], submission: Submission) -> None:
        working[submission.student] = submission
        folder = self._options.shown_folder or self._lab.name
        name = kept_name(submission.student)
        assert self.processes is not None
        self.processes.tell(
            {
                "hand_in": submission.student,
                "files": dict(submission.files),
                "paths": {name: str(Path(folder, name)) for name in submission.files},
                "problems": to_plain(submission.problems),
                "order": order_of(self._options.order_seed, submission.student),
                "checks": self._checks,
                "replay": self._options.replay and not self._options.kept,
                "whole": self._options.whole,
                "prints": self._options.prints,
                "each_case": self._options.each_case,
                "keep": str(self._options.keep / name) if self._options.keep else None,
                "kept": str(self._options.kept / name) if self._options.kept else None,
                "shares": self._shares,
            }
        )

    def _hand_in(self, submission: Submission, record: Mapping[str, Any]) -> HandIn:
        try:
            found = from_plain(HandIn, {"student": submission.student, **record})
        except ValueError as error:  # our judge's, but made of what student code gave
            return ungraded(self._lab, submission, f"its record cannot be read: {error}")
        own = _record(submission, found.results, found.marks)
        return replace(own, findings=found.findings, cases=found.cases)


def ungraded(lab: Lab, submission: Submission, why: str) -> HandIn:
    """The record of a hand-in that could not be graded through a fault of ours."""
    message = Message("check.grader_fault", {"text": why})
    results = [CheckResult(c.name, Outcome.NOT_GRADED, message) for c in lab.checks]
    return _record(submission, tuple(results), [])


def _record(
    submission: Submission, results: tuple[CheckResult, ...], marks: Sequence[Message]
) -> HandIn:
    return HandIn(
        submission.student,
        results,
        submission.notes,
        tuple(marks),
        digests(submission.files),
        submission.origin,
    )
