"""The end of a grading: one look through the records writes the class's files and says the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.cli.human import ForAHuman, NotEnrolled
from autograder.cli.say import say
from autograder.course.records import ClassRecord, Message, Override, Student
from autograder.grading import outfolder
from autograder.intake.enrolment import Enrolment
from autograder.report import write
from autograder.report.one_pass import Summary
from autograder.report.table import ClassTable


@dataclass(frozen=True)
class ClassEnd:
    """What the end of a grading needs beside the class.

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
        human = ForAHuman(record.lab, self.decided, record.late_rules, known)
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
            say(language, "not_on_roster", students=outfolder.named(strangers.students))
        return human.said(language, self.remarks)
