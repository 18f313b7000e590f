"""A class of lab 5 through the real engine: the fault of a rank costs its check and is named."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import HandIn, Lab, Submission
from autograder.grading.engine import Engine, kept_name
from autograder.grading.judge_process import Options
from autograder.sandbox.recording import KeptTransport
from autograder.worker.loader import read_sources
from tests.hand_ins import grade, hand_in, nothing_left_behind, outcomes, results

# Ranks by themselves: tests/sandbox/test_ranks.py, in `make check`.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
]
CHECKS = (
    "test_row_runs", "test_row_parity", "test_row_loader", "test_row_sum", "test_row_collectives",
    "test_qkv_runs", "test_qkv_on_ranks", "test_qkv_shapes",
    "test_mlp_runs", "test_mlp_parts", "test_mlp_shards", "test_mlp_ranks",
)  # fmt: skip
SUM = "        dist.all_reduce(y)\n"
# What stands before the sum over ranks, by hand-in.
FAULTS = {
    "skips": "        if dist.get_rank() == 2:\n            return y\n",
    "dies": "        if dist.get_rank() == 1:\n            import os; os.abort()\n",
    "hangs": "        while dist.get_rank() == 3:\n            pass\n",
}
OUTCOMES = {"skips": "failed", "dies": "crashed", "hangs": "timed_out"}
SENTENCES = {
    "skips": "rank 2 returned without the all_reduce in which ranks 0, 1 and 3 still waited",
    "dies": "the process of rank 1 (of 2) ended: signal SIGABRT, while rank 0 waited for it",
    "hangs": "rank 3 (of 4) was stopped after 0.75 s of CPU time, while ranks 0, 1 and 2 waited",
}


def sources(fault: str = "") -> dict[str, str]:
    names = ("attention.py", "mlp.py", "model.py")
    files = read_sources(labfile.SOLUTIONS / "lab5_tensor_parallel", names)[0]
    assert files["attention.py"].count(SUM) == 1
    changed = files["attention.py"].replace(SUM, FAULTS.get(fault, "") + SUM)
    return files | {"attention.py": changed}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Lab 5, with less patience for what hangs."""
    there = labfile.find_lab("lab5")
    folder = shutil.copytree(there, tmp_path_factory.mktemp("labs") / there.name)
    text = (folder / "lab.toml").read_text(encoding="utf-8")
    assert text.count("cpu_seconds = 2\n") == 1
    text = text.replace("cpu_seconds = 2\n", "cpu_seconds = 0.75\n")
    (folder / "lab.toml").write_text(text, encoding="utf-8")
    return labfile.load(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def graded(lab: Lab, folder: Path) -> Iterator[dict[str, HandIn]]:
    """Faults and right hand-ins between each other."""
    names = [name for fault in FAULTS for name in (fault, f"right beside {fault}")]
    options = Options(checks=CHECKS, jobs=2, keep=folder, replay=False)
    with nothing_left_behind(), Engine(lab, options) as engine:
        engine.wait_ready()
        with nothing_left_behind(judges=True):
            yield grade(engine, *(hand_in(name, sources(name)) for name in names))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_rank_costs_its_check_and_is_named(
    graded: dict[str, HandIn], fault: str
) -> None:
    found = outcomes(graded[fault])
    assert found["test_row_sum"] == OUTCOMES[fault]
    message = results(graded[fault])["test_row_sum"].message
    assert message is not None
    assert SENTENCES[fault] in render(message, "en")
    assert render(message, "zh") != render(message, "en")
    kept = {
        *("test_row_runs", "test_row_parity", "test_row_loader", "test_qkv_runs"),
        *("test_qkv_on_ranks", "test_qkv_shapes"),
        *("test_mlp_runs", "test_mlp_parts", "test_mlp_shards"),
    }
    assert {name for name in kept if found[name] != "passed"} == set()
    assert found["test_mlp_ranks"] == "skipped"  # it needs the sum


@pytest.mark.parametrize("fault", FAULTS)
def test_the_class_goes_on(graded: dict[str, HandIn], fault: str) -> None:
    assert set(outcomes(graded[f"right beside {fault}"]).values()) == {"passed"}


def test_kept_answers_of_ranks_say_the_same(
    lab: Lab, folder: Path, graded: dict[str, HandIn]
) -> None:
    submissions = []
    for name in graded:
        kept = KeptTransport(folder / kept_name(name)).hand_in
        submissions.append(Submission(name, kept["files"]))
    with nothing_left_behind(), Engine(lab, Options(checks=CHECKS, kept=folder)) as engine:
        engine.wait_ready()
        assert grade(engine, *submissions) == graded


@pytest.mark.slow
def test_a_loss_in_every_check_ends_the_exercise(lab: Lab) -> None:
    """Three lost workers are three, ranks or not."""
    text = sources()["attention.py"].replace(
        "        rank, world = dist.get_rank(), dist.get_world_size()\n",
        "        rank, world = dist.get_rank(), dist.get_world_size()\n"
        "        if rank == 1:\n            import os; os._exit(1)\n",
    )
    options = Options(replay=False, diagnose=False)
    with nothing_left_behind(), Engine(lab, options) as engine:
        engine.wait_ready()
        record = grade(engine, hand_in("one", sources() | {"attention.py": text}))["one"]
    found = outcomes(record)
    assert found["test_qkv_shapes"] == "crashed"
    assert (
        found["test_row_sum"] == found["test_flat_parity"] == found["test_mlp_shards"] == "passed"
    )


@pytest.mark.slow
def test_ranks_are_spawned_where_nothing_can_be_forked(lab: Lab) -> None:
    checks = ("test_row_runs", "test_row_sum", "test_row_loader")
    options = Options(checks=checks, spawn=True, replay=False, diagnose=False)
    with nothing_left_behind(), Engine(lab, options) as engine:
        engine.wait_ready()
        record = grade(engine, *(hand_in(name, sources(name)) for name in ("right", "skips")))
    assert set(outcomes(record["right"]).values()) == {"passed"}
    message = results(record["skips"])["test_row_sum"].message
    assert message is not None and SENTENCES["skips"] in render(message, "en")
