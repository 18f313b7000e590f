"""Every attack with what stops it taken away: it succeeds, so its test can fail."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from autograder.course.labfile import ROOT
from autograder.course.records import HandIn, Outcome
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from tests import hand_ins
from tests.attacks import naive
from tests.attacks.attack import Attack
from tests.attacks.catalogue import ATTACKS
from tests.attacks.world import World, end, honest, lab, world

Show = Callable[[tuple[str, str, str, str]], None]
MATHS = (
    "test_rotate_half_values", "test_repeat_kv_order", "test_mlp_parity", "test_count_matrices",
)  # fmt: skip
# What the attacks of the layers pass their findings out by, and what the thefts may gain.
CHECKS = (
    "test_rotate_half_runs", "test_rotate_half_values", "test_repeat_kv_runs",
    "test_repeat_kv_order",
)  # fmt: skip
HANGS_AFTER = 4.0  # seconds after it said that it started
SECONDS = 120


def texts(record: HandIn) -> str:
    """What a report of this hand-in tells, without the lines of its own source."""
    parts = []
    for result in record.results:
        parts.append(result.prints)
        parts += [
            str(value) for value in (result.message.values.values() if result.message else ())
        ]
    return "\n".join(parts)


def passed(record: HandIn) -> set[str]:
    return {one.check for one in record.results if one.outcome is Outcome.PASSED}


def _shown(attack: Attack, made: World, text: str) -> bool:
    """Whether the attack's own sign is there; signs in the shared folder are taken away."""
    assert attack.off is not None
    if attack.off.shows == "file":
        found = list(made.shared.iterdir())
        for path in found:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        return bool(found)
    if attack.off.shows == "datagram":
        return b"stolen" in made.heard()
    return re.search(attack.off.shows, text) is not None


def by_engine(made: World, attacks: list[Attack], options: Options) -> dict[str, bool]:
    """Grade these attacks with an engine of these options, one after the other."""
    succeeded = {}
    with Engine(lab(), options) as engine:
        engine.wait_ready()
        without = hand_ins.grade(engine, hand_ins.hand_in("quiet", hand_ins.guessing()))["quiet"]
        for attack in attacks:
            assert attack.off is not None
            before = hand_ins.descendants()
            files = made.files(attack)
            record = hand_ins.grade(engine, hand_ins.hand_in(attack.id, files))[attack.id]
            left = hand_ins.descendants() - before
            if attack.off.shows == "points":
                succeeded[attack.id] = bool(passed(record) - passed(without))
            elif attack.off.shows == "process":
                running = {pid for pid in left if "judge.main" not in hand_ins.commands(pid)}
                succeeded[attack.id] = bool(running)
                end(running)
            else:
                succeeded[attack.id] = _shown(attack, made, texts(record))
            for path in made.shared.iterdir():
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            if not succeeded[attack.id]:
                print(f"      {attack.id}: {texts(record)[:1000]!r}")
    return succeeded


# Begun once with what takes long to import; what is graded, and its grader, run in a fork of it.
_begun = get_context("forkserver")
_begun.set_forkserver_preload(["torch", "numpy", "pytest", "tests.attacks.naive"])


def command(attack: Attack, made: World, folder: Path) -> list[str]:
    """The arguments of an in-process run by pytest, or of a naive grader."""
    assert attack.off is not None
    if attack.off.way == "naive":
        out = made.folder / "naive" / attack.id
        out.mkdir(parents=True)
        return ["naive", attack.off.by, str(folder), str(out)]
    checks = attack.off.by or ",".join(MATHS)
    return [
        "pytest", str(lab().folder / "checks"), "-p", "autograder.checks.plugin", "--lab-folder",
        str(lab().folder), "--hand-in", str(folder), "--hidden-cases", str(made.hidden), "--only",
        checks, "-q", "-c", os.devnull, "--rootdir", str(lab().folder), "--import-mode=importlib",
        "-p", "no:cacheprovider", "-p", "no:faulthandler", "-s",
    ]  # fmt: skip


def _run(arguments: list[str], environment: dict[str, str], said: Path) -> None:
    """Become that process, with nothing of this one's open: what it says goes into a file."""
    os.closerange(3, 1 << 10)
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    what, *rest = arguments
    try:
        sys.exit(pytest.main(rest) if what == "pytest" else naive.main(arguments))
    finally:
        atexit._run_exitfuncs()  # a fork of this kind ends without them


def by_process(made: World, attack: Attack) -> bool:
    """Run the attack within the process that grades it, and look for its sign."""
    assert attack.off is not None
    folder, file = made.folder / "class" / attack.id, made.folder / f"said-{attack.id}"
    environment = dict(made.environment) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    given = command(attack, made, folder), environment, file
    process = _begun.Process(target=_run, args=given)
    process.start()
    try:
        if attack.off.shows == "hangs":
            return _hangs(process, file, interrupted=attack.number == 37)
        process.join(SECONDS)
        status = process.exitcode
    finally:
        process.kill()
        process.join()
    said = file.read_text(encoding="utf-8", errors="replace")
    if attack.off.shows == "exit 0":
        good = status == 0
    elif attack.off.shows == "signal":
        good = status is not None and status < 0
    else:
        good = _shown(attack, made, said)
    if not good:
        print(f"      {attack.id}: status {status}: {said[-1500:]}")
    return good


def _hangs(process: BaseProcess, file: Path, *, interrupted: bool) -> bool:
    """Whether it goes on when it should have ended long ago."""
    while process.is_alive() and not (file.exists() and b"started" in file.read_bytes()):
        time.sleep(0.05)
    time.sleep(HANGS_AFTER / 2)
    if interrupted:
        process.terminate()
    time.sleep(HANGS_AFTER / 2)
    return process.is_alive()


def ablate(show: Show, only: Sequence[str] = ()) -> int:
    """Set every attack free that can be (or those of these ids); 0 when all of them succeed."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    ways: dict[tuple[str, tuple[str, ...]], list[Attack]] = defaultdict(list)
    chosen = [one for one in ATTACKS if one.off is not None and (not only or one.id in only)]
    for attack in chosen:
        if attack.off is not None:
            ways[attack.off.way, attack.off.layers].append(attack)
    succeeded: dict[str, bool] = {}
    with world(os.geteuid()) as made:
        for student, files in honest().items():
            (made.folder / "class" / student).mkdir()
            for name, text in files.items():
                (made.folder / "class" / student / name).write_text(text, encoding="utf-8")
        for (way, layers), found in ways.items():
            if way in ("layers", "public"):
                options = Options(checks=CHECKS, without=layers, jobs=1)
                succeeded |= by_engine(made, found, options)
                continue
            for attack in found:
                made.write(attack, made.folder / "class")
            # Those whose sign is a file share a folder: one after the other.
            alone = [one for one in found if one.off and one.off.shows == "file"]
            beside = [one for one in found if one not in alone]
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                results = list(pool.map(lambda one: by_process(made, one), beside))
            succeeded |= {one.id: good for one, good in zip(beside, results, strict=True)}
            succeeded |= {one.id: by_process(made, one) for one in alone}
    for attack in chosen:
        if attack.off is not None:
            off = attack.off
            what = {
                "layers": f"without {', '.join(off.layers)}",
                "border": "in one process",
                "public": "without hidden cases",
                "naive": f"a grader that lacks this ({off.by})",
            }
            word = "succeeded" if succeeded[attack.id] else "DID NOT SUCCEED"
            show((attack.id, attack.title, word, what[off.way]))
    tried = {attack.number for attack in chosen}
    good = tried - {attack.number for attack in chosen if not succeeded[attack.id]}
    print(f"ablated {len(tried)}, succeeded {len(good)}")
    return 0 if tried == good and (only or len(tried) >= 40) else 1
