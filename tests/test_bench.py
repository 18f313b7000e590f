"""The benchmark measures what it says: class, CPU time, the same work on every side, bars."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autograder.course import labfile
from autograder.worker.loader import read_sources
from benchmarks import bench, hand_ins, replay, stages

LAB = labfile.load(labfile.find_lab("2"))
SECONDS = {
    "import_torch": 1.0,
    "ours": 0.1,
    "bare": 0.05,
    "stripped": 0.08,
    "make_test": 1.2,
    "stripped_test": 1.1,
    "reference": 2.0,
    "watch_wall": 0.2,
    "stripped_watch_wall": 0.1,
    "import_torch_wall": 1.0,
}
BURN = "import time\nwhile time.process_time() < 0.4: pass"


@pytest.mark.slow
def test_every_stage_of_a_hand_in_is_timed() -> None:
    table = ((side, rows) for side, rows in (("worker", stages.WORKER), ("judge", stages.JUDGE)))
    wanted = {(side, what) for side, rows in table for *_, what in rows}
    found = stages.stages(LAB, repeats=1)
    absent = {("worker", "measured calls, and measuring")}  # in lab 2 nothing is
    assert wanted - absent <= {(one.side, one.what) for one in found}
    assert all(one.milliseconds > 0 and one.entries > 0 for one in found)
    calls = next(one for one in found if one.what == "the student's calls")
    assert calls.milliseconds > found[-1].milliseconds


def test_a_class_has_right_wrong_and_untouched_hand_ins(tmp_path: Path) -> None:
    made = hand_ins.make(tmp_path, LAB, 20)
    assert {kind: len(paths) for kind, paths in made.items()} == {
        "right": 12,
        "wrong": 6,
        "stub": 2,
    }
    solution, _ = read_sources(labfile.SOLUTIONS / LAB.name, LAB.files)
    stub, _ = read_sources(LAB.folder, LAB.files)
    right, wrong, stubs = (
        [read_sources(path, LAB.files)[0] for path in made[kind]] for kind in hand_ins.KINDS
    )
    assert right[0] == solution
    assert len({str(files) for files in right}) == 12
    assert stubs == [stub, stub]
    for files in wrong:
        assert sum(files[name] != solution[name] for name in LAB.files) == 1
    assert len({str(files) for files in wrong}) == 6


def test_a_class_that_cannot_be_shared_out_evenly_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="multiple of 10"):
        hand_ins.make(tmp_path, LAB, 15)


def test_a_class_that_is_called_makes_an_object() -> None:
    step = {"op": "call", "target": "nn.Identity", "args": [], "kwargs": {}}
    made: list[torch.nn.Module] = []

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    (call,) = replay.calls({"steps": [step]}, {}, lambda path: Module, {"values": [None]})
    call({})
    assert len(made) == 1


def test_cpu_time_of_grandchildren_counts() -> None:
    # Measured in a process of its own: orphans of other tests may end as children of this one.
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    measuring = (
        "import sys; from benchmarks import measure; "
        f"print(measure.run([sys.executable, '-c', {script!r}]).cpu)"
    )
    done = subprocess.run(
        [sys.executable, "-c", measuring],
        cwd=bench.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert 0.4 <= float(done.stdout) < 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")
def test_cpu_time_of_orphans_counts() -> None:
    # In a process of its own: pytest itself should not become a reaper.
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BURN!r}])"
    script = (
        "import sys; from benchmarks import measure; measure.adopt_orphans();"
        f"print(measure.run([sys.executable, '-c', {orphan!r}]).cpu)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=labfile.ROOT, capture_output=True, text=True, check=True
    )
    assert 0.4 <= float(finished.stdout) < 3


def test_a_command_that_fails_is_an_error_and_says_why() -> None:
    # In a process of its own: a run waits for all children of its process to end.
    failing = "import sys; print('no such lab'); sys.exit(3)"
    script = (
        "import sys; from benchmarks import measure\n"
        f"try: measure.run([sys.executable, '-c', {failing!r}])\n"
        "except measure.CommandFailed as error: print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=labfile.ROOT
    )
    assert "status 3" in said.stdout and said.stdout.strip().endswith("no such lab")


def test_ratios_are_medians_of_the_rounds_and_held_against_their_bars() -> None:
    slow = dict.fromkeys(SECONDS, 0.0) | {name: 3 * value for name, value in SECONDS.items()}
    odd = SECONDS | {"ours": 10.0}
    found = bench.summary([SECONDS, slow, odd], {})
    assert found["cpu_over_bare_calls"] == 2.0
    assert found["make_test_over_import_torch"] == 1.2
    assert found["reference_over_import_torch"] == 2.0
    assert found["watch_over_import_torch"] == 0.2
    assert found["rounds"] == 3
    assert all(bar["met"] for bar in found["bars"].values())


@pytest.mark.parametrize(
    ("side", "seconds", "own", "missed"),
    [
        ("ours", 0.151, {}, {"cpu_over_bare_calls"}),
        ("ours", 0.151, {"cpu_over_bare_calls": 4.0}, set()),
        ("make_test", 1.5, {}, {"make_test_over_import_torch"}),
        ("reference", 4.1, {}, {"reference_over_import_torch"}),
        ("watch_wall", 0.31, {}, {"watch_over_import_torch"}),
    ],
)
def test_a_bar_is_missed(
    side: str, seconds: float, own: dict[str, float], missed: set[str]
) -> None:
    bars = bench.summary([SECONDS | {side: seconds}], own)["bars"]
    assert {name for name, bar in bars.items() if not bar["met"]} == missed


@pytest.mark.slow
def test_a_quick_run_writes_all_figures(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    script = [sys.executable, str(labfile.ROOT / "benchmarks" / "bench.py"), "--lab", "2"]
    finished = subprocess.run(
        [*script, "--quick", "--results", str(results)], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    (found,) = json.loads(results.read_text(encoding="utf-8"))["labs"].values()
    assert set(bench.RATIOS) == set(found["bars"])
    assert found["class"]["size"] == 10
    counts = found["counts"]
    assert counts["graded_as_expected"] == {"right": 6, "wrong": 3, "stub": 1}
    without_weights = sum(not check.optional for check in LAB.checks)
    assert counts["ours"]["checks"] == counts["bare"]["checks"] == without_weights
    assert counts["ours"]["cases"] == counts["bare"]["cases"]
    assert counts["bare"]["call"] > 100
    assert len(found["raw"]) == found["rounds"] == 1
