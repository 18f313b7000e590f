"""A class on its way from hand-ins to files: graded, kept, written, and said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder import intake
from autograder.cli.human import for_a_human, marked
from autograder.cli.say import say
from autograder.course.records import (
    CheckResult,
    ClassRecord,
    HandIn,
    Isolation,
    Lab,
    Message,
    Student,
    Submission,
)
from autograder.course.score import score_of
from autograder.grading import journal, outfolder, overrides, prepare, secret
from autograder.grading.engine import Engine, EngineError, Options, kept_name
from autograder.grading.versions import versions
from autograder.intake import attempts
from autograder.intake.enrolment import Enrolment
from autograder.intake.entry import Entry
from autograder.report import write
from autograder.report.escape import line
from autograder.report.table import class_table
from autograder.sandbox.kept import hand_in_of

LEVELS = ("weak", "medium", "strong")
OUTPUTS = ".outputs"


@dataclass(frozen=True)
class Wanted:
    """The command line of ``grade``; see ``python -m autograder grade --help``."""

    submissions: Path
    lab: str
    out: Path
    language: str
    secret_file: Path | None = None
    jobs: int = 1
    weights: str | None = None
    least: str = "strong"
    resume: bool = False
    only: tuple[str, ...] = ()
    keep_outputs: bool = False
    overrides: Path | None = None
    pattern: str | None = None
    attempt: str = "last"  # or "best"
    roster: Path | None = None


class ClassRun:
    """One class on its way from submissions to files."""

    def __init__(
        self,
        wanted: Wanted,
        lab: Lab,
        entries: Sequence[Entry],
        enrolment: Enrolment,
        missing: tuple[Student, ...],
        remarks: tuple[Message, ...],
        before: ClassRecord | None,
    ) -> None:
        """Read what may be wrong with the command line before anything is graded.

        Args:
            entries: what to grade.
            enrolment: the roster, or an empty one.
            missing: who is on the roster and handed in nothing.
            remarks: what intake has said about the source.
            before: the class that ``--only`` adds to.

        Raises:
            OverrideError: the file of overrides cannot be used.
        """
        self._wanted = wanted
        self._lab = lab
        self._entries = entries
        self._count = len(entries)
        self._enrolment = enrolment
        self._remarks = remarks
        path = wanted.overrides or wanted.out / overrides.NAME
        if wanted.overrides is not None and not path.exists():
            raise overrides.OverrideError(f"{path}: there is no such file")
        self._overrides = overrides.read(path, lab)
        self._record = ClassRecord(
            lab, Isolation("weak", (), "fork"), versions(), (), missing=missing
        )
        self._kept = {h.student: h for h in before.hand_ins} if before else {}
        self._before = before
        self._done: set[str] = set()
        self._book: journal.Journal | None = None
        self._no_weights = Message("check.no_weights")  # or why they could not be used

    def run(self) -> int:
        """Grade all, write what is there whatever happens meanwhile; the exit status."""
        wanted, language = self._wanted, self._wanted.language
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
            say(language, "interrupted", number=len(self._done), count=self._count, out=wanted.out)
            status = 130
        except BrokenPipeError:  # nobody reads what is said: no fault of the disk
            raise
        except OSError as error:
            say(language, "disk", out=wanted.out, text=error.strerror, number=len(self._done))
            return 2
        if not self._done or status == 3:
            return status
        try:
            return self._finish(status)
        except BrokenPipeError:
            raise
        except OSError as error:
            say(language, "disk", out=wanted.out, text=error.strerror, number=len(self._done))
            return 2

    def _grade(self) -> int:
        wanted, lab = self._wanted, self._lab
        key = secret.find(
            wanted.secret_file, wanted.out, again=wanted.resume or self._before is not None
        )
        hidden = prepare.hidden_cases(lab.name, wanted.out, key)
        real = None
        if wanted.weights:
            try:
                real = prepare.real_weights(lab.name, wanted.out, wanted.weights)
            except prepare.PrepareError as error:  # those checks stay ungraded, others count
                self._no_weights = Message("check.weights_unusable", {"text": str(error)})
                say(wanted.language, "no_weights", text=error)
        options = Options(
            hidden_cases=hidden,
            real=real,
            jobs=max(1, min(wanted.jobs, self._count)),
            order_seed=key,
            keep=(wanted.out / OUTPUTS).resolve() if wanted.keep_outputs else None,
        )
        with Engine(lab, options) as engine:
            engine.wait_ready()
            if LEVELS.index(engine.isolation.level) < LEVELS.index(wanted.least):
                say(wanted.language, "too_weak", level=engine.isolation.level, least=wanted.least)
                return 3
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
            self._book = book = journal.Journal(wanted.out / journal.FOLDER, lab, state)
            open_ones: dict[str, Submission] = {}
            for hand_in in engine.grade(self._not_known(book, open_ones)):
                hand_in = marked(hand_in)
                book.keep(open_ones.pop(hand_in.student), hand_in)
                self._take(hand_in)
        return 0

    def _not_known(
        self,
        book: journal.Journal,
        open_ones: dict[str, Submission],
    ) -> Iterator[Submission]:
        """Those that have to be graded; with ``--resume`` the others are taken from the book."""
        for entry in self._entries:
            submission = intake.read(entry, self._lab)
            known = book.known(submission) if self._wanted.resume else None
            if known is not None and (not self._wanted.keep_outputs or self._kept_of(submission)):
                self._take(known)
                continue
            open_ones[submission.student] = submission
            yield submission

    def _kept_of(self, submission: Submission) -> bool:
        """Whether outputs of these very files are kept."""
        try:
            told = hand_in_of(self._wanted.out / OUTPUTS / kept_name(submission.student))
        except (OSError, ValueError):
            return False
        return told.get("files") == dict(submission.files)

    def _reasoned(self, hand_in: HandIn) -> HandIn:
        """With the reason of this run why checks on real weights were not graded."""
        return replace(hand_in, results=_with_reason(hand_in.results, self._no_weights))

    def _decided(self, hand_in: HandIn) -> HandIn:
        """As it is shown: a record of the journal, and what a person has decided."""
        shown = self._enrolment.completed(self._reasoned(hand_in))
        return overrides.applied(shown, self._overrides)

    def _take(self, hand_in: HandIn) -> None:
        """One more is done: its reports are written at once."""
        hand_in = self._decided(hand_in)
        self._done.add(hand_in.student)
        if self._wanted.attempt == "last":  # otherwise it may not be the one that counts
            write.student_reports(self._record, hand_in, self._wanted.out, self._wanted.language)
        score = score_of(self._lab, hand_in)
        say(
            self._wanted.language,
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

    def _hand_ins(self) -> Sequence[HandIn]:
        """What counts, by student: of all that was graded, or of a person's attempts the best.

        Overrides name students as the table of scores does, so they come after that choice.
        """
        assert self._book is not None
        if self._wanted.attempt == "last":
            return journal.Recorded(self._book, self._done, self._kept, self._decided)
        before = {s: overrides.applied(hand_in, ()) for s, hand_in in self._kept.items()}
        graded = journal.Recorded(self._book, self._done, before, self._reasoned)
        best = attempts.best(self._lab, graded)
        shown = map(self._enrolment.completed, best)
        return [overrides.applied(hand_in, self._overrides) for hand_in in shown]

    def _finish(self, status: int) -> int:
        """Write the class's files, say what a human has to look at."""
        wanted, language = self._wanted, self._wanted.language
        if status and outfolder.students(wanted.out) - self._done - set(self._kept):
            return status  # what stands there is whole, and of more than this run has done
        self._record = replace(self._record, hand_ins=self._hand_ins())
        if wanted.attempt == "best" and not status:  # before the end another one may count
            for hand_in in self._record.hand_ins:
                write.student_reports(self._record, hand_in, wanted.out, language)
        files = write.class_files(self._record, wanted.out)
        if status:
            return status
        print(class_table(self._record, wanted.language))
        say(language, "written", out=wanted.out, files=", ".join(path.name for path in files))
        isolation = self._record.isolation
        say(language, "isolation", level=isolation.level, layers=", ".join(isolation.layers))
        if self._enrolment.listed:
            others = [h.student for h in self._record.hand_ins if not self._enrolment.knows(h)]
            if others:
                say(language, "not_on_roster", students=outfolder.named(others))
        return for_a_human(self._record, language, self._overrides, self._remarks)


def _with_reason(results: tuple[CheckResult, ...], reason: Message) -> tuple[CheckResult, ...]:
    """Say why checks on real weights were not graded: none were given, or they do not load."""
    return tuple(
        replace(r, message=reason) if r.message and r.message.key == "check.no_weights" else r
        for r in results
    )
