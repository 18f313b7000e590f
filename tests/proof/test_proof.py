"""The grader is fair and sharp: right code of any style scores 100, every mistake loses points.

All hand-ins of a test go through one real grading: judge, zygote, jailed workers, hidden cases
drawn from a throw-away secret.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.load_lab import read_sources
from autograder.course.records import HandIn, Outcome, Submission
from autograder.course.score import points_of
from autograder.diagnosis import misconceptions
from autograder.diagnosis.misconceptions import Misconception
from autograder.grading.engine import Engine, Options
from autograder.grading.prepare import hidden_cases

LAB = labfile.load(labfile.find_lab("2"))
SOLUTION = labfile.SOLUTIONS / LAB.name
SOURCES, _ = read_sources(SOLUTION, LAB.files)
STYLES = sorted(p.parent for p in labfile.ROOT.glob("tests/styles/lab2/*/attention.py"))
MISTAKES = misconceptions.load(SOLUTION / "misconceptions.toml")
FAMILY = {check.name: check.family for check in LAB.checks}
EXAMPLES = labfile.ROOT / "examples" / "submissions"


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hidden_cases(LAB.name, tmp_path_factory.mktemp("proof"), b"a secret of this test")


def grade(hidden: Path, sources: Mapping[str, Mapping[str, str]]) -> dict[str, HandIn]:
    """Grade hand-ins given as text, two at a time."""
    submissions = (Submission(name, files) for name, files in sources.items())
    with Engine(LAB, Options(hidden_cases=hidden, jobs=2)) as engine:
        engine.wait_ready()
        return {hand_in.student: hand_in for hand_in in engine.grade(submissions)}


def lost(hand_in: HandIn) -> dict[str, Outcome]:
    """Checks that cost points, with their outcomes."""
    worth = {check.name for check in LAB.checks if check.points}
    return {
        result.check: result.outcome
        for result in hand_in.results
        if result.check in worth and result.outcome is not Outcome.PASSED
    }


def test_every_right_style_scores_100(hidden: Path) -> None:
    sources = {style.name: SOURCES | read_sources(style, LAB.files)[0] for style in STYLES}
    graded = grade(hidden, sources | {"solution": SOURCES})
    assert len(graded) >= 13
    assert {name: lost(hand_in) for name, hand_in in graded.items() if lost(hand_in)} == {}
    assert {points_of(LAB, h.results).earned for h in graded.values()} == {100}


def test_a_forbidden_function_is_marked_and_costs_nothing(hidden: Path) -> None:
    name = next(style for style in STYLES if "sdpa" in style.name or "scaled_dot" in style.name)
    text = read_sources(name, LAB.files)[0]
    hidden_name = text["attention.py"].replace(
        "scaled_dot_product_attention(", "__getattribute__('scaled_dot' + '_product_attention')("
    )
    graded = grade(hidden, {"plain": text, "sly": text | {"attention.py": hidden_name}})
    plain, sly = graded["plain"], graded["sly"]
    assert points_of(LAB, plain.results).earned == points_of(LAB, sly.results).earned == 100
    assert plain.marks[0].values["file"] == "attention.py"
    assert plain.marks[0].values["line"] > 1
    assert [mark.key for mark in sly.marks] == ["check.forbidden_operator"]


def expect_caught(graded: Mapping[str, HandIn], mistakes: Iterable[Misconception]) -> None:
    """Every mistake loses points, in a right family, and keeps what it does not break."""
    faults, kept = [], []
    for mistake in mistakes:
        hand_in = graded[mistake.id]
        families = {FAMILY[name] for name in lost(hand_in)}
        earned = points_of(LAB, hand_in.results).earned
        kept.append(earned)
        if not families:
            faults.append(f"{mistake.id}: not caught")
        elif not families & set(mistake.families):
            faults.append(f"{mistake.id}: lost {families}, expected one of {mistake.families}")
        if mistake.file == "attention.py" and families & {"MLP", "accounting"}:
            faults.append(f"{mistake.id}: an attention mistake cost {families}")
        if earned < 35:
            faults.append(f"{mistake.id}: kept only {earned}")
    assert faults == []
    assert statistics.median(kept) >= 60


def test_a_slice_of_the_mistakes_is_caught(hidden: Path) -> None:
    chosen = MISTAKES[::4]
    assert len(chosen) >= 40
    graded = grade(hidden, {m.id: misconceptions.apply(m, SOURCES) for m in chosen})
    expect_caught(graded, chosen)


@pytest.mark.slow
def test_every_mistake_is_caught(hidden: Path) -> None:
    graded = grade(hidden, {m.id: misconceptions.apply(m, SOURCES) for m in MISTAKES})
    expect_caught(graded, MISTAKES)


def test_the_examples_lose_what_their_names_say(hidden: Path) -> None:
    folders = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
    graded = grade(hidden, {path.name: read_sources(path, LAB.files)[0] for path in folders})
    families = {name: {FAMILY[check] for check in lost(h)} for name, h in graded.items()}
    outcomes = {name: set(lost(h).values()) for name, h in graded.items()}

    assert families["alice_right"] == families["bob_right_einsum"] == set()
    assert "QK-norm" in families["carol_norm_after_rope"]
    assert not families["carol_norm_after_rope"] & {"GQA", "causal mask", "MLP", "accounting"}
    assert "GQA" in families["dan_tiled_kv_heads"]
    assert not families["dan_tiled_kv_heads"] & {"causal mask", "MLP", "accounting"}
    assert "causal mask" in families["erin_no_causal_mask"]
    assert not families["erin_no_causal_mask"] & {"GQA", "RoPE", "MLP", "accounting"}
    assert "RoPE" in families["frank_interleaved_rope"]
    assert not families["frank_interleaved_rope"] & {"GQA", "causal mask", "MLP", "accounting"}
    assert families["grace_gate_up_swapped"] == {"MLP", "dtype and contract"}
    assert Outcome.TIMED_OUT in outcomes["henry_infinite_loop"]
    assert Outcome.CRASHED in outcomes["ivan_exits_in_forward"]
    assert outcomes["judy_untouched_stub"] == {Outcome.NOT_STARTED}
    assert points_of(LAB, graded["judy_untouched_stub"].results).earned == 0


def test_the_untouched_example_is_the_stub() -> None:
    for name in LAB.files:
        example = (EXAMPLES / "judy_untouched_stub" / name).read_text(encoding="utf-8")
        assert example == (LAB.folder / name).read_text(encoding="utf-8")
