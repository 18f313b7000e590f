"""``make bench``: what grading costs, against the bare calls of the student's code.

Every round measures all sides one after the other, so that a slow moment of the machine hits
them alike; a ratio is taken within a round, and the median over the rounds is held against its
bar. Prints a table per lab, writes ``benchmarks/results.json``; exit status 1 if a bar is not met.
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
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, from any folder: imports come after it

from autograder.course import labfile  # noqa: E402
from autograder.course.records import Lab  # noqa: E402
from autograder.grading.judge_process import versions  # noqa: E402
from benchmarks import hand_ins, measure  # noqa: E402
from benchmarks.sides import BenchmarkError, Sides  # noqa: E402

# name: (numerator, denominator, the most that the ratio may be, if that is said)
RATIOS = {
    "cpu_over_bare_calls": ("ours", "bare", 3.0),
    "stripped_over_bare_calls": ("stripped", "bare", None),
    "make_test_over_import_torch": ("make_test", "import_torch", 1.4),
    "stripped_test_over_import_torch": ("stripped_test", "import_torch", None),
    "reference_over_import_torch": ("reference", "import_torch", 4.0),
    # What somebody waits for: both sides on the wall.
    "watch_over_import_torch": ("watch_wall", "import_torch_wall", 0.3),
    "stripped_watch_over_import_torch": ("stripped_watch_wall", "import_torch_wall", None),
}
# Where a lab has other bars. A short bare call makes ours look large, and the other way round.
BARS: Mapping[str, Mapping[str, float]] = {
    "lab1_foundations": {"cpu_over_bare_calls": 4.0},
    "lab2_qwen3_block": {"cpu_over_bare_calls": 2.0},
    "lab3_kv_cache": {"cpu_over_bare_calls": 2.5},
    "lab4_tinyllm": {"cpu_over_bare_calls": 1.5},
    "lab6_flash_moe": {"cpu_over_bare_calls": 2.5, "make_test_over_import_torch": 1.6},
    "lab7_engine": {"make_test_over_import_torch": 2.5},
}
SIDES = ("ours", "bare", "stripped", "make_test", "reference", "stripped_test", "watch")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure labs; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lab", help="one of them; without it all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=100, help="hand-ins, a multiple of 10")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results.json")
    quick = "10 hand-ins, one round, torch once: shows that it works; no bar counts, so status 0"
    parser.add_argument("--quick", action="store_true", help=quick)
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.rounds, arguments.size = 1, 10
    measure.adopt_orphans()
    one = arguments.lab and [labfile.find_lab(arguments.lab)]
    met = True
    for folder in one or [path.parent for path in sorted(labfile.LABS.glob("*/lab.toml"))]:
        try:
            lab, units = labfile.load(folder), SIDES[:1] if arguments.quick else SIDES
            found = _measured(lab, arguments.rounds, arguments.size, units)
        except (BenchmarkError, measure.CommandFailed) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 2
        print(_table(found), flush=True)
        if not arguments.quick or arguments.results != parser.get_default("results"):
            _write(found, arguments.results)
        met &= all(bar["met"] for bar in found["bars"].values())
    return 0 if met or arguments.quick else 1


def _measured(lab: Lab, number: int, size: int, units: Sequence[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        sides = Sides(lab, Path(folder), size)
        rounds = [_round(sides, turn, units) for turn in range(1, number + 1)]
    found = summary([flat(one) for one in rounds], BARS.get(lab.name, {}))
    found["class"] = {"size": size, "shares": hand_ins.SHARES}
    found["counts"] = _counts(rounds[-1])
    found["machine"] = {"cpus": os.cpu_count(), "load": os.getloadavg()}
    return found | {"lab": lab.name, "versions": versions(), "raw": rounds}


def _round(sides: Sides, number: int, units: Sequence[str]) -> dict[str, Any]:
    """All sides once; before those in ``units`` torch is imported, the unit of the ratios."""
    found: dict[str, Any] = {"import_torch": []}
    for name in SIDES:
        if name in units:
            found["import_torch"].append(sides.import_torch())
        found[name] = getattr(sides, name)()
        print(f"{sides.lab.name}, round {number}: {name} done", file=sys.stderr, flush=True)
    return found


def flat(one: Mapping[str, Any]) -> dict[str, float]:
    """CPU seconds of every side of a round; of those called ``…_wall`` seconds on the wall."""
    ranks = one["ours"].get("cpu_with_ranks")
    return ({} if ranks is None else {"ours_with_ranks": ranks}) | {
        "import_torch": median(one["import_torch"]),
        "ours": one["ours"]["cpu"],
        "bare": one["bare"]["cpu"],
        "stripped": one["stripped"],
        "make_test": one["make_test"],
        "reference": one["reference"],
        "stripped_test": one["stripped_test"]["cpu"],
        "watch_wall": one["watch"]["verdict"],
        "stripped_watch_wall": one["stripped_test"]["verdict"],
        "import_torch_wall": one["watch"]["import_torch"],
    }


def summary(rounds: Sequence[Mapping[str, float]], own: Mapping[str, float]) -> dict[str, Any]:
    """Medians over the rounds: of the ratios (each within its round) and of the seconds.

    Args:
        rounds: CPU seconds of the sides.
        own: bars of the lab that stand in place of those of :data:`RATIOS`.
    """
    ratios: dict[str, float] = {}
    bars: dict[str, dict[str, Any]] = {}
    for name, (above, below, usual) in RATIOS.items():
        bar = own.get(name, usual)
        each = [one[above] / one[below] for one in rounds]
        ratios[name] = round(median(each), 3)
        bars[name] = {
            "value": ratios[name], "bar": "none" if bar is None else f"at most {bar:g}",
            "met": bar is None or median(each) <= bar, "rounds": each,
        }  # fmt: skip
    medians = {side: median(one[side] for one in rounds) for side in rounds[0]}
    return {**ratios, "bars": bars, "rounds": len(rounds), "median_cpu_seconds": medians}


def _counts(last: Mapping[str, Any]) -> dict[str, Any]:
    """Checks, calls and cases of both sides: the same work, or the ratio means nothing.

    Counted is what checks ask for. Of that, ours puts to a worker once what several checks ask
    alike (17 of lab 2's 138 requests, a twentieth of the time that its calls take); bare calls it
    each time.

    Raises:
        BenchmarkError: the sides did not do the same.
    """
    ours, bare = last["ours"], last["bare"]
    counts = {
        "ours": {"checks": ours["checks"], "cases": ours["cases"]},
        "bare": {**bare["counts"], "cases": bare["cases"]},
        "graded_as_expected": ours["as_expected"],
    }
    # A class's record counts the cases of checks that are left out, too.
    same = "cpu_with_ranks" in ours or ours["cases"] == bare["cases"]
    if not same or not ours["checks"] == bare["counts"]["checks"] == bare["counts"]["passed"]:
        raise BenchmarkError(f"the sides did not do the same work: {counts}")
    return counts


def _write(found: dict[str, Any], path: Path) -> None:
    """Under ``labs``; what was there of others stays."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    labs = {**old.get("labs", {}), found["lab"]: found}
    text = json.dumps({**old, "labs": dict(sorted(labs.items()))}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def _table(found: Mapping[str, Any]) -> str:
    lines = [
        f"{side:<32} {1000 * value:9.1f} ms {'wall' if side.endswith('_wall') else 'CPU'}"
        for side, value in found["median_cpu_seconds"].items()
    ]
    for name, bar in found["bars"].items():
        verdict = "NOT MET" if not bar["met"] else "" if bar["bar"] == "none" else "met"
        span = f"{min(bar['rounds']):.2f} to {max(bar['rounds']):.2f}"
        lines.append(f"{name:<32} {bar['value']:9.2f}  ({span})  {bar['bar']:<12} {verdict}")
    return "\n".join([found["lab"], *lines, f"counts: {json.dumps(found['counts'])}"])


if __name__ == "__main__":
    sys.exit(main())
