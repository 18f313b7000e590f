"""Known hand-ins are graded once for their content, and a recording that is stale is found."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring import answers, recording
from autograder.authoring.answers import AnswerRequest, Answers, Shorts, run_here
from autograder.authoring.recording import (
    RecordedEngine,
    Recording,
    StaleRecordingError,
    code_of,
    state_of,
)
from autograder.checks.plan import collect
from autograder.course.records import Lab, Outcome
from tests import labs, tiny_lab
from tests.labs import changed_labs

HAND_INS = {"right": tiny_lab.right(), "wrong": tiny_lab.doing(three="return x")}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return tiny_lab.build(tmp_path_factory.mktemp("recorded") / "lab9_doubling")


@pytest.fixture(scope="module")
def first(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recording of both hand-ins."""
    folder = tmp_path_factory.mktemp("recordings")
    with RecordedEngine(lab, None, recording=Recording(folder)) as engine:
        found = engine.grade(HAND_INS)
    assert outcome(found["right"]) is Outcome.PASSED
    assert outcome(found["wrong"]) is Outcome.FAILED
    return folder


def outcome(record: Any) -> Outcome:
    return next(r.outcome for r in record.results if r.check == "test_three")


class _Started(Exception):
    pass


@pytest.fixture
def none_starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def start(*_: object) -> None:
        raise _Started

    monkeypatch.setattr(recording, "Engine", start)
    yield


class Settled(Recording):
    """A recording of which every entry is answered anew, or none."""

    def __init__(self, folder: Path, *, due: bool) -> None:
        super().__init__(folder, "")
        self.due = due

    def is_due(self, key: str) -> bool:
        return self.due


def never_due(path: Path) -> Settled:
    return Settled(path, due=False)


@pytest.mark.usefixtures("none_starts")
def test_what_is_recorded_is_read_and_nothing_runs(lab: Lab, first: Path) -> None:
    engine = RecordedEngine(lab, None, recording=never_due(first))
    other_names = {"b": HAND_INS["right"], "a": HAND_INS["wrong"], "c": HAND_INS["right"]}
    found = engine.grade(other_names)
    assert [record.student for record in found.values()] == ["b", "a", "c"]
    assert [outcome(r) for r in found.values()] == [Outcome.PASSED, Outcome.FAILED, Outcome.PASSED]
    message = next(r.message for r in found["a"].results if r.check == "test_three")
    assert message is not None and message.key
    with pytest.raises(_Started):
        engine.grade({"new": tiny_lab.doing(one="return x")})
    with pytest.raises(_Started):  # other checks are another question
        engine.grade({"b": HAND_INS["right"]}, ["test_free", "test_one"])


def test_every_entry_is_answered_anew_at_some_commit(lab: Lab, first: Path) -> None:
    known = Recording(first)
    commits = [str(number) for number in range(200)]
    due = [commit for commit in commits if Recording(first, commit).is_due("an entry")]
    assert 1 <= len(due) <= 40
    assert Recording(first, due[0]).is_due("an entry") and known.path.is_file()


def test_a_stale_entry_is_found_when_its_turn_comes(lab: Lab, first: Path, tmp_path: Path) -> None:
    stale = Recording(Path(shutil.copytree(first, tmp_path / "stale")))
    engine = RecordedEngine(lab, None, recording=never_due(tmp_path / "stale"))
    (key,) = engine.keys({"wrong": HAND_INS["wrong"]}).values()
    entry = stale.get(key)
    entry["results"] = [{**one, "outcome": "passed"} for one in entry["results"]]
    stale.put(key, entry)
    assert outcome(engine.grade(HAND_INS)["wrong"]) is Outcome.PASSED  # as it stands there
    due = next(r for n in range(500) if (r := Recording(stale.path.parent, str(n))).is_due(key))
    with (
        RecordedEngine(lab, None, recording=due) as engine,
        pytest.raises(StaleRecordingError, match=r"lab9_doubling: wrong: .*test_three"),
    ):
        engine.grade(HAND_INS)


def test_one_in_twenty_runs_whole_and_shows_whether_answers_may_be_shared(
    lab: Lab, tmp_path: Path
) -> None:
    # Text that mentions nothing of it, and yet changes what comes after it in its process.
    carries = {"carries": tiny_lab.doing(one="type(x).__rmul__ = lambda self, other: self")}
    known = Settled(tmp_path, due=True)
    with RecordedEngine(lab, None, recording=known) as engine:
        assert outcome(engine.grade(HAND_INS)["wrong"]) is Outcome.FAILED
        with pytest.raises(StaleRecordingError, match="lab9_doubling: carries"):
            engine.grade({**HAND_INS, **carries})


def test_a_key_holds_what_an_answer_hangs_on_and_no_words_or_points(
    lab: Lab, tmp_path: Path
) -> None:
    def changed(**fields: Any) -> str:
        first, *others = lab.exercises
        check, *rest = first.checks
        own = replace(first, checks=(replace(check, **fields), *rest))
        return state_of(replace(lab, exercises=(own, *others)))

    state = state_of(lab)
    assert changed(points=77, family="RoPE", title=lab.title) == state
    assert changed(fresh=True) != state
    assert changed(needs=("test_one",)) != state
    assert state_of(replace(lab, limits=replace(lab.limits, cpu_seconds=9))) != state
    other = tiny_lab.build(tmp_path / "lab9_doubling")
    assert state_of(other) == state
    checks = other.folder / "checks" / "test_answer.py"
    text = checks.read_text(encoding="utf-8")
    checks.write_text(text.replace("three gives twice", "three is twice"), encoding="utf-8")
    assert state_of(other) == state
    checks.write_text(text.replace('case["y"]', 'case["x"]'), encoding="utf-8")
    assert state_of(other) != state


def test_what_is_answered_does_not_hang_on_sentences_and_what_is_said_does(tmp_path: Path) -> None:
    def code(why: str, then: str = "2") -> list[str]:
        path = tmp_path / "test_x.py"
        path.write_text(f"one, two = {why}, Text('b', 'b')\nthree = f({then}, {why}); four = 4\n")
        return [code_of(path), code_of(path, words=False)]

    plain = code("Text('a', 'a')")
    for other in ("Text('c', 'a')", "Text(\n  f'c{d + 1}',\n  'é',\n)", "Text(x(Text('a')), 'b')"):
        assert code(other)[0] != plain[0] and code(other)[1] == plain[1]
    assert code("Text('a', 'a')", "3")[1] != plain[1]
    assert plain[1].endswith("one, two = Text(), Text()\nthree = f(2, Text()); four = 4\n")


def test_an_answer_of_any_kind_is_recorded(tmp_path: Path) -> None:
    known = never_due(tmp_path)
    assert known.answer("key", lambda: {"a": [1]}, "a thing") == {"a": [1]}
    assert known.answer("key", lambda: {"a": [2]}, "a thing") == {"a": [1]}
    known.due = True
    with pytest.raises(StaleRecordingError, match="a thing: recorded as 1, but it comes to 2"):
        known.put("other", 1)
        known.answer("other", lambda: 2, "a thing")


def test_check_proves_the_labs_that_differ(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *name, *words], check=True, capture_output=True)

    for lab in ("lab1_foundations", "lab3_kv_cache", "lab4_tinyllm"):
        (tmp_path / "solutions" / lab).mkdir(parents=True)
        (tmp_path / "solutions" / lab / "mlp.py").write_text("1\n")
    assert changed_labs.__wrapped__(tmp_path) == set()  # no repository
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    assert changed_labs.__wrapped__(tmp_path) == set()  # nothing to compare with
    git("tag", "v1")
    (tmp_path / "solutions" / "lab3_kv_cache" / "mlp.py").write_text("2\n")
    assert changed_labs.__wrapped__(tmp_path) == {"lab3"}
    git("commit", "-qam", "second")
    (tmp_path / "solutions" / "lab4_tinyllm" / "new.py").write_text("3\n")
    assert changed_labs.__wrapped__(tmp_path) == {"lab3", "lab4"}
    git("tag", "v2")
    assert changed_labs.__wrapped__(tmp_path) == {"lab4"}


def test_answers_of_banks_are_read_too(lab: Lab, tmp_path: Path, monkeypatch: Any) -> None:
    def short(sources: str, items: Any = None, width: int = 8) -> Shorts:
        asking = Answers(collect(lab.folder), Recording(tmp_path))
        return asking.short([AnswerRequest(HAND_INS[sources], items)], what="answers", width=width)[
            0
        ].items

    first = short("wrong")
    assert first["lab9.many"] and {"lab9.many", "lab9.other"} <= first.keys()
    two = {"lab9.many": sorted(first["lab9.many"])[:2]}
    chosen = short("wrong", two, 3)
    assert {name: sorted(items) for name, items in chosen.items()} == two
    three = {"lab9.many": sorted(first["lab9.many"])[:3]}
    asked: list[set[str]] = []

    def seen(*given: Any, only: tuple[str, ...], **options: Any) -> Any:
        asked.append(set(only))
        return run_here(*given, only=only, **options)

    with monkeypatch.context() as patch:  # what is wanted besides is asked alone
        patch.setattr(answers, "run_here", seen)
        assert {name: sorted(items) for name, items in short("wrong", three, 3).items()} == three
    assert asked == [{"test_free", three["lab9.many"][2].split("/")[0]}]
    monkeypatch.setattr(answers, "run_here", None)
    for again, before in ((short("wrong"), first), (short("wrong", two, 3), chosen)):
        for name, items in before.items():
            for key, found in items.items():
                other = again[name][key]
                assert (other.vector == found.vector).all()
                assert replace(other, vector=found.vector) == found
    with pytest.raises(TypeError):  # nothing of another hand-in is known
        short("right")


@pytest.mark.slow
def test_many_answers_come_from_several_processes(lab: Lab, tmp_path: Path) -> None:
    wanted = [
        AnswerRequest(tiny_lab.doing(three=f"return {n} * x")) for n in range(answers.FEW + 1)
    ]
    plan = collect(lab.folder)
    many = Answers(plan, Recording(tmp_path / "many"), jobs=2).short(wanted, what="answers")
    alone = Answers(plan, Recording(tmp_path / "alone"), jobs=1).short(wanted, what="answers")
    digests = [
        [[s.digest for items in one.items.values() for s in items.values()] for one in found]
        for found in (alone, many)
    ]
    assert digests[0] == digests[1]
    assert len({str(one) for one in alone}) == len(wanted)


def test_proofs_of_other_labs_are_left_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(labs, "changed_labs", lambda: {"lab4"})
    left_out = [
        "tests/proof/test_lab6.py::test_work_that_nobody_can_count_is_no_zero",
        "tests/proof/test_proof.py::test_a_slice_of_the_mistakes_is_caught[lab1]",
        "tests/mutation/test_mutants.py::test_a_slice_of_the_mutants[lab3_kv_cache]",
        "tests/styles/test_lab5_styles.py::test_there_are_enough_styles",
        "tests/judge/test_odd_replies.py::test_any_answer[lab1-test_silu]",
        "tests/reference/test_lab1_oracle.py::test_an_embedding_is_that_of_torch",
        "tests/commands/test_serve.py::test_every_right_style_of_lab7_says_what_a_plain_model_says[a]",
    ]
    proved = [
        *(name.replace("lab", "lab4 was lab") for name in left_out),
        "tests/proof/test_proof.py::test_a_slice_of_the_mistakes_is_caught[lab2]",
        "tests/proof/test_proof.py::test_the_examples_lose_what_their_names_say",
        "tests/grading/test_lab1.py::test_ones_own_norm_passes",
        "tests/commands/test_serve.py::test_twenty_at_once_are_what_each_is_alone",
    ]
    assert [name for name in (*left_out, *proved) if labs.is_left_out(name)] == left_out
