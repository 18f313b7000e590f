"""Diagnosis in a real grading: what it says, and that it costs nobody a point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autograder.checks.plan import Plan, collect
from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import Certainty, CheckResult, HandIn, Outcome
from autograder.diagnosis.bank import Bank
from autograder.diagnosis.naming import Naming
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.judge import diagnose
from autograder.judge.diagnose import KnownMistakes
from autograder.sandbox.links import WorkerLost
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.transport import Sources
from tests import hand_ins
from tests.engines import warm

LAB = labfile.load(labfile.find_lab("2"))
SCORES = "q @ k.transpose(-1, -2) * self.head_dim**-0.5"
FORWARD = "        batch, seq, _ = hidden_states.shape\n"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with warm(LAB, Options(jobs=2)) as engine:
        yield engine


def changed(*changes: tuple[str, str], file: str = "attention.py") -> dict[str, str]:
    files = hand_ins.right()
    for old, new in changes:
        assert files[file].count(old) == 1, old
        files[file] = files[file].replace(old, new)
    return files


def graded(engine: Engine, files: dict[str, str]) -> HandIn:
    return hand_ins.grade(engine, hand_ins.hand_in("someone", files))["someone"]


def said(hand_in: HandIn) -> str:
    return " ".join(render(m, "en") for finding in hand_in.findings for m in finding.known)


def test_a_listed_mistake_is_named_with_the_checks_and_the_stage(engine: Engine) -> None:
    hand_in = graded(engine, changed((SCORES, "q @ k.transpose(-1, -2)")))
    (finding,) = hand_in.findings
    assert finding.certainty is Certainty.NAMED
    assert [one.id for one in finding.misconceptions] == ["no_scale"]
    assert finding.exercises == ("lab2.attention",)
    assert set(finding.checks) == set(hand_ins.not_passed(hand_in))
    assert "products of q and k. The first difference: the scaled scores" in said(hand_in)


def test_of_what_is_not_listed_is_said_what_is_known(engine: Engine) -> None:
    odd = "(q @ k.flip(0).flip(2).transpose(-1, -2)) * 0.31"
    (finding,) = graded(engine, changed((SCORES, odd))).findings
    assert finding.certainty is Certainty.UNKNOWN
    assert finding.misconceptions == ()
    text = " ".join(render(m, "en") for m in finding.known)
    assert "k after the rotation. The first difference: the products of q and k" in text
    assert all(render(m, "zh") != render(m, "en") for m in finding.known)


LOOP = f"""{FORWARD}
        d, out, (cos, sin) = self.head_dim, [], self.rotary(torch.arange(seq))
        Q, K, V = (f(hidden_states) for f in (self.q_proj, self.k_proj, self.v_proj))
        for h in range(self.num_heads):
            j = h * self.num_kv_heads // self.num_heads
            q = self.q_norm(Q[..., h * d : (h + 1) * d])[:, None]
            k = self.k_norm(K[..., j * d : (j + 1) * d])[:, None]
            q, k = apply_rotary_pos_emb(q, k, cos, sin)
            scores = q @ k.mT * d**-0.5 WRONG + torch.full((seq, seq), -1e30).triu(1)
            out.append(scores.softmax(-1)[:, 0] @ V[..., j * d : (j + 1) * d])
        return self.o_proj(torch.cat(out, -1))
"""
PRODUCTS, LOOSE = "the products of q and k", " (it has the right numbers, perhaps in another order)"
SCORES_ARE, SUMS = "the scaled scores", "the weighted sums of the values"


@pytest.mark.parametrize(
    ("change", "agrees", "differs"),
    [
        ((SCORES, "q @ k.mT * self.head_dim**-0.5 * 1.01"), PRODUCTS, SCORES_ARE),
        ((SCORES, "q * self.head_dim**-0.5 @ k.mT * self.head_dim**-0.5"), PRODUCTS, SCORES_ARE),
        ((SCORES, "k @ q.mT * self.head_dim**-0.5"), SCORES_ARE + LOOSE, "the attention weights"),
        ((FORWARD, LOOP.replace("WRONG", "")), "", ""),
        ((FORWARD, LOOP.replace("WRONG", "* 1.01")), PRODUCTS + LOOSE, SUMS),
    ],
)
def test_no_stage_is_told_as_right_or_wrong_that_is_not(
    change: tuple[str, str], agrees: str, differs: str
) -> None:
    known = diagnose.known(str(LAB.folder / "fingerprints.bank"), None)
    assert known is not None
    local = LocalTransport(Sources(changed(change)))
    found = diagnose.stages_of(collect(LAB.folder), known.bank.courses["lab2.attention"], local)
    local.close()
    text = "".join(render(message, "en") for message in found)
    assert (f"{agrees}. The first difference: {differs}" in text) if agrees else not text


def test_what_an_experiment_shows_has_a_name_in_any_form(engine: Engine) -> None:
    eps = "RMSNorm(head_dim, config.rms_norm_eps)"
    files = changed()
    files["attention.py"] = files["attention.py"].replace(eps, "RMSNorm(head_dim, 2e-6)")
    (finding,) = graded(engine, files).findings
    assert finding.certainty is Certainty.SHOWN
    assert [one.id for one in finding.misconceptions] == ["eps_fixed"]


@pytest.mark.parametrize(
    ("returned", "mistake"),
    [
        ("{y},", "tuple_returned"),
        ("[{y}, None]", "tuple_returned"),
        ("None", "nothing_returned"),
        ("({y}, x.zero_())[0]", "argument_changed"),
    ],
)
def test_what_checks_tell_themselves_has_a_name(
    engine: Engine, returned: str, mistake: str
) -> None:
    y = "self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))"
    files = changed((f"return {y}", "return " + returned.format(y=y)), file="mlp.py")
    (finding,) = graded(engine, files).findings
    assert finding.certainty is Certainty.SHOWN
    assert [one.id for one in finding.misconceptions] == [mistake]
    assert all(one.section.en == "The contract" for one in finding.misconceptions)


def _holds(says: bool, student: object, case: object) -> Any:
    return says


def test_what_most_experiments_hold_for_is_not_named() -> None:
    plan = collect(LAB.folder)
    known = diagnose.known(str(LAB.folder / "fingerprints.bank"), None)
    assert known is not None
    naming = Naming(("lab2.attention",), Certainty.UNKNOWN)
    local = LocalTransport(Sources(hand_ins.right()))
    check_cases = plan.behaviours["lab2.attention"]
    for count, certainty in ((0, "unknown"), (1, "shown"), (3, "shown"), (4, "unknown")):
        said = {
            name: replace(check_case, run=partial(_holds, number < count))
            for number, (name, check_case) in enumerate(check_cases.items())
        }
        changed_plan = replace(plan, behaviours={"lab2.attention": said})
        found = diagnose.with_experiments(changed_plan, naming, known, local)
        assert found.certainty == certainty
        assert len(found.classes) == (count if certainty == "shown" else 0)
    local.close()


def test_mistakes_in_two_files_are_two_findings(engine: Engine) -> None:
    files = changed((SCORES, "q @ k.transpose(-1, -2)"))
    files["mlp.py"] = files["mlp.py"].replace("F.silu(", "F.relu(")
    findings = graded(engine, files).findings
    assert [[m.id for m in f.misconceptions] for f in findings] == [["no_scale"], ["relu"]]


@pytest.mark.parametrize("name", ["right", "stub"])
def test_nothing_is_said_of_what_is_right_or_not_begun(engine: Engine, name: str) -> None:
    files = hand_ins.right() if name == "right" else hand_ins.stub()
    assert graded(engine, files).findings == ()


def test_diagnosis_is_not_asked_for_what_passes() -> None:
    class Never:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was asked for")

    passed = [CheckResult(check.name, Outcome.PASSED) for check in LAB.checks]
    hidden = replace(passed[-1], outcome=Outcome.FAILED, hidden=True)
    for results in (passed, [*passed[:-1], hidden]):
        never: Any = Never()
        found = diagnose.findings(Plan(LAB, {}), results, [], KnownMistakes(Bank({}, {})), never)
        assert found == ()


@pytest.mark.slow
def test_code_that_behaves_otherwise_when_it_is_followed_changes_nothing(engine: Engine) -> None:
    # What torch makes is followed by a mode on its stack, which anybody can see.
    look = "import torch.overrides as o\n        modes = o._get_current_function_mode_stack()\n"
    followed = "if any(type(mode).__name__ == '_Steps' for mode in modes)"
    wrong = (SCORES, "q @ k.transpose(-1, -2)")
    plain = graded(engine, changed(wrong))
    for act in ("1 / 0", "while True: pass", "return 'no tensor'", "raise SystemExit"):
        trap = f"{FORWARD}        {look}        {followed}:\n            {act}\n"
        hand_in = graded(engine, changed(wrong, (FORWARD, trap)))
        assert hand_ins.outcomes(hand_in) == hand_ins.outcomes(plain)
        assert [m.id for f in hand_in.findings for m in f.misconceptions] == ["no_scale"]


def test_a_damaged_bank_costs_names_and_no_points(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "fingerprints.bank"
    path.write_bytes(b"not a bank")
    assert diagnose.known(str(path), None) is None
    assert "no mistake will be named" in capfd.readouterr().err
    assert diagnose.known(None, None) is None


def test_somebody_elses_kill_leaves_no_gap_in_what_is_known() -> None:
    plan = collect(LAB.folder)
    sources = Sources(changed((SCORES, "q @ k.transpose(-1, -2)")))
    known = diagnose.known(str(LAB.folder / "fingerprints.bank"), None)
    assert known is not None

    class Killed(LocalTransport):
        killed = forgiven = 0

        def exchange(self, request: Any, tensors: Any) -> Any:
            if self.killed < 1:
                self.killed += 1
                raise WorkerLost("signal 9", stray=True)
            return super().exchange(request, tensors)

        def forgive(self) -> None:
            self.forgiven += 1

    said = []
    for transport in (LocalTransport(sources), Killed(sources)):
        try:
            said.append(diagnose.stages_of(plan, known.bank.courses["lab2.attention"], transport))
        finally:
            transport.close()
    assert transport.killed == transport.forgiven == 1  # type: ignore[attr-defined]
    assert said[0] == said[1] != []
