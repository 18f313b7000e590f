"""``hint``: a step further each time, anew for another mistake, and never the solution."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.cli import hint
from autograder.cli.main import main
from autograder.course import labfile
from autograder.course.records import (
    Certainty,
    CheckResult,
    ClassRecord,
    Finding,
    HandIn,
    Isolation,
    Message,
    Misconception,
    Outcome,
    Text,
)
from tests import warm

LAB = labfile.load(labfile.find_lab("2"))
EXAMPLES = labfile.ROOT / "examples" / "submissions"
ATTENTION = next(one for one in LAB.exercises if one.id == "lab2.attention")
WRONG = Message("check.value", {"what": "it", "got": "GOT", "want": 2, "case": "here"})


def words(name: str) -> Misconception:
    texts = [Text(f"{what} of {name}", f"{name} 的 {what}") for what in ("NAME", "SEES", "HINT")]
    return Misconception(name, "RoPE", *texts, Text(f"SECTION of {name}", "节"), "the-mask")  # type: ignore[call-arg]


def graded(*wrong: str, findings: tuple[Finding, ...] = ()) -> ClassRecord:
    """A hand-in that fails these checks and passes all others."""
    results = tuple(
        CheckResult(check.name, Outcome.FAILED, WRONG)
        if check.name in wrong
        else CheckResult(check.name, Outcome.PASSED)
        for check in LAB.checks
    )
    hand_in = HandIn("you", results, findings=findings)
    return ClassRecord(LAB, Isolation("strong", (), "fork"), {}, (hand_in,))


def named(name: str, **changes: object) -> ClassRecord:
    finding = Finding(("lab2.attention",), Certainty.NAMED, (words(name),))
    return graded("test_attention_parity", findings=(replace(finding, **changes),))  # type: ignore[arg-type]


Ask = Callable[..., str]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """``hint`` on files that are graded as the record says; what it prints."""
    monkeypatch.setattr(hint, "STATE", tmp_path / "hints.json")
    monkeypatch.delenv("AUTOGRADER_MAKE", raising=False)

    def asked(record: ClassRecord, *options: str, feedback: str = "name") -> str:
        lab = replace(LAB, feedback=feedback)
        monkeypatch.setattr(hint, "untouched", lambda *_: None)
        monkeypatch.setattr(hint, "tried", lambda *_, **__: replace(record, lab=lab))
        monkeypatch.setattr(hint.labfile, "load", lambda _: lab)
        assert main(["hint", "--lab", "2", "--lang", "en", *options]) == 0
        return capsys.readouterr().out

    return asked


def told(page: str) -> list[str]:
    return [what for what in ("GOT", "HINT", "NAME", "SEES", "SECTION") if what in page]


STEPS = [
    ["GOT", "HINT"],
    ["GOT", "HINT", "NAME", "SEES"],
    ["GOT", "HINT", "NAME", "SEES", "SECTION"],
]


def test_each_call_tells_one_step_more(ask: Ask) -> None:
    pages = [ask(named("a")) for _ in range(4)]
    assert [told(page) for page in pages] == [*STEPS, STEPS[-1]]
    assert "hint 1 of 3" in pages[0] and "hint --lab 2 -k attention" in pages[0]
    assert "README.md#the-mask" in pages[2] and "test --lab 2 -k attention" in pages[2]


def test_the_handout_in_the_readers_language_is_named(ask: Ask) -> None:
    pages = [ask(named("a"), "--lang", "zh") for _ in range(3)]
    # With nothing behind it, so that it can be copied.
    assert f"：labs/{LAB.name}/README.zh-CN.md#节\n" in pages[-1]


def test_where_it_goes_wrong_is_said_at_once(ask: Ask) -> None:
    known = Message("diagnosis.differs_at_once", {"differs": {"en": "the scores", "zh": "分数"}})
    assert "The first difference: the scores." in ask(named("a", known=(known,)))


def test_it_begins_anew_for_another_mistake_and_after_it_is_right(ask: Ask) -> None:
    ask(named("a"))
    assert told(ask(named("a"))) == STEPS[1]
    assert told(ask(named("b"))) == STEPS[0]
    assert told(ask(named("b"))) == STEPS[1]
    assert told(ask(graded())) == []
    assert told(ask(named("b"))) == STEPS[0]


def test_every_folder_has_steps_of_its_own(ask: Ask, tmp_path: Path) -> None:
    ask(named("a"))
    assert told(ask(named("a"), "--folder", str(tmp_path))) == STEPS[0]
    assert told(ask(named("a"))) == STEPS[1]


@pytest.mark.parametrize("content", ["", "[]", '{"x": 3', '{"lab2_qwen3_block %s": 3}', "[" * 9999])
def test_a_damaged_state_means_the_first_step(ask: Ask, content: str) -> None:
    hint.STATE.write_text(content.replace("%s", str(LAB.folder)))
    assert [told(ask(named("a"))) for _ in range(2)] == STEPS[:2]


def test_where_nothing_can_be_remembered_there_is_a_hint_all_the_same(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hint, "STATE", tmp_path / "absent" / "hints.json")
    assert [told(ask(named("a"))) for _ in range(2)] == [STEPS[0]] * 2


def test_feedback_of_the_lab_goes_for_hints_too(ask: Ask) -> None:
    pages = [ask(named("a"), feedback="hint") for _ in range(3)]
    assert [told(page) for page in pages] == [["GOT", "HINT"], *[["GOT", "HINT", "SECTION"]] * 2]
    page = ask(named("a"), feedback="symptom")
    assert told(page) == ["GOT"] and ATTENTION.hint.en in page


def test_what_is_not_recognised_gets_the_hint_of_the_exercise_and_what_is_known(ask: Ask) -> None:
    known = Message("check.value", {"what": "KNOWN", "got": 1, "want": 2, "case": "here"})
    odd = named("a", certainty=Certainty.UNKNOWN, misconceptions=(), known=(known,))
    page = ask(odd)
    assert "KNOWN" in page and "matches no known mistake" in page
    assert page.index("KNOWN") < page.index(ATTENTION.hint.en)
    plain = ask(graded("test_attention_parity"))
    assert ATTENTION.hint.en in plain and "known mistake" not in plain


def test_only_the_first_open_exercise_or_the_one_asked_for(ask: Ask) -> None:
    both = graded("test_mlp_parity", *(c.name for c in ATTENTION.checks), findings=())
    assert "(attention.py)" in ask(both) and "mlp.py" not in ask(both)
    assert "(mlp.py)" in ask(both, "-k", "mlp") and "attention.py" not in ask(both, "-k", "mlp")


def test_an_earlier_exercise_that_fails_is_named_first(ask: Ask) -> None:
    below = next(one for one in LAB.exercises if one.id == "lab2.repeat_kv")
    both = graded(below.checks[1].name, "test_attention_parity")
    page = ask(both, "-k", "attention")
    assert f"earlier exercise does not pass yet: {below.title.en}" in page
    assert "hint --lab 2 -k repeat_kv" in page and page.index("GOT") < page.index("earlier")
    assert "earlier" not in ask(both) and "earlier" not in ask(both, "-k", "repeat_kv")
    in_another_file = graded("test_attention_parity", "test_mlp_parity")
    assert "earlier" not in ask(in_another_file, "-k", "mlp")


def test_a_file_that_cannot_be_read_has_no_earlier_exercise(ask: Ask) -> None:
    of_the_file = Message("check.syntax", {"file": "attention.py", "text": "GOT", "line": 3})
    whole = graded(*(check.name for one in LAB.exercises[:5] for check in one.checks))
    hand_in = whole.hand_ins[0]
    results = tuple(
        replace(one, message=of_the_file) if one.message else one for one in hand_in.results
    )
    broken = replace(whole, hand_ins=(replace(hand_in, results=results),))
    assert "earlier" not in ask(broken, "-k", "attention")


def test_when_all_passes_there_is_no_hint(ask: Ask) -> None:
    assert "All public cases pass" in ask(graded()) and "nothing left to hint at" in ask(graded())
    assert "All of this passes" in ask(graded(), "-k", "mlp")


def test_real_files_with_a_known_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the solutions, as students have it; make's own command is what is shown."""
    monkeypatch.setattr(hint, "STATE", tmp_path / "hints.json")
    monkeypatch.setattr("autograder.grading.hidden_cases.SOLUTIONS", tmp_path / "absent")
    monkeypatch.setenv("AUTOGRADER_MAKE", "")
    folder = shutil.copytree(EXAMPLES / "grace_gate_up_swapped", tmp_path / "mine")
    done = warm.run("hint", "--lab", "2", "--folder", folder, "--lang", "zh")
    page = done.stdout
    assert done.status == 0 and "提示 1 / 3" in page and "make hint LAB=2 K=mlp" in page
    assert sorted(path.name for path in folder.iterdir()) == ["attention.py", "mlp.py"]
