"""No small change to a solution goes unnoticed: it loses points, or it changes no answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.authoring import stubs
from autograder.course.labfile import LABS as LAB_FILES
from autograder.course.records import Lab
from tests.mutation import kept
from tests.mutation.equivalence import unlike
from tests.mutation.mutants import Mutant
from tests.mutation.run import (
    OPEN,
    all_mutants,
    has_cases,
    judge,
    labs,
    left_out,
    run,
    sources_of,
)

LABS = labs()
SLICE = 6
# All mutants take too long here: one in so many, others at every commit; all by make mutants-auto.
EVERY = 12
each_lab = pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)


def test_no_lab_is_left_out_without_a_word() -> None:
    names = [path.parent.name for path in LAB_FILES.glob("*/lab.toml")]
    assert len(names) >= len(LABS) > 0
    assert left_out(names) == ()
    assert left_out([*names, "lab99_new"]) == ("lab99_new",)
    assert all(has_cases(name) for name in OPEN)


@each_lab
def test_a_slice_of_the_mutants(lab: Lab) -> None:
    every = len(all_mutants(lab)) // SLICE
    tally = judge(lab, all_mutants(lab)[every // 2 :: every])
    assert tally.faults == ()
    assert tally.mutants >= SLICE
    assert tally.mutants - tally.survivors > SLICE / 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
@each_lab
def test_the_mutants(lab: Lab) -> None:
    tally = run(lab, EVERY)
    print(tally.line)
    assert tally.faults == ()
    assert tally.survivors == tally.shown > 0


@each_lab
def test_mutants_change_the_solution_and_nothing_else(lab: Lab) -> None:
    hints = {exercise.id: "" for exercise in lab.exercises}
    sources = sources_of(lab)
    assert len({mutant.id for mutant in all_mutants(lab)}) == len(all_mutants(lab)) > 100
    assert {mutant.file for mutant in all_mutants(lab)} == set(lab.files)
    assert {mutant.exercise for mutant in all_mutants(lab)} == {e.id for e in lab.exercises}
    for mutant in all_mutants(lab)[::10]:
        stub = stubs.stub_of(mutant.text, mutant.file, hints)
        assert stub == stubs.stub_of(sources[mutant.file], mutant.file, hints)
        assert mutant.before != mutant.after
        assert all(line in mutant.text for line in mutant.after.splitlines())


@each_lab
def test_the_list_names_mutants_that_there_are(lab: Lab) -> None:
    assert kept.unknown(kept.load(kept.path_of(lab)), all_mutants(lab)) == ()


def test_other_code_is_told_from_the_solution() -> None:
    lab = next(lab for lab in LABS if lab.name.startswith("lab2_"))
    sources = sources_of(lab)

    def changed(file: str, old: str, new: str) -> str:
        assert old in sources[file]
        return unlike(lab, {**sources, file: sources[file].replace(old, new)})

    assert unlike(lab, sources, cases=30) == ""
    assert "attention" in changed("attention.py", ".triu(1)", ".triu(2)")
    assert "off by" in changed("attention.py", "**-0.5", "**-0.500001")
    assert "other inputs" in changed(
        "attention.py", "scores + attention_mask", "attention_mask.add_(0.5) + scores"
    )
    assert "counts" in changed("mlp.py", "2 * head_dim", "2 * head_dim + 1")
    assert "ZeroDivisionError" in changed("mlp.py", "values = 2", "values = 1 // 0 * 2")
    assert "import" in changed("mlp.py", "import torch\n", "import torch\n1 / 0\n")
    assert "does not end" in changed("mlp.py", "values = 2", "while True:\n        values = 2")


def test_what_survives_and_what_is_listed_have_to_be_the_same() -> None:
    def mutant(name: str) -> Mutant:
        return Mutant(name, "f.py", "x", 1, "operator", "before", f"after {name}", "")

    made = tuple(mutant(name) for name in "abcd")
    entry = kept.Kept("f.py", "x", "before", ("after a", "after b"), "why")
    verdict = kept.compare((entry,), made, (made[0], made[2]))
    assert (verdict.open, verdict.gone) == ((made[2],), (made[1],))
    assert len(verdict.faults) == 2
    assert kept.unknown((entry,), made) == ()
    assert len(kept.unknown((replace(entry, before="other"),), made)) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[equivalent]", "equivalent.toml"),
        ('[[equivalent]]\nfile = "f"', "expected the keys"),
        ('[[equivalent]]\nfile="f"\nexercise="e"\nbefore="b"\nafter=[]\nwhy="w"', "list of texts"),
        ('[[equivalent]]\nfile="f"\nexercise="e"\nbefore="b"\nafter=["a"]\nwhy=""', "not empty"),
        (
            '[[equivalent]]\nfile="f"\nexercise="e"\nbefore="b"\nafter=["a", "a"]\nwhy="w"',
            "stands twice",
        ),
    ],
)
def test_a_list_that_is_wrong_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "equivalent.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(kept.KeptError, match=says):
        kept.load(path)
