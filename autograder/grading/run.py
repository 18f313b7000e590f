"""A class on its way from hand-ins to files: graded, kept, written, and said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autograder import intake
from autograder.course.late import LateRules
from autograder.course.records import (
    ClassRecord,
    HandIn,
    Isolation,
    Lab,
    Message,
    Override,
    Student,
    Submission,
)
from autograder.course.score import score_of
from autograder.grading import hidden_cases, journal, late, output_folder, overrides, shards
from autograder.grading.engine import Engine, kept_name
from autograder.grading.judge_process import EngineError, Options, versions
from autograder.grading.options import GradeRequest
from autograder.grading.review_list import NotEnrolled, ReviewList, ScoreRules, marked
from autograder.grading.shards import OUTPUTS, Part, Participant, Shard
from autograder.intake.people import Directory, Enrolment
from autograder.intake.tree import Entry
from autograder.report import write
from autograder.report.class_summary import Summary
from autograder.report.escape import line
from autograder.report.table import ClassTable
from autograder.report.terminal import say
from autograder.sandbox.recording import hand_in_of

if TYPE_CHECKING:
    from autograder.grading.cluster import Cluster


# The end of a grading: one look through the records writes the class's files and says the rest.


@dataclass(frozen=True)
class ClassEnd:
    """The end of a grading: writes the class's files, and says what is open.

    Args:
        out: where to.
        language: ``en`` or ``zh``.
        enrolment: the roster, or an empty one.
        decided: all overrides.
        remarks: what intake has said about the source.
        reports: whether every student's reports are still to be written.
        elsewhere: who has handed in, but is graded in another shard.
    """

    out: Path
    language: str
    enrolment: Enrolment
    decided: Sequence[Override]
    remarks: Sequence[Message]
    reports: bool
    elsewhere: Sequence[Student] = ()

    def write(self, record: ClassRecord, *, whole: bool = True) -> int:
        """Write the class's files; of a ``whole`` class say what a human has to look at.

        Returns:
            0, or 1 when somebody has to look.
        """
        out, language = self.out, self.language
        overview, table = write.Overview(record.lab), ClassTable(record.lab, language)
        known = (*record.missing, *self.elsewhere)
        human = ReviewList(record.lab, self.decided, record.late_rules, known)
        strangers = NotEnrolled(self.enrolment)
        also: list[Summary] = [overview, table, human, strangers]
        if self.reports:
            also.append(write.Reports(record, out, language))
        files = [path.name for path in write.class_files(record, out, also)]
        told = overview.write(record, out, language)
        if not whole:
            return 0
        print(table.text(record.isolation, record.missing), *told, sep="\n")
        say(language, "written", out=out, files=", ".join((*files, *write.OVERVIEW)))
        isolation = record.isolation
        say(language, "isolation", level=isolation.level, layers=", ".join(isolation.layers))
        if strangers.students:
            say(language, "not_on_roster", students=output_folder.named(strangers.students))
        return human.said(language, self.remarks)


LEVELS = ("weak", "medium", "strong")


class ClassRun:
    """One class on its way from submissions to files."""

    def __init__(
        self,
        request: GradeRequest,
        lab: Lab,
        entries: Sequence[Entry],
        enrolment: Enrolment,
        missing: tuple[Student, ...],
        remarks: tuple[Message, ...],
        before: ClassRecord | None,
        listed: Sequence[Entry] = (),
        rules: LateRules | None = None,
        everybody: Directory | None = None,
    ) -> None:
        """Read what may be wrong with the command line before anything is graded.

        Args:
            entries: what to grade.
            enrolment: the roster, or an empty one.
            missing: who is on the roster and handed in nothing.
            remarks: what intake has said about the source.
            before: the class that ``--only`` adds to.
            listed: every attempt of the whole class, of which a shard grades some.
            rules: about late hand-ins; None where the course has none.
            everybody: the class, as overrides may name them.

        Raises:
            OverrideError: the file of overrides cannot be used.
            IdentityError: a name in it fits several.
        """
        self._request = request
        self._lab = lab
        self._entries = entries
        self._count = len(entries)
        self._enrolment = enrolment
        self._remarks = remarks
        everybody = everybody or Directory(listed, missing)
        self._overrides = overrides.given(request.overrides, request.out, lab, everybody)
        self._record = ClassRecord(
            lab, Isolation("weak", (), "fork"), versions(), (), missing=missing, late_rules=rules
        )
        self._before = before
        self._listed = listed
        self._done: set[str] = set()
        self._book: journal.Journal | None = None
        self._no_weights = Message("check.no_weights")  # or why they could not be used
        self._counted = ScoreRules(
            lab, enrolment, self._overrides, request.attempt, lambda _: self._no_weights, rules
        )
        # Who is not graded again has the decisions of today all the same; reports that were
        # written before are then written anew.
        olds = before.hand_ins if before else ()
        self._kept = {old.student: self._counted.decided_now(old) for old in olds}
        self._again = any(self._kept[old.student] != old for old in olds)

    def run(self) -> int:
        """Grade all, write what is there whatever happens meanwhile; the exit status."""
        request, language = self._request, self._request.language
        try:
            status = self._grade()
        except EngineError as error:
            number, count = len(self._done), self._count
            say(
                language,
                "cannot_go_on" if number else "cannot_start",
                text=error,
                number=number,
                count=count,
            )
            status = 2
        except KeyboardInterrupt:
            say(language, "interrupted", number=len(self._done), count=self._count, out=request.out)
            status = 130
        except BrokenPipeError:  # nobody reads what is said: no fault of the disk
            raise
        except OSError as error:
            say(language, "disk", out=request.out, text=error.strerror, number=len(self._done))
            return 2
        empty = request.shard and not status  # a shard may be of nobody
        if status == 3 or not (self._done or empty):
            return status
        try:
            return self._finish(status)
        except BrokenPipeError:
            raise
        except OSError as error:
            say(language, "disk", out=request.out, text=error.strerror, number=len(self._done))
            return 2

    def _grade(self) -> int:
        request, lab = self._request, self._lab
        late.keep(request.out, self._record.late_rules)
        key = hidden_cases.find(
            request.secret_file, request.out, again=request.resume or self._before is not None
        )
        hidden = hidden_cases.hidden_cases(lab.name, request.out, key)
        real = None
        if request.weights:
            try:
                real = hidden_cases.real_weights(lab.name, request.out, request.weights)
            except hidden_cases.PrepareError as error:  # those checks stay ungraded, others count
                self._no_weights = Message("check.weights_unusable", {"text": str(error)})
                say(request.language, "no_weights", text=error)
        options = Options(
            hidden_cases=hidden,
            real=real,
            jobs=max(1, min(request.jobs, self._count)),
            order_seed=key,
            keep=(request.out / OUTPUTS).resolve() if request.keep_outputs else None,
        )
        with self._engine(options) as engine:
            engine.wait_ready()
            if LEVELS.index(engine.isolation.level) < LEVELS.index(request.least):
                say(request.language, "too_weak", level=engine.isolation.level, least=request.least)
                return 3
            if request.dask:
                level, workers = engine.isolation.level, engine.workers
                say(request.language, "cluster", workers=workers, level=level)
            self._record = replace(
                self._record,
                isolation=self._weaker(engine.isolation),
                hidden_cases=engine.counts["hidden"],
                public_cases=engine.counts["public"],
            )
            asked = [hidden, *([real.cases] if real else [])]
            isolation = engine.isolation
            releases = versions() | {"layers": ",".join(isolation.layers)}
            releases |= {"worker": isolation.worker}  # only a forked one has a CPU clock
            state = journal.context(lab, asked, releases)
            self._book = book = journal.Journal(request.out / journal.FOLDER, lab, state)
            open_ones: dict[str, Submission] = {}
            for hand_in in engine.grade(self._not_known(book, open_ones)):
                hand_in = marked(hand_in)
                book.keep(open_ones.pop(hand_in.student), hand_in)
                self._take(hand_in)
            # A worker that joined meanwhile may isolate less; no report may promise more.
            self._again |= self._weaker(engine.isolation) != self._record.isolation
            self._record = replace(self._record, isolation=self._weaker(engine.isolation))
        return 0

    def _engine(self, options: Options) -> Engine | Cluster:
        """This machine, or a cluster."""
        if self._request.dask is None:
            return Engine(self._lab, options)
        from autograder.grading.cluster import Cluster  # its package is an extra

        return Cluster(
            self._request.dask, self._lab, options, self._request.least, len(self._entries)
        )

    def _not_known(
        self,
        book: journal.Journal,
        open_ones: dict[str, Submission],
    ) -> Iterator[Submission]:
        """Those that have to be graded; with ``--resume`` the others are taken from the book."""
        with intake.fenced() as read:
            for entry in self._entries:
                submission = read(entry, self._lab)
                known = book.known(submission) if self._request.resume else None
                kept = not self._request.keep_outputs or self._kept_of(submission)
                if known is not None and kept:
                    self._take(known)
                    continue
                open_ones[submission.student] = submission
                yield submission

    def _kept_of(self, submission: Submission) -> bool:
        """Return whether outputs of these very files are kept."""
        try:
            told = hand_in_of(self._request.out / OUTPUTS / kept_name(submission.student))
        except (OSError, ValueError):
            return False
        return told.get("files") == dict(submission.files)

    def _take(self, hand_in: HandIn) -> None:
        """One more is done: its reports are written at once."""
        hand_in = self._counted.shown(hand_in)
        self._done.add(hand_in.student)
        if self._request.attempt == "last":  # otherwise it may not be the one that counts
            write.student_reports(self._record, hand_in, self._request.out, self._request.language)
        score = score_of(self._lab, hand_in)
        say(
            self._request.language,
            "progress_undecided" if score.undecided else "progress",
            number=len(self._done),
            count=self._count,
            student=line(hand_in.student),
            earned=score.earned,
            undecided=score.undecided,
            total=score.total,
        )

    def _weaker(self, isolation: Isolation) -> Isolation:
        """That of the record which ``--only`` adds to, where it was weaker."""
        old = self._before.isolation if self._before else isolation
        return old if LEVELS.index(old.level) < LEVELS.index(isolation.level) else isolation

    def _finish(self, status: int) -> int:
        """Write the class's files, say what a human has to look at."""
        request, language = self._request, self._request.language
        if status and output_folder.students(request.out) - self._done - set(self._kept):
            return status  # what stands there is whole, and of more than this run has done
        assert self._book is not None
        hand_ins = self._counted.of_class(self._book, self._done, self._kept)
        record = replace(self._record, hand_ins=hand_ins)
        # With the best attempt, before the end another one may count.
        reports = self._again or (request.attempt == "best" and not status)
        end = ClassEnd(
            request.out,
            language,
            self._enrolment,
            self._overrides,
            self._remarks,
            reports=reports,
            elsewhere=self._elsewhere() if request.shard else (),
        )
        written = end.write(record, whole=not status)
        if request.shard and not status:
            self._write_part(request.shard)
        return status or written

    def _elsewhere(self) -> list[Student]:
        """Everybody who has handed in, whatever shard they are in."""
        return [one for e in self._listed for one in (*e.origin.students, Student(e.student))]

    def _write_part(self, shard: Shard) -> None:
        """Say what this part is, for ``merge``."""
        record, lab = self._record, self._lab
        own = shard.own(self._listed)
        part = Part(
            shard,
            lab.name,
            shards.digest_of_lab(lab),
            journal.context(lab, (), {}).hex(),
            hidden_cases.remembered(self._request.out),
            shards.digest_of_source(self._listed),
            self._request.attempt,
            record.versions,
            record.isolation,
            record.hidden_cases,
            record.public_cases,
            tuple(sorted(self._done)),
            tuple(Participant(entry.student, entry.origin) for entry in own),
            self._remarks,
            self._no_weights,
            record.late_rules,
        )
        shards.write(self._request.out, part)
