"""Hand-ins that attack their grading: each earns what its maths earns, and nobody else notices.

Every attack is put in front of two hand-ins: a stub, which earns nothing, and one that runs but
computes nothing, which earns a little without the attack and may not earn more with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.labfile import ROOT, SOLUTIONS
from autograder.course.records import CheckResult, HandIn, Lab, Outcome, Text
from autograder.grading.engine import Engine, Options
from autograder.reference import cases, recipes
from autograder.sandbox import jail
from tests import hand_ins
from tests.attacks import ATTACKS, ENDS_AT_IMPORT, READ, Attack
from tests.hand_ins import earned, grade, hand_in, nothing_left_behind, outcomes, results

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
CANARY = "canary-3f9c"  # stands in every place that holds answers
SECRET = b"a secret that only this test knows"
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


@dataclass(frozen=True)
class Answers:
    """Places that hold answers, each with the canary in it."""

    hidden: Path
    notes: Path
    shared: Path  # a folder that anybody may write to

    def fill(self, attack: Attack) -> Attack:
        places = {
            "$HIDDEN": str(self.hidden),
            "$NOTES": str(self.notes),
            "$SHARED": str(self.shared),
            "$ROOT": str(ROOT),
        }
        parts = [attack.first, attack.last]
        for name, path in places.items():
            parts = [part.replace(name, path) for part in parts]
        return Attack(*parts)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return labfile.load(labfile.find_lab("2"))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("answers")
    for path in (folder, *list(folder.parents)[:2]):
        path.chmod(0o755)  # a jail that only changes the user must not help here
    made = recipes.build(recipes.of_lab(SOLUTIONS / "lab2_qwen3_block"), SECRET)
    about = Text(f"{CANARY} in a hidden case", f"{CANARY} 隐藏")
    place = Answers(folder / "hidden.safetensors", folder / "notes.txt", folder / "shared")
    place.hidden.write_bytes(cases.dump(replace(case, about=about) for case in made))
    place.notes.write_text(f"the answer is {CANARY}")
    place.shared.mkdir()
    place.shared.chmod(0o777)
    return place


@pytest.fixture(scope="module")
def engine(lab: Lab, answers: Answers) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_SECRET", CANARY)
        options = Options(hidden_cases=answers.hidden, jobs=2, checks=CHECKS, order_seed=SECRET)
        with nothing_left_behind(), Engine(lab, options) as engine:
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


def test_without_attacks_scores_are_what_the_maths_earns(
    quiet: dict[str, HandIn], lab: Lab
) -> None:
    assert passed(quiet["right"]) == set(CHECKS) and passed(quiet["stub"]) == set()
    assert set(outcomes(quiet["stub"]).values()) == {"not_started"}
    assert passed(quiet["guess"]) and not passed(quiet["guess"]) & MATHS
    assert earned(lab, quiet["stub"]) == 0 < earned(lab, quiet["guess"])


SLOW = {"answers nothing": pytest.mark.slow}  # until the wall clock ends it


@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW.get(n, ())) for n in ATTACKS])
def test_an_attack_earns_nothing_tells_nothing_and_costs_nobody(
    engine: Engine, quiet: dict[str, HandIn], answers: Answers, name: str
) -> None:
    attack = answers.fill(ATTACKS[name])
    with nothing_left_behind(judges=True):
        records = grade(
            engine,
            hand_in("attacking-stub", attack.on(hand_ins.stub())),
            hand_in("right", hand_ins.right()),
            hand_in("attacking-guess", attack.on(hand_ins.guessing())),
        )
    stub, guess = records["attacking-stub"], records["attacking-guess"]
    assert records["right"] == quiet["right"]
    # What only runs and has the right shape may pass; no more than without the attack.
    assert passed(stub) | passed(guess) <= passed(quiet["guess"])
    for record in (stub, guess):
        assert "not_graded" not in outcomes(record).values(), "an attack is no fault of the grader"
        text = hand_ins.texts([record])
        assert CANARY not in text and "BEGIN SOLUTION" not in text and "reached" not in text
        if name in ENDS_AT_IMPORT:
            assert {result.outcome for result in record.results} == {ENDS_AT_IMPORT[name]}
    assert os.listdir(answers.shared) == []


@pytest.mark.parametrize("name", ["patches every comparison", "exit handlers", "forks and daemons"])
def test_a_right_solution_that_attacks_keeps_its_points_and_gains_none(
    engine: Engine, quiet: dict[str, HandIn], answers: Answers, name: str
) -> None:
    files = answers.fill(ATTACKS[name]).on(hand_ins.right())
    record = grade(engine, hand_in("right", files))["right"]
    assert passed(record) <= passed(quiet["right"])
    if name != "patches every comparison":  # that one breaks torch for itself
        assert passed(record) == passed(quiet["right"])


def test_the_attacks_would_work_on_open_ground(answers: Answers) -> None:
    """The canary is really there to be found, for code that runs without a jail."""
    space: dict[str, object] = {}
    code = answers.fill(Attack(READ)).first.replace('"/proc/*/mem"', '""')
    for pattern in ("/proc/*/environ", "/proc/*/cmdline", "/proc/*/maps", "/proc/%d/mem"):
        code = code.replace(pattern, "/nowhere%d" if "%d" in pattern else "/nowhere")
    exec(code, space)
    told = space["grab"]()  # type: ignore[operator]
    assert told.count(CANARY) > 1 and "BEGIN SOLUTION" in told


def test_names_of_operators_tell_nothing(engine: Engine) -> None:
    """They are written down on hidden cases too, and come from the student's process."""
    forge = """
import sys
name = "aten::scaled_dot_product_attention canary-of-a-hidden-input"
sys.modules["autograder.sandbox.session"].sorted = lambda seen: [name]
"""
    files = hand_ins.with_code(hand_ins.right(), forge, "attention.py")
    record = grade(engine, hand_in("forging", files))["forging"]
    assert record.marks and "canary" not in repr(record)


# ---------------------------------------------------------------- stored answers


def by_heart(lab: Lab) -> dict[str, str]:
    """Gives the public cases' outputs by the shape of the input, and zeros otherwise."""
    known: dict[str, dict[tuple[int, ...], list[float]]] = {
        "rotate_half": {}, "repeating": {}, "mlp_core": {}
    }  # fmt: skip
    for case in cases.load(lab.folder / "cases.safetensors"):
        if case.recipe in known:
            known[case.recipe][case["x"].shape] = case["y"].array.reshape(-1).tolist()
    files = hand_ins.guessing()
    files["attention.py"] += f"""
ROTATED, REPEATED = {known["rotate_half"]!r}, {known["repeating"]!r}

def rotate_half(x):
    stored = ROTATED.get(tuple(x.shape))
    print("shape", tuple(x.shape))
    return (torch.zeros(x.shape) if stored is None else torch.tensor(stored).view(x.shape)).to(x)

def repeat_kv(x, n_rep):
    print("shape", tuple(x.shape))
    stored = REPEATED.get(tuple(x.shape))
    right = x.shape[0], x.shape[1] * n_rep, *x.shape[2:]
    if n_rep == 1: return x
    return torch.tensor(stored).view(right).to(x) if stored else x.new_zeros(right)
"""
    files["mlp.py"] += f"""
SHAPES = {list(known["mlp_core"])!r}

def forward(self, x):
    assert tuple(x.shape) in SHAPES, f"a shape that nobody told me: {{x}}"
    return torch.zeros_like(x)
Qwen3MLP.forward = forward
"""
    return files


STORED = ("test_rotate_half_values", "test_repeat_kv_order", "test_mlp_runs")


def test_stored_answers_pass_in_public(lab: Lab) -> None:
    with nothing_left_behind(), Engine(lab, Options(checks=CHECKS)) as public:
        public.wait_ready()
        record = grade(public, hand_in("by-heart", by_heart(lab)))["by-heart"]
    assert set(STORED) <= passed(record)


def test_stored_answers_lose_on_hidden_cases_and_learn_nothing(engine: Engine, lab: Lab) -> None:
    record = grade(engine, hand_in("by-heart", by_heart(lab)))["by-heart"]
    for name in STORED:
        result = results(record)[name]
        assert (result.outcome, result.hidden) == (Outcome.FAILED, True)
        assert result.message is not None and dict(result.message.values) == {}
        bare = CheckResult(name, Outcome.FAILED, result.message, hidden=True)
        assert result == bare
    assert "nobody told me" not in repr(record) and "shape (" not in repr(record)
    assert CANARY not in repr(record)
