"""A stub in which nobody has worked never counts where somebody's work lies beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autograder.course import handed_out
from autograder.course.records import Submission
from tests.archives import keys, laid, notebook, taken, zipped

STUB = handed_out.with_banner("def attend():\n    raise NotImplementedError\n").encode()
CHINESE = handed_out.with_banner("def attend():\n    raise NotImplementedError\n", "zh").encode()
WORK, OTHER = b"A = 1\n", b"A = 2\n"
MLP = {"mlp.py": b"M = 2\n"}


def read(tmp_path: Path, files: Mapping[str, bytes]) -> Submission:
    return taken(laid(tmp_path / "li", {**MLP, **files}))


@pytest.mark.parametrize(
    "files",
    [
        {"attention.py": STUB, "my solution/attention.py": WORK},
        {"attention.py": CHINESE.replace(b"\n", b"\r\n"), "attention-1.py": WORK},
        {"old/attention.py": STUB, "new/attention.py": WORK},
        {"lab2/attention.py": STUB, "lab2_final/attention.py": WORK},
        {"lab2/attention.py": STUB, "lab2 (1)/attention.py": STUB, "v3/attention.py": WORK},
    ],
)
def test_the_work_is_taken_and_that_is_said(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    submission = read(tmp_path, files)
    assert submission.files["attention.py"] == WORK.decode()
    assert "stub_aside" in keys(submission.notes)


@pytest.mark.parametrize(
    "files",
    [
        {"attention.py": STUB, "lab2.ipynb": notebook("%%writefile attention.py\nA = 1\n")},
        {"attention.py": STUB, "lab2_submission.zip": zipped({"attention.py": WORK})},
        {
            "lab2.zip": zipped({"attention.py": STUB}),
            "lab2_final.zip": zipped({"attention.py": WORK}),
        },
    ],
)
def test_notebooks_and_archives_hold_work_too(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    assert read(tmp_path, files).files["attention.py"] == WORK.decode()


def test_half_a_character_in_a_cell_is_no_stub(tmp_path: Path) -> None:
    cell = notebook("%%writefile attention.py\n\nA = '\ud800'\n")
    submission = read(tmp_path, {"attention.py": STUB, "lab2.ipynb": cell})
    assert submission.files["attention.py"] == "\nA = '\ud800'\n"


@pytest.mark.parametrize("name", ["attention (1).py", "Attention.py", "attention_final.py"])
def test_work_under_a_wrong_name_is_told(tmp_path: Path, name: str) -> None:
    submission = read(tmp_path, {"attention.py": STUB, name: WORK})
    assert submission.files["attention.py"] == STUB.decode()
    assert keys(submission.notes) == ["stub_beside"]


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"copy/attention.py": STUB},
        {"attention (1).py": STUB},
        {"lab1/attention.py": WORK},
        {"labs/lab3_kv_cache/attention.py": WORK},
        {"photos.zip": b"no archive"},
    ],
)
def test_without_work_it_is_the_stub(tmp_path: Path, others: Mapping[str, bytes]) -> None:
    submission = read(tmp_path, {"attention.py": STUB, **others})
    assert submission.files["attention.py"] == STUB.decode()
    assert "stub_aside" not in keys(submission.notes)
    assert "stub_beside" not in keys(submission.notes)


BODY = b"def attend():\n    return 1\n"
NEWER = BODY + b"def helper():\n    return 2\n"
LAB1 = b"def softmax():\n    return 1\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"1/attention.py": BODY, "2/attention.py": NEWER, "3/attention.py": BODY}, "1/, 3/"),
        ({"attention.py": BODY, "2/attention.py": NEWER}, "attention.py"),
        ({"attention.py": BODY, "最终版/attention.py": NEWER}, "最终版/attention.py"),
        ({"attention.py": BODY, "lab2.zip": zipped({"attention.py": NEWER})}, "lab2.zip"),
        (
            {
                "2021001_张三_lab2.zip": zipped({"attention.py": BODY}),
                "2021001_张三_attention.py": NEWER,
            },
            "2021001_张三_attention.py",
        ),
        (
            {"lab2.zip": zipped({"attention.py": BODY}), "x.zip": zipped({"attention.py": NEWER})},
            "x.zip",
        ),
        ({"attention.py": BODY, "attention (1).py": NEWER}, "attention (1).py"),
        ({"lab2/attention.py": BODY, "lab2_final/attention.py": NEWER}, "lab2_final"),
        (
            {
                "lab2.zip": zipped({"attention.py": BODY}),
                "lab2_最终版.zip": zipped({"attention.py": NEWER}),
            },
            "lab2_最终版.zip",
        ),
    ],
)
def test_what_may_be_a_later_version_is_for_a_person(
    tmp_path: Path, files: Mapping[str, bytes], found: str
) -> None:
    (note,) = read(tmp_path, files).notes
    assert note.key == "intake.later_beside"
    assert all(part in str(note.values["found"]) for part in found.split(", "))


@pytest.mark.parametrize(
    "files",
    [
        {"1/attention.py": LAB1, "2/attention.py": BODY, "4/attention.py": NEWER},
        {"attention.py": BODY, "old/attention.py": NEWER, "backup/attention.py": NEWER},
        {"attention.py": BODY, "最终版/attention.py": BODY, "test_attention_new.py": NEWER},
        {"lab2/attention.py": BODY, "lab1 final/attention.py": NEWER},
        {"my final/attention.py": BODY, "my final/old/attention.py": NEWER},
        {"attention.py": BODY, "final.py": NEWER},
        {"attention.py": BODY, "old_lab2.zip": zipped({"attention.py": NEWER})},
        {"attention.py": BODY, "lab1.zip": zipped({"attention.py": NEWER})},
        {"attention.py": BODY, "lab2.zip": zipped({"attention.py": BODY.replace(b"\n", b"\r\n")})},
        {"lab2/attention.py": BODY, "lab2.zip": zipped({"attention.py": NEWER})},
        {"attention.py": BODY, "lab2.zip": zipped({"attention.py": STUB})},
    ],
)
def test_a_copy_an_older_one_and_other_labs_are_not(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    assert not read(tmp_path, files).notes


def test_two_works_beside_a_stub_are_for_a_person(tmp_path: Path) -> None:
    submission = read(
        tmp_path, {"attention.py": STUB, "a/attention.py": WORK, "b/attention.py": OTHER}
    )
    assert keys(submission.problems.values()) == ["ambiguous"]
