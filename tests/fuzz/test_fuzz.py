"""No bytes of strangers make a reader raise what it does not name, or pass what is not right."""

from __future__ import annotations

import pytest

from tests.fuzz import growth
from tests.fuzz.profile import Tally, Target, fuzz
from tests.fuzz.targets import TARGETS, enough, fuzz_in_full


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_some_inputs(target: Target) -> None:
    tally = Tally()
    fuzz(target, target.quick, tally)
    assert tally.inputs.total() >= target.quick
    assert tally.changed.total() >= target.quick / 2


def test_no_reader_takes_more_than_linear_time() -> None:
    assert not [fault for fault in growth.faults(growth.FEW) if fault]


@pytest.mark.parametrize(
    "reader",
    [growth.SLOW, pytest.param(growth.HANGS, marks=pytest.mark.slow)],
    ids=lambda one: one.name,
)
def test_a_reader_that_does_is_found(reader: growth.Reader) -> None:
    fault, *_ = growth.faults((" ",), (reader.name,))
    assert fault and fault.startswith(reader.name)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_very_many_inputs() -> None:
    tally = fuzz_in_full()
    print(tally.line)
    assert not tally.errors
    assert enough(tally), tally.line


def test_a_broken_promise_is_found_and_counted() -> None:
    def broken(draw: object) -> None:
        raise KeyError("unnamed")

    tally = Tally()
    with pytest.raises(KeyError):
        fuzz(Target("broken", broken, 1, 1), 10, tally)
    assert tally.line.endswith("unnamed errors 1")
    assert not enough(tally)
