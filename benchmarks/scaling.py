"""``make bench-scaling``: does a hand-in of a large class cost more than one of a small class?

Classes of 100, 1,000 and 10,000 hand-ins are graded once each on one and on two cores, and 100 on a
Dask cluster of one worker. CPU seconds are those of everything that grading starts; memory is the
peak of the processes that live as long as the class is graded (command, judge, zygote), each as
the kernel has kept it. What was measured is kept beside the results, so that an interrupted run
goes on where it was. The figures are merged into ``benchmarks/results.json``; exit status 1 if a
bar is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, from any folder

from autograder.course import labfile  # noqa: E402
from autograder.course.records import Lab  # noqa: E402
from autograder.grading import journal  # noqa: E402
from autograder.grading.judge_process import versions  # noqa: E402
from benchmarks import hand_ins, measure  # noqa: E402

BARS = {"scaling_10000_over_100": 1.1, "peak_memory_10000_over_100": 1.1}
SIZES = (100, 1000, 10000)
CORES = 2  # of the runs whose figures are held against the bars
EVERY = 0.2  # seconds between two looks at the processes
KINDS = {"judge.main": "judge", "worker.zygote": "zygote"}
PYTHON = sys.executable


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is not yet measured, then merge; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lab", default="2")
    sizes = "hand-ins of the classes, multiples of 10 (default: 100 1000 10000)"
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help=sizes)
    where = "folder for the classes, and for what was measured until it is deleted"
    folder = Path(tempfile.gettempdir(), "scaling")
    parser.add_argument("--work", type=Path, default=folder, help=f"{where} (default: {folder})")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results.json")
    parser.add_argument("--no-dask", action="store_true", help="leave the cluster out")
    arguments = parser.parse_args(argv)
    measure.adopt_orphans()
    lab = labfile.load(labfile.find_lab(arguments.lab))
    arguments.work.mkdir(parents=True, exist_ok=True)
    # Another state of the code is measured anew.
    state = journal.context(lab, (), versions()).hex()[:16]
    runs: dict[str, Any] = {}
    wanted = [(size, cores, False) for size in sorted(arguments.sizes) for cores in (2, 1)]
    # The largest once: what it adds on one core is waiting.
    wanted = [one for one in wanted if one[0] < 10000 or one[1] == CORES]
    wanted += [] if arguments.no_dask else [(min(arguments.sizes), 1, True)]
    _warm(lab, arguments.work)
    for size, cores, dask in wanted:
        name = f"{size} on {cores}" + (" by Dask" if dask else "")
        kept = arguments.work / f"{state} {name}.json"
        if not kept.exists():
            kept.write_text(json.dumps(_graded(lab, arguments.work, size, cores, dask)))
        runs[name] = json.loads(kept.read_text())
        print(_line(name, runs[name]), flush=True)
    found = summary(runs)
    old = json.loads(arguments.results.read_text(encoding="utf-8"))
    text = json.dumps(merged(found, old), indent=1) + "\n"
    arguments.results.write_text(text, encoding="utf-8")
    for name, bar in found["bars"].items():
        print(f"{name:<28} {bar['value']:9.3f}  {bar['bar']:<12} {bar['met']}")
    return 0 if all(bar["met"] for bar in found["bars"].values()) else 1


def _warm(lab: Lab, work: Path) -> None:
    """Byte code, hidden cases and the files of torch, so that no measured run pays for them."""
    if not (work / "cases").exists():
        (work / "secret").write_text("a secret that only benchmarks use\n")
        _graded(lab, work, 10, CORES, False)
        shutil.copytree(work / "out" / ".cases", work / "cases")


def _graded(lab: Lab, work: Path, size: int, cores: int, dask: bool) -> dict[str, Any]:
    """Grade a class of ``size``; the class and the reports are thrown away, to keep disks free."""
    source, out = work / f"class{size}", work / "out"
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    hand_ins.make(source, lab, size)
    if (work / "cases").exists():
        shutil.copytree(work / "cases", out / ".cases")
    command = [PYTHON, "-m", "autograder", "grade", str(source), "--lab", lab.name]
    command += ["--out", str(out), "--secret-file", str(work / "secret"), "--jobs", str(cores)]
    if dask:
        command = [PYTHON, "-m", "benchmarks.on_cluster", *command]
    with _PeakMemory() as watched:
        run = measure.run(command, statuses=(0, 1))
    if not (out / "class.json").exists():
        raise SystemExit(f"scaling: grading did not finish: {run.output.strip()[-500:]}")
    with (out / "class.json").open(encoding="utf-8") as file:
        graded = sum(line.startswith('{"student": ') for line in file)
    if graded != size:
        raise SystemExit(f"scaling: {graded} of {size} hand-ins were graded; {run.output[-300:]}")
    shutil.rmtree(source)
    figures = {"size": size, "cores": cores, "cpu": run.cpu / size, "wall": run.wall / size}
    peaks = {} if dask else watched.peaks  # the engine is a worker's then
    return figures | {"peak_mib": peaks, "peak_sum_mib": sum(peaks.values())}


class _PeakMemory:
    """Peak memory of a grading's command, judge and zygote, by kind and in MiB.

    The kernel keeps every process's peak, so a look now and then misses none but the very last.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> _PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            for command in _children(os.getpid()):
                self._look(command, "command")
                for child in _children(command):
                    line = _read(child, "cmdline")
                    for module, kind in KINDS.items():
                        if module in line:
                            self._look(child, kind)

    def _look(self, pid: int, kind: str) -> None:
        for line in _read(pid, "status").splitlines():
            if line.startswith("VmHWM:"):
                peak = int(line.split()[1]) / 1024
                self.peaks[kind] = max(peak, self.peaks.get(kind, 0.0))


def _children(pid: int) -> list[int]:
    return [int(one) for one in _read(pid, f"task/{pid}/children").split()]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""  # it has ended meanwhile


def summary(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Ratios of the largest class and of the smallest, and whether their bars are met.

    They are called as if the sizes were 10,000 and 100, and are left out where one was not graded.
    """
    found: dict[str, Any] = {"scaling": dict(runs), "bars": {}}
    large, small = (runs.get(f"{size} on {CORES}") for size in (SIZES[-1], SIZES[0]))
    if large and small:
        cpu = large["cpu"] / small["cpu"]
        memory = large["peak_sum_mib"] / small["peak_sum_mib"]
        for (name, bar), value in zip(BARS.items(), (cpu, memory), strict=True):
            found[name] = round(value, 3)
            told = {"value": found[name], "bar": f"at most {bar:g}", "met": value <= bar}
            found["bars"][name] = told
    local, dask = runs.get(f"{SIZES[0]} on 1"), runs.get(f"{SIZES[0]} on 1 by Dask")
    if local and dask:
        more = dask["cpu"] - local["cpu"]
        found["dask_cpu_seconds_more"] = round(more * SIZES[0], 2)  # its start included
    return found


def merged(found: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """The results with these figures; those of other benchmarks stay."""
    bars = {**old.get("bars", {}), **found["bars"]}
    return {**old, **found, "bars": bars, "labs": old.get("labs", {})}


def _line(name: str, run: Mapping[str, Any]) -> str:
    peaks = ", ".join(f"{kind} {peak:.0f}" for kind, peak in run["peak_mib"].items())
    seconds = f"{1000 * run['cpu']:7.1f} ms CPU {1000 * run['wall']:7.1f} ms wall per hand-in"
    return f"{name:<18} {seconds}  peak {run['peak_sum_mib']:.0f} MiB ({peaks})"


if __name__ == "__main__":
    sys.exit(main())
