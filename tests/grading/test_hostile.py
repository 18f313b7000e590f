"""Hand-ins that attack their grading: each earns what its maths earns, and nobody else notices.

A quick part of the catalogue of :mod:`tests.attacks`, by the engine; all of it is graded by the
command line in ``test_attacks.py``. Every attack is put in front of its own base (mostly one that
runs but computes nothing, and earns a little) and of a stub, which earns nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course.records import CheckResult, HandIn, Outcome
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.worker import jail
from tests import hand_ins, zygotes
from tests.attacks.attack import CANARY, Attack
from tests.attacks.catalogue import ATTACKS
from tests.attacks.code import READ
from tests.attacks.world import World, children, lab, world
from tests.engines import warm
from tests.hand_ins import earned, grade, hand_in, nothing_left_behind, outcomes, results

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
SECRET = b"a secret that only this test knows"
BY_ID = {attack.id: attack for attack in ATTACKS}
QUICK = (
    "01", "01b", "02", "02c", "03", "04", "05", "06", "07", "10", "11", "12", "13", "14", "14b",
    "14c", "14d", "14e", "14i", "15", "18", "20", "20b", "21", "24", "27", "35", "37", "42", "43",
    "44", "45", "45b", "45c", "45d", "57", "57c",
)  # fmt: skip
# Enough checks to earn something in every exercise; all of them would only take longer.
CHECKS = (
    "test_rotate_half_runs", "test_rotate_half_values", "test_rotate_half_dtype",
    "test_repeat_kv_runs", "test_repeat_kv_order", "test_repeat_kv_once",
    "test_attention_runs", "test_attention_loads", "test_attention_parity",
    "test_mlp_runs", "test_mlp_loads", "test_mlp_parity", "test_mlp_up_is_linear",
    "test_count_runs", "test_count_matrices", "test_count_norms",
)  # fmt: skip
MATHS = {
    "test_rotate_half_values", "test_repeat_kv_order", "test_repeat_kv_once",
    "test_attention_parity", "test_mlp_parity", "test_count_matrices", "test_count_norms",
}  # fmt: skip


@pytest.fixture(scope="module")
def around() -> Iterator[World]:
    with world(os.geteuid()) as made:
        (made.folder / "class" / "00-honest-right").mkdir()
        (made.folder / "class" / "00-honest-right" / "attention.py").write_text(f"# {CANARY}")
        yield made


@pytest.fixture(scope="module")
def engine(around: World) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_SECRET", CANARY)
        options = Options(hidden_cases=around.hidden, jobs=2, checks=CHECKS, order_seed=SECRET)
        with nothing_left_behind(), ExitStack() as stack:
            with zygotes.own():
                engine = stack.enter_context(Engine(lab(), options))
            engine.wait_ready()
            absent = set(jail._PROMISES) - jail.guarantees(engine.isolation.layers)
            if absent:  # most of what follows would then work, as the report of every run says
                pytest.skip(f"needs Linux with every layer; absent: {', '.join(sorted(absent))}")
            yield engine


@pytest.fixture(scope="module")
def quiet(engine: Engine) -> dict[str, HandIn]:
    """The records of a class without attacks: a right hand-in, one that guesses, and a stub."""
    made = {"right": hand_ins.right(), "guess": hand_ins.guessing(), "stub": hand_ins.stub()}
    return grade(engine, *(hand_in(*pair) for pair in made.items()))


def passed(record: HandIn) -> set[str]:
    return {name for name, outcome in outcomes(record).items() if outcome == "passed"}


def test_without_attacks_scores_are_what_the_maths_earns(quiet: dict[str, HandIn]) -> None:
    assert passed(quiet["right"]) == set(CHECKS) and passed(quiet["stub"]) == set()
    assert set(outcomes(quiet["stub"]).values()) == {"not_started"}
    assert passed(quiet["guess"]) and not passed(quiet["guess"]) & MATHS
    assert earned(lab(), quiet["stub"]) == 0 < earned(lab(), quiet["guess"])


@pytest.mark.parametrize(
    "attack",
    [
        # The full deadline of the lab, twice; of a smaller one in tests/sandbox/test_links.py.
        pytest.param(BY_ID[name], id=name, marks=[pytest.mark.slow] if name == "37" else [])
        for name in QUICK
    ],
)
def test_an_attack_earns_nothing_tells_nothing_and_costs_nobody(
    engine: Engine, quiet: dict[str, HandIn], around: World, attack: Attack
) -> None:
    stubbed = replace(attack, base="stub")
    with nothing_left_behind(judges=True):
        records = grade(
            engine,
            hand_in("attacking", around.files(attack)),
            hand_in("right", hand_ins.right()),
            hand_in("attacking-stub", around.files(stubbed)),
        )
    assert records["right"] == quiet["right"]
    # What only runs and has the right shape may pass; no more than without the attack.
    most = passed(quiet["guess"]) | set(attack.earns)
    for record in (records["attacking"], records["attacking-stub"]):
        assert passed(record) <= most
        assert "not_graded" not in outcomes(record).values(), "an attack is no fault of the grader"
        text = hand_ins.texts([record])
        assert CANARY not in text and "BEGIN SOLUTION" not in text and "LEAK" not in text
        if attack.ends:
            assert set(outcomes(record).values()) <= attack.ends
    assert os.listdir(around.shared) == [] and not around.heard()


@pytest.mark.parametrize("name", ["04", "03", "42"])
def test_a_right_solution_that_attacks_keeps_its_points_and_gains_none(
    engine: Engine, quiet: dict[str, HandIn], around: World, name: str
) -> None:
    attack = replace(BY_ID[name], base="right", last="", where=hand_ins.FILES)
    record = grade(engine, hand_in("right", around.files(attack)))["right"]
    assert passed(record) <= passed(quiet["right"])
    if name != "04":  # that one breaks torch for itself
        assert passed(record) == passed(quiet["right"])


def test_the_answers_are_there_to_be_found(around: World) -> None:
    """Code that runs without a jail finds every canary: none of these tests looks in vain."""
    space: dict[str, object] = {}
    code = around.fill(READ).replace('"/proc/', '"/nowhere/')
    exec(code, space)
    told = space["grab"]()  # type: ignore[operator]
    assert told.count(CANARY) > 3 and "BEGIN SOLUTION" in told


def test_no_descriptor_is_left(engine: Engine, around: World) -> None:
    """The zygote holds as many as before, however hand-ins end."""
    if os.geteuid() != 0:
        pytest.skip("only root may look into the zygote")
    before = descriptors(engine)
    for name in ("01", "14", "15", "20"):
        grade(engine, hand_in("attacking", around.files(BY_ID[name])))
    assert descriptors(engine) == before


def descriptors(engine: Engine) -> int:
    """Open descriptors of the engine's zygote (nobody but root may look into it), once it waits.

    The last worker may still be on its way out.
    """
    assert engine.processes is not None and engine.processes.zygote is not None
    zygote = engine.processes.zygote.pid
    deadline = time.monotonic() + 20
    while children(zygote, ended=True) or state(zygote) != "S":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return len(os.listdir(f"/proc/{zygote}/fd"))


def state(pid: int) -> str:
    """What a process does, in a letter: it sleeps, as a rule."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_names_of_operators_tell_nothing(engine: Engine) -> None:
    """They are written down on hidden cases too, and come from the student's process."""
    forge = """
import sys
name = "aten::scaled_dot_product_attention canary-of-a-hidden-input"
sys.modules["autograder.worker.session"].sorted = lambda seen: [name]
"""
    files = hand_ins.with_code(hand_ins.right(), forge, "attention.py")
    record = grade(engine, hand_in("forging", files))["forging"]
    assert record.marks and "canary" not in repr(record)


# ---------------------------------------------------------------- stored answers

STORED = ("test_rotate_half_values", "test_repeat_kv_order")


def by_heart(around: World) -> dict[str, str]:
    """Gives the public cases' outputs by shape, zeros otherwise, and says what it was asked."""
    asked = "real = rotate_half\ndef rotate_half(x): print('shape', x.shape); return real(x)"
    return around.files(replace(BY_ID["27"], last=f"$STORED\n{asked}"))


def test_stored_answers_pass_in_public(around: World) -> None:
    with warm(lab(), Options(checks=CHECKS)) as public:
        record = grade(public, hand_in("by-heart", by_heart(around)))["by-heart"]
    assert set(STORED) <= passed(record)


def test_stored_answers_lose_on_hidden_cases_and_learn_nothing(
    engine: Engine, around: World
) -> None:
    record = grade(engine, hand_in("by-heart", by_heart(around)))["by-heart"]
    for name in STORED:
        result = results(record)[name]
        assert (result.outcome, result.hidden) == (Outcome.FAILED, True)
        assert result.message is not None and dict(result.message.values) == {}
        bare = CheckResult(name, Outcome.FAILED, result.message, hidden=True)
        assert result == bare
    assert "shape torch" not in repr(record) and CANARY not in repr(record)
