"""``expect_test``: a check that is a test of a pytest file, run beside the student's code."""

from __future__ import annotations

from autograder.checks.expect import CheckFailed
from autograder.reference.cases import Case
from autograder.sandbox.student import Folder, Student

_RUN = "autograder.worker.pytest_files.run"


def expect_test(student: Student, case: Case, folder: str, test: str) -> None:
    """A test passes.

    Args:
        student: whose code it imports, as ``from model import softmax``.
        case: names the file of tests.
        folder: what ``tests`` of ``lab.toml`` names.
        test: ``test_model.py::test_rows``.
    """
    value = student.call(_RUN, Folder(folder), test).value
    match value:
        case ["passed", _]:
            return
        case ["failed" | "skipped" as how, str(text)]:
            raise CheckFailed(f"check.test_{how}", case=case.words, text=text)
        case _:
            raise CheckFailed("check.test_absent", case=case.words, text=test)
