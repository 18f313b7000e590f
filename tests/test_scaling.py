"""The scaling benchmark: its ratios, its bars, and whose figures it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench, scaling


def run(cpu: float, peak: float) -> dict[str, Any]:
    return {"cpu": cpu, "wall": cpu, "peak_mib": {"command": peak}, "peak_sum_mib": peak}


RUNS = {
    "100 on 2": run(0.1, 300.0),
    "100 on 1": run(0.1, 300.0),
    "10000 on 2": run(0.105, 321.0),
    "100 on 1 by Dask": run(0.15, 400.0),
}


def test_the_largest_class_is_held_against_the_smallest() -> None:
    found = scaling.summary(RUNS)
    assert found["scaling_10000_over_100"] == 1.05
    assert found["peak_memory_10000_over_100"] == 1.07
    assert found["dask_cpu_seconds_more"] == 5.0
    assert all(bar["met"] for bar in found["bars"].values()) and len(found["bars"]) == 2
    missed = scaling.summary(RUNS | {"10000 on 2": run(0.12, 340.0)})["bars"]
    assert [bar["met"] for bar in missed.values()] == [False, False]


def test_what_was_not_measured_is_not_claimed() -> None:
    found = scaling.summary({"100 on 2": RUNS["100 on 2"]})
    assert found["bars"] == {} and set(found) == {"scaling", "bars"}


def test_each_benchmark_leaves_the_figures_of_the_other(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    old = {"bars": {"a": 1}, "labs": {"lab3": 2}}
    path.write_text(json.dumps(scaling.merged(scaling.summary(RUNS), old)))
    both = json.loads(path.read_text())
    assert both["labs"] == {"lab3": 2} and len(both["bars"]) == 3
    bench._write({"lab": "lab2", "ours": 3}, path)
    again = json.loads(path.read_text())
    assert again["labs"] == {"lab2": {"lab": "lab2", "ours": 3}, "lab3": 2}
    assert {**again, "labs": both["labs"]} == both


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_small_class_is_measured_and_not_measured_again(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_text("{}")
    line = [sys.executable, str(bench.ROOT / "benchmarks" / "scaling.py"), "--sizes", "10"]
    line += ["--work", str(tmp_path / "work"), "--results", str(results)]
    subprocess.run(line, check=True)
    first = results.read_text()
    runs = json.loads(first)["scaling"]
    assert set(runs) == {"10 on 2", "10 on 1", "10 on 1 by Dask"}
    assert all(one["cpu"] > 0.05 for one in runs.values())
    assert set(runs["10 on 2"]["peak_mib"]) == {"command", "judge", "zygote"}
    assert not (tmp_path / "work" / "class10").exists()
    subprocess.run(line, check=True)
    assert results.read_text() == first
