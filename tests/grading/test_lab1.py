"""Lab 1 gives no norm: what the course gives elsewhere would be an answer here."""

from __future__ import annotations

import pytest

from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import Outcome, Submission
from autograder.grading.judge_process import Options
from autograder.worker.loader import read_sources
from tests.engines import warm

LAB = labfile.load(labfile.find_lab("1"))
RIGHT, _ = read_sources(labfile.SOLUTIONS / LAB.name, LAB.files)
NORM_CHECKS = tuple(c.name for c in LAB.checks if c.exercise == "lab1.rms_norm")
OWN = "class RMSNorm(nn.Module):"
IMPORTS = {
    "from the module": "from labs.given.norm import RMSNorm",
    "from the package": "from labs.given import norm\nRMSNorm = norm.RMSNorm",
    "dotted": "import labs.given.norm\nRMSNorm = labs.given.norm.RMSNorm",
    "from the attribute": "import labs.given\nRMSNorm = labs.given.norm.RMSNorm",
    "late": "import importlib\nRMSNorm = importlib.import_module('labs.given.norm').RMSNorm",
    "from the table": "import sys\nRMSNorm = sys.modules['labs.given.norm'].RMSNorm",
}


def handed_in(code: str) -> dict[str, str]:
    """The solution with the given norm in place of its own."""
    assert RIGHT["mlp.py"].count(OWN) == 1
    text = RIGHT["mlp.py"].replace(OWN, f"{OWN.replace('RMSNorm', 'Own')}")
    return RIGHT | {"mlp.py": f"{text}\n\n{code}\n"}


@pytest.fixture(scope="module")
def graded() -> dict[str, dict[str, Outcome]]:
    options = Options(checks=NORM_CHECKS, jobs=2)
    wrong = {name: handed_in(code) for name, code in IMPORTS.items()}
    submissions = [Submission(n, files) for n, files in (wrong | {"right": RIGHT}).items()]
    found: dict[str, dict[str, Outcome]] = {}
    with warm(LAB, options) as engine:
        for hand_in in engine.grade(iter(submissions)):
            found[hand_in.student] = {result.check: result.outcome for result in hand_in.results}
            if hand_in.student == "from the module":
                message = hand_in.results[0].message
                assert message is not None
                told = render(message, "en")
                assert "the standard library, labs.given.tokenizer, and" in told
    return found


def test_ones_own_norm_passes(graded: dict[str, dict[str, Outcome]]) -> None:
    assert graded["right"].keys() == set(NORM_CHECKS)
    assert set(graded["right"].values()) == {Outcome.PASSED}


@pytest.mark.parametrize("way", IMPORTS)
def test_the_given_norm_is_not_to_be_had(way: str, graded: dict[str, dict[str, Outcome]]) -> None:
    assert graded[way].keys() == set(NORM_CHECKS)
    assert Outcome.PASSED not in graded[way].values()
