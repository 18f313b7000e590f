"""Small graders that each lack one precaution: ``python -m tests.attacks.naive NAME FOLDER OUT``.

They end with status 0 where the hand-in in FOLDER passes although it knows nothing, as graders
that run in the process of what they grade do. ``OUT`` is a folder two levels below the scratch
folder of the test. What an attack gets out of them stays there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

GRADERS: dict[str, Callable[[Path, Path], bool]] = {}


def grader(function: Callable[[Path, Path], bool]) -> Callable[[Path, Path], bool]:
    """Make a grader callable by its name."""
    GRADERS[function.__name__.strip("_")] = function
    return function


def _inputs() -> tuple[Any, Any]:
    """An input of rotate_half, and the right answer."""
    import torch

    x = torch.arange(1.0, 13.0).reshape(1, 3, 4)
    return x, _reference(x)


def _reference(x: Any) -> Any:
    import torch

    return torch.cat((-x[..., 2:], x[..., :2]), -1)


def _hand_in(folder: Path) -> Any:
    """The hand-in's attention.py, imported as any module is."""
    sys.path.insert(0, str(folder))
    import importlib

    return importlib.import_module("attention")


@grader
def import_(folder: Path, out: Path) -> bool:
    """Catches no SystemExit."""
    x, want = _inputs()
    return bool((_hand_in(folder).rotate_half(x) == want).all())


@grader
def equals(folder: Path, out: Path) -> bool:
    """Lets the answer's own == decide."""
    x, want = _inputs()
    return bool(_hand_in(folder).rotate_half(x) == want.tolist())


@grader
def torch_equal(folder: Path, out: Path) -> bool:
    """Lets torch compare what came as it is."""
    import torch

    x, want = _inputs()
    return bool(torch.equal(_hand_in(folder).rotate_half(x), want))


@grader
def pickle(folder: Path, out: Path) -> bool:
    """Takes the answer from another process by pickle."""
    import pickle as pickling

    x, want = _inputs()
    sent = pickling.dumps(_hand_in(folder).rotate_half(x))
    return bool(pickling.loads(sent) == want.tolist())


@grader
def pytest(folder: Path, out: Path) -> bool:
    """Runs pytest in the folder that was handed in."""
    (folder / "test_it.py").write_text("def test(): assert 1 == 2\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    clean = os.environ | {"PYTEST_ADDOPTS": ""}  # options of who runs the attacks
    return subprocess.run([*command, str(folder)], cwd=folder, env=clean).returncode == 0


@grader
def script(folder: Path, out: Path) -> bool:
    """Runs a file of the hand-in as a script, so that its folder is on the path."""
    return subprocess.run([sys.executable, str(folder / "attention.py")]).returncode == 0


@grader
def verdicts(folder: Path, out: Path) -> bool:
    """Believes the first line that the process of the hand-in writes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        x, want = _inputs()
        right = bool((_hand_in(folder).rotate_half(x) == want).all())
        os.write(writing, json.dumps({"score": 100 * right}).encode() + b"\n")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        print(lines.readline())
    os.waitpid(child, 0)
    return False


@grader
def reused(folder: Path, out: Path) -> bool:
    """Computes the reference in the same process, and lets go of its memory."""
    import torch

    module = _hand_in(folder)
    found = 0
    for length in range(100, 200):
        x = torch.rand(1, length, 4)
        want = _reference(x)
        kept = want.flatten().tolist()
        del want
        got = module.rotate_half(x).flatten().tolist()
        # The allocator may write into the first bytes of what it was given back.
        found += sum(a == b for a, b in zip(got, kept, strict=True)) > 0.9 * len(kept)
    print(f"found {found} of 100 answers")
    return found > 0


@grader
def reference_after(folder: Path, out: Path) -> bool:
    """Runs the reference on the input that the hand-in has had."""
    x, _ = _inputs()
    got = _hand_in(folder).rotate_half(x)
    return bool((got == _reference(x)).all())


@grader
def round_trip(folder: Path, out: Path) -> bool:
    """Asks for the inverse first, with the answer to the next question as its input."""
    x, want = _inputs()
    module = _hand_in(folder)
    module.rotate_half(want)
    return bool((module.rotate_half(x) == want).all())


@grader
def timed(folder: Path, out: Path) -> bool:
    """Gives points for speed by the clock of the hand-in's own process."""
    import time

    sys.path.insert(0, str(folder))
    import importlib

    import torch

    module = importlib.import_module("mlp")
    started = time.perf_counter()
    module.Qwen3MLP.forward(None, torch.zeros(1))
    return time.perf_counter() - started < 0.1


@grader
def settings(folder: Path, out: Path) -> bool:
    """Grades one hand-in after the other in one process; the neighbour is no longer right."""
    import torch

    x, _ = _inputs()
    _hand_in(folder).rotate_half(x)
    neighbour = torch.zeros(3)
    return neighbour.dtype != torch.float32


@grader
def expanded(folder: Path, out: Path) -> bool:
    """Takes the bytes of a tensor without asking how many."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # of this process: a harmless end
    x, _ = _inputs()
    try:
        _hand_in(folder).rotate_half(x).numpy().tobytes()
    except (MemoryError, ValueError):
        print("the grader ran out of memory")
    return False


@grader
def alarm(folder: Path, out: Path) -> bool:
    """Ends a hand-in by signals within its own process."""
    import torch

    torch.set_num_threads(1)  # imported before the clock starts

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(2)
    return no_deadline(folder, out)


@grader
def no_deadline(folder: Path, out: Path) -> bool:
    """Waits for a hand-in as long as it takes."""
    sys.path.insert(0, str(folder))
    import importlib

    import torch

    print(f"started with torch {torch.__version__}", flush=True)
    importlib.import_module("mlp")
    return False


def _archive(folder: Path) -> Path:
    return next(path for path in folder.parent.iterdir() if path.name.startswith(folder.name + "."))


@grader
def extract_zip(folder: Path, out: Path) -> bool:
    """Unpacks every member under its own name."""
    with zipfile.ZipFile(_archive(folder)) as archive:
        for member in archive.infolist():
            Path(out, member.filename).write_bytes(archive.read(member))
    return False


@grader
def extract_tar(folder: Path, out: Path) -> bool:
    """Unpacks a tar as it asks to be unpacked."""
    import tarfile

    with tarfile.open(_archive(folder)) as archive:
        archive.extractall(out, filter="fully_trusted")
    return False


@grader
def follow(folder: Path, out: Path) -> bool:
    """Opens what lies there."""
    for path in (folder / "attention.py", folder / "src" / "attention.py"):
        if path.exists():
            print(path.read_text())
    return False


@grader
def unpack(folder: Path, out: Path) -> bool:
    """Reads a member whole."""
    with zipfile.ZipFile(_archive(folder)) as archive:
        print("unpacked", len(archive.read("attention.py")))
    return False


@grader
def read(folder: Path, out: Path) -> bool:
    """Reads a file whole."""
    print("read", len((folder / "attention.py").read_bytes()))
    return False


@grader
def escaping(folder: Path, out: Path) -> bool:
    """Puts what a hand-in says into a page as it is."""
    x, _ = _inputs()
    odd = next(path for path in folder.parent.iterdir() if path.name.startswith(folder.name + " "))
    try:
        _hand_in(odd).rotate_half(x)
    except Exception as error:
        print(f"<p>{type(error).__name__}: {error}</p>")
    return False


@grader
def unpickle(folder: Path, out: Path) -> bool:
    """Loads an environment that was handed in."""
    import pickle as pickling

    pickling.loads((folder / "environment.pkl").read_bytes())
    return False


def _seen(folder: Path) -> list[str]:
    """Names of torch's functions while the hand-in's attention is called as its checks call it."""
    import torch
    from torch.overrides import TorchFunctionMode

    seen = []

    class Recorder(TorchFunctionMode):
        def __torch_function__(self, func: Any, _: Any, args: Any = (), named: Any = None) -> Any:
            seen.append(str(getattr(func, "__name__", func)))
            return func(*args, **(named or {}))

    module = _hand_in(folder)
    with Recorder():
        module.hidden(torch.zeros(1, 1, 4, 8))
    return seen


@grader
def exact_name(folder: Path, out: Path) -> bool:
    """Looks for one name, in the text and in what runs."""
    name = "scaled_dot_product_attention"
    text = (folder / "attention.py").read_text()
    return f".{name}(" not in text and name not in _seen(folder)


@grader
def recording(folder: Path, out: Path) -> bool:
    """Looks at what runs, whatever it is called."""
    return not any("scaled_dot_product" in name for name in _seen(folder))


@grader
def parsing(folder: Path, out: Path) -> bool:
    """Looks at the syntax of what it can parse, from as deep as a judge does."""
    import ast

    def deeper(left: int) -> bool:
        if left:
            return deeper(left - 1)
        try:
            ast.parse((folder / "attention.py").read_text())
        except RecursionError:
            return True
        return False

    with ThreadPoolExecutor(1) as shallow:  # whatever calls this one
        shallow.submit(_hand_in, folder).result()
        return shallow.submit(deeper, 100).result()


@grader
def bare_words(folder: Path, out: Path) -> bool:
    """Looks for words; its success is that it accuses."""
    import ast

    tree = ast.parse((folder / "attention.py").read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return "scaled_dot_product_attention" in names


def main(argv: list[str]) -> int:
    """0 where the hand-in passes."""
    return 0 if GRADERS[argv[1]](Path(argv[2]), Path(argv[3])) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
