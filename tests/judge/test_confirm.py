"""Counts that a hand-in makes up are told to a person; what right code takes is as it says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import cast

import pytest

from autograder.authoring.styles import texts_of
from autograder.checks.plan import CheckCase, Plan
from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import CheckResult, HandIn, Message, Outcome
from autograder.grading.engine import Engine, order_of
from autograder.grading.judge_process import Options
from autograder.judge import hand_in as judge_hand_in
from autograder.report import student_pages
from autograder.sandbox.transport import WorkerTransport
from tests.engines import warm
from tests.hand_ins import grade, hand_in
from tests.judge.test_judging_is_bounded import CASE, LAB
from tests.report import classes
from tests.styles import solutions

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
NAMES = {3: "lab3_kv_cache", 6: "lab6_flash_moe"}
CHECKS = {
    3: ("test_decoding_rows",),
    6: (
        *("test_flash_growth", "test_flash_skips", "test_flash_cap"),
        *("test_experts_flops", "test_experts_bytes"),
    ),
}
NAIVE_ATTENTION = """

def flash_attention(q, k, v, causal, block_q, block_k):
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q.float() @ k.float().mT * q.shape[-1] ** -0.5
    if causal:
        rows, columns = scores.shape[-2:]
        later = torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)
        scores = scores.masked_fill(later, -torch.inf)
    return (scores.softmax(-1) @ v.float()).to(q.dtype)
"""
NAIVE_EXPERTS = """

def forward(self, x, chosen, shares):
    whole = torch.zeros(len(x), len(self.down_proj)).scatter(1, chosen, shares)
    total = torch.zeros_like(x)
    for expert, (both, down) in enumerate(zip(self.gate_up_proj, self.down_proj)):
        gate, up = (x @ both.T).chunk(2, -1)
        total += (gate * gate.sigmoid() * up) @ down.T * whole[:, expert, None]
    return total
Experts.forward = forward
"""
FORGED_COSTS = """

import sys
def measure(function, args, kwargs, files, cap=0):
    with torch.no_grad():
        result = function(*args)
    if len(args) == 3:
        flops, peak = 6 * args[1].numel() * args[0].shape[1] * function.down_proj.shape[2], 9999
    else:
        (_, heads, rows, size), columns = args[0].shape, args[1].shape[2]
        hidden = rows * (rows - 1) // 2 if args[3] else 0
        flops, peak = 4 * size * heads * (rows * columns - hidden), 400 * rows
    return [result, {"peak": peak, "alive": 1, "flops": flops, "over": False, "largest": 1,
                     "operator": "bmm", "kind": "float32", "file": "", "line": 0, "kept": False,
                     "shape": [1], "fenced": True}]
sys.modules["autograder.worker.costs"].measure = measure
"""
NAIVE_DECODING = """

once = GroupedQueryAttention.forward
def forward(self, x, start, *args, **kwargs):
    self.seen = torch.cat((self.seen[:, :start], x), 1) if start else x
    self.wk(self.seen), self.wv(self.seen)
    return once(self, x, start, *args, **kwargs)
GroupedQueryAttention.forward = forward
"""
FORGED_ROWS = """

import contextlib, sys
@contextlib.contextmanager
def counted(module, names):
    yield dict.fromkeys(names, 1)
sys.modules["autograder.worker.costs"].counted = counted
"""


def files_of(lab: int, folder: str = "") -> dict[str, str]:
    """The files of a style, by default those of the solution."""
    found = labfile.load(labfile.ROOT / "labs" / NAMES[lab])
    styles = solutions.STYLES / f"lab{lab}"
    return texts_of(styles / folder if folder else solutions.SOLUTIONS / found.name, found.files)


def with_code(files: dict[str, str], **code: str) -> dict[str, str]:
    """The files with ``code`` at the end of those called so."""
    return {name: text + code.get(name.removesuffix(".py"), "") for name, text in files.items()}


NAIVE = {
    3: with_code(files_of(3), attention=NAIVE_DECODING),
    6: with_code(files_of(6), attention=NAIVE_ATTENTION, mlp=NAIVE_EXPERTS),
}
FORGED = {
    3: with_code(NAIVE[3], attention=FORGED_ROWS),
    6: with_code(NAIVE[6], attention=FORGED_COSTS, mlp=FORGED_COSTS),
}


@pytest.fixture(params=[3, pytest.param(6, marks=pytest.mark.slow)])
def lab(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def engine(lab: int) -> Iterator[Engine]:
    found = labfile.load(labfile.ROOT / "labs" / NAMES[lab])
    needs = {c.name: c.needs for c in found.checks}
    asked = list(CHECKS[lab])
    for name in asked:  # it grows
        asked += needs[name]
    with warm(found, Options(checks=tuple(asked))) as engine:
        yield engine


def drawn() -> Iterator[str]:
    """Students whose hand-ins are confirmed, whatever is in them."""
    return (
        name
        for name in (f"s{n}" for n in range(999))
        if judge_hand_in.confirmation_due((), order_of(b"", name))
    )


def is_passed(lab: int, record: HandIn) -> bool:
    passed = {r.check for r in record.results if r.outcome is Outcome.PASSED}
    return passed.issuperset(CHECKS[lab])


def confirmed(marks: tuple[Message, ...]) -> list[str]:
    return sorted(mark.key for mark in marks if mark.key.startswith("check.more_"))


@linux
def test_counts_that_are_made_up_are_told_to_the_instructor_alone(lab: int, engine: Engine) -> None:
    right, naive, forger = islice(drawn(), 3)
    files = {right: files_of(lab), naive: NAIVE[lab], forger: FORGED[lab]}
    records = grade(engine, *(hand_in(name, text) for name, text in files.items()))
    assert is_passed(lab, records[right]) and is_passed(lab, records[forger])
    assert not is_passed(lab, records[naive])  # its own counts tell: nothing else is to be said
    assert not confirmed(records[right].marks) and not confirmed(records[naive].marks)
    told = confirmed(records[forger].marks)
    assert told == {3: ["check.more_time"], 6: ["check.more_bytes", "check.more_time"]}[lab]
    for mark in records[forger].marks:
        if mark.key in told:
            texts = render(mark, "en"), render(mark, "zh")
            assert all(f"{mark.values[n]:.0f}" in t for n in ("said", "seen") for t in texts
                       if n in mark.values)  # fmt: skip
    assert not confirmed(records[forger].shown_marks)


def test_a_student_does_not_read_them_and_the_instructor_does() -> None:
    mark = Message("check.more_bytes", {"checks": {"en": "a", "zh": "a"}, "said": 1, "seen": 98765})
    record = classes.typical(1)
    record = replace(record, hand_ins=(replace(record.hand_ins[0], marks=(mark,)),))
    for language in ("en", "zh"):
        assert "98765" not in student_pages.student_markdown(record, record.hand_ins[0], language)
        assert "98765" in classes.page(record, language)


def test_one_in_ten_is_drawn_and_whoever_is_marked() -> None:
    seeds = [order_of(b"key", f"s{n}") for n in range(1000)]
    assert 60 < sum(judge_hand_in.confirmation_due((), seed) for seed in seeds) < 140
    assert all(
        judge_hand_in.confirmation_due((Message("check.forbidden", {}),), seed) for seed in seeds
    )


class Blind:
    """A worker of which the system tells nothing."""

    def exact(self) -> AbstractContextManager[None]:
        return nullcontext()

    def usage(self) -> None:
        return None


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.FAILED])
def test_where_nothing_is_visible_nothing_is_said(outcome: Outcome) -> None:
    def asks(student: judge_hand_in.WatchedHandIn, case: object) -> None:
        student.usage()
        raise AssertionError

    check_case = CheckCase("confirm_a", CASE, asks)  # type: ignore[arg-type]
    plan = Plan(LAB, {}, confirmations={("test_a",): check_case})
    results = [CheckResult("test_a", outcome)]
    assert judge_hand_in.disagreements(plan, results, cast(WorkerTransport, Blind())) == []


@linux
@pytest.mark.slow
def test_right_styles_take_what_they_say(lab: int, engine: Engine) -> None:
    styles = ["", *solutions.styles(f"lab{lab}")]
    who = dict(zip(drawn(), styles, strict=False))
    records = grade(engine, *(hand_in(name, files_of(lab, style)) for name, style in who.items()))
    assert all(is_passed(lab, record) for record in records.values())
    assert len(records) == len(styles)
    assert not {who[s]: r.marks for s, r in records.items() if confirmed(r.marks)}
