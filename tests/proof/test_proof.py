"""The grader is fair and sharp: right code of any style scores 100, every mistake loses points.

All hand-ins go through real gradings: judge, zygote, jailed workers, hidden cases.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from autograder.authoring.styles import texts_of
from autograder.course import labfile
from autograder.course.records import HandIn, Outcome
from autograder.course.score import points_of
from autograder.diagnosis import misconceptions
from autograder.diagnosis.misconceptions import Entry
from autograder.worker.loader import read_sources
from tests.proof.naming import unnamed, wrongly_named
from tests.proof.subject import SUBJECTS, Subject, each_lab

EXAMPLES = labfile.ROOT / "examples" / "submissions"


LAB2 = SUBJECTS["lab2"]


def expect_100(subject: Subject, styles: Sequence[Path]) -> None:
    """Styles and the solution have every point, and no mistake is seen in any of them."""
    sources = {style.name: texts_of(style, subject.lab.files) for style in styles}
    graded = subject.grade(sources | {"solution": subject.sources})
    assert len(graded) == len(styles) + 1
    lost = {name: subject.lost(hand_in) for name, hand_in in graded.items()}
    assert {name: checks for name, checks in lost.items() if checks} == {}
    assert {points_of(subject.lab, h.results).earned for h in graded.values()} == {100}
    marked = {name for name, hand_in in graded.items() if hand_in.marks}
    assert marked == subject.forbidden_styles & graded.keys()
    assert {h.student for h in graded.values() if h.findings} == set()  # no false alarm


@each_lab
def test_some_right_styles_score_100(subject: Subject) -> None:
    expect_100(subject, subject.styles[::4])


@pytest.mark.slow
@pytest.mark.timeout(1800)  # hundreds of hand-ins
@each_lab
def test_every_right_style_scores_100(subject: Subject) -> None:
    expect_100(subject, subject.styles)


def test_a_forbidden_function_is_marked_and_costs_nothing() -> None:
    subject = LAB2
    name = next(
        style for style in subject.styles if "sdpa" in style.name or "scaled_dot" in style.name
    )
    text = texts_of(name, subject.lab.files)
    hidden_name = text["attention.py"].replace(
        "scaled_dot_product_attention(", "__getattribute__('scaled_dot' + '_product_attention')("
    )
    graded = subject.grade({"plain": text, "sly": text | {"attention.py": hidden_name}})
    plain, sly = graded["plain"], graded["sly"]
    assert (
        points_of(subject.lab, plain.results).earned
        == points_of(subject.lab, sly.results).earned
        == 100
    )
    assert plain.marks[0].values["file"] == "attention.py"
    assert plain.marks[0].values["line"] > 1
    assert [mark.key for mark in sly.marks] == ["check.forbidden_operator"]


def expect_caught(
    subject: Subject, graded: Mapping[str, HandIn], mistakes: Sequence[Entry]
) -> None:
    """Every mistake loses points, in a right family, keeps what it does not break, is named."""
    faults, kept = [], []
    for mistake in mistakes:
        hand_in = graded[mistake.id]
        families = {subject.family[name] for name in subject.lost(hand_in)}
        earned = points_of(subject.lab, hand_in.results).earned
        kept.append(earned)
        if not families:
            faults.append(f"{mistake.id}: not caught")
        elif mistake.families and not families & set(mistake.families):
            faults.append(f"{mistake.id}: lost {families}, expected one of {mistake.families}")
        if families & subject.foreign(mistake.file):
            faults.append(f"{mistake.id}: a mistake in {mistake.file} cost {families}")
        if earned < 35:
            faults.append(f"{mistake.id}: kept only {earned}")
    true = {m.id: {m.class_name} for m in mistakes}
    faults += [f"{name}: not named" for name in unnamed(true, graded)]
    faults += [f"{name}: named {other}" for name, other in wrongly_named(true, graded)]
    assert faults == []
    assert statistics.median(kept) >= 60


def wrong(subject: Subject, mistakes: Iterable[Entry]) -> dict[str, dict[str, str]]:
    """The solution with one mistake in it, for each of them."""
    return {m.id: misconceptions.apply(m, subject.sources) for m in mistakes}


def slice_of(subject: Subject) -> tuple[Entry, ...]:
    """The mistakes that are graded on hidden cases as well, at every ``make check``."""
    return subject.mistakes[:: 6 if subject is LAB2 else 10]


@each_lab
def test_a_slice_of_the_mistakes_is_caught(subject: Subject) -> None:
    chosen = slice_of(subject)
    assert len(chosen) >= 9
    expect_caught(subject, subject.grade(wrong(subject, chosen)), chosen)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # hundreds of hand-ins
@each_lab
def test_every_other_mistake_is_caught(subject: Subject) -> None:
    others = [one for one in subject.mistakes if one not in slice_of(subject)]
    expect_caught(subject, subject.named(wrong(subject, others)), others)


def test_the_examples_lose_what_their_names_say() -> None:
    subject = LAB2
    folders = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
    sources = {path.name: read_sources(path, subject.lab.files)[0] for path in folders}
    graded = subject.grade(sources)
    lost = {name: subject.lost(hand_in) for name, hand_in in graded.items()}
    families = {name: {subject.family[c] for c in checks} for name, checks in lost.items()}
    outcomes = {name: set(checks.values()) for name, checks in lost.items()}

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
    assert points_of(subject.lab, graded["judy_untouched_stub"].results).earned == 0


def test_the_untouched_example_is_the_stub() -> None:
    for name in LAB2.lab.files:
        example = (EXAMPLES / "judy_untouched_stub" / name).read_text(encoding="utf-8")
        assert example == (LAB2.lab.folder / name).read_text(encoding="utf-8")
