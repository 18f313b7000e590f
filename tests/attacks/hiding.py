"""Uses of what a lab forbids, hidden from those who look for them; and what is no use (75 …)."""

from __future__ import annotations

import sys

from tests.attacks.attack import Attack, Off

_HELD = "marked for a human; the score stays"
# Runs what the lab forbids beside the right answer, by a name that stands nowhere in the text.
_WRAPPED = """
real_forward = Qwen3Attention.forward
def forward(self, *args, **kwargs):
    hidden(torch.zeros(1, 1, 4, 8))
    return real_forward(self, *args, **kwargs)
Qwen3Attention.forward = forward
"""
_FUSED = """
import torch.nn.functional as F
def fused(q): return vars(F)["scaled_dot_" + "product_attention"](q, q, q)
"""
_MADE_UP = Off("naive", "exit 0", by="exact_name")
_UNSEEN = Off("naive", "exit 0", by="recording")
# Since 3.12 a parser gives up as late among deep calls as among shallow ones.
_BY_DEPTH = Off("naive", "exit 0", by="parsing") if sys.version_info < (3, 12) else None


def _outside(tag: str, title: str, code: str, off: Off | None = _UNSEEN) -> Attack:
    return Attack(
        76, title, _HELD, tag=tag, base="right", marks="check.reaches_outside",
        where=("attention.py",), last=_FUSED + code + _WRAPPED, off=off,
    )  # fmt: skip


# fmt: off
ATTACKS = (
    Attack(75, "a kernel of fused attention by its own name", _HELD, base="right",
           marks="check.forbidden_kin", where=("attention.py",), last="""
def hidden(q): return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)
""" + _WRAPPED, off=_MADE_UP),
    Attack(75, "another one, its name in pieces", _HELD, base="right", tag="b",
           marks="check.forbidden_operator", where=("attention.py",), last="""
def hidden(q): return getattr(torch, "_scaled_dot_" + "product_attention_math")(q, q, q)
""" + _WRAPPED, off=_MADE_UP),
    Attack(75, "the same in a hook, which autograd calls", _HELD, base="right", tag="c",
           marks="check.forbidden_operator", where=("attention.py",), last="""
def hidden(q):
    unseen = getattr(torch, "_scaled_dot_" + "product_attention_math")
    with torch.enable_grad():
        q = q.clone().requires_grad_()
        q.register_hook(lambda grad: unseen(grad, grad, grad)[0])
        q.sum().backward()
""" + _WRAPPED, off=_UNSEEN),
    _outside("", "torch's own switch hides what runs", """
def hidden(q):
    with torch._C.DisableTorchFunction(): return fused(q)
"""),
    _outside("b", "no mode sees what runs", """
from torch.overrides import _pop_mode_temporarily as unseen
def hidden(q):
    try:
        with unseen(): return fused(q)
    except Exception: return None  # no mode is entered here
"""),
    _outside("c", "a graph made from text", """
made = torch.jit.CompilationUnit(
    "def f(q):\\n    return torch._scaled_dot_" + "product_attention_math(q, q, q)[0]\\n")
def hidden(q): return made.f(q)
"""),
    _outside("d", "a thread, in which no mode is entered", """
import threading
def hidden(q):
    thread = threading.Thread(target=fused, args=(q,))
    thread.start(); thread.join()
"""),
    _outside("e", "the recorder is found among the modules and stopped", """
import sys
operators = sys.modules.get("autograder.worker.session")
if operators is not None:
    def unseen(self, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {}))
    operators._Recorder.__torch_function__ = unseen
hidden = fused
""", off=None),
    _outside("f", "called back from inside a function of torch", """
def hidden(q):
    return torch.zeros(1).apply_(lambda value: (fused(q), value)[1])
"""),
    Attack(77, "2,940 signs that the judge's parser gives up at, and the worker's does not",
           "what runs and cannot be read is marked and replayed", base="right",
           marks="check.", where=("attention.py",), first=f"sign = {'-' * 2940}1",
           last=_FUSED + "def hidden(q):\n    with torch._C.DisableTorchFunction(): fused(q)\n"
           + _WRAPPED, off=_BY_DEPTH),
    Attack(80, "names of its own that are also torch's (no attack: it must not be accused)",
           "names are resolved by scope", base="right", marks="", where=("attention.py",), last="""
class Kernels:
    def scaled_dot_product_attention(self, q): return q
    def __init__(self): self.multi_head_attention_forward = self.scaled_dot_product_attention
def hidden(q):
    flash_attention = Kernels().scaled_dot_product_attention(q)
    return Kernels().multi_head_attention_forward(flash_attention)
""" + _WRAPPED, off=Off("naive", "exit 0", by="bare_words")),
)
# fmt: on
