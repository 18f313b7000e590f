"""Spot the error: answers are sealed, sources are checked, what the reasons say is so; reviews."""

from __future__ import annotations

import io
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
import torch

from autograder.authoring import build
from autograder.authoring.place import LabSources
from autograder.cli import review
from autograder.cli import spot as spot_command
from autograder.course import cards, labfile, spot
from autograder.course.cards import DAYS, Card, Cards
from autograder.course.records import Misconception, Text
from autograder.course.spot import LETTERS, Form, Question, SpotError

LAB = labfile.find_lab("1")
QUESTIONS = spot.load(LAB)
WHY = Text("because", "因为")


def form(right: str = "c") -> Form:
    choices = {letter: Text(letter, f"选项 {letter}") for letter in LETTERS}
    return spot.sealed(Text("a claim", "一条说法"), choices, right, WHY)


@pytest.mark.parametrize("right", LETTERS)
def test_only_the_right_letter_opens_the_reason(right: str) -> None:
    assert {letter: form(right).answer(letter) for letter in LETTERS} == {
        letter: WHY if letter == right else None for letter in LETTERS
    }
    assert b"because" not in form(right).sealed.encode()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    questions = (Question("one", (form(), form("a")), ("mask_polarity",)),)
    (tmp_path / spot.FILE).write_text(spot.dump(questions), encoding="utf-8")
    assert spot.load(tmp_path) == questions


def test_a_lab_may_have_no_questions(tmp_path: Path) -> None:
    assert spot.load(tmp_path) == ()


@pytest.mark.parametrize("text", ["{", "[1]", '[{"id": "one"}]', '[{"claim": []}]'])
def test_a_file_that_is_not_ours_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / spot.FILE).write_text(text, encoding="utf-8")
    with pytest.raises(SpotError, match=r"spot\.json: not a file of questions"):
        spot.load(tmp_path)


# ------------------------------------------------------------------------------ the questions


LABS = [path.parent for path in sorted(labfile.LABS.glob("*/lab.toml"))]


def letter(one: Form) -> str:
    """The right letter of a form."""
    return next(letter for letter in LETTERS if one.answer(letter))


def letters(questions: Sequence[Question] = QUESTIONS) -> dict[str, str]:
    """The right letter of every question as it is first asked."""
    return {one.id: letter(one.forms[0]) for one in questions}


@pytest.mark.parametrize("folder", LABS, ids=lambda path: path.name)
def test_there_are_enough_and_no_letter_is_always_right(folder: Path) -> None:
    questions = spot.load(folder)
    found = list(letters(questions).values())
    assert len(found) >= 8
    assert all(found.count(letter) >= 2 for letter in LETTERS)
    assert sum(len(one.forms) > 1 for one in questions) >= 3
    right = [one for one in questions if told(one).startswith(("Right", "It is right"))]
    assert 1 <= len(right) <= len(questions) / 2


@pytest.mark.parametrize("folder", LABS, ids=lambda path: path.name)
def test_words_are_there_in_both_languages(folder: Path) -> None:
    for one in (form for question in spot.load(folder) for form in question.forms):
        why = one.answer(letter(one))
        assert why is not None
        assert why.en.endswith(".") and why.zh.endswith("。")
        for text in (one.claim, why, *one.choices.values()):
            assert not any("\u4e00" <= c <= "\u9fff" for c in text.en), text.en
            assert text.zh
        assert len(set(map(str, one.choices.values()))) == len(LETTERS)


def told(one: Question) -> str:
    """The right choice and its reason, in English."""
    first = one.forms[0]
    why = first.answer(letter(first))
    assert why is not None
    return f"{first.choices[letter(first)].en} {why.en}"


def named(name: str) -> Question:
    return next(q for q in QUESTIONS if q.id == name)


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
        assert words in told(named(name))


def test_what_the_claims_say_is_wrong() -> None:
    claimed = named("softmax_of_thousands").forms[0].claim.en
    assert softmax(1, 2, 3) in claimed and softmax(1, 2, 3) != softmax(1000, 1000.1, 1000.2)
    assert not half_norm().any()
    mask = torch.ones(2, 5).tril(3)
    assert mask.sum(1).tolist() == [4, 5]


# ------------------------------------------------------------------------------------ authors


@pytest.fixture
def place(tmp_path: Path) -> LabSources:
    for part in ("labs", "solutions"):
        shutil.copytree(labfile.ROOT / part / LAB.name, tmp_path / part / LAB.name)
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
        ('right = "c"', 'right = "c"\nabout = ["no_such"]', "about: no_such is no misconception"),
        ('right = "c"', 'right = "c"\nproof = "1 > 2"', "proof: does not hold"),
        ('right = "c"', 'right = "c"\nproof = "1 / 0"', "proof: 1 / 0: ZeroDivisionError"),
        ('right = "c"', 'right = "c"\ndraw = [{ x = 1 }]\nlet = { y = "z" }', "let: z: NameError"),
        ('claim.en = "', 'draw = [{ x = 1 }]\nclaim.en = "{y}', "claim: cannot be filled in"),
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
    assert told(named("swiglu")).split(". ", 1)[1] in " ".join(done.stdout.split())


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
    monkeypatch.setattr(cards, "STATE", tmp_path / "spot.json")
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
    assert f"{len(QUESTIONS) - 1} of {len(QUESTIONS)} right" in said and "make review" in said
    assert [card.answered for card in Cards().due()] == [False]  # the next time begins anew
    _, said = typed("q\n", monkeypatch, capsys)
    assert "answered already" not in said


def test_what_was_half_answered_counts(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *rest = letters().values()
    wrong = next(letter for letter in LETTERS if letter != first)
    typed(f"{wrong}\nq\n", monkeypatch, capsys)
    _, said = typed("\n".join([first, *rest]), monkeypatch, capsys)
    assert f"{len(QUESTIONS) - 1} of {len(QUESTIONS)} right" in said


def test_whoever_wants_begins_anew(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(next(iter(letters().values())) + "\n", monkeypatch, capsys)  # Ctrl-D keeps it, too
    (kept,) = json.loads(state.read_text())
    assert (kept["lab"], kept["id"], kept["tries"]) == (LAB.name, QUESTIONS[0].id, 1)
    _, said = typed("r\nq\n", monkeypatch, capsys)
    assert "\n1. " in said and not state.exists()
    for text in ("[not ours", '{"lab1_foundations": {"scale": 1}}', '[{"lab": 3}]'):
        state.write_text(text)
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


def test_a_lab_without_questions_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot, "load", lambda folder: ())
    with pytest.raises(SpotError, match="lab2_qwen3_block has no spot-the-error questions"):
        spot_command.run("2", "en")


# ----------------------------------------------------------------------------- what comes back

DAY = date(2026, 3, 1)
MISTAKE = Misconception("m", "g", Text("a name"), Text("what one sees"), Text("a hint"), Text("s"))


def reviewed(
    text: str, day: date, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert review.run("en", day) == 0
    return capsys.readouterr().out


def test_what_is_known_comes_back_ever_later_and_then_no_more() -> None:
    card, days = Card("lab", "one").missed(DAY), []
    while card.due:
        days.append((date.fromisoformat(card.due) - DAY).days)
        card = card.came_back(DAY, known=True)
    assert tuple(days) == DAYS
    missed = replace(card, step=3).came_back(DAY, known=False)
    assert (missed.due, missed.step) == ("2026-03-02", 0)


@pytest.mark.parametrize("question", [q for q in QUESTIONS if len(q.forms) > 1][:2], ids=str)
def test_a_question_comes_back_with_other_numbers_in_another_order(
    question: Question, state: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    kept = Cards()
    kept.put(Card(LAB.name, question.id, tries=2).missed(DAY))
    kept.save()
    assert "the next card comes tomorrow" in reviewed("", DAY, monkeypatch, capsys)
    after = DAY + timedelta(1)
    said = reviewed("a\nb\nc\nd\n", after, monkeypatch, capsys)
    assert question.forms[1].claim.en[:20] in said and "known at once" in said
    assert "the next card comes" in reviewed("", after, monkeypatch, capsys)
    (card,) = Cards().due()
    assert card.seen == 1 and card.due > after.isoformat()


def test_a_mistake_that_was_named_comes_back_as_its_question_or_by_its_name(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    about = next(q for q in QUESTIONS if q.about)
    kept = Cards()
    for _ in range(2):  # hint by hint; it is one mistake
        kept.named(LAB.name, [MISTAKE, replace(MISTAKE, id=about.about[0])], QUESTIONS, DAY)
    kept.save()
    assert {card.id for card in Cards().due()} >= {"m", about.id}
    kept.put(replace(kept.of(LAB.name, about.id), due=""))
    kept.save()
    said = reviewed("x\nmaybe\ny\n", DAY + timedelta(1), monkeypatch, capsys)
    assert "a name" in said and "what one sees" in said and "1 of 1 known at once" in said
    assert "in 3 days" in reviewed("", DAY + timedelta(1), monkeypatch, capsys)


def test_a_day_has_no_more_than_it_says(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nothing wrong so far" in reviewed("", DAY, monkeypatch, capsys)
    kept = Cards()
    kept.named(LAB.name, [replace(MISTAKE, id=str(n)) for n in range(20)], (), DAY)
    kept.put(Card("lab9_gone", "gone", tries=1).missed(DAY))
    kept.save()
    said = reviewed("x y " * 20, DAY + timedelta(9), monkeypatch, capsys)
    assert f"{review.MOST} of {review.MOST} known at once. 12 more are waiting." in said
