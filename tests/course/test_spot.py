"""Spot the error: answers are sealed, sources are checked, and what the reasons say is so."""

from __future__ import annotations

import io
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from autograder.authoring import build
from autograder.authoring.place import LabSources
from autograder.cli import spot as spot_command
from autograder.course import labfile, spot
from autograder.course.records import Text
from autograder.course.spot import LETTERS, Question, SpotError

LAB = labfile.find_lab("1")
QUESTIONS = spot.load(LAB)
WHY = Text("because", "因为")


def question(right: str = "c") -> Question:
    choices = {letter: Text(letter, f"选项 {letter}") for letter in LETTERS}
    return Question("one", Text("a claim", "一条说法"), choices, spot.seal("one", right, WHY))


@pytest.mark.parametrize("right", LETTERS)
def test_only_the_right_letter_opens_the_reason(right: str) -> None:
    sealed = question(right)
    assert {letter: sealed.answer(letter) for letter in LETTERS} == {
        letter: WHY if letter == right else None for letter in LETTERS
    }
    assert b"because" not in sealed.sealed.encode()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / spot.FILE).write_text(spot.dump((question(),)), encoding="utf-8")
    assert spot.load(tmp_path) == (question(),)


def test_a_lab_may_have_no_questions(tmp_path: Path) -> None:
    assert spot.load(tmp_path) == ()


@pytest.mark.parametrize("text", ["{", "[1]", '[{"id": "one"}]', '[{"claim": []}]'])
def test_a_file_that_is_not_ours_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / spot.FILE).write_text(text, encoding="utf-8")
    with pytest.raises(SpotError, match=r"spot\.json: not a file of questions"):
        spot.load(tmp_path)


# ------------------------------------------------------------------------------ the questions


def letters() -> dict[str, str]:
    """The right letter of every question of lab 1."""
    return {q.id: next(c for c in LETTERS if q.answer(c)) for q in QUESTIONS}


def test_there_are_enough_and_no_letter_is_always_right() -> None:
    found = list(letters().values())
    assert len(found) >= 12
    assert all(found.count(letter) >= 3 for letter in LETTERS)


def test_words_are_there_in_both_languages() -> None:
    for one in QUESTIONS:
        why = one.answer(letters()[one.id])
        assert why is not None
        assert why.en.endswith(".") and why.zh.endswith("。")
        for text in (one.claim, why, *one.choices.values()):
            assert not any("\u4e00" <= c <= "\u9fff" for c in text.en), text.en
        assert len(set(map(str, one.choices.values()))) == len(LETTERS)


def told(name: str) -> str:
    """The right choice and its reason, in English."""
    one = next(q for q in QUESTIONS if q.id == name)
    why = one.answer(letters()[name])
    assert why is not None
    return f"{one.choices[letters()[name]].en} {why.en}"


def softmax(*logits: float) -> str:
    values = torch.tensor(logits, dtype=torch.float64).softmax(0)
    return "[" + ", ".join(f"{x:.4f}" for x in values.tolist()) + "]"


def half_norm() -> torch.Tensor:
    x = torch.tensor([300.0, 1, 2, -4]).half()
    return x * torch.rsqrt((x * x).mean() + 1e-6)


FACTS: dict[str, Callable[[], tuple[str, ...]]] = {
    "softmax_of_thousands": lambda: (softmax(1000, 1000.1, 1000.2), "softmax([1, 2, 3])"),
    "scale": lambda: (f"sqrt(128) = {math.sqrt(128):.1f}", f"sqrt(4096) = {math.sqrt(4096):.0f}"),
    "head_dim": lambda: (f"1024 to {16 * 128}",),
    "flops_of_a_layer": lambda: (f"{4096**2:,}", f"{2 * 4096**2:,}", "33.6 million"),
    "norm_parameters": lambda: (f"2 x 128 = {2 * 128}", f"{36 * 2 * 128:,}"),
    "rms_norm_formula": lambda: (f"{math.sqrt(4096):.0f} times", f"{math.sqrt(128):.1f} times"),
    "rms_norm_float16": lambda: (f"{300**2:,}", f"{torch.finfo(torch.half).max:,.0f}"),
    "intermediate_size": lambda: (f"{3 * 4096 * 12288:,}",),
    "mask_with_cache": lambda: ("4 and 5", "kv_len - q_len = 3"),
}


@pytest.mark.parametrize("name", FACTS)
def test_numbers_in_the_reasons_are_right(name: str) -> None:
    for words in FACTS[name]():
        assert words in told(name)


def test_what_the_claims_say_is_wrong() -> None:
    claimed = next(q for q in QUESTIONS if q.id == "softmax_of_thousands").claim.en
    assert softmax(1, 2, 3) in claimed and softmax(1, 2, 3) != softmax(1000, 1000.1, 1000.2)
    assert not half_norm().any()
    mask = torch.ones(2, 5).tril(3)
    assert mask.sum(1).tolist() == [4, 5]


# ------------------------------------------------------------------------------------ authors


@pytest.fixture
def place(tmp_path: Path) -> LabSources:
    for part in ("labs", "solutions"):
        (tmp_path / part / LAB.name).mkdir(parents=True)
    shutil.copy(labfile.SOLUTIONS / LAB.name / "spot.toml", tmp_path / "solutions" / LAB.name)
    shutil.copy(LAB / spot.FILE, tmp_path / "labs" / LAB.name)
    return LabSources(tmp_path, LAB.name)


def test_the_questions_are_what_their_source_gives(place: LabSources) -> None:
    assert list(build.stale_spots(place)) == []


def test_stale_absent_and_orphaned_questions_are_told(place: LabSources) -> None:
    target = build.spots_file(place)
    target.write_text(target.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert "is not what spot.toml gives" in next(iter(build.stale_spots(place)))
    target.unlink()
    assert "is not what spot.toml gives" in next(iter(build.stale_spots(place)))
    target.write_text("[]", encoding="utf-8")
    (place.solution / "spot.toml").unlink()
    assert "has no source" in next(iter(build.stale_spots(place)))
    target.unlink()
    assert list(build.stale_spots(place)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('right = "c"', 'right = "e"', "question mask_direction: right: must be one of a, b, c, d"),
        ("claim.zh", "claim.fr", "question mask_direction: claim: needs en, may have zh"),
        ('id = "mask_product"', 'id = "mask_direction"', "mask_direction: id: stands twice"),
        ('id = "mask_direction"', "", "question number 1: id"),
        ("[[question]]", "[[question", "spot.toml"),
        ("why.en", "wy.en", "wy: unknown key"),
    ],
)
def test_errors_name_the_question(place: LabSources, old: str, new: str, said: str) -> None:
    path = place.solution / "spot.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SpotError) as caught:
        build.made_spots(place)
    assert said in str(caught.value)


# ---------------------------------------------------------------------------------- a student


def asked(typed: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autograder", "spot", *options]
    return subprocess.run(
        command, input=typed, capture_output=True, text=True, cwd=labfile.ROOT, check=False
    )


def test_whoever_answers_everything_right_is_told_so() -> None:
    done = asked("\n".join(letters().values()) + "\n", "--lab", "1", "--lang", "en")
    assert done.returncode == 0
    assert f"{len(QUESTIONS)} of {len(QUESTIONS)} right on the first try." in done.stdout
    assert told("swiglu").split(". ", 1)[1] in " ".join(done.stdout.split())


def test_a_wrong_answer_is_asked_again_and_counts_as_wrong() -> None:
    first, *rest = letters().values()
    wrong = next(letter for letter in LETTERS if letter != first)
    done = asked(" ".join((wrong, "x", f"{first})", *rest)), "--lab", "1", "--lang", "zh")
    assert done.returncode == 1
    assert f"首次答对 {len(QUESTIONS) - 1} / {len(QUESTIONS)} 题" in done.stdout
    assert "不对" in done.stdout and "a, b, c, d" in done.stdout


def test_whoever_stops_hears_the_score_so_far() -> None:
    done = asked("", "--lab", "1", "--lang", "en")
    assert done.returncode == 1
    assert f"0 of {len(QUESTIONS)} right" in done.stdout


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(spot_command, "STATE", tmp_path / "spot.json")
    monkeypatch.setenv("AUTOGRADER_MAKE", "")
    return tmp_path / "spot.json"


def typed(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Status and output of an asking that reads ``text``."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return spot_command.run("1", "en"), capsys.readouterr().out


def test_whoever_leaves_goes_on_where_they_were(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third, *rest = letters().values()
    wrong = next(letter for letter in LETTERS if letter != second)
    status, said = typed(f"{first}\n{wrong}\n{second}\ns\nq\n", monkeypatch, capsys)
    assert status == 1 and state.exists()
    assert f"1 of {len(QUESTIONS)} right on the first try." in said
    assert f"{len(QUESTIONS) - 2} are still open" in said and "make spot LAB=1" in said
    status, said = typed("\n".join([third, *rest]), monkeypatch, capsys)
    assert status == 1 and "2 of them are answered already" in said
    assert "\n1. " not in said and "\n3. " in said  # what was skipped is asked again
    assert f"{len(QUESTIONS) - 1} of {len(QUESTIONS)} right" in said
    assert not state.exists()  # all are answered: the next time begins anew


def test_whoever_wants_begins_anew(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(next(iter(letters().values())) + "\n", monkeypatch, capsys)  # Ctrl-D keeps it, too
    assert json.loads(state.read_text()) == {LAB.name: {QUESTIONS[0].id: 1}}
    _, said = typed("r\nq\n", monkeypatch, capsys)
    assert "\n1. " in said and not state.exists()
    state.write_text("[not ours")
    _, said = typed("q\n", monkeypatch, capsys)
    assert "answered already" not in said


def test_some_claims_are_right() -> None:
    silu = torch.nn.functional.silu(torch.linspace(-6, 0, 6001, dtype=torch.float64))
    assert f"{float(silu.min()):.3f}" == "-0.278"
    assert f"{-6 + 6 * int(silu.argmin()) / 6000:.3f}" == "-1.278"
    x = torch.randn(5, 8, dtype=torch.float64)
    torch.testing.assert_close((x + 100).softmax(-1), x.softmax(-1))
    norm = torch.nn.functional.rms_norm
    torch.testing.assert_close(norm(x, (8,)), norm(5 * x, (8,)))
    torch.testing.assert_close(-norm(x, (8,)), norm(-5 * x, (8,)))
    order = torch.tensor([0, 3, 2, 1, 4])
    plain = torch.nn.functional.scaled_dot_product_attention
    torch.testing.assert_close(plain(x, x, x)[order], plain(x[order], x[order], x[order]))
    right = [n for n in letters() if told(n).startswith("Right")]
    assert len(right) >= 3


def test_a_lab_without_questions_says_so() -> None:
    done = asked("", "--lab", "2")
    assert done.returncode == 2
    assert "lab2_qwen3_block has no spot-the-error questions" in done.stderr
    assert json.loads((LAB / spot.FILE).read_text(encoding="utf-8"))
