"""``doctor`` from the command line: what it prints, its exit status, and on which machines."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.cli.main import main
from autograder.course.labfile import ROOT
from autograder.course.messages import render
from autograder.course.records import Message
from autograder.doctor import diagnosis as doctor_diagnosis
from autograder.doctor import machine as doctor_machine
from autograder.doctor import report as doctor_report
from autograder.doctor import verdict
from autograder.doctor.attacks import AttackResult, End, State, Way, judged
from autograder.doctor.report import Diagnosis
from autograder.doctor.verdict import TRIALS, Layers
from autograder.report.escape import width
from autograder.worker.jail import LAYERS, guarantees
from tests.hand_ins import nothing_left_behind

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
NOBODY = 65534
KEYS = {
    "format", "status", "level", "facts", "worker", "layers", "promises", "trials", "advice",
    "not_tried", "seconds",
}  # fmt: skip


def command(
    *options: str, python: tuple[str, ...] = (sys.executable,), **variables: str
) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "LAB_LANG": "en"} | variables
    line = [*python, "-m", "autograder", "doctor", *options]
    with nothing_left_behind():
        return subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, timeout=280)


# ---------------------------------------------------------------- the real thing


@needs_linux
def test_it_tries_everything_and_says_so_as_json(open_folder: Path) -> None:
    started = time.monotonic()
    done = command("--json", TMPDIR=str(open_folder))
    report = json.loads(done.stdout)
    assert not [*open_folder.iterdir()] and done.stdout.isascii()
    assert set(report) == KEYS and report["format"] == 1
    assert set(report["layers"]) == set(LAYERS)
    assert [trial["name"] for trial in report["trials"]][-2:] == ["orphan", "runaway"]
    assert {trial["name"] for trial in report["trials"]} >= {trial.name for trial in TRIALS}
    bound = [name for name, layer in report["layers"].items() if layer["bound"]]
    assert all(layer["bound"] or layer["why"] for layer in report["layers"].values())
    promised = {name for name, promise in report["promises"].items() if promise["promised"]}
    assert promised == guarantees(bound) | {"score", "fair"}
    held = {name for name, promise in report["promises"].items() if promise["state"] == "held"}
    assert promised <= held, [t for t in report["trials"] if t["state"] != "held"]
    assert (report["status"], done.returncode, report["not_tried"]) == (0, 0, None)
    assert report["worker"] == "fork" and report["facts"]["packages"]["torch"]["ok"]
    assert report["seconds"] <= time.monotonic() - started
    for trial in report["trials"]:
        assert set(trial) == {"name", "promise", "title", "state", "reason", "ways"}
        assert trial["state"] != "held" or all(way["end"] != "worked" for way in trial["ways"])


@needs_linux
@pytest.mark.slow
def test_spawned_workers_are_tried_too() -> None:
    report = json.loads(command("--json", AUTOGRADER_WORKER="spawn").stdout)
    untold = [trial for trial in report["trials"] if trial["state"] != "held"]
    assert (report["worker"], report["status"]) == ("spawn", 0), (report["not_tried"], untold)
    states = {trial["name"]: trial["state"] for trial in report["trials"]}
    for trial in TRIALS:
        assert states.get(trial.name, "held") == "held" or (
            trial.promise not in guarantees(
                [name for name, layer in report["layers"].items() if layer["bound"]]
            )
        ), trial  # fmt: skip
    assert len(states) >= len(TRIALS)  # all but the sleep, and two probes


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that anybody may enter; every session of pytest closes those above ``tmp_path``."""
    with tempfile.TemporaryDirectory(prefix="doctor-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def python_of_nobody(folder: Path) -> Path | None:
    """A Python with our packages that the user nobody may run; None if there is none."""
    version = f"python3.{sys.version_info.minor}"
    bases = [sys.executable, shutil.which(version, path="/usr/bin:/usr/local/bin") or ""]
    for number, base in enumerate(filter(None, bases)):
        python = Path(base)
        if number:  # the system's: lend it the packages of this environment
            subprocess.run([base, "-m", "venv", "--without-pip", str(folder)], check=True)
            packages = folder / "lib" / version / "site-packages"
            packages.rmdir()
            packages.symlink_to(Path(pytest.__file__).parents[1])
            python = folder / "bin" / "python"
        try:
            tried = subprocess.run(
                [python, "-B", "-c", "import torch, pytest, autograder"],
                cwd=ROOT, user=NOBODY, group=NOBODY, extra_groups=(), capture_output=True,
                env={"PATH": os.defpath, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    return None


@needs_linux
@pytest.mark.slow
def test_it_holds_for_an_ordinary_user_and_for_root_that_becomes_one(
    open_folder: Path,
) -> None:
    """Run by root the other tests are root's; run by anybody else they have shown this already."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    python = python_of_nobody(open_folder / "venv")
    if python is None:
        pytest.skip("needs a Python that the user nobody can run")
    for user in ({"user": NOBODY, "group": NOBODY, "extra_groups": ()}, {}):
        done = subprocess.run(
            [python, "-B", "-m", "autograder", "doctor", "--json"], cwd=ROOT, timeout=280,
            env={"PATH": os.defpath, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
            **user,  # type: ignore[call-overload]
        )  # fmt: skip
        report = json.loads(done.stdout)
        assert report["status"] == done.returncode == 0, report["trials"]
        assert report["facts"]["machine"]["root"] is (not user)
        assert report["layers"]["uid"]["bound"] is (not user)


# ---------------------------------------------------------------- containers

# Binds a filter that answers some system calls with EPERM, as the profile of a container does,
# and becomes the command behind it: numbers by architecture, then the command.
CONTAINER = """
import ctypes, os, struct, sys
denied = [number for number in map(int, sys.argv[1].split(",")) if number >= 0]
ops = [struct.pack("=HBBI", 0x20, 0, 0, 0)]
for number in denied:
    ops.append(struct.pack("=HBBI", 0x15, 0, 1, number))
    ops.append(struct.pack("=HBBI", 0x06, 0, 0, 0x50001))
ops.append(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(ops))
program = ctypes.create_string_buffer(struct.pack("@HP", len(ops), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""
# Number on x86_64, on aarch64.
LANDLOCK, SECCOMP = ((444, 444), (445, 445), (446, 446)), ((317, 277),)
# Some of what Docker's own profile keeps back: unshare, setns, mount, pivot_root, ptrace,
# process_vm_readv, add_key, keyctl, bpf, perf_event_open, userfaultfd, io_uring_setup.
DOCKER = (
    (272, 97), (308, 268), (165, 40), (155, 41), (101, 117), (310, 270), (248, 217), (250, 219),
    (321, 280), (298, 241), (323, 282), (425, 425),
)  # fmt: skip


@needs_linux
@pytest.mark.slow
@pytest.mark.parametrize(
    ("denied", "level", "layer", "advice"),
    [
        (DOCKER, "strong", None, None),
        (LANDLOCK, "medium", "landlock_files", "Landlock"),
        (SECCOMP, "weak", "seccomp", "seccomp"),
        (LANDLOCK + SECCOMP + DOCKER, "weak", "seccomp", "seccomp"),
    ],
    ids=["Docker's profile", "no Landlock", "no filter", "neither"],
)
def test_in_a_container_the_level_says_what_is_left(
    denied: tuple[tuple[int, int], ...], level: str, layer: str | None, advice: str | None
) -> None:
    column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
    numbers = ",".join(str(pair[column]) for pair in denied)
    launcher = (sys.executable, "-I", "-c", CONTAINER, numbers, sys.executable)
    done = command("--json", python=launcher)
    report = json.loads(done.stdout)
    ours = json.loads(command("--json", python=(sys.executable, "-S")).stdout)["level"]
    if ours == "strong":  # this machine lacks nothing by itself
        assert report["level"] == level
    assert report["status"] == done.returncode == 0, report["trials"]
    if layer:
        assert not report["layers"][layer]["bound"] and report["layers"][layer]["why"]
        assert any(str(advice) in sentence for sentence in report["advice"])
        broken = {trial["name"] for trial in report["trials"] if trial["state"] == "broke"}
        assert ("answers" if layer == "landlock_files" else "changing_modes") in broken


# ---------------------------------------------------------------- machines that lack something


@pytest.fixture(scope="module")
def bare() -> subprocess.CompletedProcess[bytes]:
    """A Python without site-packages: no torch, no numpy, no pytest."""
    return command("--json", python=(sys.executable, "-S"))


def test_without_torch_it_still_answers(bare: subprocess.CompletedProcess[bytes]) -> None:
    report = json.loads(bare.stdout)
    assert set(report) == KEYS and report["status"] == bare.returncode == 2
    assert "lacks torch" in report["not_tried"] and report["trials"] == []
    assert report["facts"]["packages"]["torch"] == {
        "version": None, "asked": ">=2.6,<3", "needed": True, "ok": False,
    }  # fmt: skip
    assert any("torch" in sentence and "make setup" in sentence for sentence in report["advice"])
    assert {promise["state"] for promise in report["promises"].values()} == {"not_tried"}
    assert b"Traceback" not in bare.stderr
    if sys.platform == "linux":
        assert report["layers"]["rlimits"]["bound"]


@pytest.mark.parametrize(
    ("language", "encoding", "word"),
    [("en", "ascii", "not tried"), ("zh", "gbk", "隔离级别"), ("zh", "utf-8", "隔离级别")],
)
def test_text_survives_any_terminal(language: str, encoding: str, word: str) -> None:
    python = (sys.executable, "-S")
    done = command("--lang", language, python=python, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    text = done.stdout.decode(encoding)
    assert done.returncode == 2 and not done.stderr
    assert ("✗" if encoding == "utf-8" else "XX") in text and "?" not in text.split("\n")[0]
    assert language == "en" or word in text
    assert "torch" in text


def test_an_old_python_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor_diagnosis, "OLDEST_PYTHON", (99, 0))
    assert main(["doctor"]) == 2
    assert "too old" in (said := capsys.readouterr().out) and "太旧" in said
    assert main(["doctor", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["status"] == 2


def test_a_scratch_folder_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    found = doctor_diagnosis.diagnose("en")
    assert found.status == 2 and found.not_tried and "No space" in found.not_tried


def test_facts_are_there_on_systems_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_machine, "text", lambda path: "")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(os, "geteuid", raising=False)
    monkeypatch.delattr(os, "sysconf", raising=False)
    monkeypatch.setattr(sys, "stdout", None)
    found = doctor_machine.facts()
    assert found["machine"]["memory_mib"] is None and found["machine"]["root"] is False
    assert found["kernel"]["ptrace_scope"] is None and found["encodings"]["chinese"] is False
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("version", "asked", "holds"),
    [
        ("2.13.0+cpu", ">=2.6,<3", True), ("2.5.1", ">=2.6,<3", False), ("3.0", ">=2.6,<3", False),
        ("8", ">=8,<10", True), ("10.0.0", ">=8,<10", False), ("2.6.0", "==2.6", True),
        ("0.4.3", ">=0.4.3", True), ("0.4", ">=0.4.3", False), ("2.7.0a0+git1", "!=2.7", False),
        ("5", "", True), ("1.2", "<= 1.2, > 1", True),
    ],
)  # fmt: skip
def test_ranges_are_read(version: str, asked: str, holds: bool) -> None:
    assert doctor_machine.within(version, asked) is holds


def test_packages_are_those_of_the_project() -> None:
    found = doctor_machine.packages()
    assert found["torch"]["needed"] and found["pytest-timeout"]["needed"]
    assert not found["transformers"]["needed"] and found["transformers"]["asked"] == ">=4.51.3"
    assert "qwen3-labs" not in found


# ---------------------------------------------------------------- advice

FACTS: dict[str, Any] = {
    "python": {"version": "3.11.7", "ok": True, "executable": "/py", "environment": True},
    "packages": {"torch": {"version": "2.13.0", "asked": ">=2.6,<3", "needed": True, "ok": True}},
    "encodings": {"locale": "UTF-8", "terminal": "utf-8", "files": "utf-8", "chinese": True},
    "machine": {
        "system": "Linux", "release": "6.18.1", "architecture": "x86_64", "cores": 2,
        "memory_mib": 2048, "free_memory_mib": 1024, "free_disk_mib": 100, "container": "",
        "root": False,
    },
    "kernel": {
        "landlock_abi": 7, "seccomp": True, "security_modules": "", "ptrace_scope": None,
        "user_namespaces": None,
    },
}  # fmt: skip
NO_LANDLOCK = {"landlock_files", "landlock_network", "landlock_scope"}


def advised(
    changes: Mapping[str, Mapping[str, Any]], absent: set[str], broken: tuple[str, ...] = ()
) -> list[str]:
    facts = {area: {**values, **changes.get(area, {})} for area, values in FACTS.items()}
    said = list(
        doctor_report.advice(facts, set(LAYERS) - absent, dict.fromkeys(absent, "why not"), broken)
    )
    for language in ("en", "zh"):
        assert all(render(message, language) for message in said)
    return [message.key.removeprefix("doctor.") for message in said]


def machine(**values: object) -> dict[str, dict[str, object]]:
    return {"machine": values}


@pytest.mark.parametrize(
    ("changes", "absent", "keys"),
    [
        ({}, set(), []),
        ({}, {"uid", "landlock_scope", "landlock_network"}, []),  # strong all the same
        (machine(system="Windows"), set(LAYERS), ["mend_windows"]),
        (machine(system="Darwin"), set(LAYERS) - {"rlimits"}, ["mend_docker"]),
        (machine(release="5.4.0-42-generic"), NO_LANDLOCK, ["mend_kernel"]),
        (machine(), NO_LANDLOCK, ["mend_landlock"]),
        (machine(container="wsl"), NO_LANDLOCK, ["mend_landlock"]),
        (machine(container="docker"), NO_LANDLOCK, ["mend_container"]),
        (machine(container="docker"), {"seccomp"}, ["mend_container_seccomp"]),
        (machine(), {"seccomp", "parent_death"}, ["mend_seccomp", "mend_layer"]),
        ({"encodings": {"chinese": False, "terminal": "cp437"}}, set(), ["mend_chinese"]),
        ({"python": {"ok": False}}, set(), ["mend_python"]),
        ({"packages": {"torch": FACTS["packages"]["torch"] | {"version": "2.5", "ok": False}}},
         set(), ["mend_range"]),
        ({"packages": {"torch": FACTS["packages"]["torch"] | {"version": None, "ok": False}}},
         set(), ["mend_absent"]),
        ({"packages": {"ruff": {"version": None, "asked": "", "needed": False, "ok": False}}},
         set(), []),
    ],
)  # fmt: skip
def test_advice_names_what_is_missing(
    changes: Mapping[str, Mapping[str, Any]], absent: set[str], keys: list[str]
) -> None:
    assert advised(changes, absent) == keys


def test_a_breach_comes_first() -> None:
    assert advised(machine(release="5.4"), NO_LANDLOCK, ("memory",))[0] == "mend_broken"


# ---------------------------------------------------------------- text


def diagnosis(findings: tuple[AttackResult, ...], bound: tuple[str, ...] = LAYERS) -> Diagnosis:
    kept = verdict.promises(bound, findings)
    missing = {name: "a reason" for name in LAYERS if name not in bound}
    level = "strong" if bound == LAYERS else "medium"
    status = verdict.status(kept)
    layers = Layers(bound, missing)
    return Diagnosis(FACTS, "fork", level, layers, findings, kept, (), None, status, 1.0)


HELD = tuple(
    judged(
        AttackResult(t.name, t.promise, t.title, State.NOT_TRIED), [Way("w", End.STOPPED, "EPERM")]
    )
    if t.promise not in ("score", "fair")
    else AttackResult(
        t.name, t.promise, t.title, State.HELD, (Way("w", End.STOPPED, "failed"),), "passed"
    )
    for t in TRIALS
)
CANARY = judged(
    next(finding for finding in HELD if finding.trial == "answers"),
    [Way("notes", End.WORKED, "canary-3f9c")],
)
BROKEN = tuple(CANARY if finding.trial == "answers" else finding for finding in HELD)
UNTRIED = tuple(
    replace(f, state=State.NOT_TRIED, reason="busy") if f.promise == "signals" else f for f in HELD
)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_trial_has_an_aligned_line(language: str) -> None:
    for findings in (HELD, BROKEN, UNTRIED):
        text = doctor_report.page(diagnosis(findings), language)
        titles = [render(finding.title, language) for finding in findings]
        lines = [next(line for line in text.split("\n") if f" {t} " in line) for t in titles]
        starts = {
            width(line[: line.index(title)]) for line, title in zip(lines, titles, strict=True)
        }
        assert len(starts) == 1
        assert all(width(line) <= 140 for line in lines)


def test_a_breach_of_a_promise_and_one_that_nobody_promised_look_different() -> None:
    broken = doctor_report.page(diagnosis(BROKEN), "en")
    assert re.search(r"^✗ files .*WORKED: notes \(canary-3f9c\)$", broken, re.MULTILINE)
    assert broken.endswith("Broken: files. Do not grade with it.")
    without = tuple(name for name in LAYERS if name != "landlock_files")
    opened = doctor_report.page(diagnosis(BROKEN, without), "en")
    assert re.search(r"^– files .*WORKED: notes", opened, re.MULTILINE) and "✗" not in opened
    assert "\nIsolation level: medium. All 9 promises of this level held.\n" in opened
    assert "Not promised at this level: files." in opened and "may read" in opened
    assert "landlock_files: a reason" in opened


def test_what_was_not_tried_is_not_said_to_hold() -> None:
    text = doctor_report.page(diagnosis(UNTRIED), "en")
    assert re.search(r"^\? signals .*not tried: busy$", text, re.MULTILINE)
    assert text.endswith("Unknown: signals.")
    assert doctor_report.page(diagnosis(HELD), "zh").endswith("该级别的 10 项承诺全部成立。")


@pytest.mark.parametrize("encoding", ["gbk", "ascii", "cp437", "utf-8"])
def test_glyphs_are_those_that_the_terminal_has(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    text = doctor_report.page(diagnosis((*UNTRIED, CANARY)), "en")
    shown = text.replace("…", "...").encode(encoding, errors="strict").decode(encoding)
    marks = ("✗", "✓", "? ") if encoding == "utf-8" else ("XX", "ok", "??")
    assert all(f"\n{mark} " in shown or f" {mark} " in shown for mark in map(str.strip, marks))


def test_the_exit_status_is_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    for findings, status in ((HELD, 0), (BROKEN, 1), (UNTRIED, 2)):
        made = diagnosis(findings)
        monkeypatch.setattr(doctor_diagnosis, "diagnose", lambda language, made=made: made)
        assert main(["doctor"]) == main(["doctor", "--json"]) == status == made.status


def test_a_broken_promise_is_in_the_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    def broke(layers: Layers) -> tuple[Layers, tuple[AttackResult, ...]]:
        return Layers(LAYERS, {}), BROKEN

    monkeypatch.setattr(doctor_diagnosis, "_tried", broke)
    found = doctor_diagnosis.diagnose("en")
    assert found.status == 1 and found.level == "strong"
    assert "files" in found.advice[0] and "--json" in found.advice[0]
    assert doctor_diagnosis.plain(found, "zh")["promises"]["files"] == {
        "promised": True,
        "state": "broke",
    }


def test_it_says_what_it_waits_for() -> None:
    assert doctor_report.please_wait("en") == render(Message("doctor.please_wait"), "en")
