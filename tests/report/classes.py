"""Classes of any size and any content for tests of pages that show a whole class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autograder.course.late import Lateness
from autograder.course.records import (
    Certainty,
    Check,
    CheckResult,
    ClassRecord,
    Exercise,
    Finding,
    HandIn,
    Isolation,
    Lab,
    Limits,
    Message,
    Misconception,
    Origin,
    Outcome,
    Student,
    Text,
)
from autograder.report import dashboard
from autograder.report.class_mistakes import Mistakes
from autograder.report.class_summary import ClassSummary, look

# What a student could try in every field that is theirs.
HOSTILE = (
    "<script>document.title='owned'</script>",
    "\"><img src=x onerror=document.title='owned'>",
    "</style></title><svg onload=document.title='owned'>",
    "javascript:document.title='owned'",
    "{{ 7 * 7 }}{% raw %}",
    "x\x01y\x02<i>z",
    "../../etc/passwd?a=b#c",
    "name' onmouseover='document.title=1",
    "\u202eevil\u2066",
    "a\nb\r\nc\x00d\x1b[31me",
    "\ud800 lone",
)


def lab(checks: int = 60, exercises: int = 10) -> Lab:
    """A lab of 100 points in ``checks`` checks with titles as long as those of lab 2."""
    made: list[list[Check]] = [[] for _ in range(exercises)]
    for number in range(checks):
        place = number * exercises // checks
        title = Text(
            f"Check {number}: the rows of `weights` sum to one, whatever the mask looks like.",
            f"检查 {number}：无论掩码如何，`weights` 的每一行之和都为一。",
        )
        points = 100 // checks + (number < 100 % checks)
        name = f"test_{number}"
        made[place].append(Check(name, f"lab2.part_{place}", "softmax", points, title))
    return Lab(
        name="lab2_qwen3_block",
        folder=Path("lab2_qwen3_block"),
        title=Text("The Qwen3 block", "Qwen3 模块"),
        files=("attention.py",),
        given=(),
        forbidden=("torch.nn.MultiheadAttention",),
        limits=Limits(),
        exercises=tuple(
            Exercise(
                f"lab2.part_{number}",
                "attention.py",
                Text(f"Part {number}", f"部分 {number}"),
                Text("Look again.", "再看看。"),
                tuple(each),
            )
            for number, each in enumerate(made)
        ),
    )


def words(name: str) -> Misconception:
    """A mistake in words."""
    return Misconception(
        name,
        "RoPE",
        Text(f"the mistake `{name}`", f"错误 `{name}`"),
        Text("Everything is turned the other way.", "一切都反了。"),
        Text("Look at the sign.", "看看符号。"),
        Text("Rotary positions: the idea", "旋转位置编码：基本思想"),
    )


def hand_in(
    lab: Lab,
    number: int,
    outcome: Callable[[int, int], Outcome],
    reason: Callable[[int, int], str] = lambda student, check: f"text {check}",
    name: str = "",
) -> HandIn:
    """A hand-in whose check ``c`` ends as ``outcome(number, c)`` for ``reason(number, c)``."""
    student = f"{name or 'student'}_{number:05}"
    results = []
    for place, check in enumerate(lab.checks):
        ended, text = outcome(number, place), reason(number, place)
        values = {"type": "ValueError", "text": text, "case": {"en": "a batch", "zh": "一批"}}
        message = None if ended is Outcome.PASSED else Message("check.exception", values)
        results.append(CheckResult(check.name, ended, message))
    origin = Origin(students=(Student(str(number), name or f"Student {number}"),))
    return HandIn(student, tuple(results), digests={"attention.py": f"{number:x}"}, origin=origin)


def mixed(student: int, check: int) -> Outcome:
    """Outcomes of a class as it is: most pass, and every outcome occurs."""
    if student % 3 == 0:
        return Outcome.PASSED
    return list(Outcome)[(student * check) % 7] if check % 5 == student % 5 else Outcome.PASSED


def of(lab: Lab, *hand_ins: HandIn, missing: tuple[Student, ...] = ()) -> ClassRecord:
    """The class."""
    isolation = Isolation("strong", ("landlock",), "fork")
    return ClassRecord(lab, isolation, {"torch": "2.13.0"}, hand_ins, 37, 12, missing)


def typical(size: int = 60, checks: int = 60) -> ClassRecord:
    """A class with names in two scripts, marks, lateness, mistakes, broken files, absentees."""
    one, made = lab(checks), []
    for number in range(size):
        name = ("王伟", "Alice Novak", "李娜", "Bob Okafor")[number % 4] + str(number)
        record = hand_in(one, number, mixed, name=name)
        if number % 7 == 1:
            finding = Finding(("lab2.part_1",), Certainty.NAMED, (words(f"m{number % 3}"),))
            record = replace(record, findings=(finding,))
        if number % 20 == 4:
            values = {"file": "attention.py", "line": 3, "name": "torch.nn.MultiheadAttention"}
            record = replace(record, marks=(Message("check.forbidden", values),))
        if number % 9 == 2:
            late = Lateness("2026-11-20T12:00:00+08:00", days=1, percent=10)
            record = replace(record, lateness=late)
        if number % 12 == 5:
            values = {"file": "attention.py", "text": "oops", "line": 37}
            file = Message("check.syntax", values)
            results = (replace(one, outcome=Outcome.FAILED, message=file) for one in record.results)
            record = replace(record, results=tuple(results))
        made.append(record)
    return of(one, *made, missing=(Student("99", "Nobody Here"),))


def page(record: ClassRecord, language: str = "en") -> str:
    """The page of a class."""
    glance, mistakes = ClassSummary(record.lab), Mistakes(record.lab)
    look(record.hand_ins, [glance, mistakes])
    return dashboard.page(record, glance, mistakes.survey(), language)
