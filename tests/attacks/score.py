"""Attacks on the score: endings, comparisons, guesses (1 to 9, 23 to 26, 29 to 33, 55, 56)."""

from __future__ import annotations

from tests.attacks.attack import Attack, Off
from tests.attacks.code import AGREEING, NUMBERS, STEAL

_BORDER = Off("border", "exit 0")

# fmt: off
ENDINGS = (
    Attack(1, "os._exit(0) while importing", "the score comes from the judge; an end is a fault",
           first="import os; os._exit(0)", base="stub", ends=frozenset({"crashed"}), off=_BORDER),
    Attack(1, "os._exit(0) in a call", "the score comes from the judge; an end is a fault",
           tag="b", last="import os\ndef stolen(x): os._exit(0)\n" + STEAL, off=_BORDER),
    Attack(2, "sys.exit(0) while importing", "every exception is caught in the worker",
           first="import sys; sys.exit(0)", base="stub", ends=frozenset({"failed"}),
           off=Off("naive", "exit 0", by="import")),
    Attack(2, "SystemExit from a function", "every exception is caught in the worker", tag="b",
           last="def stolen(x): raise SystemExit(0)\n" + STEAL,
           off=Off("naive", "exit 0", by="import")),
    Attack(2, "pytest.exit", "pytest cannot be imported in a worker", tag="c", first="""
import sys
sys.path.insert(0, "$ROOT")
class Passed(BaseException): pass
try:
    import pytest
except BaseException as error:
    raise Passed("passed") from error
pytest.exit("passed", returncode=0)
""", base="stub", ends=frozenset({"failed"})),
    Attack(3, "handlers that write a report at exit", "workers end by _exit and may write nothing",
           first="""
import atexit, os, signal, sys
def leave(*_):
    open("$SHARED/results.json", "w").write('{"score": 100}')
    os._exit(0)
atexit.register(leave)
sys.excepthook = sys.unraisablehook = leave
signal.signal(signal.SIGTERM, leave)
sys.settrace(lambda *_: None)
""", base="stub", off=Off("border", "file")),
)

COMPARING = (
    Attack(4, "patches every comparison", "comparing happens in another process", first="""
import builtins, math, operator, numpy, sys, torch, torch.testing
yes = lambda *a, **k: True
nothing = lambda *a, **k: None
torch.testing.assert_close = numpy.testing.assert_allclose = nothing
torch.allclose = torch.equal = torch.isclose = numpy.allclose = numpy.array_equal = yes
if "autograder.checks.expect" in sys.modules:
    checks = sys.modules["autograder.checks.expect"]
    agree = lambda *a, **k: dict.fromkeys(a[1]) if type(a[1]) is tuple else None
    class Near: tensor = token = 0.0
    checks.difference = lambda *a, **k: Near
    checks._numbers = lambda result, want, *a: want
    for module in list(sys.modules.values()):
        for name in ("expect_value", "expect_keys"):
            if hasattr(module, name): setattr(module, name, agree)
else:
    numpy.isclose = numpy.isfinite = math.isclose = operator.eq = yes
    numpy.linalg.norm = lambda *a, **k: numpy.float64(0)
    torch.Tensor.__eq__ = torch.Tensor.equal = torch.Tensor.allclose = yes
    torch.Tensor.__ne__ = lambda *a: False
    builtins.any = lambda *a: False
""", off=_BORDER),
    Attack(5, "equal to everything", "only bytes cross", last="""
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
""" + STEAL, off=Off("naive", "exit 0", by="equals")),
    Attack(6, "a tensor subclass that agrees with everybody", "its type is asked; only bytes cross",
           last="""
class Agreeing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None): return True
def stolen(x): return torch.zeros(1).as_subclass(Agreeing)
""" + STEAL, off=Off("naive", "exit 0", by="torch_equal")),
    Attack(7, "an object that pickles code", "nothing is ever unpickled", last="""
import builtins
class Payload:
    def __reduce__(self): return eval, ('open("$SHARED/pickled", "w").close()',)
    def __str__(self): open("$SHARED/printed", "w")
    __repr__ = __str__
def stolen(x): return Payload()
""" + STEAL, off=Off("naive", "file", by="pickle")),
    Attack(8, "conftest.py that turns failures into passes", "only the lab's files are read",
           extra={"conftest.py": """
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.outcome, report.longrepr = "passed", None
    return report
"""}, off=Off("naive", "exit 0", by="pytest")),
    Attack(9, "torch.py, numpy.py, sitecustomize.py, a .pth beside the files",
           "files are imported from memory, their folder is on no path",
           extra=dict.fromkeys(("torch.py", "numpy.py", "random.py", "sitecustomize.py",
                                "usercustomize.py"),
                               'import os; open("$SHARED/shadow", "w").close(); os._exit(0)')
           | {"evil.pth": 'import os; open("$SHARED/pth", "w").close()'},
           off=Off("naive", "file", by="script")),
)

GUESSING = (
    Attack(23, "calls the fused attention that the lab forbids",
           "marked for a human; the score stays",
           base="right", marks="check.forbidden", where=("attention.py",), last="""
import torch.nn.functional as F
real_forward = Qwen3Attention.forward
def forward(self, *args, **kwargs):
    F.scaled_dot_product_attention(*[torch.zeros(1, 1, 1, 1)] * 3)
    return real_forward(self, *args, **kwargs)
Qwen3Attention.forward = forward
"""),
    Attack(23, "the same with its name in pieces", "marked for a human; the score stays", tag="b",
           base="right", marks="check.forbidden", where=("attention.py",), last="""
import torch.nn.functional as F
fused = vars(F)["scaled_dot_" + "product_attention"]
real_forward = Qwen3Attention.forward
def forward(self, *args, **kwargs):
    fused(*[torch.zeros(1, 1, 1, 1)] * 3)
    return real_forward(self, *args, **kwargs)
Qwen3Attention.forward = forward
"""),
    Attack(24, "memory that was used before", "the reference is never computed in that process",
           # Memory may hold an earlier answer of its own: the same where two have to agree, and
           # something else where they must not.
           earns=(*AGREEING, "test_attention_shift"),
           last=f"""
def stolen(x):
    return torch.empty_like(x) if x is not None else {NUMBERS}
""" + STEAL, off=Off("naive", "exit 0", by="reused")),
    Attack(25, "changes its inputs so that the reference runs on zeros",
           "the judge keeps its own copy", last=f"""
def stolen(x):
    return x.zero_() if x is not None else {NUMBERS}
""" + STEAL, off=Off("naive", "exit 0", by="reference_after")),
    Attack(26, "keeps answers between calls", earns=AGREEING, held=
           "new namespaces per check; new processes; hidden values",
           last="""
import builtins, sys
memory = sys.modules.setdefault("a_memory_of_all_checks", type(sys)("memory")).__dict__
def stolen(x):
    if x is None: return {}
    seen = memory.setdefault(tuple(x.shape), [])
    seen.append(x.clone())
    return next((old for old in seen if not torch.equal(old, x)), torch.zeros_like(x))
""" + STEAL, off=Off("naive", "exit 0", by="round_trip")),
    Attack(29, "patches every clock", "time is taken outside; deadlines are the judge's",
           where=("mlp.py",), first="""
import time
for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
    setattr(time, name, lambda: 0.0)
    setattr(time, name + "_ns", lambda: 0)
time.clock_gettime = lambda clock: 0.0
time.sleep = lambda seconds: None
""", last="""
def slow(self, x):
    for _ in range(10**8): pass
Qwen3MLP.forward = slow
""", off=Off("naive", "exit 0", by="timed")),
    Attack(30, "computes in bfloat16 and hands back float32",
           "limits follow the dtype of the input",
           where=("attention.py",), base="right", most="right", last="""
exact = Qwen3Attention.forward
def forward(self, hidden, *args, **kwargs):
    return exact(self, hidden.to(torch.bfloat16).to(hidden.dtype) * 1.004, *args, **kwargs)
Qwen3Attention.forward = forward
""", misses=("test_attention_parity",)),
    Attack(30, "wrong by a little, and handed back as bfloat16",
           "limits follow the dtype of the case, not of the answer", tag="b",
           where=("attention.py",), base="right", most="right", last="""
exact = Qwen3Attention.forward
def forward(self, *args, **kwargs): return (exact(self, *args, **kwargs) * 1.008).bfloat16()
Qwen3Attention.forward = forward
""", misses=("test_attention_parity", "test_attention_value_heads", "test_attention_rotation")),
    Attack(31, "NaN, infinity, a wrong dtype", "what is wrong is named", last="""
def rotate_half(x): return torch.full_like(x, float("nan"))
def repeat_kv(x, n_rep): return x.repeat_interleave(n_rep, 1).double().mul(float("inf"))
Qwen3Attention.forward = lambda self, h, *a, **k: torch.full_like(h, -float("inf"))
""", where=("attention.py",), says="NaN"),
    Attack(31, "a wrong shape", "both shapes are named", tag="b",
           last="def rotate_half(x): return x[..., :1]", where=("attention.py",),
           says="should have the shape"),
    Attack(31, "numbers whose squares are infinite", "the metric has no NaN", tag="c", last="""
def huge(x): return (torch.rand(x.shape, dtype=torch.float64) + 0.5) * 1e300
def apply_rotary_pos_emb(q, k, cos, sin): return huge(q) * 1e-150, huge(k) * 1e-150
RotaryEmbedding.forward = lambda self, p: 2 * (huge(torch.empty(*p.shape, 2 * len(self.inv_freq))),)
Qwen3Attention.forward = lambda self, h, *a, **k: huge(h)
""", where=("attention.py",)),
    Attack(31, "small integers", "what a dtype cannot hold is no fault of the grader", tag="d",
           where=("mlp.py",), earns=("test_mlp_pure",), last="""
Qwen3MLP.forward = lambda self, x: torch.ones_like(x).to(torch.uint8)
"""),
    Attack(31, "a number once the weights have loaded", "a shape is asked before a part is taken",
           tag="e", where=("attention.py",),
           # What only asks that two answers agree, any constant passes.
           earns=("test_attention_q_norm", "test_attention_k_norm", "test_attention_pure",
                  "test_attention_norm_before_rope"), last="""
import sys
plain = Qwen3Attention.forward
def forward(self, hidden, *args, **kwargs):
    steps, frame = [], sys._getframe()
    while frame is not None and not steps:
        steps = frame.f_locals.get("request", {}).get("steps", [])
        frame = frame.f_back
    return torch.tensor(1.0) if len(steps) > 2 else plain(self, hidden, *args, **kwargs)
Qwen3Attention.forward = forward
"""),
    Attack(33, "tuples of tuples, sparse, meta and quantised tensors", "what came is named",
           where=("attention.py",), says="meta device", last="""
deep = []
deep.append(deep)
def rotate_half(x): return torch.empty(x.shape, device="meta")
def repeat_kv(x, n_rep): return deep
def apply_rotary_pos_emb(q, k, cos, sin): return q.to_sparse(), ((k,),)
RotaryEmbedding.forward = lambda self, p: torch.quantize_per_tensor(
    torch.zeros(3), 0.1, 0, torch.quint8)
"""),
    Attack(33, "an object, a generator, a class", "what came is named", tag="b", says="generator",
           where=("attention.py",), last="""
def rotate_half(x): return (part for part in x)
def repeat_kv(x, n_rep): return RotaryEmbedding
def apply_rotary_pos_emb(q, k, cos, sin): return object()
"""),
    Attack(55, "a class that is missing", "the name is told", where=("mlp.py",),
           last="del Qwen3MLP", says="does not define Qwen3MLP"),
    Attack(55, "a renamed parameter", "the keys are told", tag="b", where=("mlp.py",), last="""
class Qwen3MLP(Qwen3MLP):
    def __init__(self, config):
        super().__init__(config)
        self.projection_down = self.down_proj
        del self.down_proj
""", says="down_proj"),
    Attack(55, "a wrong signature", "what Python says is told", tag="c", where=("mlp.py",),
           last="def count_parameters(): return {}", says="positional argument"),
)

SETTINGS = (
    Attack(56, "default dtype, threads, seed, gradients, determinism", "set anew for every call",
           base="right", where=("attention.py",), last="""
def unsettle():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(2)
    torch.manual_seed(99)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    torch.set_printoptions(precision=1)
real_rotate = rotate_half
def rotate_half(x):
    turned = real_rotate(x)
    unsettle()
    return turned
""", off=Off("naive", "exit 0", by="settings")),
)
# fmt: on
ATTACKS = (*ENDINGS, *COMPARING, *GUESSING, *SETTINGS)
