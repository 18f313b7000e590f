"""The whole list of attacks and faults, by number."""

from __future__ import annotations

from tests.attacks import answers, forging, hiding, intake, machine, score
from tests.attacks.attack import Attack

ATTACKS: tuple[Attack, ...] = tuple(
    sorted(
        (
            *(*score.ATTACKS, *forging.ATTACKS, *answers.ATTACKS),
            *(*machine.ATTACKS, *intake.ATTACKS, *hiding.ATTACKS),
        ),
        key=lambda attack: attack.id,
    )
)
# Faults that are no hand-in: the tests of `faults` make them happen.
FAULTS = {
    63: "the zygote is killed while a class is graded",
    64: "the machine is busy while a class is graded",
}
# No hand-ins of a class of code, or nothing that a report could show: tested where they are met.
ELSEWHERE = {
    69: "tests/grading/test_report_marks.py",  # hundreds of digits in a written report
    72: "tests/sandbox/test_recording.py",  # waits in the calls that locate a fault
    73: "tests/intake/test_downloads.py",  # names of files that speak for somebody else
    74: "tests/proof/test_lab5.py",  # loaders that find what an earlier check was given
    78: "tests/judge/test_confirm.py",  # counts that the process of the hand-in makes up
    79: "tests/exports/test_hidden_cases.py",  # hidden numbers in a reported count
    81: "tests/exports/test_books.py",  # grade books of empty cells, or of columns without end
}
OUT_OF_SCOPE = {
    46: "a score as an oracle: hidden cases only at the deadline, coarse feedback",
    66: "an exploit of the kernel: a virtual machine for hostile public use",
}
assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)


def numbers(attacks: tuple[Attack, ...] = ATTACKS) -> set[int]:
    """The numbers of the list that these attacks try."""
    return {attack.number for attack in attacks}
