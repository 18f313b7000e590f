"""What ends a worker costs the check it happens in, whichever way workers are started."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.messages import CUT, render
from autograder.course.records import CheckResult, HandIn, Lab
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.worker import jail
from tests import tiny_lab
from tests.engines import tiny
from tests.hand_ins import grade, hand_in, nothing_left_behind, outcomes, results

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

# What stands first in a function, the outcome of its check, and a word of the sentence shown.
ENDINGS = {
    "abort": ("import os; os.abort()", "crashed", "SIGABRT"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "crashed", "SIGSEGV"),
    "kills itself": ("import os; os.kill(os.getpid(), 9)", "crashed", "SIGKILL"),
    "a signal without a name": ("import os; os.kill(os.getpid(), 40)", "crashed", "signal 40"),
    "exit status 0": ("import os; os._exit(0)", "crashed", "exit status 0"),
    "exit status 3": ("import os; os._exit(3)", "crashed", "exit status 3"),
    "sys.exit": ("import sys; sys.exit(0)", "failed", "SystemExit 0"),
    "interrupt": ("raise KeyboardInterrupt", "failed", "KeyboardInterrupt"),
    "loops": ("while True: pass", "timed_out", "0.75 s of CPU time"),
    "loops in C": ("7 ** 10 ** 8", "timed_out", "CPU"),
    "backtracks": ("import re; re.match('(a+)+$', 'a' * 60 + 'b')", "timed_out", "CPU"),
    "loops and ignores signals": (
        "import signal\nfor n in (2, 14, 15, 24): signal.signal(n, signal.SIG_IGN)\n"
        "while True: pass",
        "timed_out", "CPU",
    ),
    "catches everything": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "timed_out", "CPU",
    ),
    "memory bomb": ("held = [bytes(1 << 26) for _ in range(99)]", "failed", "MemoryError"),
    "tensor bomb": ("import torch; torch.zeros(1 << 32)", "failed", "RuntimeError"),
    "recursion": ("return two(x)", "failed", "RecursionError"),
    "prints for ever": ("while True: print('x' * 1000)", "crashed", "printed"),
    "floods stderr": ("import os\nwhile True: os.write(2, bytes(9999))", "crashed", "printed"),
    "closes everything": ("import os; os.closerange(0, 256)", "crashed", "ended"),
    "huge answer": ("import torch; return [torch.zeros(9_000_000)] * 2", "crashed", "message"),
    "garbage on every descriptor": (
        "import os\nfor n in range(3, 99):\n    try: os.write(n, b'\\xff' * 64)\n"
        "    except OSError: pass",
        "crashed", "message",
    ),
    "a frame of garbage": (
        "import os\nframe = b'\\x08' + bytes(7) + b'12345678'\nfor n in range(3, 99):\n"
        "    try: os.write(n, frame)\n    except OSError: pass",
        "crashed", "message",
    ),
}  # fmt: skip
# Only the clock on the wall ends these, and it is loose: they wait side by side.
WAITS = {
    "sleeps": ("import time; time.sleep(60)", "timed_out", "2.5 s of wall time"),
    "sleeps while its threads print on and on": (
        "import os, threading, time\n"
        "def drip():\n    while True:\n        os.write(2, b'.')\n        time.sleep(0.001)\n"
        "for _ in range(4): threading.Thread(target=drip, daemon=True).start()\n"
        "time.sleep(60)",
        "timed_out", "2.5 s of wall time",
    ),
    "waits for ever": (
        "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "timed_out", "wall",
    ),
}  # fmt: skip
HARMLESS = {
    "thread left running": "import threading\n"
    "def spin():\n    while True: pass\n"
    "threading.Thread(target=spin, daemon=True).start()",
    "waiting thread": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(60,)).start()",
    "closes its output": "import os; os.close(1); os.close(2)",
    "no stdout": "import sys; sys.stdout = sys.stderr = None",
    "no free descriptors": "import os\ntry:\n    while True: os.open('/dev/null', os.O_RDONLY)\n"
    "except OSError: pass",
    "at exit": "import atexit, os; atexit.register(os.abort)",
    "an alarm": "import signal; signal.signal(14, lambda *_: 1 / 0); signal.alarm(60)",
    "huge recursion limit": "import sys; sys.setrecursionlimit(10 ** 8)",
}
SPAWNED = ("abort", "a signal without a name", "sys.exit", "loops")


@pytest.fixture(scope="module")
def lab() -> Lab:
    return tiny()


@pytest.fixture(scope="module")
def engine(lab: Lab) -> Iterator[Engine]:
    with nothing_left_behind(), Engine(lab, Options(jobs=2)) as engine:
        engine.wait_ready()
        yield engine


def sentence(result: CheckResult) -> str:
    assert result.message is not None
    assert render(result.message, "zh") != render(result.message, "en")
    return render(result.message, "en")


def one(engine: Engine, **bodies: str) -> HandIn:
    with nothing_left_behind(judges=True):
        return grade(engine, hand_in("one", tiny_lab.doing(**bodies)))["one"]


def all_but(lab: Lab, **changed: str) -> dict[str, str]:
    return {check.name: "passed" for check in lab.checks} | changed


def needs(engine: Engine, guarantee: str) -> None:
    if guarantee not in jail.guarantees(engine.isolation.layers):
        pytest.skip(f"needs Linux with the guarantee {guarantee}")


def test_printing_a_lot_in_every_call_costs_nothing(engine: Engine, lab: Lab) -> None:
    """The cap is on one call: 1.5 MB in each of five functions is more than it in all."""
    body = "for n in range(1500): print('x' * 1000)"
    names = ("one", "two", "three", "four", "five")
    assert outcomes(one(engine, **dict.fromkeys(names, body))) == all_but(lab)


def test_a_right_hand_in_passes(engine: Engine, lab: Lab) -> None:
    assert outcomes(one(engine)) == all_but(lab)


@pytest.mark.parametrize("name", ENDINGS)
def test_an_ending_costs_its_own_check_only(engine: Engine, lab: Lab, name: str) -> None:
    body, outcome, word = ENDINGS[name]
    record = one(engine, two=body)
    assert outcomes(record) == all_but(lab, test_two=outcome)
    assert word in sentence(results(record)["test_two"])


@pytest.mark.slow
def test_waiting_costs_its_own_check_only(lab: Lab, tmp_path: Path) -> None:
    impatient = tiny_lab.build(tmp_path / "lab9_doubling")
    toml = impatient.folder / "lab.toml"
    text = toml.read_text().replace("wall_seconds = 8", "wall_seconds = 2.5")
    toml.write_text(text)
    waiting = [hand_in(name, tiny_lab.doing(two=body)) for name, (body, _, _) in WAITS.items()]
    with nothing_left_behind(), Engine(labfile.load(impatient.folder), Options(jobs=2)) as engine:
        engine.wait_ready()
        with nothing_left_behind(judges=True):
            records = grade(engine, *waiting)
    for name, (_, outcome, word) in WAITS.items():
        assert outcomes(records[name]) == all_but(lab, test_two=outcome)
        assert word in sentence(results(records[name])["test_two"])


@pytest.mark.parametrize("name", HARMLESS)
def test_what_a_check_leaves_running_costs_nothing(engine: Engine, lab: Lab, name: str) -> None:
    assert outcomes(one(engine, two=HARMLESS[name])) == all_but(lab)


def test_prints_before_the_end_are_kept(engine: Engine) -> None:
    record = one(engine, two="for n in range(50): print('line', n)\nimport os; os.abort()")
    lines = results(record)["test_two"].prints.splitlines()
    every = [f"line {n}" for n in range(50)]
    assert lines == [*every[:14], CUT, *every[-15:]]


def test_prints_that_are_no_text_are_kept(engine: Engine) -> None:
    record = one(engine, two="import os; os.write(1, b'\\xff\\xfe tail'); 1 / 0")
    assert results(record)["test_two"].prints.endswith(" tail")


def test_three_lost_workers_end_the_exercise(engine: Engine, lab: Lab) -> None:
    end = "import os; os.abort()"
    record = one(engine, one=end, two=end, three=end)
    crashed = dict.fromkeys(("test_one", "test_two", "test_three"), "crashed")
    assert outcomes(record) == all_but(lab, **crashed, test_four="skipped", test_five="skipped")
    assert "3 times" in sentence(results(record)["test_four"])


def test_what_builds_on_a_lost_check_is_skipped(engine: Engine, lab: Lab) -> None:
    record = one(engine, free="import os; os.abort()")
    skipped = dict.fromkeys(("one", "two", "three", "four", "five"), "skipped")
    expected = {f"test_{name}": outcome for name, outcome in skipped.items()}
    assert outcomes(record) == all_but(lab, test_free="crashed", **expected)
    assert "free gives twice" in sentence(results(record)["test_one"])


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("import os; os._exit(0)", "crashed"),
        ("import ctypes; ctypes.string_at(0)", "crashed"),
        ("while True: pass", "timed_out"),
        ("raise SystemExit(0)", "failed"),
        ("1 / 0", "failed"),
        ("def broken(:", "failed"),
        ("import transformers", "failed"),
    ],
)
def test_an_import_that_ends_settles_its_file_at_once(
    engine: Engine, lab: Lab, code: str, outcome: str
) -> None:
    files = tiny_lab.right()
    files["answer.py"] = code + "\n" + files["answer.py"]
    started = time.monotonic()
    with nothing_left_behind(judges=True):
        record = grade(engine, hand_in("one", files))["one"]
    settled = {c.name: outcome for c in lab.checks if c.name != "test_side"}
    assert outcomes(record) == all_but(lab, **settled)
    sentences = {sentence(result) for result in record.results if result.message}
    assert len(sentences) == 1
    assert time.monotonic() - started < 10  # one deadline, not seven


WRITES = """
import os
def tried(action, *args):
    try: return action(*args)
    except OSError: return None
for folder in {folders!r}:
    path = folder + '/left-behind'
    tried(open, path, 'w')
    tried(os.mkdir, path)
    tried(os.symlink, '/', path)
    tried(os.mkfifo, path)
    tried(os.link, '/dev/null', path)
tried(os.chmod, {folders!r}[0], 0)
"""


def test_no_file_is_left(engine: Engine, lab: Lab, tmp_path: Path) -> None:
    needs(engine, "writes")
    tmp_path.chmod(0o777)
    public = map(Path, ("/tmp", "/dev/shm", "/var/tmp"))
    folders = [tmp_path, *tmp_path.parents, Path.cwd(), lab.folder, *filter(Path.exists, public)]
    body = WRITES.format(folders=[str(folder) for folder in folders])
    modes = [folder.stat().st_mode for folder in folders]
    assert outcomes(one(engine, two=body)) == all_but(lab)
    assert not [folder for folder in folders if os.path.lexists(folder / "left-behind")]
    assert modes == [folder.stat().st_mode for folder in folders]


# Signal 0 only asks whether a signal would be let through.
STARTS = {
    "fork": "os.fork()",
    "daemon": "os.fork() or (os.setsid(), os.fork() or time.sleep(60))",
    "program": "subprocess.run(['/bin/sh', '-c', 'sleep 60'])",
    "spawn": "os.posix_spawn('/bin/sleep', ['sleep', '60'], {})",
    "exec": "os.execv('/bin/sleep', ['sleep', '60'])",
    "pool": "multiprocessing.Pool(2)",
    "socket": "socket.socket()",
    "unix socket": "socket.socketpair()",
    "signal to the zygote": "os.kill(os.getppid(), 0)",
    "signal to all": "os.kill(-1, 0)",
}


@pytest.mark.parametrize("name", STARTS)
def test_no_process_no_socket_no_signal(engine: Engine, lab: Lab, name: str) -> None:
    needs(engine, "processes")
    needs(engine, "network")
    needs(engine, "signals")
    start = "import os, time, subprocess, multiprocessing, socket\n" + STARTS[name]
    assert outcomes(one(engine, two=start)) == all_but(lab, test_two="failed")


def test_forks_at_import_are_a_failed_import(engine: Engine, lab: Lab) -> None:
    needs(engine, "processes")
    files = tiny_lab.right()
    files["side.py"] = (
        "import os, time\nfor _ in range(5):\n    if os.fork() == 0: time.sleep(60)\n"
        + files["side.py"]
    )
    with nothing_left_behind(judges=True):
        record = grade(engine, hand_in("one", files))["one"]
    assert outcomes(record) == all_but(lab, test_side="failed")


def test_two_hand_ins_share_nothing(engine: Engine, lab: Lab) -> None:
    """Workers come from one process, but what one changes is never seen by the next."""
    spoiled = tiny_lab.right()
    spoiled["answer.py"] += textwrap.dedent("""
        import builtins, sys, torch
        builtins.spoiled = sys.spoiled = torch.spoiled = True
        torch.Tensor.__mul__ = torch.Tensor.__rmul__ = lambda *_: torch.zeros(3)
    """)
    looking = tiny_lab.doing(
        two="import builtins, sys, torch\n"
        "assert not any(hasattr(m, 'spoiled') for m in (builtins, sys, torch))"
    )
    for _ in range(2):
        records = grade(engine, hand_in("spoiled", spoiled), hand_in("looking", looking))
        assert outcomes(records["looking"]) == all_but(lab)
        assert "passed" not in outcomes(records["spoiled"]).values()


# ---------------------------------------------------------------- spawned workers


@pytest.mark.slow
def test_spawned_workers_give_the_same_outcomes(
    lab: Lab, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that sleeps is stopped by the clock on the wall; here there is no other."""
    names = SPAWNED
    bodies: dict[str, dict[str, str]] = {"right": {}}
    bodies |= {name: {"two": ENDINGS[name][0]} for name in names}
    submissions = [hand_in(name, tiny_lab.doing(**made)) for name, made in bodies.items()]
    forked = grade(engine, *submissions)
    sleeping = hand_in("sleeps", tiny_lab.doing(two=WAITS["sleeps"][0]))
    monkeypatch.setenv("AUTOGRADER_WORKER", "spawn")
    with nothing_left_behind(), Engine(lab, Options(replay=False)) as spawning:
        spawning.wait_ready()
        assert (spawning.isolation.worker, engine.isolation.worker) == ("spawn", "fork")
        assert spawning.isolation.level == engine.isolation.level
        spawned = grade(spawning, *submissions, sleeping)
    for name in bodies:
        assert outcomes(spawned[name]) == outcomes(forked[name]), name
    assert outcomes(forked["right"]) == all_but(lab)
    for name in names:
        assert outcomes(forked[name])["test_two"] == ENDINGS[name][1]
    assert outcomes(spawned["sleeps"]) == all_but(lab, test_two="timed_out")
    assert "wall" in sentence(results(spawned["sleeps"])["test_two"])
