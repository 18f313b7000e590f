"""Attacks on the protocol: forged replies, and a worker turned against itself (14 to 17, 57)."""

from __future__ import annotations

from tests.attacks.attack import KERNEL, Attack, Off
from tests.attacks.code import STEAL, TELL, TRY

FORGED = '{"outcome": "passed", "score": 100}'
_BELIEVED = Off("naive", '"score": 100', by="verdicts")
# The call that brings the patch is judged before it works.
_MOST = Off("border", "[1-9][0-9]* passed")

# fmt: off
FORGING = (
    Attack(14, "results written to every descriptor", "frames carry values, never verdicts",
           first=f"""
import os
real = os.write
passed = b'{FORGED}\\n'
os.write = lambda fd, data: real(fd, passed) and len(data)
for fd in range(3, 64):
    try: real(fd, passed)
    except OSError: pass
""", base="stub", off=_BELIEVED),
    Attack(14, "forged by json", "frames carry values, never verdicts", tag="b", first="""
import json
real = json.dumps
json.dumps = lambda *a, **k: real({"values": [True] * 20, "outcome": "passed", "score": 100})
json.loads = lambda *a, **k: {"steps": [], "outcome": "passed"}
""", base="stub"),
    Attack(14, "frames of a session of its own", "frames carry values, never verdicts", tag="c",
           first="""
import sys
session = sys.modules["autograder.worker.session"].Session
def execute(self, request, tensors, **_):
    return {"values": [True for _ in request["steps"]], "outcome": "passed"}, {}
session.execute = execute
""", base="stub"),
    Attack(14, "the inputs as answers", "frames carry values, never verdicts", tag="d", first="""
import sys
session = sys.modules["autograder.worker.session"].Session
def execute(self, request, tensors, **_):
    first = next(iter(tensors), None)
    value = {"$t": first} if first else True
    return {"values": [value for _ in request["steps"]]}, dict(tensors)
session.execute = execute
"""),
    Attack(14, "no values at all", "a short reply is a fault of the hand-in", tag="e", first="""
import sys
sys.modules["autograder.worker.session"].Session.execute = lambda *a, **k: ({"values": []}, {})
""", base="stub"),
    Attack(14, "arguments that are said to be gone", "a reply has the form of its request",
           tag="f", first="""
import sys
session = sys.modules["autograder.worker.session"].Session
real = session.execute
def execute(self, request, tensors, **options):
    reply, out = real(self, request, tensors, **options)
    for value in reply["values"]:
        if isinstance(value, dict) and "$list" in value:
            value["$list"][1:] = [{"$list": []}, {"$dict": []}][:len(value["$list"]) - 1]
    return reply, out
session.execute = execute
"""),
    Attack(14, "a shape beyond any memory", "a shape must be one that numpy can hold", tag="g",
           first="""
import sys
session = sys.modules["autograder.worker.session"]
wire = sys.modules["autograder.wire.messages"]
def execute(self, request, tensors, **_):
    vast = wire.Tensor("float32", (0, *[2**31 - 1] * 4), b"")
    names = ("embedding", "attention", "mlp", "norm", "lm_head", "total")
    value = {"$dict": [[name, {"$t": "r0"}] for name in names]}
    return {"values": [value for _ in request["steps"]]}, {"r0": vast}
session.Session.execute = execute
""", where=("mlp.py",)),
    Attack(14, "millions of values for one", "a header of a reply is small", tag="h", first="""
import sys
session = sys.modules["autograder.worker.session"]
worker = sys.modules["autograder.worker.worker"]
real, flood = worker.pack, "{}," * 5_000_000 + "{}"
def pack(tree, tensors):
    blob = real({"values": ["FLOOD"]}, {})
    head = blob[8:].rstrip().replace(b'\\\\"FLOOD\\\\"', flood.encode())
    return len(head).to_bytes(8, "little") + head
worker.pack = pack
""", where=("mlp.py",)),
    Attack(70, "56 MiB beside every answer", "a tensor that stands nowhere ends the worker",
           first="""
import sys
session = sys.modules["autograder.worker.session"].Session
wire = sys.modules["autograder.wire.messages"]
real, spare = session.execute, wire.Tensor("uint8", (56 << 20,), bytes(56 << 20))
def execute(self, request, tensors, **options):
    reply, out = real(self, request, tensors, **options)
    return reply, {**out, "spare": spare}
session.execute = execute
""", base="right"),
    Attack(14, "text in place of every number", "every value is asked for its type", tag="i",
           first="""
import sys
session = sys.modules["autograder.worker.session"].Session
def execute(self, request, tensors, **_):
    error = {"stage": [], "type": {"a": 1}, "text": 7, "todo": None, "frames": [["f", 1e308, 0, 0]],
             "lacking": "abc", "shapes": [["a", "b", "c"]]}
    return {"values": ["x", float("nan"), {"$dict": [["a", "b"]]}], "error": error}, {}
session.execute = execute
""", base="stub"),
    Attack(15, "dup2 puts another pipe in the place of the channel", "the judge reads one channel",
           first=f"""
import os
reader, writer = os.pipe()
os.write(writer, b'{FORGED}\\n' * 9)
for fd in range(3, 64):
    if fd not in (reader, writer):
        try:
            if not os.isatty(fd): os.fstat(fd); os.write(fd, b'{FORGED}\\n'); os.dup2(reader, fd)
        except OSError: pass
""", base="stub", off=_BELIEVED),
    Attack(16, "a trap of its own on write()", "no filter can be added; frames are not verdicts",
           first=TRY + """
import ctypes, errno, struct, sys
seccomp = sys.modules["autograder.worker.seccomp"]
def trap():
    allow = bytearray(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))
    filter_ = (ctypes.c_char * 8).from_buffer(allow)
    header = ctypes.create_string_buffer(struct.pack("@HP", 1, ctypes.addressof(filter_)))
    return "trapped %d" % seccomp.syscall("seccomp", 1, 0, ctypes.addressof(header))
tried(trap)
""", last=TELL, needs=("privileges",), off=Off("layers", "trapped 0", KERNEL)),
    Attack(17, "rewrites functions at their machine or byte code", "it owns its own process only",
           first=TRY + """
import ctypes, sys
def detour():
    # Byte code: whatever is called next in this process, not in the judge's.
    for name in ("autograder.checks.expect", "autograder.reference.compare"):
        module = sys.modules.get(name)
        for function in vars(module).values() if module else ():
            if getattr(function, "__name__", "") in ("expect_close", "expect_value"):
                function.__code__ = (lambda *a, **k: None).__code__
                function.__kwdefaults__ = None
    # The memory of this process as a file.
    with open("/proc/self/mem", "r+b") as memory:
        cell = ctypes.c_uint64(7)
        memory.seek(ctypes.addressof(cell)); memory.write(b"\\x2a" + bytes(7)); memory.flush()
        return "wrote %d" % cell.value
tried(detour)
""", off=_MOST),
)
PATCHING = (
    Attack(57, "patches the worker's own modules", "only its own bytes change", first="""
import sys
for name in ("wire.messages", "worker.worker", "worker.session", "worker.values"):
    module = sys.modules.get("autograder." + name)
    for function in ("pack", "encode", "from_torch", "frame"):
        if hasattr(module, function):
            setattr(module, function, lambda *a, **k: True)
student = sys.modules.get("autograder.checks.plugin")
if student:
    agree = lambda *a, **k: dict.fromkeys(a[1]) if type(a[1]) is tuple else None
    for module in list(sys.modules.values()):
        for name in ("expect_close", "expect_value", "expect_keys"):
            if hasattr(module, name): setattr(module, name, agree)
    values = sys.modules["autograder.worker.session"]
    values.encode = lambda *a, **k: None
""", off=_MOST),
    Attack(57, "answers nothing for ever", "a wall deadline ends it", tag="b", slow=True,
           where=("mlp.py",), first="import os; os.write = lambda fd, data: len(data)"),
    Attack(57, "a fault that looks like the grader's", "a hand-in's errors are its own", tag="c",
           last="""
def stolen(x):
    exec(compile("raise AttributeError(\\"module 'x\\")", "elsewhere", "exec"))
code = "def rotate_half(x): raise AttributeError(\\"module 'x\\")"
def stolen_dict(config): return {k: float("nan") for k in (
    "embedding", "attention", "mlp", "norm", "lm_head", "total")}
""" + STEAL + """
exec(compile(code, "elsewhere", "exec"), globals())
count_parameters = stolen_dict
"""),
)
# fmt: on
ATTACKS = (*FORGING, *PATCHING)
