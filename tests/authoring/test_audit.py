"""Every promise of the audit can be broken, and the audit says where."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autograder.authoring import audit, build, prove_cases, stubs
from autograder.authoring.place import LabSources, NotProvedError
from autograder.cli.main import main
from autograder.course import suggestions
from autograder.reference import cases
from autograder.reference.cases import Case
from autograder.wire.messages import Tensor

ROOT = Path(__file__).resolve().parents[2]
LAB = "lab2_qwen3_block"
PROMISES = {promise.text: promise for promise in audit.PROMISES}

ATTENTION, MLP = f"labs/{LAB}/attention.py", f"labs/{LAB}/mlp.py"
SOLUTION, RECIPES = f"solutions/{LAB}/attention.py", f"solutions/{LAB}/cases/rope.py"
MISTAKES = f"solutions/{LAB}/misconceptions.toml"
TOML, CHECKS = f"labs/{LAB}/lab.toml", f"labs/{LAB}/checks/test_rope.py"
EXPERIMENTS = f"labs/{LAB}/checks/behaviours.py"
HANDOUT, NOTEBOOK = f"labs/{LAB}/README.md", f"notebooks/{LAB}"
LABELS, DOCSTRINGS = "notebooks/labels.zh.toml", f"solutions/{LAB}/docstrings.zh.toml"
CHINESE_PAGE = f"labs/{LAB}/README.zh-CN.md"
MESSAGES = "autograder/course/messages"
SECRET_LINE = "    return x.repeat_interleave(n_rep, dim=1)"
MIND = "q_rotated = q * cos.to(q.dtype) + rotate_half(q) * sin.to(q.dtype)"
CHINESE = "    能运行，并保持形状不变。"


State = dict[str, tuple[int, int]]  # size and time of every file


def state_of(root: Path) -> State:
    paths = (os.path.join(at, name) for at, _, names in os.walk(root) for name in names)
    found = {path: os.stat(path) for path in paths}
    return {path: (one.st_size, one.st_mtime_ns) for path, one in found.items()}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State]:
    """A copy of everything that an audit reads, and how it was."""
    root = tmp_path_factory.mktemp("copied")
    ignore = shutil.ignore_patterns("__pycache__", "tiny_qwen3")
    for name in ("labs", "solutions", "notebooks", "autograder"):
        shutil.copytree(ROOT / name, root / name, ignore=ignore)
    for path in ROOT.glob("README*.md"):
        shutil.copy2(path, root)
    return root, state_of(root)


@pytest.fixture
def place(copied: tuple[Path, State]) -> Iterator[LabSources]:
    """The copy, put back afterwards: what was compiled goes, too."""
    root, before = copied
    yield LabSources(root, LAB)
    after = state_of(root)
    for path in after.keys() - before.keys():
        os.unlink(path)
    for path in before:
        if after.get(path) != before[path]:
            shutil.copy2(ROOT / Path(path).relative_to(root), path)
            assert state_of(Path(path).parent)[path] == before[path]


def swap(file: str, old: str, new: str) -> Callable[[Path], object]:
    """Replace the first ``old``, which has to be there, in a file of the copy."""

    def breaker(root: Path) -> None:
        text = (root / file).read_text(encoding="utf-8")
        assert old in text, f"{old!r} is no longer in {file}"
        (root / file).write_text(text.replace(old, new, 1), encoding="utf-8")

    return breaker


def add(file: str, text: str) -> Callable[[Path], object]:
    def breaker(root: Path) -> None:
        with (root / file).open("a", encoding="utf-8") as stream:
            stream.write(text)

    return breaker


def remove(file: str) -> Callable[[Path], object]:
    return lambda root: (root / file).unlink()


def add_cell(root: Path) -> None:
    path = root / f"{NOTEBOOK}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"][3]["source"] = ["x = 1\n", f'y = 2; {MIND}; z = "quoted"\n']
    path.write_text(json.dumps(notebook), encoding="utf-8")


def lose_the_docstring(root: Path) -> None:
    """A marker too high up takes the docstring out of the stub, which is "current" then."""
    path = root / SOLUTION
    marker = "    # BEGIN SOLUTION lab2.repeat_kv\n"
    head = "def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:\n"
    text = path.read_text(encoding="utf-8").replace(marker, "").replace(head, head + marker)
    path.write_text(text, encoding="utf-8")
    stubs.write(LabSources(root, LAB).lab, root / "solutions", force=True)


def renamed(root: Path) -> None:
    path = root / SOLUTION
    text = path.read_text(encoding="utf-8").replace("SOLUTION lab2.repeat_kv", "SOLUTION lab2.kv")
    path.write_text(text, encoding="utf-8")


Breaker = Callable[[Path], object]
BREAKERS: dict[str, list[tuple[Breaker, str]]] = {
    "lab.toml can be read, its points sum to 100": [
        (swap(TOML, "points = 2", "points = 3"), "lab.toml: the points sum to 101"),
        (swap(TOML, "family", "famly"), "famly: unknown key"),
    ],
    "what lab.toml gives and forbids exists": [
        (swap(TOML, "torch.nn.MultiheadAttention", "torch.nn.MultiHeadAttention"), "MultiHeadAtt"),
        (swap(TOML, "labs.given.norm", "labs.given.norms"), "no module labs.given.norms"),
    ],
    "every function of a stub is a TODO": [
        (add(MLP, "\ndef shown(x):\n    return x + 1\n"), "shown shows its body"),
    ],
    "stubs are what their solutions give": [
        (add(ATTENTION, "x = 1\n"), f"{ATTENTION}:117 is not what"),
        (add(ATTENTION, "x = 1\n"), "build --force (it was changed by hand"),
        (swap(SOLUTION, "the attention of Qwen3.", "attention."), f"{ATTENTION}:1 is not what"),
        (remove(MLP), f"{MLP} is absent; run: {suggestions.command('build')}"),
        (swap(SOLUTION, "    # END SOLUTION\n", ""), "BEGIN SOLUTION inside lab2.rotate_half"),
    ],
    "stubs keep every signature and docstring": [
        (swap(ATTENTION, "n_rep: int", "times: int"), "repeat_kv: its signature differs"),
        (swap(ATTENTION, "n_rep: int)", "n_rep: int = 1)"), "repeat_kv: its signature differs"),
        (swap(ATTENTION, "nn.Module", "nn.Linear"), "RotaryEmbedding: its signature differs"),
        (swap(MLP, "Lab 2, part 2", "Lab 2"), f"{MLP}: the module: its docstring differs"),
        (swap(MLP, "    def forward", "    def call"), "Qwen3MLP.forward is lost"),
        (add(MLP, "def more(): ...\n"), "more is not in the solution"),
        (lose_the_docstring, "repeat_kv: its docstring differs"),
    ],
    "notebooks are what their sources give": [
        (add(f"{NOTEBOOK}.py", "\n# %%\n1 + 1\n"), f"{NOTEBOOK}.ipynb is not what"),
        (remove(f"{NOTEBOOK}.ipynb"), f"{NOTEBOOK}.ipynb is not what"),
        (remove(f"{NOTEBOOK}.py"), f"{NOTEBOOK}.ipynb has no source"),
    ],
    "spot-the-error questions are what their source gives": [
        (remove(f"labs/{LAB}/spot.json"), f"labs/{LAB}/spot.json is not what"),
        (remove(f"solutions/{LAB}/spot.toml"), f"labs/{LAB}/spot.json has no source"),
        (add(f"solutions/{LAB}/spot.toml", "[[question]]\n"), ": id: is missing"),
    ],
    "no line of the solution stands where students read": [
        (add(HANDOUT, f"\n```python\n{SECRET_LINE}\n```\n"), f"{HANDOUT}:"),
        (add(HANDOUT, f"\nTry `{MIND}`.\n"), f"of attention.py: “{MIND}”"),
        # Without the comment that stands behind it in the solution.
        (add(HANDOUT, "\nfirst, second = x.chunk(2, dim=-1)\n"), "“first, second = x.chunk"),
        (swap(ATTENTION, "    raise", f"{SECRET_LINE}\n    raise"), f"{ATTENTION}:"),
        (add(TOML, f"# {MIND}\n"), f"{TOML}:"),
        (add(CHECKS, f"# {MIND}\n"), f"{CHECKS}:"),
        (add(f"{NOTEBOOK}.py", f"# {MIND}\n"), f"{NOTEBOOK}.py:"),
        (add_cell, f"{NOTEBOOK}.ipynb:"),
        (lambda root: (root / "README.zh-CN.md").write_text(MIND), "README.zh-CN.md:1 holds"),
        (add(f"labs/{LAB}/spot.json", MIND), f"labs/{LAB}/spot.json:"),
    ],
    "every exercise has TODO, checks and hint": [
        (renamed, "no block is marked # BEGIN SOLUTION lab2.repeat_kv"),
        (renamed, "lab2.kv is marked, but lab.toml has no such exercise in attention.py"),
        (
            swap(TOML, "前后两半互换", " "),
            "exercise lab2.rotate_half: title: a language is empty",
        ),
    ],
    "hints and checks are told in two languages": [
        (swap(CHECKS, CHINESE, "    It runs."), "test_rotate_half_runs: docstring: the Chinese"),
        (swap(CHECKS, "It runs and keeps", "能运行"), "test_rotate_half_runs: docstring: the En"),
        (swap(CHECKS, CHINESE, ""), "the Chinese holds no Chinese character (“It runs"),
        (swap(TOML, "结果中前一半特征移到后面，后一半取负移到前面。", "x"), "holds no Chinese"),
        (swap(TOML, "The first half of", "前一半"), "lab2.rotate_half: hint: the English"),
    ],
    "every message says the same in two languages": [
        (swap(f"{MESSAGES}/check.toml", "应为 {want}（{case}）", "应为（{case}）"), "{want} "),
        (swap(f"{MESSAGES}/check.toml", "相对误差 {error:.2g}", "相对误差 {error}"), "{error:.2g}"),
        (swap(f"{MESSAGES}/outcome.toml", 'zh = "通过"\n', ""), "[passed] needs exactly"),
        (swap(f"{MESSAGES}/outcome.toml", "通过", "passed"), "[passed]: the Chinese holds no"),
        (swap(f"{MESSAGES}/outcome.toml", '"passed"', '""'), "[passed]: the English is empty"),
        (add(f"{MESSAGES}/outcome.toml", "[x\n"), "outcome.toml: "),
    ],
    "every message that code asks for exists": [
        (swap(f"{MESSAGES}/check.toml", "[hidden]", "[hid]"), "the message check.hidden does not"),
        # Through functions that put the area in front.
        (swap(f"{MESSAGES}/check.toml", "[stuck]", "[st]"), "checks/expect.py:"),
        (swap(f"{MESSAGES}/grade.toml", "[too_weak]", "[x]"), "grading/run.py:"),
        (swap(f"{MESSAGES}/intake.toml", "[bomb]", "[x]"), "intake/archives.py:"),
        (swap(f"{MESSAGES}/intake.toml", "[special]", "[x]"), "message intake.special does not"),
        (swap(f"{MESSAGES}/board.toml", "[next]", "[x]"), "report/next_step.py:"),
        (swap(f"{MESSAGES}/report.toml", "[remark]", "[x]"), "report/table.py:"),
        (swap(f"{MESSAGES}/report.toml", "[how]", "[x]"), "templates/student.html.j2:"),
        (swap(f"{MESSAGES}/outcome.toml", "[skipped]", "[x]"), "the outcome skipped: the message"),
    ],
    "the handout has every part, and the points of lab.toml": [
        (swap(HANDOUT, "## Readings", "## Papers"), f"{HANDOUT}: has no section “## Readings”"),
        (swap(HANDOUT, "## The contract", "## Hand in"), "“## Hand in” stands too early"),
        (swap(HANDOUT, "`lab2.repeat_kv` (6 points)", "`lab2.repeat_kv`"), "“### TODO `lab2.rep"),
        (swap(HANDOUT, "Test: `make test LAB=2 K=repeat_kv`", "Test"), "lacks `make test LAB=2"),
        (swap(HANDOUT, "Test: `make test LAB=2 K=mlp`", "`make test LAB=2 K=m`"), "K=m is not lab"),
        (swap(HANDOUT, "| `lab2.mlp` | `mlp.py` | 16", "| `lab2.mlp` | `mlp.py` | 15"), "| 16 |"),
        (swap(HANDOUT, "| 15 min |", "| 15 |"), "“15” is no time for lab2.repeat_kv"),
        (swap(TOML, "points = 2", "points = 3"), "the points sum to 101"),
        (remove(HANDOUT), f"{HANDOUT} is absent; write it"),
    ],
    "Chinese pages are made of the English as it stands": [
        (swap(HANDOUT, "$1/g$ (in", "(in"), "“Which query head reads which key/value head”"),
        (swap(HANDOUT, "frequency $\\omega_i$ |", "frequency |"), "has other formulas than “TODO"),
        (swap(CHINESE_PAGE, "需要 5.06", "需要 5.6"), "lacks “5.06” and has “5.6”"),
        (swap(CHINESE_PAGE, "#### 掩码", "掩码"), "nothing tells “The mask”"),
        (add("README.md", "More.\n"), "README.zh-CN.md:"),
        (remove(CHINESE_PAGE), f"{HANDOUT} has no README.zh-CN.md; write it"),
    ],
    "Chinese docstrings are made of the English as it stands": [
        (swap(DOCSTRINGS, "    n_rep:", "    reps:"), "py: repeat_kv tells other arguments"),
    ],
    "labels of charts are in Chinese, too": [
        (swap(LABELS, '"shares" =', '"share" ='), "lab2_qwen3_block.py:541: notebooks/labels.zh"),
        (swap(LABELS, '"shares" =', '"share" ='), "no chart has the label “share”; take it out"),
        (swap(LABELS, "4 × 32,768", "4 × 32,678"), "4 × 32,678 个 token” has other numbers"),
        (swap(f"{NOTEBOOK}.py", '"causal": None', '"all": None'), "the label “all”; add it"),
    ],
    "pages and messages use the words of the glossary": [
        (swap(CHINESE_PAGE, "#### 掩码", "#### 遮蔽"), "says “遮蔽”; the glossary says “屏蔽”"),
        (add(HANDOUT, "The KV-cache grows.\n"), f"{HANDOUT}:"),
        (add(f"{MESSAGES}/board.toml", '[x]\nen = "x"\nzh = "词元"\n'), "board.toml:"),
        (add(CHECKS, "# 就地\n"), f"{CHECKS}:"),
        (add(MISTAKES, "# 补齐\n"), "says “补齐”"),
        (add(MISTAKES, "# 分数小了 8 倍\n"), "says “小了 8 倍”; 倍 only grows; write 只有 1/n"),
        (add(HANDOUT, "The mean is taken off.\n"), "says “mean is taken off”; write “subtract”"),
        (add(MISTAKES, "# it stands there\n"), "says “stands there”; write “is there”"),
        (remove("labs/glossary.md"), "labs/glossary.md is absent"),
        (swap("labs/glossary.md", "| token | token |", "| token |"), "glossary.md:10: a row"),
    ],
    "checks and recipes belong together": [
        (swap(CHECKS, '@cases("rotate_half")', '@cases("no")'), "half_runs asks for no, and"),
        (swap(CHECKS, '@cases("rotate_half")', '@cases("a_real")'), "asks for a_real"),
        (swap(CHECKS, '@cases("rotate_half")\n', ""), "test_rotate_half_runs asks for no cases"),
        (add(CHECKS, "\ndef test_more(student, case): ...\n"), f"test_more is no check of {TOML}"),
        (add(RECIPES, "\n@recipe()\ndef idle(draw): ...\n"), "no check uses the recipe idle"),
        (swap(EXPERIMENTS, '"theta_fixed", T', '"fixed", T'), "fixed_theta shows fixed, and"),
        (swap(EXPERIMENTS, '"theta_fixed", T', '"no_scale", T'), "shows the behaviour theta_fixed"),
        (swap(EXPERIMENTS, '"lab2.mlp"', '"lab2.mpl"'), "three_axes is for lab2.mpl, and lab.toml"),
        (swap(EXPERIMENTS, '@cases("mlp_flat")\n', ""), "behaves_three_axes needs both @behaviour"),
    ],
    "no check expects what another request held": [
        (
            swap(f"labs/{LAB}/checks/test_repeat_kv.py", 'x"], 1), case["x', 'y"], 1), case["y'),
            "test_repeat_kv_order expects on repeating what test_repeat_kv_once gives to the same",
        ),
    ],
    "public cases are what their recipes give": [
        (swap(RECIPES, "@recipe(public=2)\n", "@recipe(public=3)\n"), "half-public-2 is absent"),
        (swap(RECIPES, "@recipe(public=2)\n", "@recipe()\n"), "no recipe gives the case rotate_"),
        (swap(RECIPES, "x of shape", "x shaped"), "rotate_half-public-0 has another about"),
        (swap(RECIPES, "(-second, first)", "(second, first)"), "-public-0 has other values in y"),
        (remove(f"labs/{LAB}/cases.safetensors"), "cases.safetensors: not a file of cases"),
    ],
    "the number of hidden cases is told as it is": [
        (swap(RECIPES, "@recipe(public=2)\n", "@recipe(hidden=9)\n"), "not what the recipes give"),
        (remove(f"labs/{LAB}/hidden_cases.json"), "hidden_cases.json is not what"),
    ],
    "fingerprints are those of the listed mistakes": [
        (remove(f"labs/{LAB}/fingerprints.bank"), "fingerprints.bank: not made of the solution"),
        (remove(f"solutions/{LAB}/pairs.bank"), "pairs.bank: not made of what is there"),
        (swap(SOLUTION, "x.chunk(2, dim=-1)", "x.chunk(2, -1)"), "fingerprints.bank: not made of"),
        (add(f"solutions/{LAB}/stages.py", "\n"), "fingerprints.bank: not made of"),
        (swap(MISTAKES, 'new = """', 'new = """ '), "pairs.bank: not made of"),
        (swap(MISTAKES, 'name.en = "', 'name.en = "no '), "other words"),
    ],
}  # fmt: skip
TRIALS = [  # one way to break each of them is tried at once, the others by check-all
    pytest.param(text, *trial, id=text[:20], marks=[pytest.mark.slow] if number else [])
    for text, trials in BREAKERS.items()
    for number, trial in enumerate(trials)
]


@pytest.mark.parametrize("text, breaker, words", TRIALS)
def test_a_broken_promise_is_named(
    place: LabSources, text: str, breaker: Breaker, words: str
) -> None:
    breaker(place.root)  # before that, none is broken: tests/test_house.py
    assert words in "\n".join(audit.verdict(PROMISES[text], place).breaches)


def test_every_promise_has_something_that_breaks_it() -> None:
    tested_below = {"stubs score 0 and solutions 100, hidden cases included"}
    assert BREAKERS.keys() | tested_below == PROMISES.keys()


def test_stub_and_solution_are_graded_with_hidden_cases(
    place: LabSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three faults in one copy, since each run costs an engine."""
    monkeypatch.delenv("AUTOGRADER_SECRET", raising=False)
    stub = 'raise NotImplementedError("TODO lab2.rotate_half: to be written")'
    swap(ATTENTION, stub, "return x")(place.root)
    only_public = " if n_rep == 4 else x.repeat(1, n_rep, 1, 1)"
    swap(SOLUTION, SECRET_LINE, SECRET_LINE + only_public)(place.root)
    wrong = "self.up_proj(F.silu(x))"
    swap(f"solutions/{LAB}/mlp.py", "self.up_proj(x)", wrong)(place.root)
    promise = PROMISES["stubs score 0 and solutions 100, hidden cases included"]
    breaches = "\n".join(audit.verdict(promise, place).breaches)
    assert "stub: test_rotate_half_runs is passed, but nothing in a stub is started" in breaches
    assert "stub: earns 2 points" in breaches
    assert "solution: test_repeat_kv_order is failed (fails on a hidden case" in breaches
    assert "solution: test_mlp_parity is failed (the output should" in breaches
    assert "test_repeat_kv_runs" not in breaches
    assert "it has to earn 100" in breaches
    assert "AUTOGRADER_SECRET=" in breaches


def kept_cases(place: LabSources) -> list[Case]:
    return list(cases.load(place.cases))


def nudged(case: Case, name: str, factor: float) -> Case:
    array = case.tensors[name].array.copy()
    array.reshape(-1)[0] *= np.float32(factor)
    return replace(case, tensors={**case.tensors, name: Tensor.of(array)})


def store(place: LabSources, stored: list[Case], release: str = "") -> None:
    blob = cases.dump(stored, release or prove_cases.torch_release())
    place.cases.write_bytes(blob)


def test_one_value_that_moved_is_found_and_rounding_is_not(place: LabSources) -> None:
    first, *others = kept_cases(place)
    store(place, [nudged(first, "y", 1 + 1e-4), *others])
    assert ["other values in y" in found for found in prove_cases.stale(place)] == [True]
    store(place, [nudged(first, "y", 1 + 3e-7), *others])
    assert list(prove_cases.stale(place)) == []


def test_a_mask_hides_no_change(place: LabSources) -> None:
    """Its huge negative numbers are no scale for its zeros."""
    stored = kept_cases(place)
    at = next(i for i, c in enumerate(stored) if c.recipe == "attention_given_mask")
    name = next(n for n, t in stored[at].tensors.items() if t.array.min() < -1e30)
    mask = stored[at].tensors[name].array.copy()
    mask[mask == 0] = 1.0
    store(place, stored)
    assert list(prove_cases.stale(place)) == []
    stored[at] = replace(stored[at], tensors={**stored[at].tensors, name: Tensor.of(mask)})
    store(place, stored)
    assert f"{stored[at].name} has other values in {name}" in "".join(prove_cases.stale(place))


def test_another_torch_release_is_a_doubt_not_a_breach(place: LabSources) -> None:
    first, *others = kept_cases(place)
    store(place, [nudged(first, "x", 2.0), *others], "2.0.1")
    with pytest.raises(NotProvedError, match=r"drawn by torch 2\.0\.1; .*values in x"):
        list(prove_cases.stale(place))
    promise = PROMISES["public cases are what their recipes give"]
    found = audit.verdict(promise, place)
    assert found.doubt and not found.breaches
    assert audit.said(found).startswith("?  ")
    # But no release explains a case that is missing.
    store(place, others, "2.0.1")
    assert audit.verdict(promise, place).breaches


def test_it_goes_on_after_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    def doubtful(place: LabSources) -> list[str]:
        raise NotProvedError("no such machine")

    promises = [
        audit.Promise("divides", lambda place: [str(1 // 0)]),
        audit.Promise("breaks", lambda place: [f"x.py:{n} is wrong" for n in range(20)]),
        audit.Promise("doubts", doubtful),
        audit.Promise("holds", lambda place: []),
    ]
    assert audit.run("2", promises) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "FAILED  divides",
        "          could not be looked into: ZeroDivisionError: integer division or modulo by zero",
    ]
    assert lines[2:4] == ["FAILED  breaks", "          x.py:0 is wrong"]
    assert f"          … and {20 - audit.MAX_BREACHES} more" in lines
    assert lines[-4:] == [
        "?       doubts",
        "          not proved: no such machine",
        "ok      holds",
        f"{LAB}: 1 promises kept, 2 broken, 1 not proved",
    ]
    assert audit.run("2", promises[2:]) == 0


def late(place: LabSources) -> list[str]:
    time.sleep(0.2)
    return []


def ends_in(lab: str) -> audit.Promise:
    """A promise of which the process of one lab does not come back."""
    return audit.Promise("ends", lambda place: os._exit(3) if place.name == lab else [])


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_the_lines_of_each_lab_stay_together(capsys: pytest.CaptureFixture[str]) -> None:
    labs = ["lab1_foundations", LAB, "lab3_kv_cache"]
    broken = audit.Promise("breaks", lambda place: ["x"] if place.name == LAB else [])
    slow = audit.Promise("is slow", late)
    alone = audit.Promise("is alone", lambda place: [str(os.getpid())])
    assert audit.run_all(2, labs, [broken, slow]) == 1
    said = capsys.readouterr().out
    for lab in labs:
        first = "FAILED  breaks\n          x\n" if lab == LAB else "ok      breaks\n"
        counts = "1 promises kept, 1" if lab == LAB else "2 promises kept, 0"
        assert f"{first}ok      is slow\n{lab}: {counts} broken, 0 not proved\n" in said
    assert audit.run_all(1, labs, [slow]) == 0
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("lab")]
    assert [line.split(":")[0] for line in found] == labs
    assert audit.run_all(2, labs, [alone]) == 1
    processes = {line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert len(processes) == 3 and str(os.getpid()) not in "".join(processes)
    assert audit.run_all(2, labs, [ends_in(LAB)]) == 1
    said = capsys.readouterr().out
    assert f"FAILED  {LAB}: its process ended before it could tell\n" in said
    assert said.count("1 promises kept") == 2


def test_without_a_lab_all_are_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "run_all", lambda jobs: 10 + jobs)
    monkeypatch.setattr(audit, "run", lambda lab: 20 + int(lab))
    assert main(["audit", "--jobs", "3"]) == 13
    assert main(["audit", "--lab", "2"]) == 22


def test_an_unknown_lab_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("audit", "build"):
        assert main([command, "--lab", "99"]) == 2
        assert "no lab is called '99'" in capsys.readouterr().err


def test_build_mends_what_the_audit_names_and_then_rests(place: LabSources) -> None:
    swap(SOLUTION, "the attention of Qwen3.", "attention.")(place.root)
    add(f"{NOTEBOOK}.py", "\n# %%\n1 + 1\n")(place.root)
    first, *others = kept_cases(place)
    store(place, [nudged(first, "y", 2.0), *others])
    (place.folder / "mlp.py").unlink()
    place.misconceptions.unlink()  # fingerprints take minutes, and have a test of their own
    for path in (place.solution / "spot.toml", build.spots_file(place)):  # of those mistakes
        path.unlink()
    said = list(build.build(place))
    assert [line.split() for line in said] == [
        ["written", ATTENTION],
        ["written", MLP],
        ["written", f"labs/{LAB}/cases.safetensors"],
        ["unchanged", f"labs/{LAB}/hidden_cases.json"],
        ["unchanged", "notebooks/00_tokens_to_text.ipynb"],
        ["written", f"{NOTEBOOK}.ipynb"],
    ]
    for text in ("stubs are what their solutions give", "notebooks are what their sources give",
                 "public cases are what their recipes give"):  # fmt: skip
        assert audit.verdict(PROMISES[text], place).breaches == ()
    paths = [place.root / line.split()[1] for line in said]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    assert {line.split()[0] for line in build.build(place)} == {"unchanged"}
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths] == before


def test_build_leaves_a_students_work_alone(place: LabSources) -> None:
    add(ATTENTION, "# mine\n")(place.root)
    work = (place.folder / "attention.py").read_bytes()
    said = list(build.build(place))
    assert said[:2] == [
        f"left       {ATTENTION}",
        "           it was changed by hand; --force overwrites it",
    ]
    assert (place.folder / "attention.py").read_bytes() == work
    assert next(build.build(place, force=True)) == f"written    {ATTENTION}"
    assert b"# mine" not in (place.folder / "attention.py").read_bytes()


def test_broken_cases_are_written_anew(place: LabSources) -> None:
    place.cases.write_bytes(b"version https://git-lfs")
    build.write_cases(place)
    assert cases.release(place.cases) == prove_cases.torch_release()
    assert not list(place.folder.glob("cases.safetensors.*"))  # no half-written part is left
