"""A failure that is no mathematics gets the remedy of its kind, and never none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autograder.course import labfile
from autograder.course.messages import catalogue, render
from autograder.course.records import (
    CheckResult,
    ClassRecord,
    Frame,
    HandIn,
    Isolation,
    Message,
    Outcome,
)
from autograder.report.hints import steps
from autograder.report.remedies import (
    are_wrong_numbers,
    is_no_mathematics,
    is_specific,
    remedies,
)
from autograder.report.view import rows_of


def failed(key: str, outcome: Outcome = Outcome.CRASHED, **values: object) -> CheckResult:
    frames = (Frame("attention.py", 3, "forward", "x = y"),)
    return CheckResult("test_x", outcome, Message(f"check.{key}", values), frames=frames)


SPECIFIC = ("shape", "dtype", "written", "infinite")
KINDS = {
    "full_width": failed("syntax", text="invalid character '，' (U+FF0C)"),
    "indentation": failed("syntax", text="unexpected indent"),
    "unclosed": failed("syntax", text="'(' was never closed"),
    "syntax": failed("syntax", text="invalid syntax"),
    "breakpoint": failed("breakpoint"),
    "nothing": failed("type", Outcome.FAILED, got={"en": "None", "zh": "None"}),
    "tuple": failed("type", Outcome.FAILED, got={"en": "a tuple of 2", "zh": "2 项的元组"}),
    "name": failed("exception", type="NameError", text="name 'q' is not defined"),
    "attribute": failed("exception", type="AttributeError", text="no attribute 'head_dim'"),
    "arguments": failed("exception", type="TypeError", text="f() missing 1 positional argument"),
    "dtypes": failed("exception", type="RuntimeError", text="mat1 and mat2 must have same dtype"),
    "in_place": failed("exception", type="RuntimeError", text="a leaf Variable … in-place"),
    "strides": failed("exception", type="RuntimeError", text="last dimension with stride 1"),
    "truth": failed("exception", type="RuntimeError", text="Boolean value of Tensor with …"),
    "sizes": failed("exception", type="RuntimeError", text="The size of tensor a (6) must match"),
    "index": failed(
        "exception", type="IndexError", text="index 7 is out of bounds for dimension 0 with size 3"
    ),
    "time": failed("timed_out", Outcome.TIMED_OUT, seconds=2),
    "ended": failed("crashed", text="signal 11"),
    "import": failed("import_line", type="ModuleNotFoundError", text="No module named 'x'"),
    "raised": failed("exception", type="ValueError", text="no"),
    "shape": failed("shape", Outcome.FAILED, want="[3, 7, 40]", got="[21, 40]"),
    "dtype": failed("dtype", Outcome.FAILED, want="bfloat16", got="float32"),
    "written": failed("input_changed", Outcome.FAILED),
    "infinite": failed("not_finite", Outcome.FAILED),
    "numbers": failed("mismatch", Outcome.FAILED, what="x", got=3.0),
    "weights": failed("weights_shape", name="q_proj.weight", got="[3, 24]", want="[7, 24]"),
    "other": failed("missing_near", file="mlp.py"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_kind_has_a_remedy_of_its_own(kind: str, language: str) -> None:
    debug = "make debug LAB=2"
    if kind == "numbers":
        assert are_wrong_numbers(KINDS[kind])
    elif kind in SPECIFIC:
        assert is_specific(KINDS[kind])
    else:
        assert is_no_mathematics(KINDS[kind])
    said, *more = remedies(KINDS[kind], language, debug)
    assert said == render(Message(f"remedy.{kind}", {"debug": debug}), language)
    assert len(more) == (KINDS[kind].message.key == "check.exception")
    assert all(debug in one for one in more)


def test_every_remedy_is_that_of_a_kind() -> None:
    names = {key.removeprefix("remedy.") for key in catalogue() if key.startswith("remedy.")}
    assert names == {*KINDS, "debug"}


@pytest.mark.parametrize("key", ["exception", "weights_shape", "weights"])
def test_an_error_of_pythons_is_told_first_and_the_exercise_after_it(key: str) -> None:
    lab = labfile.load(labfile.find_lab("2"))
    exercise = lab.exercises[0]
    result = failed(key, Outcome.FAILED, type="RuntimeError", text="The size of tensor a (6)")
    result = replace(result, check=exercise.checks[0].name)
    record = ClassRecord(lab, Isolation("strong", (), "fork"), {}, (HandIn("you", (result,)),))
    (row,) = rows_of(record, [result.check])
    first, second, *_ = steps(lab, row, None, "en")
    kind = "sizes" if key == "exception" else "weights"
    assert first == ["Hint: " + render(Message(f"remedy.{kind}", {"debug": ""}), "en")]
    assert exercise.hint.en.replace("`", "") in " ".join(second)


def test_wrong_numbers_are_mathematics() -> None:
    assert not is_no_mathematics(failed("mismatch", Outcome.FAILED, what="x", got=3.0))
    assert not is_no_mathematics(failed("not_started", Outcome.NOT_STARTED))


@pytest.mark.parametrize("want", ["a list of 1 block numbers", "a tuple of 3"])
def test_a_list_of_another_length_is_not_called_a_tuple_for_a_tensor(want: str) -> None:
    got = {"en": "a list of 2", "zh": "2 项的 list"}
    result = failed("type", Outcome.FAILED, want={"en": want, "zh": want}, got=got)
    assert not is_no_mathematics(result)
    assert "one tensor" not in " ".join(remedies(result, "en", "make debug"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_where_no_name_fits_the_first_hint_ends_with_what_is_right(language: str) -> None:
    """At most four properties, those of the most points; none where the code does not even run."""
    lab = labfile.load(labfile.find_lab("2"))
    (exercise,) = (one for one in lab.exercises if one.id == "lab2.attention")
    wrong = {"test_attention_key_heads", "test_attention_parity", "test_attention_padding"}
    assert wrong < {check.name for check in exercise.checks}

    def first(key: str) -> list[str]:
        message = Message(f"check.{key}", {"what": "x", "got": 3.0, "text": "invalid syntax"})
        found = (
            CheckResult(one.name, Outcome.FAILED, message)
            if one.name in wrong
            else CheckResult(one.name, Outcome.PASSED)
            for one in exercise.checks
        )
        isolation = Isolation("strong", (), "fork")
        record = ClassRecord(lab, isolation, {}, (HandIn("you", tuple(found)),))
        (row,) = rows_of(record, [one.name for one in exercise.checks])
        return steps(lab, row, None, language)[0]

    said = render(Message("diagnosis.holds", {}), language)
    hint = first("mismatch")
    right = "".join(hint[hint.index(said) + 1 :]).replace(" ", "")
    points = {one.title.in_(language).replace(" ", ""): one.points for one in exercise.checks}
    known = [title for title in points if title in right]
    assert "".join(known) == right
    assert [points[title] for title in known] == [3] * 4
    assert said not in first("syntax")
