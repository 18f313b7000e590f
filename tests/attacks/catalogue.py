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
# No hand-ins of a class of code, or nothing that a report could show: each has a test of its own.
ELSEWHERE = {
    69: (
        "hundreds of digits in a written report",
        "tests/grading/test_report_marks.py::test_a_report_that_cannot_be_read_costs_nobody_else_anything",
    ),
    72: (
        "waits in the calls that locate a fault",
        "tests/sandbox/test_recording.py::test_what_is_asked_aside_has_seconds_of_its_own",
    ),
    73: (
        "names of files that speak for somebody else",
        "tests/intake/test_downloads.py::test_a_flat_moodle_download",
    ),
    74: (
        "loaders that find what an earlier check was given",
        "tests/proof/test_lab5.py::test_a_loader_that_loads_nothing_earns_nothing",
    ),
    78: (
        "counts that the process of the hand-in makes up",
        "tests/judge/test_confirm.py::test_counts_that_are_made_up_are_told_to_the_instructor_alone",
    ),
    79: (
        "hidden numbers in a reported count",
        "tests/exports/test_hidden_cases.py::test_no_file_holds_a_number_that_was_reported_of_a_hidden_case",
    ),
    81: (
        "grade books of empty cells, or of columns without end",
        "tests/exports/test_books.py::test_what_cannot_be_filled_is_one_sentence",
    ),
    82: (
        "threads that print on and on while the judge asks where a worker is",
        "tests/sandbox/test_links.py::test_waiting_costs_its_own_check_only",
    ),
    83: (
        "collectives that are sent before anybody answers",
        "tests/sandbox/test_ranks.py::test_collectives_in_advance_end_at_once",
    ),
    84: (
        "a stack of thousands of lines, made up",
        "tests/sandbox/test_stacks.py::test_a_stack_that_a_hand_in_makes_up_is_parsed_once",
    ),
    85: (
        "answers among what other labs give, found by walking through classes",
        "tests/worker/test_preload.py::test_no_class_of_another_lab_can_be_found",
    ),
    86: (
        "thousands of folders that hide the others of a class",
        "tests/intake/test_downloads.py::test_a_folder_of_thousands_hides_nobody",
    ),
    87: (
        "a hand-in that is the only folder and poses as a class",
        "tests/intake/test_downloads.py::test_a_lone_folder_taken_for_a_class_is_told",
    ),
}
OUT_OF_SCOPE = {
    46: "a score as an oracle: hidden cases only at the deadline, coarse feedback",
    66: "an exploit of the kernel: a virtual machine for hostile public use",
}
assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)


def numbers(attacks: tuple[Attack, ...] = ATTACKS) -> set[int]:
    """The numbers of the list that these attacks try."""
    return {attack.number for attack in attacks}
