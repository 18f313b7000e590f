"""No bytes of strangers make a reader raise what it does not name, or pass what is not right."""

from __future__ import annotations

from functools import partial

import pytest

from autograder.authoring.recording import Recording
from tests.fuzz import growth
from tests.fuzz.earned import graded
from tests.fuzz.profile import Draw, Tally, Target, drawn, fuzz
from tests.fuzz.replies import OUTCOMES, reshaped
from tests.fuzz.right_replies import single_checks
from tests.fuzz.targets import TARGETS, enough, fuzz_all

EVERY = 3  # of all inputs one in so many, others at every commit; all by `make fuzz`


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_some_inputs(target: Target) -> None:
    tally = Tally()
    fuzz(target, range(target.quick), tally)
    assert tally.inputs.total() >= target.quick
    assert tally.changed.total() >= target.quick / 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, where numbers overflow
def test_a_right_reply_in_another_shape_is_no_fault_of_the_grader() -> None:
    results = [
        graded(one, reply, hidden=False) for one in single_checks() for reply in reshaped(one)
    ]
    assert len(results) > 10 * len(single_checks())
    assert [result for result in results if result.outcome not in OUTCOMES] == []


def test_a_reader_that_takes_more_than_linear_time_is_found() -> None:
    assert all(growth.faults(growth.FEW, (growth.SLOW.name,)))


@pytest.mark.slow
def test_a_reader_that_hangs_is_found() -> None:
    fault, *_ = growth.faults((" ",), (growth.HANGS.name,))
    assert fault and fault.endswith("slow")


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_very_many_inputs() -> None:
    tally = fuzz_all(Recording().turn(EVERY), EVERY)
    print(tally.line)
    assert not tally.errors
    assert enough(tally, EVERY), tally.line


def test_a_broken_promise_is_found_and_counted() -> None:
    def broken(draw: object) -> None:
        raise KeyError("unnamed")

    tally = Tally()
    with pytest.raises(KeyError):
        fuzz(Target("broken", broken, 1, 1), range(10), tally)
    assert tally.line.endswith("unnamed errors 1")
    assert not enough(tally)


def test_an_input_that_fails_is_told_with_as_few_changes_as_fail() -> None:
    guilty = next(d.seeds[1] for d in map(partial(drawn, "two"), range(99)) if len(d.seeds) == 3)

    def broken(draw: Draw) -> None:
        if guilty in draw.seeds:
            raise KeyError("unnamed")

    tally = Tally()
    with pytest.raises(KeyError) as caught:
        fuzz(Target("two", broken, 1, 1), range(99), tally)
    assert f"seeds=({guilty},)" in caught.value.__notes__[0]
    assert [drawn("two", number) for number in range(9)] == [drawn("two", n) for n in range(9)]
