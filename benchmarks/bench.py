"""``make bench``: what grading costs, against cold pytest and against the bare calls.

Every round measures all sides one after the other, so that a slow moment of the machine hits
them alike; a ratio is taken within a round, and the median over the rounds is held against its
bar. Prints a table, writes ``benchmarks/results.json``; exit status 1 if a bar is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, from any folder

from autograder.course import labfile  # noqa: E402
from autograder.grading.judge_process import versions  # noqa: E402
from benchmarks import hand_ins, measure  # noqa: E402
from benchmarks.sides import BenchmarkError, Sides  # noqa: E402

# name: (numerator, denominator, bar, whether the ratio has to be at least or at most the bar)
RATIOS = {
    "cpu_ratio_cold_pytest": ("cold", "ours", 12.0, "at least"),
    "cpu_ratio_cold_pytest_hf": ("cold_hf", "ours", 40.0, "at least"),
    "cpu_over_bare_calls": ("ours", "bare", 4.0, "at most"),
    "make_test_over_import_torch": ("make_test", "import_torch", 1.8, "at most"),
    "cold_over_import_torch": ("cold_right", "import_torch", 2.5, "at most"),
    "reference_over_import_torch": ("reference", "import_torch", 4.0, "at most"),
    # The one that somebody waits for: both sides on the wall.
    "watch_over_import_torch": ("watch_wall", "import_torch_wall", 0.4, "at most"),
}
# Where the truth is taken from transformers for comparison, and two bars are higher.
FLAGSHIP = "lab2_qwen3_block"
HIGHER = {"cpu_ratio_cold_pytest": 20.0, "cpu_over_bare_calls": 3.0}
SIDES = ("ours", "cold", "bare", "make_test", "reference", "watch")

SCALING = (  # and of `make bench` itself, see suite.py
    "scaling",
    "scaling_10000_over_100",
    "peak_memory_10000_over_100",
    "dask_cpu_seconds_more",
    "check_over_import_torch",
    "check_all_over_import_torch",
    "suite",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure one lab; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lab", default="2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=100, help="hand-ins, a multiple of 10")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results.json")
    quick = "10 hand-ins, one round: shows that it works; bars do not count, so status 0"
    parser.add_argument("--quick", action="store_true", help=quick)
    arguments = parser.parse_args(argv)
    sample = {"right": 6, "wrong": 3, "stub": 1}
    if arguments.quick:
        arguments.rounds, arguments.size = 1, 10
        sample = dict.fromkeys(sample, 1)
    measure.adopt_orphans()
    lab = labfile.load(labfile.find_lab(arguments.lab))
    try:
        with tempfile.TemporaryDirectory() as folder:
            sides = Sides(lab, Path(folder), arguments.size, sample)
            wanted = (*SIDES, "cold_hf") if lab.name == FLAGSHIP else SIDES
            rounds = [_round(sides, wanted, number) for number in range(1, arguments.rounds + 1)]
    except (BenchmarkError, measure.CommandFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    found = summary([flat(one) for one in rounds], HIGHER if lab.name == FLAGSHIP else {})
    found["class"] = {"size": arguments.size, "shares": hand_ins.SHARES, "cold_sample": sample}
    found["counts"] = _counts(rounds[-1])
    found["machine"] = {"cpus": os.cpu_count(), "load": os.getloadavg()}
    found |= {"lab": lab.name, "versions": versions(), "raw": rounds}
    print(_table(found))
    if not arguments.quick or arguments.results != parser.get_default("results"):
        text = json.dumps(_merged(found, arguments.results), indent=1)
        arguments.results.write_text(text + "\n", encoding="utf-8")
    met = all(bar["met"] for bar in found["bars"].values())
    return 0 if met or arguments.quick else 1


def _round(sides: Sides, wanted: Sequence[str], number: int) -> dict[str, Any]:
    """All sides once; torch is imported between them, as the unit of the ratios."""
    found: dict[str, Any] = {"import_torch": []}
    for name in wanted:
        found["import_torch"].append(sides.import_torch())
        found[name] = getattr(sides, name)()
        print(f"round {number}: {name} done", file=sys.stderr, flush=True)
    return found


def flat(one: Mapping[str, Any]) -> dict[str, float]:
    """CPU seconds of every side of a round; of those called ``…_wall`` seconds on the wall."""
    more = {"cold_hf": one["cold_hf"]["cpu"]} if "cold_hf" in one else {}
    if "cpu_with_ranks" in one["ours"]:
        more["ours_with_ranks"] = one["ours"]["cpu_with_ranks"]
    return more | {
        "import_torch": median(one["import_torch"]),
        "ours": one["ours"]["cpu"],
        "cold": one["cold"]["cpu"],
        "cold_right": one["cold"]["right"],
        "bare": one["bare"]["cpu"],
        "make_test": one["make_test"],
        "reference": one["reference"],
        "watch_wall": one["watch"]["verdict"],
        "import_torch_wall": one["watch"]["import_torch"],
    }


def summary(
    rounds: Sequence[Mapping[str, float]], higher: Mapping[str, float] = MappingProxyType({})
) -> dict[str, Any]:
    """Medians over the rounds: of the ratios (each within its round) and of the seconds.

    Args:
        rounds: CPU seconds of the sides; a ratio of a side that is absent is left out.
        higher: bars that stand in place of those of :data:`RATIOS`.
    """
    ratios: dict[str, float] = {}
    bars: dict[str, dict[str, Any]] = {}
    for name, (above, below, usual, sense) in RATIOS.items():
        if above not in rounds[0]:
            continue
        bar = higher.get(name, usual)
        each = [one[above] / one[below] for one in rounds]
        ratios[name] = round(median(each), 3)
        met = median(each) >= bar if sense == "at least" else median(each) <= bar
        bars[name] = {"value": ratios[name], "bar": f"{sense} {bar:g}", "met": met, "rounds": each}
    medians = {side: median(one[side] for one in rounds) for side in rounds[0]}
    return {**ratios, "bars": bars, "rounds": len(rounds), "median_cpu_seconds": medians}


def _counts(last: Mapping[str, Any]) -> dict[str, Any]:
    """Checks, calls and cases of every side: the same work, or the ratios mean nothing.

    Counted is what checks ask for. Of that, ours puts to a worker once what several checks ask
    alike (17 of lab 2's 138 requests, a twentieth of the time that its calls take); bare and cold
    call it each time.

    Raises:
        BenchmarkError: two sides did not do the same.
    """
    ours, bare = last["ours"], last["bare"]
    counts = {
        "ours": {**bare["runner"], "checks": ours["checks"], "cases": ours["cases"]},
        "cold": {"items": last["cold"]["items"], "cases": bare["cases"], **bare["pytest"]},
        "bare": {"cases": bare["cases"], "calls": bare["runner"]},
        "graded_as_expected": ours["as_expected"],
    }
    same = all(bare["runner"][what] == bare["pytest"][what] for what in ("new", "call", "checks"))
    same &= ours["checks"] == bare["runner"]["checks"]
    # A class's record counts the cases of checks that are left out, too.
    same &= "cpu_with_ranks" in ours or ours["cases"] == bare["cases"]
    if not same or [bare["items"]] != last["cold"]["items"]:
        raise BenchmarkError(f"the sides did not do the same work: {counts}")
    return counts


def _merged(found: dict[str, Any], path: Path) -> dict[str, Any]:
    """Lab 2 at the top level, other labs under ``labs``; what was there of others stays."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if found["lab"] == FLAGSHIP:
        other = {name: old[name] for name in SCALING if name in old}  # of `make bench-scaling`
        bars = {name: bar for name, bar in old.get("bars", {}).items() if name in SCALING}
        bars = {**found["bars"], **bars}
        return {**found, **other, "bars": bars, "labs": old.get("labs", {})}
    return {**old, "labs": {**old.get("labs", {}), found["lab"]: found}}


def _table(found: Mapping[str, Any]) -> str:
    seconds = found["median_cpu_seconds"]
    lines = [
        f"{side:<28} {1000 * value:9.1f} ms {'wall' if side.endswith('_wall') else 'CPU'}"
        for side, value in seconds.items()
    ]
    for name, bar in found["bars"].items():
        verdict = "met" if bar["met"] else "NOT MET"
        lines.append(f"{name:<28} {bar['value']:9.2f}  {bar['bar']:<12} {verdict}")
    return "\n".join([*lines, f"counts: {json.dumps(found['counts'])}"])


if __name__ == "__main__":
    sys.exit(main())
