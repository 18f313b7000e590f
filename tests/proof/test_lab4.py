"""Lab 4's own promises: stand-ins keep lab 2's mistakes out, and given code is no answer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from autograder.course import labfile
from autograder.course.records import HandIn, Outcome
from autograder.course.score import points_of
from autograder.worker.loader import read_sources
from tests.proof.subject import SUBJECTS

LAB2, SUBJECT = SUBJECTS["lab2"], SUBJECTS["lab4"]
STAND_IN_POINTS = 82
OWN = {"lab4.attention", "lab4.mlp", "lab4.past"}
ANSWERS = """
from labs.given.{0} import *
import labs.given.{0}
"""


def hand_ins() -> dict[str, dict[str, str]]:
    """Right models with all kinds of parts; and models that are given code's."""
    stub = read_sources(SUBJECT.lab.folder, SUBJECT.lab.files)[0]
    raising = dict.fromkeys(("attention.py", "mlp.py"), "raise RuntimeError\n")
    found = {
        "stub parts": SUBJECT.sources | {n: stub[n] for n in raising},
        "parts that raise": SUBJECT.sources | raising,
        "carried": SUBJECT.sources | LAB2.sources,
        "carried, wrong": SUBJECT.sources
        | {"mlp.py": LAB2.sources["mlp.py"]}
        | {
            "attention.py": SUBJECT.sources["attention.py"].replace(
                "x.repeat_interleave(n_rep, dim=1)", "x.repeat(1, n_rep, 1, 1)"
            )
        },
        "parts alone": SUBJECT.sources | {"model.py": stub["model.py"]},
    }
    for module in ("model", "generate", "checkpoint"):
        found[f"given {module}"] = stub | {"model.py": ANSWERS.format(module)}
    return found


@pytest.fixture(scope="module")
def graded() -> dict[str, HandIn]:
    return SUBJECT.grade(hand_ins())


def earned(hand_in: HandIn) -> int:
    return points_of(SUBJECT.lab, hand_in.results).earned


def outcomes(hand_in: HandIn, exercise: str) -> set[Outcome]:
    found = {result.check: result.outcome for result in hand_in.results}
    (chosen,) = (e for e in SUBJECT.lab.exercises if e.id == exercise)
    return {found[check.name] for check in chosen.checks}


def test_most_points_are_those_of_stand_ins() -> None:
    points = sum(e.points for e in SUBJECT.lab.exercises if e.id not in OWN)
    assert points == STAND_IN_POINTS >= 70


def test_parts_cost_a_right_model_nothing(graded: dict[str, HandIn]) -> None:
    assert earned(graded["stub parts"]) == STAND_IN_POINTS
    assert earned(graded["parts that raise"]) == STAND_IN_POINTS
    for exercise in OWN:
        assert outcomes(graded["stub parts"], exercise) == {Outcome.NOT_STARTED}


def test_a_carried_file_without_past_is_not_started_there(graded: dict[str, HandIn]) -> None:
    assert earned(graded["carried"]) == STAND_IN_POINTS + 4
    assert outcomes(graded["carried"], "lab4.past") == {Outcome.NOT_STARTED}


def test_a_mistake_of_lab_2_is_hardly_paid_for_twice(graded: dict[str, HandIn]) -> None:
    wrong = graded["carried, wrong"]
    assert earned(wrong) >= 90
    lost = set(SUBJECT.lost(wrong))
    assert lost == {
        "test_attention_parity", "test_whole_logits", "test_whole_padded", "test_whole_checkpoint",
    }  # fmt: skip


def test_parts_without_a_model_earn_theirs(graded: dict[str, HandIn]) -> None:
    assert earned(graded["parts alone"]) == 4 + 9


def test_given_code_is_no_answer(graded: dict[str, HandIn]) -> None:
    for module in ("model", "generate", "checkpoint"):
        assert earned(graded[f"given {module}"]) == 0, module


def checkpoints() -> ModuleType:
    path = labfile.SOLUTIONS / SUBJECT.lab.name / "checkpoints.py"
    spec = importlib.util.spec_from_file_location("checkpoints", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_checkpoints_are_what_their_source_gives(tmp_path: Path) -> None:
    checkpoints().main(tmp_path)
    here = SUBJECT.lab.folder / "checkpoints"
    made = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    kept = {p.relative_to(here): p.read_bytes() for p in here.rglob("*") if p.is_file()}
    assert made == kept
