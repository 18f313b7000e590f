"""Grades the whole catalogue beside honest hand-ins by the command line, and judges what held."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.course.labfile import ROOT
from autograder.course.records import Outcome
from autograder.grading import hidden_cases
from autograder.worker import jail
from tests import hand_ins
from tests.attacks.attack import CANARY, Attack
from tests.attacks.catalogue import ATTACKS
from tests.attacks.ordinary import command_as
from tests.attacks.world import HONEST, World, children, class_json, end, honest, lab

SECONDS = 600
# Code of ours in the place of a student's text, or a hidden input, or the solution's text.
_TOLD = re.compile(f"{CANARY}|LEAK|BEGIN SOLUTION".encode())
# What would be a command where it stands. In Markdown, code spans may hold the brackets.
_UNSEEN = rb"\x1b|\xe2\x80\xae|\xc2\x9b"
_RAW = {
    "": re.compile(_UNSEEN),
    ".md": re.compile(_UNSEEN),
    ".html": re.compile(_UNSEEN + b"|<script|<img src"),
    ".csv": re.compile(_UNSEEN + rb"|(?:^|,|\n)[=+@-]"),
}


@dataclass
class Run:
    """One grading by the command line."""

    out: Path
    status: int | None
    streams: bytes
    records: Mapping[str, dict[str, Any]]
    layers: tuple[str, ...]
    left: list[str] = field(default_factory=list)  # processes that outlived it
    descriptors: list[int] = field(default_factory=list)  # of the zygote, as time goes by


@dataclass(frozen=True)
class Verdict:
    """What became of one attack: contained, or why not, or why it was not run."""

    attack: Attack
    earned: str
    faults: tuple[str, ...] = ()
    not_run: str = ""

    @property
    def contained(self) -> bool:
        return not self.faults


@contextmanager
def command_line(
    world: World, name: str, folder: Path, uid: int, *options: str
) -> Iterator[tuple[Path, subprocess.Popen[bytes], Path]]:
    """Start ``grade`` of ``folder``; yields OUT, the process, and the file of its streams."""
    out = world.folder / f"out-{name}-{uid}"
    out.mkdir()
    # The hidden cases with a canary in each, under the name by which grading finds them.
    key = hidden_cases.find(world.folder / "secret", world.folder)
    name_of_cases = f"{hidden_cases.digest_of_cases(lab().name, key)}.safetensors"
    (out / ".cases").mkdir()
    (out / ".cases" / name_of_cases).write_bytes(world.hidden.read_bytes())
    if os.geteuid() == 0:
        os.chown(out, uid, uid)
    streams = world.folder / f"streams-{name}-{uid}"
    command = [
        sys.executable, "-m", "autograder", "grade", str(folder), "--lab", "2", "--out", str(out),
        "--secret-file", str(world.folder / "secret"), "--jobs", "2", "--allow-weak-isolation",
        "--lang", "en", *options,
    ]  # fmt: skip
    with open(streams, "wb") as file:
        process = subprocess.Popen(
            command_as(uid, command), stdout=file, stderr=subprocess.STDOUT,
            env=dict(world.environment), cwd=ROOT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        yield out, process, streams
    finally:
        process.kill()
        process.wait()


def grade(
    world: World,
    name: str,
    folder: Path,
    uid: int,
    meanwhile: Callable[[subprocess.Popen[bytes], bytes], None] | None = None,
) -> Run:
    """Grade ``folder`` as ``uid`` to the end; what outlives it is noted, and ended."""
    before = hand_ins.descendants()
    descriptors: list[int] = []
    with command_line(world, name, folder, uid) as (out, process, streams):
        deadline = time.monotonic() + SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)  # every look goes through all of /proc
            descriptors += _descriptors(process.pid)
            if meanwhile is not None:
                meanwhile(process, streams.read_bytes())
        status = process.poll()
    left = set()
    for _ in range(100):
        left = hand_ins.descendants() - before
        if not left:
            break
        time.sleep(0.05)
    commands = [hand_ins.commands(pid) for pid in left]
    end(left)
    records = class_json(out) if (out / "class.json").exists() else {}
    data = _isolation(out)
    return Run(out, status, streams.read_bytes(), records, data, commands, descriptors)


def _descriptors(pid: int) -> list[int]:
    """How many the zygote of a grading holds; nothing where that cannot be seen."""
    for child, command in children(pid).items():
        if "autograder.worker.zygote" in command:
            try:
                return [len(os.listdir(f"/proc/{child}/fd"))]
            except OSError:  # no parent of workers lets its own user look into it
                return []
    return []


def _isolation(out: Path) -> tuple[str, ...]:
    try:
        return tuple(json.loads((out / "class.json").read_text())["isolation"]["layers"])
    except (OSError, ValueError, KeyError):
        return ()


def write_class(world: World, attacks: tuple[Attack, ...]) -> tuple[Path, Path]:
    """The class with the attacks, and the class without; both with every honest hand-in."""
    for folder in (world.folder / "class", world.folder / "quiet"):
        for student, files in honest().items():
            (folder / student).mkdir()
            for name, text in files.items():
                (folder / student / name).write_text(text, encoding="utf-8")
    quiet = world.folder / "quiet"
    for base, files in (("guess", hand_ins.guessing()), ("right", hand_ins.right())):
        (quiet / f"base-{base}").mkdir()
        for name, text in files.items():
            (quiet / f"base-{base}" / name).write_text(text, encoding="utf-8")
    for attack in attacks:
        world.write(attack, world.folder / "class")
    for path in (world.folder / "class").rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o644)
    return world.folder / "class", quiet


def _unread(result: Mapping[str, Any]) -> bool:
    """Whether a person has to look, since nothing that was handed in could be read."""
    key = (result["message"] or {}).get("key", "")
    return key.startswith("intake.") and key != "intake.reading_broken"


def passed(record: Mapping[str, Any]) -> set[str]:
    return {one["check"] for one in record["results"] if one["outcome"] == "passed"}


def of_attack(attack: Attack, records: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of an attack's hand-ins; those with odd names are found by its number."""
    exact = [r for name, r in records.items() if name == attack.id]
    number = re.compile(rf"(?<!\d){attack.id}(?![a-z\d](?!-))")
    return exact or [r for n, r in records.items() if n not in HONEST and number.search(n)]


def judge(attack: Attack, run: Run, quiet: Run) -> Verdict:
    """Whether one attack is contained, by what stands in its own records."""
    guaranteed = jail.guarantees(run.layers)
    absent = [name for name in attack.needs if name not in guaranteed]
    if absent:
        return Verdict(attack, "", not_run=f"this kernel does not keep: {', '.join(absent)}")
    records = of_attack(attack, run.records)
    if not records:
        return Verdict(attack, "", ("it was not graded at all",))
    faults = []
    base = attack.most or ("right" if attack.base == "right" else "guess")
    most = passed(quiet.records[f"base-{base}"]) | set(attack.earns)
    optional = {check.name for check in lab().checks if check.optional}
    for record in records:
        more = passed(record) - most
        if more:
            faults.append(f"passes what its maths does not: {', '.join(sorted(more))}")
        if set(attack.misses) & passed(record):
            faults.append(f"passes {', '.join(set(attack.misses) & passed(record))}")
        results = [one for one in record["results"] if one["check"] not in optional]
        outcomes = {one["outcome"] for one in results if not _unread(one)}
        if Outcome.NOT_GRADED in outcomes and base != "right":
            faults.append("counts as a fault of the grader")
        if attack.ends and not outcomes <= attack.ends:
            faults.append(f"ended as {', '.join(sorted(outcomes))}")
        keys = [mark["key"] for mark in record["marks"]]
        if attack.marks and not any(key.startswith(attack.marks) for key in keys):
            faults.append(f"has no mark {attack.marks} for a human, but {keys}")
        if attack.marks == "" and keys:
            faults.append(f"is accused of {keys}")
        text = (run.out / record["student"] / "report.md").read_text(encoding="utf-8")
        if attack.says and attack.says not in text:
            faults.append(f"its report does not say “{attack.says}”")
        for report in ("report.md", "report.html"):
            data = (run.out / record["student"] / report).read_bytes()
            if attack.number != 60 and (found := _TOLD.search(data)):
                faults.append(f"{report} tells {found[0].decode()}")
    score = {record["score"]["earned"] for record in records}
    return Verdict(attack, "/".join(map(str, sorted(score))), tuple(faults))


def of_all(world: World, run: Run, quiet: Run) -> list[str]:
    """What no single attack can be blamed for, but must hold for all of them together."""
    faults = []
    if run.status not in (0, 1):
        faults.append(
            f"grading ended with {run.status}: {run.streams[-500:].decode('utf-8', 'replace')}"
        )
    for student in HONEST:
        if run.records.get(student) != quiet.records.get(student):
            faults.append(f"the record of {student} is another one than without attacks")
        for name in ("report.md", "report.html"):
            pair = [r.out / student / name for r in (run, quiet)]
            if not all(p.exists() for p in pair) or pair[0].read_bytes() != pair[1].read_bytes():
                faults.append(f"{student}/{name} differs from the one without attacks")
    if run.left:
        faults.append(f"left behind: {run.left}")
    if os.listdir(world.shared):
        faults.append(f"written to the shared folder: {os.listdir(world.shared)}")
    if heard := world.heard():
        faults.append(f"sent: {heard[:100]!r}")
    if run.descriptors and quiet.descriptors and run.descriptors[-1] > max(quiet.descriptors):
        faults.append(f"descriptors of the zygote: {run.descriptors[-1]}")
    if found := _TOLD.search(run.streams):
        faults.append(f"the terminal shows {found[0].decode()}")
    if found := _RAW[""].search(run.streams):
        faults.append(f"the terminal gets {found[0]!r}")
    for path in sorted(run.out.rglob("*")):
        if not path.is_file() or ".cases" in path.parts:
            continue
        data = path.read_bytes()
        if found := _TOLD.search(data):
            around = data[max(0, found.start() - 80) : found.end() + 40]
            faults.append(f"{path.relative_to(run.out)} tells {around!r}")
        pattern = _RAW.get(path.suffix)
        if pattern is not None and (found := pattern.search(_without_allowed(data))):
            faults.append(f"{path.relative_to(run.out)} holds {found[0]!r}")
    return faults


def _without_allowed(page: bytes) -> bytes:
    """A page without the scripts that a browser would run: those whose hash its policy names."""
    policy = re.search(rb"script-src ([^;\"]*)", page)
    named = policy[1] if policy else b""

    def kept(script: re.Match[bytes]) -> bytes:
        digest = base64.b64encode(hashlib.sha256(script[1]).digest())
        return b"" if b"'sha256-" + digest + b"'" in named else script[0]

    return re.sub(rb"<script>(.*?)</script>", kept, page, flags=re.DOTALL)


__all__ = ["ATTACKS", "Run", "Verdict", "grade", "judge", "of_all", "of_attack", "write_class"]
