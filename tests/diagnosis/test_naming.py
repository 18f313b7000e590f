"""Naming: on fingerprints of a few invented mistakes, where every distance is known."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from autograder.course.records import Certainty, Misconception, Text
from autograder.diagnosis import bank as banks
from autograder.diagnosis.bank import Bank, BankError
from autograder.diagnosis.fingerprints import WIDTH, Fingerprints, fingerprints, project, shortened
from autograder.diagnosis.items import DETAIL, Answer, Item, Trace, trace_of
from autograder.diagnosis.naming import LIKE, NEAR, Naming, names
from autograder.reference.cases import Case
from autograder.sandbox.links import StudentError
from autograder.sandbox.student import Result
from autograder.wire.messages import Tensor

RIGHT = np.linspace(1, 2, 50)


def drawn(seed: int, size: float = 1.0) -> np.ndarray:
    """A direction of the length of the right answer, times ``size``."""
    values = np.random.default_rng(seed).normal(size=50)
    return values / np.linalg.norm(values) * np.linalg.norm(RIGHT) * size


def trace(values: np.ndarray, form: str = "float32[50]") -> dict[str, Item]:
    return {"check/case/0": Item(form, values)}


def raised(text: str) -> dict[str, Item]:
    return {"check/case/end": Item(f"call: RuntimeError{DETAIL}{text}", np.zeros(0))}


def known(right: Trace | None = None, /, **mistakes: Trace) -> Bank:
    """A bank of one exercise; the group of a mistake is its name up to ``_``."""
    text = Text("x", "x")
    shorts = [((name,), shortened(found)) for name, found in mistakes.items()]
    prints = fingerprints(shortened(right or trace(RIGHT)), shorts, ())
    assert prints is not None
    classes = {n: Misconception(n, n.split("_")[0], text, text, text, text) for n in mistakes}
    return Bank({"lab.one": prints}, classes)


A, B = RIGHT + drawn(1, 0.3), RIGHT + drawn(2, 0.3)
BANK = known(a_one=trace(A), b_one=trace(B), c_one=raised("sizes 3 and 4"))


def named(found: Trace, bank: Bank = BANK, **pairs: Fingerprints) -> Naming:
    (naming,) = names(bank, pairs, {"lab.one": found})
    return naming


@pytest.mark.parametrize(
    ("values", "name"), [(A, "a_one"), (B, "b_one"), (A * (1 + 1e-5), "a_one")]
)
def test_answers_of_a_mistake_are_named(values: np.ndarray, name: str) -> None:
    assert named(trace(values)) == Naming(("lab.one",), Certainty.NAMED, (name,))


def test_what_is_near_but_not_near_enough_looks_like_it() -> None:
    found = named(trace(A + drawn(3, 20 * NEAR)))
    assert (found.certainty, found.classes) == (Certainty.LOOKS_LIKE, ("a_one",))
    assert named(trace(A + drawn(3, 3 * LIKE))) == Naming(("lab.one",), Certainty.UNKNOWN)


def test_numbers_of_a_coarse_dtype_have_to_be_those_of_the_mistake() -> None:
    """An error in bfloat16 weighs so little that any other one lies near it."""

    def coarse(values: np.ndarray) -> Trace:
        return {"check/case/0": Item("bfloat16[50]", values, 3e-4)}

    bank = known(coarse(RIGHT), a_one=coarse(A))
    assert named(coarse(A + drawn(3, 1e-2)), bank).classes == ("a_one",)
    assert named(coarse(RIGHT - drawn(1, 0.3)), bank) == Naming(("lab.one",), Certainty.UNKNOWN)


def test_nothing_is_named_between_two_that_are_as_near() -> None:
    close = known(a_one=trace(A), b_one=trace(A + drawn(4, 4e-4)))
    halfway = named(trace(A + drawn(4, 2e-4)), close)
    assert halfway.certainty is Certainty.LOOKS_LIKE  # two groups
    assert halfway.either
    assert named(trace(A), close).classes == ("a_one",)


def test_mistakes_of_one_group_with_equal_answers_are_named_as_either() -> None:
    twins = known(a_one=trace(A), a_two=trace(A), b_one=trace(B))
    found = named(trace(A), twins)
    assert found == Naming(("lab.one",), Certainty.NAMED, ("a_one", "a_two"), either=True)


def test_another_form_is_another_answer() -> None:
    assert named(trace(A, "float16[50]")).certainty is Certainty.UNKNOWN
    assert named(trace(A[:40], "float32[40]")).certainty is Certainty.UNKNOWN


def test_numbers_of_another_form_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be as many as a hand-in likes, and the judge has no memory for their projection."""
    monkeypatch.setattr("autograder.diagnosis.fingerprints.project", None)
    found = trace(np.ones(1 << 20), "bool[1048576]")
    assert named(found) == Naming(("lab.one",), Certainty.UNKNOWN)


def test_a_single_number_near_a_mistake_is_chance() -> None:
    text = Text("x", "x")
    one = {"a_one": {"check/case/0": Item("float32[]", np.array([1.3]))}}
    right = {"check/case/0": Item("float32[]", np.array([1.0]))}
    prints = fingerprints(
        shortened(right), [((name,), shortened(t)) for name, t in one.items()], ()
    )
    assert prints is not None
    known = Bank({"lab.one": prints}, {"a_one": Misconception("a_one", "a", *[text] * 4)})
    assert named(one["a_one"], known).classes == ("a_one",)
    near = {"check/case/0": Item("float32[]", np.array([1.3 * (1 + LIKE / 2)]))}
    assert named(near, known) == Naming(("lab.one",), Certainty.UNKNOWN)


def left_open(number: float, values: np.ndarray) -> dict[str, Item]:
    """An answer with something beside it that right code answers in several ways."""
    return {"check/case/0": Item("number", np.array([number]))} | {
        "check/case/1": Item("float32[50]", values)
    }


def test_what_right_code_leaves_open_hides_no_name_and_gives_none() -> None:
    text = Text("x", "x")
    mistakes = {"a_one": left_open(7, A), "b_one": left_open(7, B), "c_one": left_open(9, RIGHT)}
    shorts = [((name,), shortened(found)) for name, found in mistakes.items()]
    classes = {n: Misconception(n, n.split("_")[0], text, text, text, text) for n in mistakes}

    def told(found: Trace, *free: str) -> tuple[str, ...]:
        prints = fingerprints(shortened(left_open(7, RIGHT)), shorts, (), free)
        assert prints is not None
        return named(found, Bank({"lab.one": prints}, classes)).classes

    for number in (7, 4):  # whatever number a block has
        assert told(left_open(number, A), "check/case/0") == ("a_one",)
    assert told(left_open(4, A)) == ()
    assert told(left_open(9, RIGHT), "check/case/0") == ("c_one",)  # as the mistake has it
    assert told(left_open(4, RIGHT), "check/case/0") == ()
    nobody = left_open(4, RIGHT + drawn(9, 0.3))
    assert told(nobody, "check/case/0") == ()


def test_an_error_is_known_by_its_words_alone() -> None:
    errors = known(a_one=raised("sizes 3 and 4"), b_one=raised("another text"))
    assert named(raised("sizes 3 and 4"), errors).classes == ("a_one",)
    assert named(raised("a third text"), errors).certainty is not Certainty.NAMED  # a or b
    # No other known mistake raises a RuntimeError here, but a thousand unknown ones do.
    assert named(raised("view size is not compatible")) == Naming(("lab.one",), Certainty.UNKNOWN)


def test_an_error_in_other_words_counts_beside_numbers_that_agree() -> None:
    both = known(a_one=trace(A) | raised("3 and 4"), b_one=raised("3 and 4"))
    found = named(trace(A) | raised("in other words"), both)
    assert (found.certainty, found.classes) == (Certainty.LOOKS_LIKE, ("a_one",))


def test_beside_an_unknown_mistake_the_check_that_is_exact_is_told() -> None:
    def three(*values: np.ndarray) -> dict[str, Item]:
        keys = (f"{check}/case/0" for check in "abc")
        return {key: Item("float32[50]", v) for key, v in zip(keys, values, strict=True)}

    unknown = RIGHT + drawn(8, 0.4)
    mistakes = {"a_one": three(A, RIGHT, A), "b_one": three(RIGHT, B, RIGHT)}
    shorts = [((name,), shortened(found)) for name, found in mistakes.items()]
    prints = fingerprints(shortened(three(RIGHT, RIGHT, RIGHT)), shorts, ())
    assert prints is not None
    text = Text("x", "x")
    classes = {n: Misconception(n, n[0], text, text, text, text) for n in mistakes}
    bank = Bank({"lab.one": prints}, classes)
    found = named(three(A, unknown, unknown), bank)
    assert found == Naming(("lab.one",), Certainty.LOOKS_LIKE, ("a_one",), within="a")
    # What the mistake makes wrong is right: it is another one, though it answers alike once.
    assert named(three(A, unknown, RIGHT), bank).certainty is Certainty.UNKNOWN
    # Errors alone say nothing of a part, either.
    assert named(three(unknown, unknown, unknown), bank).certainty is Certainty.UNKNOWN


def test_memory_that_was_never_written_is_compared_without_a_warning() -> None:
    class Given:
        """A result with a signalling NaN, as torch.empty may hold one."""

        ready, given, verdict = True, (), ""
        step: ClassVar[dict[str, Any]] = {"op": "get"}
        value = Tensor.of(np.array([0x7F800001], np.uint32).view(np.float32))

    result: Any = Given()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case = Case("c", "c", False, Text("x", "x"), {})
        (item,) = trace_of([Answer("check", case, [result])]).values()
    assert item.values.tolist() == [0.0]


@pytest.mark.parametrize("askers", [1, 2])
def test_objects_with_one_number_are_two_where_two_are_asked(askers: int) -> None:
    """Each world of ranks counts its objects anew; two calls that differ are two questions."""
    students: Any = [object() for _ in range(askers)]
    results = []
    for turn in (0, 1):
        result = Result(students[turn % askers], {"op": "call", "target": 1, "args": []}, ())
        result.set(turn)
        results.append(result)
    case = Case("c", "c", False, Text("x", "x"), {})
    forms = {item.form for item in trace_of([Answer("check", case, results)]).values()}
    assert forms == ({"number"} if askers == 2 else {"varies number"})


def test_what_one_python_says_of_min_and_max_another_says_too() -> None:
    case, items = Case("c", "c", False, Text("x", "x"), {}), []
    for text in ("max() arg is an empty sequence", "max() iterable argument is empty"):
        error = StudentError({"stage": "call", "type": "ValueError", "text": text})
        items.append(trace_of([Answer("check", case, [], error)]))
    assert items[0] == items[1]


def test_what_was_not_answered_is_no_answer() -> None:
    assert named({"check/other/0": Item("float32[50]", A)}).certainty is Certainty.UNKNOWN


def test_two_mistakes_at_once() -> None:
    both = RIGHT + drawn(5, 0.5)
    pairs = known(a_one=trace(both)).exercises["lab.one"]
    pairs = replace(pairs, mistakes=(("a_one", "b_one"),))
    found = named(trace(both), BANK, **{"lab.one": pairs})
    assert found == Naming(("lab.one",), Certainty.NAMED, ("a_one", "b_one"))
    twice = known(a_one=trace(both), b_one=trace(both)).exercises["lab.one"]
    twice = replace(twice, mistakes=(("a_one", "b_one"), ("c_one", "b_one")))
    # Two pairs answer so: only what they have in common is sure.
    found = named(trace(both), BANK, **{"lab.one": twice})
    assert found == Naming(("lab.one",), Certainty.NAMED, ("b_one",), partly=True)


@pytest.mark.parametrize("elsewhere", ["right", "wrong"])
def test_a_pair_makes_nothing_right_that_each_of_the_two_makes_wrong(elsewhere: str) -> None:
    """A bank of pairs holds few items; what it does not hold speaks, too."""
    both, text = RIGHT + drawn(5, 0.5), Text("x", "x")

    def answered(first: np.ndarray, second: np.ndarray) -> dict[str, Item]:
        return trace(first) | {"other/case/0": Item("float32[50]", second)}

    singles = {"a_one": answered(A, A), "b_one": answered(B, B)}
    prints = fingerprints(
        shortened(answered(RIGHT, RIGHT)), [((n,), shortened(t)) for n, t in singles.items()], ()
    )
    pairs = known(a_one=trace(both)).exercises["lab.one"]
    assert prints is not None
    bank = Bank({"lab.one": prints}, {n: Misconception(n, n[0], *[text] * 4) for n in singles})
    found = answered(both, RIGHT if elsewhere == "right" else both)
    pairs = replace(pairs, mistakes=(("a_one", "b_one"),))
    certainty = named(found, bank, **{"lab.one": pairs}).certainty
    assert certainty is (Certainty.UNKNOWN if elsewhere == "right" else Certainty.NAMED)


def test_one_mistake_explains_several_exercises() -> None:
    first, second = known(a_one=trace(A), b_one=trace(A)), known(a_one=trace(B), c_one=trace(A))
    bank = Bank(
        {"lab.one": first.exercises["lab.one"], "lab.two": second.exercises["lab.one"]},
        first.classes | second.classes,
    )
    found = names(bank, {}, {"lab.one": trace(A), "lab.two": trace(B)})
    assert found == (Naming(("lab.one", "lab.two"), Certainty.NAMED, ("a_one",)),)


def test_a_bank_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "fingerprints.bank"
    path.write_bytes(banks.dump(BANK))
    again = banks.load(path)
    assert again.classes == BANK.classes
    assert named(trace(A), again).classes == ("a_one",)
    for spoiled in (b"", b"PK", path.read_bytes()[:-20]):
        path.write_bytes(spoiled)
        with pytest.raises(BankError, match="autograder build"):
            banks.load(path)


def test_projections_keep_distances_and_never_change() -> None:
    gaps = [np.linalg.norm(project(f"key {n}", drawn(n))) for n in range(200)]
    assert np.mean(np.square(gaps)) == pytest.approx(np.linalg.norm(RIGHT) ** 2, rel=0.15)
    assert project("key", np.zeros(0)).tolist() == [0.0] * WIDTH
    # Banks in the hands of students hang on these very signs.
    signs = ["+" if value > 0 else "-" for value in project("key", np.eye(4)[2])]
    assert "".join(signs) == "-+++++--"


def test_a_pair_has_to_agree_where_one_of_the_two_shows_nothing() -> None:
    right, one, other = RIGHT, RIGHT + drawn(6, 0.4), RIGHT + drawn(7, 0.4)

    def two(first: np.ndarray, second: np.ndarray) -> dict[str, Item]:
        return {f"{c}/case/0": Item("float32[50]", v) for c, v in (("a", first), ("b", second))}

    text = Text("x", "x")
    mistakes = {"a_one": two(one, right), "b_one": two(right, other)}
    shorts = [((name,), shortened(found)) for name, found in mistakes.items()]
    singles = fingerprints(shortened(two(right, right)), shorts, ())
    pair = fingerprints(
        shortened({"a/case/0": Item("float32[50]", right)}),  # a bank of pairs holds less
        [(("a_one", "b_one"), shortened({"a/case/0": Item("float32[50]", one)}))],
        (),
    )
    assert singles is not None and pair is not None
    classes = {n: Misconception(n, n[0], text, text, text, text) for n in mistakes}
    bank = Bank({"lab.one": singles}, classes)
    assert named(two(one, other), bank, **{"lab.one": pair}).classes == ("a_one", "b_one")
    third = named(two(one, RIGHT + drawn(8, 0.4)), bank, **{"lab.one": pair})
    assert third.certainty is not Certainty.NAMED
    # Where both change something, and one of them far more, right it cannot be.
    little = {"a_one": two(one, RIGHT + drawn(8, 0.001)), "b_one": two(right, other)}
    shorts = [((name,), shortened(found)) for name, found in little.items()]
    singles = fingerprints(shortened(two(right, right)), shorts, ())
    assert singles is not None
    both = named(two(one, right), Bank({"lab.one": singles}, classes), **{"lab.one": pair})
    assert both.certainty is not Certainty.NAMED


def test_a_pair_that_nearly_agrees_elsewhere_is_not_ruled_out() -> None:
    """``b_one`` answers ``bent`` alone and ``other`` in company of ``a_one``, as ``c_one`` does."""
    other = RIGHT + drawn(7, 0.4)
    bent = other + drawn(9, 0.01)

    def two(first: np.ndarray, second: np.ndarray) -> dict[str, Item]:
        return {f"{c}/case/0": Item("float32[50]", v) for c, v in (("a", first), ("b", second))}

    mistakes = {"a_one": two(A, RIGHT), "b_one": two(RIGHT, bent), "c_one": two(RIGHT, other)}
    shorts = [((name,), shortened(found)) for name, found in mistakes.items()]
    singles = fingerprints(shortened(two(RIGHT, RIGHT)), shorts, ())
    short = shortened({"a/case/0": Item("float32[50]", A)})
    couples = [(("a_one", "b_one"), short), (("a_one", "c_one"), short)]
    pairs = fingerprints(shortened({"a/case/0": Item("float32[50]", RIGHT)}), couples, ())
    assert singles is not None and pairs is not None
    text = Text("x", "x")
    bank = Bank(
        {"lab.one": singles},
        {name: Misconception(name, name[0], text, text, text, text) for name in mistakes},
    )
    found = named(two(A, other), bank, **{"lab.one": pairs})
    assert found == Naming(("lab.one",), Certainty.NAMED, ("a_one",), partly=True)


def test_what_nobody_was_asked_about_is_not_named() -> None:
    """A mistake that makes everything be skipped here is no explanation for an error here."""
    skipped = known(a_one=trace(A), b_one={})
    assert named(raised("sizes 3 and 4"), skipped).certainty is Certainty.UNKNOWN
    assert named(trace(RIGHT), skipped).certainty is Certainty.UNKNOWN
    assert named(trace(A), skipped).classes == ("a_one",)


def test_silence_shows_a_mistake_where_its_check_had_begun() -> None:
    def first_of_two(second: str) -> dict[str, Item]:
        return {"a/case/0": Item("float32[50]", RIGHT), f"{second}/case/1": Item("int", RIGHT)}

    right = shortened(first_of_two("a") | first_of_two("b"))
    stopped = {key: item for key, item in right.items() if key != "a/case/1"}
    skipped = {key: item for key, item in right.items() if not key.startswith("b")}
    prints = fingerprints(right, [(("a_one",), stopped), (("b_one",), skipped)], ())
    assert prints is not None and prints.mistakes == (("a_one",),)


def test_the_same_question_in_several_checks_may_be_answered_in_any() -> None:
    both = {f"{check}/case/0": Item("float32[50]", A) for check in ("one", "two")}
    right = {key: Item("float32[50]", RIGHT) for key in both}
    prints = fingerprints(shortened(right), [(("a_one",), shortened(both))], ())
    assert prints is not None
    assert prints.items == (("one/case/0", "two/case/0"),)
    for key in both:  # the other check was skipped
        assert prints.distances({key: both[key]}).tolist() == pytest.approx([0.0], abs=1e-6)


def test_places_that_all_mistakes_answer_alike_may_still_be_answered_unlike() -> None:
    both = {f"check/case/{place}": Item("float32[50]", A) for place in (0, 1)}
    right = {key: Item("float32[50]", RIGHT) for key in both}
    prints = fingerprints(shortened(right), [(("a_one",), shortened(both))], ())
    assert prints is not None and len(prints.items) == 1
    first, second = both
    for key, other in ((first, second), (second, first)):
        mixed = {key: both[key], other: right[other]}
        assert prints.distances(mixed)[0] > LIKE
        assert not prints.is_right(mixed)
    assert prints.is_right(right)
