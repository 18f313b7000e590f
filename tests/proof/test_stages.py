"""Stages: what is said of known mistakes in each lab, and that no right step is called wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pytest

from autograder.authoring import fingerprints
from autograder.authoring.place import LabSources
from autograder.authoring.styles import texts_of
from autograder.checks.plan import collect
from autograder.course.messages import render
from autograder.course.records import Message
from autograder.diagnosis import bank, misconceptions
from autograder.judge import diagnose
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.transport import Sources
from tests.proof.subject import SUBJECTS, Subject, each_lab

# An exercise, a mistake, the last step that is right (none: "") and the first that differs.
TOLD = (
    ("lab1.attention", "scale_by_keys", "the products of q and k", "the scaled scores"),
    ("lab1.multi_head", "softmax_twice", "the attention weights", "the weighted sums"),
    ("lab1.feed_forward", "gate_added", "SiLU of the gate", "the gate times up"),
    ("lab2.attention", "no_scale", "the products of q and k", "the scaled scores"),
    ("lab2.mlp", "gate_and_up_added", "SiLU of the gate", "the gate times up"),
    ("lab3.attention", "only_keys_turned", "k after the rotation", "the products of q and k"),
    ("lab4.decoder_layer", "mlp_not_normed", "the input plus attention", "the output of mlp"),
    ("lab4.decoder_layer", "norms_swapped", "", "the output of input_layernorm"),
    ("lab5.flat_attention", "flat_no_mask", "the scaled scores", "the attention weights"),
    ("lab5.attention", "q_norm_for_both", "the output of qkv_proj", "the normed heads of k"),
    ("lab5.attention", "v_rotated", "k after the rotation", "the output, by attention and o_proj"),
    ("lab6.router", "normed_over_tokens", "the top_k largest", "the weights that sum to one"),
    ("lab6.experts", "silu_on_both_halves", "SiLU of the gate", "the gate times up"),
    ("lab6.sparse_moe", "softmax_over_tokens", "the logits", "the softmax over all experts"),
    ("lab7.attention", "attention_no_q_norm", "the output of q_proj", "the normed heads of q"),
)  # fmt: skip


@contextmanager
def running(files: Mapping[str, str]) -> Iterator[LocalTransport]:
    transport = LocalTransport(Sources(files))
    try:
        yield transport
    finally:
        transport.close()


def stages_of(subject: Subject, files: Mapping[str, str]) -> dict[str, str]:
    """What is said of the stages of these files, in English, by exercise."""
    place, plan = LabSources.find(subject.lab.name), collect(subject.lab.folder)
    said = {}
    for exercise, course in fingerprints.of_lab(place, plan).items():
        with running(files) as transport:
            found = diagnose.stages_of(plan, course, transport)
        said[exercise] = " ".join(render(message, "en") for message in found)
    return said


@pytest.mark.parametrize(("exercise", "mistake", "agrees", "differs"), TOLD)
def test_the_first_step_that_differs_is_told(
    exercise: str, mistake: str, agrees: str, differs: str
) -> None:
    subject = SUBJECTS[exercise.split(".")[0]]
    entry = next(entry for entry in subject.mistakes if entry.id == mistake)
    said = stages_of(subject, misconceptions.apply(entry, subject.sources))[exercise]
    before, _, after = said.partition("he first difference: ")
    assert after.startswith(differs)
    assert agrees in before and bool(agrees) == ("up to: " in before)


@pytest.mark.slow
@each_lab
def test_no_step_of_right_code_differs(subject: Subject) -> None:
    """But for the last: that it is wrong is known where anything is said at all."""
    place, plan = LabSources.find(subject.lab.name), collect(subject.lab.folder)
    last = {
        exercise: course.stages[-1].name.en
        for exercise, course in fingerprints.of_lab(place, plan).items()
    }
    for files in (subject.sources, *(texts_of(s, subject.lab.files) for s in subject.styles)):
        for exercise, said in stages_of(subject, files).items():
            assert not said or f"difference: {last[exercise]}." in said


@each_lab
def test_the_bank_has_the_stages_of_today(subject: Subject) -> None:
    """Its hash knows the lab's ``stages.py``, and not the steps that several labs share."""
    place, plan = LabSources.find(subject.lab.name), collect(subject.lab.folder)
    kept, made = bank.load(place.fingerprints).courses, fingerprints.of_lab(place, plan)
    assert kept.keys() == made.keys()
    for exercise, course in made.items():
        assert kept[exercise].check == course.check
        for old, new in zip(kept[exercise].stages, course.stages, strict=True):
            assert (old.id, old.name, old.after, old.ordered) == (
                new.id, new.name, new.after, new.ordered,
            )  # fmt: skip
            assert np.array(old.rows) == pytest.approx(np.array(new.rows), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("diagnosis.agrees", {"agrees": "q", "differs": "the scores"}),
        ("diagnosis.differs_at_once", {"differs": "the scores"}),
    ],
)
def test_of_several_exercises_the_one_with_these_steps_is_named(
    key: str, values: dict[str, str]
) -> None:
    said = diagnose._of(SUBJECTS["lab1"].lab, "lab1.attention", Message(key, values))
    for language, title in (("en", "Scaled dot-product attention"), ("zh", "缩放点积注意力")):
        text = render(said, language)
        assert title in text and all(value in text for value in values.values())
