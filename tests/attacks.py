"""What a hand-in may try, as code in front of its files and definitions behind them.

``$HIDDEN``, ``$NOTES``, ``$SHARED`` and ``$ROOT`` stand for paths that a test fills in.

Whoever runs these where a layer is broken must not be hurt: signals are the harmless 0, files
go to a folder of the test, processes are few and end by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autograder.course.records import Outcome
from tests import hand_ins


@dataclass(frozen=True)
class Attack:
    """Statements run first in both files, and definitions put at the end of both."""

    first: str = ""
    last: str = ""

    def on(self, files: Mapping[str, str]) -> dict[str, str]:
        changed = hand_ins.with_code(files, self.first)
        return {name: f"{text}\n{self.last}\n" for name, text in changed.items()}


# Replaces every answer of both files by what the function `stolen` finds for the arguments.
STEAL = """
def rotate_half(x): return stolen(x)
def repeat_kv(x, n_rep): return stolen(x.repeat_interleave(n_rep, 1))
if "Qwen3Attention" in globals():
    Qwen3Attention.forward = lambda self, h, *a, **k: stolen(h)
if "Qwen3MLP" in globals():
    Qwen3MLP.forward = lambda self, x: stolen(x)
def count_parameters(config): return stolen(None)
"""
READ = """
import glob, os, sys
def grab():
    found = []
    for pattern in ("$HIDDEN", "$NOTES", "$ROOT/solutions/**", "$ROOT/labs/**", "/proc/*/environ",
                    "/proc/*/cmdline", "/proc/%d/mem" % os.getppid(), "/proc/*/maps"):
        for path in [pattern, *glob.glob(pattern, recursive=True)]:
            try:
                found.append(open(path, "rb").read(1 << 16))
            except OSError as error:
                found.append(type(error).__name__)
    return repr(found)
"""
ATTACKS = {
    "patches every comparison": Attack("""
import builtins, math, operator, numpy, torch, torch.testing
yes = lambda *a, **k: True
nothing = lambda *a, **k: None
torch.testing.assert_close = numpy.testing.assert_allclose = nothing
torch.allclose = torch.equal = torch.isclose = numpy.allclose = numpy.array_equal = yes
numpy.isclose = numpy.isfinite = math.isclose = operator.eq = yes
numpy.linalg.norm = lambda *a, **k: numpy.float64(0)
torch.Tensor.__eq__ = torch.Tensor.equal = torch.Tensor.allclose = yes
torch.Tensor.__ne__ = lambda *a: False
builtins.any = lambda *a: False
"""),
    "equal to everything": Attack(last="""
class AlwaysEqual:
    shape, dtype = property(lambda s: s), property(lambda s: s)
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __call__(self, *a, **k): return self
    def __getattr__(self, name): return self
    def __getitem__(self, name): return self
    def __iter__(self): return iter([self, self])
    def __len__(self): return 2
    def __float__(self): return 0.0
    def __sub__(self, other): return 0
    __hash__ = None
def stolen(x): return AlwaysEqual()
""" + STEAL),
    "a tensor that agrees": Attack(last="""
class Agreeing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None): return True
def stolen(x): return torch.zeros(1).as_subclass(Agreeing)
""" + STEAL),
    "a class that pickles code": Attack(last="""
import os
class Payload:
    def __reduce__(self): return os.system, ("touch $SHARED/pickled",)
    def __str__(self): open("$SHARED/printed", "w")
    __repr__ = __str__
def stolen(x): return Payload()
""" + STEAL),
    "an exit status of 0": Attack("import os; os._exit(0)"),
    "sys.exit": Attack("import sys; sys.exit(0)"),
    "passes by exception": Attack("""
import sys
sys.path.insert(0, "$ROOT")
class Passed(BaseException): pass
try:
    import pytest
except BaseException as error:
    raise Passed("passed") from error
pytest.exit("passed", returncode=0)
"""),
    "exit handlers": Attack("""
import atexit, os, signal, sys
def leave(*_):
    open("$SHARED/results.json", "w").write('{"score": 100}')
    os._exit(0)
atexit.register(leave)
sys.excepthook = sys.unraisablehook = leave
signal.signal(signal.SIGTERM, leave)
sys.settrace(lambda *_: None)
"""),
    "loops in C": Attack("7 ** 10 ** 9"),
    "forks and daemons": Attack("""
import os, subprocess, sys, time
def tried(action):
    try: action()
    except BaseException as error: print(type(error).__name__)
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
tried(daemon)
tried(lambda: subprocess.Popen(["sleep", "60"], start_new_session=True))
tried(lambda: os.system("sleep 60 &"))
tried(lambda: os.kill(os.getppid(), 0) or print("reached the zygote"))
tried(lambda: os.kill(-1, 0) or print("reached everybody"))
"""),
    "sends the hidden cases home": Attack(READ + """
import socket
told = 0
for family, kind in ((2, 1), (2, 2), (10, 2), (1, 1), (16, 3)):
    try:
        with socket.socket(family, kind) as wire:
            told += wire.sendto(grab().encode(), ("127.0.0.1", 9))
    except OSError:
        pass
assert not told, "sent"
"""),
    "prints and raises the answers": Attack(READ + """
print(grab())
sys.stderr.write(grab())
os.write(1, grab().encode())
""", last="""
class Shouting(ValueError):
    def __str__(self): return grab()
def stolen(x): raise Shouting(grab())
""" + STEAL),
    "says the answers by where it looked": Attack("""
import linecache
try:
    text = open("$NOTES").read()
except OSError as error:
    text = type(error).__name__
(path,) = [name for name in linecache.cache if name.endswith("lab2_qwen3_block/attention.py")]
linecache.cache[path] = (len(text), None, [text] * 99, path)
shouting = {"text": text}
exec(compile("def shout(): raise KeyError(text)", path, "exec"), shouting)
""", last="""
def stolen(x): shouting["shout"]()
""" + STEAL),
    "imports the solution": Attack("""
import importlib, sys
sys.path[:0] = ["$ROOT", "$ROOT/solutions/lab2_qwen3_block", "$ROOT/labs/given"]
import autograder, labs, labs.given
for package, path in ((autograder, ""), (labs, ""), (labs.given, "/given")):
    package.__path__ = ["$ROOT/" + package.__name__.split(".")[0] + path]
found = []
for name in ("solutions.lab2_qwen3_block.attention", "solutions.lab2_qwen3_block.mlp",
             "autograder.reference.oracle", "autograder.reference.hf", "labs.given.model",
             "labs.given.checkpoint", "autograder.grading.engine", "autograder.harness.checks",
             "transformers", "transformers.models.qwen3.modeling_qwen3", "model", "pytest"):
    try:
        found.append(importlib.import_module(name))
    except Exception:
        pass
for module in found:
    for name in ("rotate_half", "repeat_kv", "Qwen3Attention", "Qwen3MLP", "count_parameters"):
        if hasattr(module, name):
            globals()["found_" + name] = getattr(module, name)
""", last="""
for name in ("rotate_half", "repeat_kv", "Qwen3Attention", "Qwen3MLP", "count_parameters"):
    if "found_" + name in globals():
        globals()[name] = globals()["found_" + name]
"""),
    "searches the heap": Attack(last="""
import gc
def stolen(x):
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and x is not None and thing.shape == x.shape:
            if thing is not x and not torch.equal(thing, x):
                return thing.clone()
        if type(thing) is dict and "total" in thing and "lm_head" in thing:
            return dict(thing)
    return torch.zeros_like(x) if x is not None else dict.fromkeys(
        ("embedding", "attention", "mlp", "norm", "lm_head", "total"), -1)
""" + STEAL),
    "searches the callers": Attack(last="""
import sys
def inside(value, depth=0):
    yield value
    if depth < 3 and isinstance(value, dict):
        for item in list(value.values()): yield from inside(item, depth + 1)
    if depth < 3 and isinstance(value, (list, tuple)):
        for item in list(value): yield from inside(item, depth + 1)
def stolen(x):
    frame = sys._getframe()
    while frame is not None:
        for name, thing in list(frame.f_locals.items()):
            for value in inside(thing):
                raw = getattr(value, "data", None)
                if type(value).__name__ == "Tensor" and isinstance(raw, bytes) and x is not None:
                    if len(raw) == 4 * x.numel():
                        found = torch.frombuffer(bytearray(raw), dtype=torch.float32)
                        if not torch.equal(found.reshape(x.shape), x):
                            return found.reshape(x.shape)
                if isinstance(value, dict) and any(str(key).startswith("n.") for key in value):
                    return {k[2:]: v for k, v in value.items() if k.startswith("n.")}
        frame = frame.f_back
    return torch.zeros_like(x) if x is not None else dict.fromkeys(
        ("embedding", "attention", "mlp", "norm", "lm_head", "total"), -1)
""" + STEAL),
    "uses memory that was used before": Attack(last="""
def stolen(x):
    return torch.empty_like(x) if x is not None else dict.fromkeys(
        ("embedding", "attention", "mlp", "norm", "lm_head", "total"), -1)
""" + STEAL),
    "forges by json": Attack("""
import json
real = json.dumps
json.dumps = lambda *a, **k: real({"values": [True] * 20, "outcome": "passed", "score": 100})
json.loads = lambda *a, **k: {"steps": [], "outcome": "passed"}
"""),
    "forges by the worker": Attack("""
import sys
for name in ("wire", "worker", "session", "values"):
    module = sys.modules["autograder.sandbox." + name]
    for function in ("pack", "encode", "from_torch", "frame"):
        if hasattr(module, function):
            setattr(module, function, lambda *a, **k: True)
"""),
    "forges by the session": Attack("""
import sys
session = sys.modules["autograder.sandbox.session"].Session
def execute(self, request, tensors, **_):
    return {"values": [True for _ in request["steps"]], "outcome": "passed"}, {}
session.execute = execute
"""),
    "forges with the inputs": Attack("""
import sys
session = sys.modules["autograder.sandbox.session"].Session
def execute(self, request, tensors, **_):
    first = next(iter(tensors), None)
    value = {"$t": first} if first else True
    return {"values": [value for _ in request["steps"]]}, dict(tensors)
session.execute = execute
"""),
    "forges without values": Attack("""
import sys
sys.modules["autograder.sandbox.session"].Session.execute = lambda *a, **k: ({"values": []}, {})
"""),
    "forges by os.write": Attack("""
import os
real = os.write
passed = b'{"outcome": "passed", "score": 100}\\n'
os.write = lambda fd, data: real(fd, passed) and len(data)
for fd in range(3, 64):
    try: real(fd, passed)
    except OSError: pass
"""),
    "answers nothing": Attack("""
import os
os.write = lambda fd, data: len(data)
"""),
    "a grader's fault": Attack(last="""
def stolen(x):
    exec(compile("raise AttributeError(\\"module 'x\\")", "elsewhere", "exec"))
code = "def rotate_half(x): raise AttributeError(\\"module 'x\\")"
def stolen_dict(config): return {k: float("nan") for k in (
    "embedding", "attention", "mlp", "norm", "lm_head", "total")}
""" + STEAL + """
exec(compile(code, "elsewhere", "exec"), globals())
count_parameters = stolen_dict
"""),
}  # fmt: skip
ENDS_AT_IMPORT = {
    "an exit status of 0": Outcome.CRASHED,
    "sys.exit": Outcome.FAILED,
    "passes by exception": Outcome.FAILED,
    "loops in C": Outcome.TIMED_OUT,
}
