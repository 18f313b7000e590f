"""``make chaos``: kills and faults while classes are graded; nothing is lost, nothing changes.

A class of 30 is graded once in peace. Then again and again, into new folders: meanwhile a
command, a judge, a zygote or a worker is killed, or held up, or the disk is full, and the
grading that was broken off goes on with ``--resume`` until it ends by itself. What stands in the
folder then has to be, byte for byte, what the peaceful run has written.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from autograder.course.labfile import ROOT
from tests import hand_ins

SIZE = 30
KINDS = ("cli", "judge", "zygote", "worker")
FILES = ("class.json", "scores.csv")
PATIENCE = 20  # seconds for everything that a killed command has left to end


def write_class(folder: Path) -> None:
    """Thirty hand-ins: right, wrong, unfinished, ending their own process."""
    right, stub = hand_ins.right(), hand_ins.stub()
    kinds = [
        right,
        right | {"mlp.py": stub["mlp.py"]},
        hand_ins.guessing(),
        right
        | {"attention.py": right["attention.py"].replace("(-second, first)", "(second, first)")},
        stub,
        right | {"mlp.py": right["mlp.py"] + "\nQwen3MLP.forward = lambda self, x: exit(3)\n"},
    ]
    for number in range(SIZE):
        place = folder / f"student{number:02}"
        place.mkdir(parents=True)
        for name, text in kinds[number % len(kinds)].items():
            (place / name).write_text(f"{text}\n# {number}\n", encoding="utf-8")


def tree(pid: int) -> dict[str, list[int]]:
    """The living processes of a grading by kind; forked judges count as judges."""
    children: dict[int, list[int]] = collections.defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                state, above = (
                    Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()[:2]
                )
            except OSError:
                continue  # it has ended meanwhile
            if state not in "ZX":
                children[int(above)].append(int(entry))
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for child in children[pid]:
        line = hand_ins.commands(child)
        if "autograder.judge.main" in line:
            found["judge"] += [child, *children[child]]
        elif "worker.zygote" in line:
            found["zygote"].append(child)
            found["worker"] += children[child]
    found["cli"] = [pid]
    return found


class Chaos:
    """Gradings with faults, until there were enough of every kind."""

    def __init__(self, folder: Path, faults: int, seed: int) -> None:
        self._source = folder / "class"
        self._folder = folder
        self._wanted = faults
        self._random = random.Random(seed)
        self.landed: collections.Counter[str] = collections.Counter()
        self.lost = self.changed = self.rounds = 0
        self.left: list[str] = []
        # Other tests of this process may keep workers of their own.
        self._before = hand_ins.descendants()
        write_class(self._source)
        self._peace = folder / "peace"
        peaceful = self._start(self._peace)
        peaceful.communicate()
        if peaceful.returncode != 0:
            raise RuntimeError(f"the undisturbed run ended with {peaceful.returncode}")

    def run(self) -> None:
        """One round after the other."""
        while not self.enough:
            self.rounds += 1
            out = self._folder / f"round{self.rounds}"
            out.mkdir()
            # Building hidden cases is no part of what is tested, and takes its time.
            shutil.copytree(self._peace / ".cases", out / ".cases")
            while self._disturbed(out) != 0:
                pass
            self._compare(out)
            shutil.rmtree(out)
            print(f"round {self.rounds}: {dict(self.landed)}", file=sys.stderr, flush=True)

    @property
    def enough(self) -> bool:
        """Whether all faults have landed, a fifth of them on each kind of process."""
        share = -(-self._wanted // 5)
        return self.landed.total() >= self._wanted and all(
            self.landed[kind] >= share for kind in KINDS
        )

    def _start(self, out: Path, *, room: int | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "autograder", "grade", str(self._source)]
        # A full disk would cut the bytecode of modules short as well, for everybody after it.
        given = {"AUTOGRADER_SECRET": "a secret of chaos", "LAB_LANG": "en"}
        given |= {"PYTHONDONTWRITEBYTECODE": "1"}

        def full_disk() -> None:
            assert room is not None
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))

        return subprocess.Popen(
            [*command, "--lab", "2", "--out", str(out), "--resume"],
            cwd=ROOT,
            env=os.environ | given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=full_disk if room else None,
        )

    def _disturbed(self, out: Path) -> int:
        """Run the command once, with faults; its exit status."""
        full = not self.enough and self._random.random() < 0.1
        process = self._start(out, room=self._random.randrange(8_000, 60_000) if full else None)
        assert process.stderr is not None
        first = process.stderr.readline()  # the first hand-in is done: all processes stand
        if not full and first.startswith("["):
            while process.poll() is None and not self.enough:
                time.sleep(self._random.uniform(0.1, 0.5))
                # As a rule not before everything stands again: hitting a start again and again
                # would show nothing but that grading gives up then.
                if not tree(process.pid)["worker"] and self._random.random() < 0.9:
                    continue
                if self._strike(process):
                    break
        _, said = process.communicate()
        said = first + said
        if full and process.returncode == 2 and "--resume" in said:
            self.landed["disk"] += 1
        self._wait_for_the_end()
        # A signal may also come when all is said and Python itself ends.
        signals = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)
        if process.returncode not in (0, 1, 2, 130, *signals):
            raise RuntimeError(f"the command ended with {process.returncode}: {said}")
        if "Traceback" in said or (process.returncode == 2 and "--resume" not in said):
            raise RuntimeError(said)
        return process.returncode

    def _strike(self, process: subprocess.Popen[str]) -> bool:
        """Do one fault; whether it was to the command itself, which ends the run."""
        living = tree(process.pid)
        kinds = [kind for kind in KINDS if living[kind]]
        # Whatever had fewer so far comes first, as a rule: ending the command ends the round.
        kinds.sort(key=lambda kind: self.landed[kind] + self._random.random() * 3)
        kind = kinds[0]
        pid = self._random.choice(living[kind])
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return False  # it has ended meanwhile
        try:
            if self._random.random() < 0.1:
                signal.pidfd_send_signal(handle, signal.SIGSTOP)
                time.sleep(0.2)
                signal.pidfd_send_signal(handle, signal.SIGCONT)
                self.landed["held up"] += 1
                return False
            deadly = [signal.SIGKILL]
            if kind == "cli":
                deadly += [signal.SIGTERM, signal.SIGINT]
            signal.pidfd_send_signal(handle, self._random.choice(deadly))
        except OSError:
            return False
        finally:
            os.close(handle)
        self.landed[kind] += 1
        return kind == "cli"

    def _wait_for_the_end(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            left = [hand_ins.commands(pid) for pid in hand_ins.descendants() - self._before]
            left = [line for line in left if "autograder" in line]
            if not left:
                return
            time.sleep(0.05)
        self.left += left

    def _compare(self, out: Path) -> None:
        """Hold a folder that was graded in chaos against the peaceful one."""
        students = {path.name for path in self._source.iterdir()}
        reports = [f"{s}/{name}" for s in sorted(students) for name in ("report.md", "report.html")]
        for name in (*FILES, *reports):
            if not (out / name).exists():
                self.lost += 1
            elif (out / name).read_bytes() != (self._peace / name).read_bytes():
                self.changed += 1
                print(f"changed: {name}", file=sys.stderr)
        if list(out.rglob("*.tmp")):
            self.left.append("a temporary file")


def run(faults: int, seed: int = 0) -> Chaos:
    """Land so many faults; what came of it."""
    with tempfile.TemporaryDirectory() as folder, hand_ins.nothing_left_behind(PATIENCE):
        chaos = Chaos(Path(folder), faults, seed)
        chaos.run()
    return chaos


def main(argv: Sequence[str] | None = None) -> int:
    """Print ``faults N, lost L, changed C``; status 1 unless L and C are 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    chaos = run(arguments.faults, arguments.seed)
    for kind, count in sorted(chaos.landed.items()):
        print(f"{kind:>8} {count}")
    for line in chaos.left:
        print(f"left behind: {line}")
    print(f"gradings of {SIZE}: {chaos.rounds}")
    print(f"faults {chaos.landed.total()}, lost {chaos.lost}, changed {chaos.changed}")
    return 1 if chaos.lost or chaos.changed or chaos.left else 0


if __name__ == "__main__":
    sys.exit(main())
