"""``make bench``: how long the project's own tests take, in units of ``import torch``.

Clones the checkout, sets it up there, and takes the wall time of ``make check``, ``make check-all``
and ``make try``, with ``python -c "import torch"`` (median of five, same environment) before each.
Writes ratios, bars and the slowest tests into ``benchmarks/results.json``; exit status 1 if a bar
is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
SLOWEST = 30
LABS = len([*ROOT.glob("labs/*/lab.toml")])
# A lab beyond the six of which the bar was set may add to it; try: of lab 2, with nothing recorded.
BARS = {"check": 120, "check-all": 900 + 60 * max(0, LABS - 6), "try": 30}
_SLOW = re.compile(r"^([\d.]+)s (call|setup|teardown) +(\S.*)$", re.M)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("targets", nargs="*", default=list(BARS), metavar="TARGET")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args(argv)
    found = {
        target: [_fresh(target) for _ in range(arguments.rounds)] for target in arguments.targets
    }
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    for target, rounds in found.items():
        _write(results, target, rounds)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if all(results["bars"][name_of(target)]["met"] for target in found) else 1


def name_of(target: str) -> str:
    """``check_all_over_import_torch``."""
    return f"{target.replace('-', '_')}_over_import_torch"


def _fresh(target: str) -> dict[str, Any]:
    """One run in a fresh clone, after set-up; its output goes to standard error."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # some tests run as a user who may read only what all may
        home = Path(folder, "clone")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(home)], check=True)
        subprocess.run(["make", "setup-dev"], cwd=home, check=True, stdout=sys.stderr)
        unit = median(
            _wall([str(home / ".venv/bin/python"), "-c", "import torch"], home)[0] for _ in range(5)
        )
        seconds, said = _wall(["make", target], home)
    slowest = [[float(took), f"{phase} {test}"] for took, phase, test in _SLOW.findall(said)]
    print(f"{target}: {seconds:.0f} s, import torch {unit:.2f} s: {seconds / unit:.0f}", flush=True)
    return {"seconds": round(seconds, 1), "import_torch": round(unit, 3), "slowest": slowest}


def _wall(command: Sequence[str], home: Path) -> tuple[float, str]:
    options = os.environ | {"PYTEST_ADDOPTS": f"--durations={SLOWEST}"}
    begun = time.monotonic()
    done = subprocess.run(command, cwd=home, env=options, capture_output=True, text=True)
    took = time.monotonic() - begun
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}")
    return took, done.stdout


def _write(results: dict[str, Any], target: str, rounds: Sequence[dict[str, Any]]) -> None:
    each = [one["seconds"] / one["import_torch"] for one in rounds]
    value, bar = round(median(each), 1), BARS[target]
    results[name_of(target)] = value
    results["bars"][name_of(target)] = {
        "value": value, "bar": f"at most {bar}", "met": value <= bar, "rounds": each,
    }  # fmt: skip
    results.setdefault("suite", {})[target] = rounds


if __name__ == "__main__":
    sys.exit(main())
