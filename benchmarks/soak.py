"""``make soak``: 2,000 hand-ins in one go; what leaks would have grown by the end.

Looks, all the while, at the processes of the grading: how many there are, the memory that is
theirs alone, their descriptors. The last tenth of the time is held against the second tenth.
Prints a table, writes ``benchmarks/soak.json``; exit status 1 if something has grown or stayed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, from any folder

from autograder.course import labfile  # noqa: E402
from autograder.grading.judge_process import versions  # noqa: E402
from benchmarks import hand_ins, measure  # noqa: E402

EVERY = 0.5  # seconds between two looks
# What the second tenth may differ from the last: MiB, descriptors, processes.
MOST = {"memory_mib": 8.0, "descriptors": 1, "processes": 1}
ENDINGS = {  # one in forty ends its worker in one of these ways
    "exits": "import os; os._exit(3)",
    "crashes": "import ctypes; ctypes.string_at(0)",
    "bombs": "held = bytearray(8 << 30)",
    "floods": "print('x' * (5 << 20))",
    "threads": "import threading, time; [threading.Thread(target=time.sleep, args=(9,)).start() "
    "for _ in range(20)]",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Grade, look, compare; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lab", default="2")
    parser.add_argument("--size", type=int, default=2000, help="hand-ins, a multiple of 10")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "soak.json")
    arguments = parser.parse_args(argv)
    lab = labfile.load(labfile.find_lab(arguments.lab))
    measure.adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "class"), Path(folder, "out")
        made = hand_ins.make(source, lab, arguments.size)
        _spoil([path for paths in made.values() for path in paths][::40])
        command = [sys.executable, "-m", "autograder", "grade", str(source), "--out", str(out)]
        started = time.monotonic()
        with Path(folder, "said").open("w") as said:
            process = subprocess.Popen(
                [*command, "--lab", arguments.lab], cwd=ROOT, stdout=said, stderr=said
            )
            looks = _watch(process)
        seconds = time.monotonic() - started
        graded = len(json.loads((out / "class.json").read_text(encoding="utf-8"))["hand_ins"])
    found = _compare(looks)
    left = _living()
    good = process.returncode in (0, 1) and graded == arguments.size and not left
    good = good and all(figure["met"] for figure in found.values())
    for name, figure in found.items():
        values = f"{figure['early']:>8.1f} {figure['late']:>8.1f}  at most +{figure['bar']:g}"
        print(f"{name:<24} {values}  {'ok' if figure['met'] else 'GREW'}")
    print(f"hand-ins {graded} in {seconds:.0f} s, left behind: {len(left)}")
    if arguments.size >= 2000:
        result = {"size": graded, "seconds": round(seconds), "left": left, "figures": found}
        result |= {"looks": len(looks), "versions": versions()}
        arguments.results.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if good else 1


def _spoil(folders: Sequence[Path]) -> None:
    future = "from __future__ import annotations\n"
    for number, folder in enumerate(folders):
        code = list(ENDINGS.values())[number % len(ENDINGS)]
        path = folder / "mlp.py"
        text = path.read_text(encoding="utf-8")
        # In the middle of the maths, so that other files of the hand-in are graded as ever.
        path.write_text(text.replace(future, f"{future}{code}\n", 1), encoding="utf-8")


def _watch(process: subprocess.Popen[bytes]) -> list[dict[str, float]]:
    """Figures of every look at the processes of a grading, until it ends."""
    looks = []
    while process.poll() is None:
        if look := _look(process.pid):
            looks.append(look)
        time.sleep(EVERY)
    return looks


def _look(command: int) -> dict[str, float]:
    """Memory and descriptors by kind of process, and how many there are; {} while it starts."""
    children: dict[int, list[int]] = defaultdict(list)
    for pid, above in _living().items():
        children[above].append(pid)
    found: dict[str, float] = {}
    kinds = {"command": [command]}
    for child in children[command]:
        line = _read(child, "cmdline")
        kind = "judge" if "judge.main" in line else "zygote" if "worker.zygote" in line else ""
        if kind:
            kinds[kind] = [child]
    if len(kinds) < 3:
        return {}
    for kind, pids in kinds.items():
        rollup = _read(pids[0], "smaps_rollup").splitlines()
        private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
        found[f"{kind} memory_mib"] = private / 1024
        found[f"{kind} descriptors"] = len(os.listdir(f"/proc/{pids[0]}/fd"))
    forks = children[kinds["judge"][0]]
    found["all processes"] = 3 + len(forks) + len(children[kinds["zygote"][0]])
    return found


def _living() -> dict[int, int]:
    """Every process that stems from this one, and its parent."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := _read(int(entry), "stat")):
            state, above = stat.rsplit(")", 1)[1].split()[:2]
            if state != "Z":
                parents[int(entry)] = int(above)
    found: dict[int, int] = {}
    waiting = {os.getpid()}
    while waiting:
        waiting = {pid for pid, above in parents.items() if above in waiting}
        found |= {pid: parents[pid] for pid in waiting}
    return found


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""  # it has ended meanwhile


def _compare(looks: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    tenth = max(1, len(looks) // 10)
    found = {}
    for name in looks[-1]:
        early = median(look[name] for look in looks[tenth : 2 * tenth] or looks)
        late = median(look[name] for look in looks[-tenth:])
        bar = MOST[name.split()[1]]
        found[name] = {"early": early, "late": late, "bar": bar, "met": late - early <= bar}
    return found


if __name__ == "__main__":
    sys.exit(main())
