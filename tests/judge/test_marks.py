"""Marks: what a student wrote is theirs, also under the name of a function of torch."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from autograder.authoring.styles import texts_of
from autograder.course import labfile
from autograder.course.messages import render
from autograder.judge import marks
from autograder.sandbox import stacks
from tests.proof.subject import Subject, each_lab

LAB = labfile.load(labfile.find_lab("1"))
LAB6 = labfile.load(labfile.find_lab("6"))
OWN = "def softmax(x, dim): return x\ndef use(x): return softmax(x, -1)\n"
T = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def found(attention: str, mlp: str = "", operators: set[str] | None = None) -> list[str]:
    files = {"attention.py": attention, "mlp.py": mlp}
    said = marks.forbidden(LAB, files, operators or set())
    for mark in said:
        assert render(mark, "en") and render(mark, "zh")
        assert mark.key in marks.OF_TEXT  # rescoring makes it anew
    return [f"{mark.key.removeprefix('check.')} {mark.values.get('name', '')}" for mark in said]


# One text is attention.py; after a line of dashes, mlp.py.
HARMLESS = {
    "compiling": "import torch\n@torch.compile\ndef f(x): return x",
    # names of one's own
    "a local variable": "def norm(x):\n    rms_norm = x.pow(2).mean(-1)\n    return x * rms_norm",
    "a method": "class A:\n    def silu(self, x): return x\n"
    "    def f(self, x): return self.silu(x)",
    "a method of another object": "class Acts:\n    def silu(self, x): return x\n"
    "class A:\n    def __init__(self): self.acts = Acts()\n"
    "    def f(self, x): return self.acts.silu(x)",
    "a method before its class": "def f(acts, x): return acts.silu(x)\n"
    "class Acts:\n    def silu(self, x): return x",
    "an asynchronous method": "class A:\n    async def silu(self): return await self.silu()",
    "a static method": "class A:\n    @staticmethod\n    def softmax(x): return x\n"
    "    def f(self, x): return A.softmax(x)",
    "a property": "class A:\n    @property\n    def layer_norm(self): return self._norm\n"
    "    def f(self, x): return self.layer_norm(x)",
    "an object's attribute": "class A:\n    def __init__(self, f): self.softmax = f\n"
    "    def __call__(self, x): return self.softmax(x)",
    "a class's attribute": f"{OWN}class A:\n    softmax = softmax\n"
    "    def f(self, x): return self.softmax(x, 0)",
    "a field": "from dataclasses import dataclass\n@dataclass\nclass C:\n    silu: bool = True\n"
    "def f(c): return c.silu",
    "a field by keyword": "from types import SimpleNamespace\nc = SimpleNamespace(silu=1)\n"
    "print(c.silu)",
    "a submodule by name": f"{T}class A(nn.Module):\n    def __init__(self, m):\n"
    "        super().__init__()\n        self.add_module('rms_norm', m)\n"
    "    def forward(self, x): return self.rms_norm(x)",
    "a buffer": f"{T}class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.register_buffer('silu', torch.zeros(1))\n"
    "    def forward(self, x): return x + self.silu",
    "a parameter": "def f(x, softmax): return softmax(x)",
    "a parameter by keyword": "def f(x, *, softmax=True): return x\ndef g(x): f(x, softmax=False)",
    "a lambda": "silu = lambda x: x\nrms_norm = lambda silu: silu",
    "a loop variable": "def f(xs):\n    for softmax in xs: print(softmax)",
    "a comprehension's variable": "def f(xs): return [silu for silu in xs if silu]",
    "a walrus": "def f(x):\n    if (softmax := x) is not None: return softmax",
    "an exception": "try:\n    1 / 1\nexcept ValueError as softmax:\n    print(softmax)",
    "a pattern": "def f(x):\n    match x:\n        case [softmax, *silu]: return softmax, silu",
    "an unpacked name": "def f(x):\n    softmax, (silu, *rms_norm) = x\n    return softmax, silu",
    "a nested function": "def f(x):\n    def silu(y): return y\n    return silu(x)",
    "a global": "def f():\n    global softmax\n    softmax = abs\ndef g(x): return softmax(x)",
    "another name for one's own": f"{OWN}weigh = softmax\ndef g(x): return weigh(x, 0)",
    "the same name for one's own": "def g(softmax):\n    softmax = softmax\n    return softmax",
    "a function of the same file": OWN,
    "a function of the other file": f"{OWN}\n---\nfrom attention import softmax\ny = softmax(0, 0)",
    "the other file": f"{OWN}\n---\nimport attention\ny = attention.softmax(0, 0)",
    "the other file by another name": f"{OWN}\n---\nimport attention as a\ny = a.softmax(0, 0)",
    "everything of the other file": f"{OWN}\n---\nfrom attention import *\ny = softmax(0, 0)",
    "a file beside this one": f"{OWN}\n---\nfrom .attention import softmax\ny = softmax(0, 0)",
    "one's own under another name": f"{OWN}\n---\nfrom attention import softmax as s\ny = s(0, 0)",
    "what is given": "from labs.given.norm import RMSNorm\nfrom labs.given import norm\n"
    "a = RMSNorm(3)\nb = norm.RMSNorm(3)",
    "a class": "class RMSNorm:\n    pass\nclass LayerNorm:\n    pass\nx = RMSNorm(), LayerNorm()",
    # words
    "comments and texts": "# softmax, torch.softmax, F.silu\nx = 'a softmax'\ny = 'softmax'",
    "a docstring": 'def f(x):\n    """softmax"""\n    """As torch.softmax."""',
    "all names": f"{OWN}__all__ = ['softmax', 'use']",
    "a table of names": "def silu(x): return x\nACT = {'silu': silu, 'softmax': None}\n"
    "def f(name, x): return ACT[name](x) if name != 'rms_norm' else x",
    "an error's text": "def f(x): raise ValueError('softmax')",
    "one's own by its name": "class A:\n    def silu(self): return getattr(self, 'silu')",
    "one's own by a made name": "class A:\n    def silu(self): pass\n"
    "    def f(self, i): return getattr(self, f'w{i}'), 'softmax'",
    # what is not run
    "a test of one's own": f"{T}def silu(x): return x\nif __name__ == '__main__':\n"
    "    x = torch.randn(3)\n    assert torch.allclose(silu(x), F.silu(x))\n    import sys\n"
    "    sys.modules.clear()",
    "a type": f"{T}def f(m: nn.LayerNorm) -> nn.RMSNorm:\n    n: nn.SiLU = m\n    return n",
    "a type that is asked for": f"{T}def f(m):\n"
    "    if isinstance(m, (nn.Linear, nn.LayerNorm)): m.reset_parameters()",
    # other functions of torch
    "its neighbours": f"{T}def f(x): return torch.logsumexp(x, 0), x.sigmoid(), F.normalize(x)",
    "attention as a name": f"{T}class Attention(nn.Module):\n"
    "    def attention(self, q): return q\n    def forward(self, q): return self.attention(q)",
    # left over from debugging, and harmless
    "an import that nothing uses": "import sys, inspect, gc, threading, ctypes\n"
    "from inspect import currentframe\nfrom concurrent.futures import ThreadPoolExecutor",
    "prints to the error stream": "import sys\ndef f(x): print(x, file=sys.stderr); return x",
    "the path of modules": "import os, sys\nsys.path.append(os.path.dirname(__file__))",
    "the version": "import sys\nNEW = sys.version_info >= (3, 11) and sys.platform != 'win32'",
    "a signature": "import inspect\ndef f(g): return inspect.signature(g).parameters",
    "a lock": "import threading\nLOCK = threading.Lock()\ndef f(x):\n    with LOCK: return x",
    "collecting": "import gc\ndef f(x): gc.collect(); return x",
    "scripting is asked": f"{T}def f(x): return x if torch.jit.is_scripting() else x",
    "a private attribute": "class A:\n    def __init__(self): self._c = self._C = 0\n"
    "    def _f(self): return self._c + self._C",
    "asserts of torch": f"{T}def f(x): torch._assert(x.dim() == 3, 'three axes'); return x",
    "private operators": f"{T}def f(x, w): return torch._int_mm(x, w), torch._foreach_add(x, w)",
    "a type from where it is defined": "from torch._tensor import Tensor\nx = Tensor([1.0])",
    "a dtype by its name": f"{T}def f(x, name): return x.to(getattr(torch, name))",
    "a function of autograd": f"{T}class Square(torch.autograd.Function):\n    @staticmethod\n"
    "    def forward(ctx, x):\n        ctx.save_for_backward(x)\n        return x * x\n"
    "def f(x): return Square.apply(x)",
    "a checkpoint": f"{T}from torch.utils.checkpoint import checkpoint\n"
    "def f(g, x): return checkpoint(g, x, use_reentrant=False)",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_harmless_is_not_marked(name: str) -> None:
    assert found(*HARMLESS[name].split("\n---\n")) == []


@each_lab
def test_right_styles_name_nothing_that_is_marked(subject: Subject) -> None:
    lab = subject.lab
    folders = [*subject.styles, labfile.SOLUTIONS / lab.name]
    marked = set()
    for folder in folders:
        if marks.forbidden(lab, texts_of(folder, lab.files), ()):
            marked.add(folder.name)
    assert marked == subject.forbidden_styles


# A name of one's own, and a module of torch where it can be anybody's.
LIB = f"{T}class A:\n    def __init__(self): self.lib = F\n    def softmax(self): pass\n"
SOFTMAX = "forbidden torch.softmax"
KIN = "forbidden_kin torch.softmax"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import torch\ny = torch.softmax(x, 0)", SOFTMAX),
        ("def f(scores): return scores.softmax(-1)", SOFTMAX),
        ("from torch import softmax\n", SOFTMAX),
        ("from torch import softmax as weigh\ndef f(x): return weigh(x, 0)", SOFTMAX),
        ("import torch\ny = getattr(torch, 'softmax')(x, 0)", SOFTMAX),
        ("import torch\nname = 'softmax'\ny = getattr(torch, name)(x, 0)", SOFTMAX),
        ("import torch\ny = vars(torch)['softmax'](x, 0)", SOFTMAX),
        ("import torch\ny = torch.__dict__['softmax'](x, 0)", SOFTMAX),
        ("from operator import methodcaller\ny = methodcaller('softmax', -1)(x)", SOFTMAX),
        ("import torch.softmax as s\ny = s(x, 0)", SOFTMAX),
        ("match torch:\n    case object(softmax=s): s(x, 0)", SOFTMAX),
        ("from torch import *\ny = softmax(x, 0)", SOFTMAX),
        (f"{OWN}\nimport torch\nz = torch.softmax(x, 0)", SOFTMAX),
        ("import torch as t\nu = t\ndef f(x): return u.softmax(x, 0)", SOFTMAX),
        ("class T:\n    def f(self): return self.softmax(-1)", SOFTMAX),
        (f"{T}def f(x, g=F.softmin): return g(x)", KIN),
        (f"{T}def f(x): return F.softmin(-x, -1)", KIN),
        (f"{T}def f(x): return torch.log_softmax(x, -1).exp()", KIN),
        (f"{T}def f(x): return torch.ops.aten._softmax(x, -1, False)", KIN),
        (f"{T}def f(x): return nn.Softmax(-1)(x)", KIN),
        (f"{T}class S(nn.Softmax): pass", KIN),
        (f"{T}def silu(x): return F.silu(x)", "forbidden torch.nn.functional.silu"),
        (f"{T}f = torch.ops.aten.silu_", "forbidden_kin torch.nn.functional.silu"),
        (f"{T}f = torch._fused_rms_norm", "forbidden_kin torch.nn.functional.rms_norm"),
        (f"{T}f = F.group_norm", "forbidden_kin torch.nn.functional.layer_norm"),
        (f"{T}f = torch.native_layer_norm", "forbidden_kin torch.nn.functional.layer_norm"),
        (
            "def f(x, __name__='__main__'):\n    if __name__ == '__main__': return x.softmax(0)",
            SOFTMAX,
        ),
        (f"{LIB}    def f(self, x): return self.lib.softmax(x, 0)", SOFTMAX),
        (f"{LIB.replace('= F', '= torch.Tensor')}    def f(self): self.lib.softmax(1)", SOFTMAX),
        (f"{T}{LIB}def lib(): return F\ndef f(x): return lib().softmax(x, 0)", SOFTMAX),
    ],
)
def test_a_use_of_torchs_is_marked(text: str, said: str) -> None:
    assert said in found(text)


FULL = f"labs.{LAB.name}"
THROUGH = {
    "a name": "from attention import t\nt.softmax(x, 0)",
    "the file": "import attention as a\na.t.softmax(x, 0)",
    "everything": "from attention import *\nt.softmax(x, 0)",
    "the lab's file": f"import {FULL}.attention\n{FULL}.attention.t.softmax(x, 0)",
    "the lab's file by another name": f"import {FULL}.attention as a\na.t.softmax(x, 0)",
    "a file of the lab": f"from {FULL} import attention as a\na.t.softmax(x, 0)",
    "a name of the lab's file": f"from {FULL}.attention import t\nt.softmax(x, 0)",
    "everything of the lab's file": f"from {FULL}.attention import *\nt.softmax(x, 0)",
    "the lab": f"from labs import {LAB.name} as lab\nlab.attention.t.softmax(x, 0)",
    "a file beside": "def f(x):\n    from . import attention as a\n    a.t.softmax(x, 0)",
    "a name from beside": "def f(x):\n    from .attention import t\n    t.softmax(x, 0)",
    "everything from beside": "from .attention import *\nt.softmax(x, 0)",
    "a name from above": f"from ..{LAB.name}.attention import t\nt.softmax(x, 0)",
    "the lab from above": f"from .. import {LAB.name} as lab\nlab.attention.t.softmax(x, 0)",
}


@pytest.mark.parametrize("name", THROUGH)
def test_a_use_through_the_other_file_is_marked(name: str) -> None:
    assert found("import torch as t", THROUGH[name]) == [SOFTMAX]


IDLE = {
    "a function under another name": "from torch.nn.functional import softmax as torch_softmax",
    "classes": "from torch.nn import LayerNorm, Softmax",
    "in a function": f"{T}def f(x):\n    from torch import log_softmax as weigh\n    return x",
    "where a class has that name": "from torch.nn import LayerNorm\n---\n"
    "class LayerNorm:\n    pass\nx = LayerNorm()",
    "beside plain code": f"{OWN}from torch import softmax as weigh\n---\n"
    "from attention import use\ndef f(x, c): return getattr(c, 'eps'), vars(c)['eps'], use(x)\n"
    "class A:\n    def __init__(self): super().__init__()",
    "in a docstring": 'from torch.nn import Softmax\ndef f(x):\n    """Softmax, by hand."""',
    "in a test of one's own": "from torch import softmax as weigh\n"
    "if __name__ == '__main__':\n    print(weigh)",
}
# What may reach `from torch import softmax as weigh` in attention.py, in either file.
REACHED = {
    "a name": "weigh",
    "a type": "def f(x: weigh): pass",
    "an attribute": "def f(x): return x.weigh(0)",
    "a text": "x = ['weigh']",
    "a text with more words": "x = '{0.weigh}'",
    "all names": "__all__ = ['f', 'weigh']",
    "globals": "globals()",
    "vars": "def f(x, n): return vars(x)[n]",
    "a namespace": "def f(x, n): return x.__dict__[n]",
    "locals": "locals()",
    "modules": "import sys\nsys.modules",
    "getattr": "def f(x, n): return getattr(x, n)",
    "getattr of itself": "class A:\n    def f(self, n): return getattr(self, n)",
    "getattr as a thing": "g = getattr",
    "attrgetter": "from operator import attrgetter as a\ndef f(x, n): return a(n)(x)",
    "exec": "exec('x')",
    "eval": "def f(x): return eval(x)",
    "imports": "import importlib as i\ndef f(n): return i.import_module(n)",
    "a dunder": "def f(x, n): return x.__getattribute__(n)",
    "a pattern": "def f(x):\n    match x:\n        case object(weigh=y): return y",
    "a format": "import string\ndef f(x, n): return string.Formatter().get_field(n, x, {})",
    "a pickle": "import torch\ndef f(x): return torch.load(x, weights_only=False)",
    "annotations": "def f(x): return x.__annotations__",
}
TAKEN = {
    "a name": "from attention import weigh",
    "a name that is called": "from attention import weigh as w\ndef f(x): return w(x, 0)",
    "everything": "from attention import *",
    "from beside": "def f():\n    from .attention import weigh",
    "of the lab": f"from {FULL}.attention import weigh",
    "everything of the lab": f"from {FULL}.attention import *",
    "everything from beside": "from .attention import *",
}
ASKED = {
    "a function": "from torch import softmax",
    "another function by its name": "from torch.nn.functional import softmin as softmax",
    "a method": "class MultiHeadAttention:\n    from torch import softmax as forward",
    "a name that Python asks for": "from torch import softmax as __getattr__",
    "a class of the other file's": "x = 1\n---\nfrom torch.nn import LayerNorm",
}


@pytest.mark.parametrize("name", IDLE)
def test_an_import_that_nothing_can_reach_is_no_use(name: str) -> None:
    assert found(*IDLE[name].split("\n---\n")) == []


@pytest.mark.parametrize("name", REACHED)
def test_an_import_that_something_may_reach_is_marked(name: str) -> None:
    text = "from torch import softmax as weigh"
    assert SOFTMAX in found(f"{text}\n{REACHED[name]}")
    if name not in ("a name", "a type"):  # those are another file's own
        assert SOFTMAX in found(text, REACHED[name])


@pytest.mark.parametrize("name", TAKEN)
def test_an_import_that_the_other_file_may_take_is_marked(name: str) -> None:
    assert SOFTMAX in found("from torch import softmax as weigh", TAKEN[name])


@pytest.mark.parametrize("name", ASKED)
def test_an_import_that_is_asked_for_is_marked(name: str) -> None:
    (said,) = found(*ASKED[name].split("\n---\n"))
    assert said.startswith("forbidden")


def test_an_import_is_marked_where_the_other_file_cannot_be_read() -> None:
    files = {"attention.py": "from torch import softmax as weigh", "mlp.py": DEEP}
    assert len(marks.forbidden(LAB, files, (), ran={"attention.py", "mlp.py"})) == 2
    files["mlp.py"] = "#" * 60_000 + "\nfrom attention import weigh as q"
    assert marks.forbidden(LAB, files, (), ran={"attention.py", "mlp.py"})
    assert marks.forbidden(LAB, files, (), ran={"attention.py"}) == []


@pytest.mark.parametrize(
    "name",
    [
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
        "torch.ops.aten._flash_attention_forward",
        "torch._efficient_attention_forward",
        "torch._scaled_dot_product_attention_math",
        "torch._native_multi_head_attention",
        "torch._transformer_encoder_layer_fwd",
        "torch.nn.attention.flex_attention.flex_attention",
        "torch.nn.TransformerEncoderLayer",
    ],
)
def test_a_kernel_of_the_family_is_marked_by_text_and_by_what_is_recorded(name: str) -> None:
    text = f"import torch\ndef flash_attention(q, k, v): return {name}(q, k, v)\n"
    (mark, *_) = marks.forbidden(LAB6, {"attention.py": text}, ())
    assert mark.key == "check.forbidden_kin" and mark.values["line"] == 2
    assert mark.values["used"] == name
    (seen,) = marks.forbidden(LAB6, {}, {name.rsplit(".", 1)[1] + ".default"})
    assert seen.key == "check.forbidden_operator"


def test_the_operators_are_asked_where_the_text_shows_nothing() -> None:
    said = ["forbidden_operator torch.softmax"]
    assert found(OWN, operators={"matmul", "softmax"}) == said
    assert found(OWN, operators={"softmin"}) == said
    assert found(OWN, operators={"matmul", "logsumexp", "relu"}) == []


REACHING = {
    "a switch of torch": ("with torch._C.DisableTorchFunction(): pass", "torch._C"),
    "the switch by its name": ("f = getattr(torch, '_C')", "torch._C"),
    "a private room by a made name": (
        "from torch import _C as c\ndef f(n): return getattr(c, n)",
        "torch._C",
    ),
    "another private room": ("f = getattr(torch._dynamo, 'x' + 'y')", "torch._dynamo"),
    "the switch from anywhere": ("def f(t): return t.DisableTorchFunction", "DisableTorchFunction"),
    "no modes": (
        "from torch.utils._python_dispatch import _disable_current_modes as off\nwith off(): pass",
        "torch.utils._python_dispatch",
    ),
    "overrides": ("torch.overrides.BaseTorchFunctionMode()", "torch.overrides.BaseTorchFunct"),
    "a graph from text": ("torch.jit.CompilationUnit('def f(x): return x')", "torch.jit.Compil"),
    "a graph": ("f = torch.jit.script(len)", "torch.jit.script"),
    "a thread": ("import threading\nthreading.Thread(target=print).start()", "threading.Thread"),
    "a pool": (
        "from concurrent.futures import ThreadPoolExecutor as Pool\nPool().submit(print)",
        "concurrent.futures",
    ),
    "a library in C": ("import ctypes\nctypes.CDLL(None)", "ctypes.CDLL"),
    "the heap": ("from gc import get_objects\nget_objects()", "gc.get_objects"),
    "frames": ("import inspect\ninspect.currentframe().f_back.f_locals", "inspect.currentframe"),
    "frames of sys": ("import sys\nsys._getframe(1)", "sys._getframe"),
    "modules": ("import sys as s\nx = s\nx.modules['a']", "sys.modules"),
    "sys by torch": ("torch.sys.modules['a']", "sys.modules"),
    "sys by the library": ("import collections\ncollections._sys.modules", "sys.modules"),
    "sys as a thing": ("import sys\ndef f(x=sys): return x.modules", "sys"),
    "the grader": (
        "import autograder.worker.session as o\no._Recorder = None",
        "autograder.worker",
    ),
    "code from text": ("exec('import ctypes')", "exec"),
    "imports from text": ("__import__('c' + 'types')", "__import__"),
    "imports by a library": ("import importlib\nimportlib.import_module('gc')", "importlib.import"),
    "globals of others": ("def f(g): return g.__globals__", "__globals__"),
    "callbacks of tensors": (
        "class X:\n    def __torch_function__(self): pass",
        "__torch_function__",
    ),
    "a given function that is replaced": (
        "import labs.given.norm as n\nn.RMSNorm = None",
        "labs.given.norm.RMSNorm",
    ),
    "the same by a function": (
        "from labs.given import norm\nsetattr(norm, 'RMSNorm', None)",
        "labs.given.norm.RMSNorm",
    ),
    "a function of torch that is replaced": ("torch.Tensor.sum = None", "torch.Tensor.sum"),
    "a callback, behind a name of one's own": (
        "class A:\n    def apply_(self, f): pass\ndef f(t, g): t.apply_(g)",
        "apply_",
    ),
    "a callback of a loss": (
        "torch.nn.functional.triplet_margin_with_distance_loss(1, 2, 3, distance_function=print)",
        "torch.nn.functional.triplet_margin_with_distance_loss",
    ),
    "a slice that torch asks for its ends": (
        "class A:\n    def __index__(self): return 1\ndef f(x): return x[A():]",
        "__index__",
    ),
    "an annotation that runs": ("def f(x: exec('1')): pass", "exec"),
}


@pytest.mark.parametrize("name", REACHING)
def test_what_reaches_outside_model_code_is_marked_with_its_line(name: str) -> None:
    text, what = REACHING[name]
    said = marks.forbidden(LAB6, {"attention.py": f"import torch\n{text}\n"}, ())
    assert {mark.key for mark in said} == {"check.reaches_outside"}
    assert any(str(mark.values["name"]).startswith(what) for mark in said)
    assert all(mark.values["file"] == "attention.py" for mark in said)
    assert all(1 < mark.values["line"] <= 1 + len(text.splitlines()) for mark in said)


@pytest.mark.parametrize("module", ["attention", "labs.given.norm", "torch", ".attention"])
def test_builtins_stay_what_they_are_where_everything_is_imported(module: str) -> None:
    text = f"from {module} import *\ndef f(x): return exec(x), print(x)"
    assert found("import torch", text) == ["reaches_outside exec"]
    assert found("def exec(x): pass", text) == [] or module in ("labs.given.norm", "torch")


def test_everything_of_torch_comes_through_the_other_file_too() -> None:
    text = "from attention import *\ny = softmax(x, 0)"
    assert found("from torch import *", text) == [SOFTMAX]
    assert found("from torch import *\nfrom mlp import *", text) == [SOFTMAX]
    assert found(f"from torch import *\n{OWN}", text) == []


def test_what_the_other_file_imports_is_reached_through_it() -> None:
    assert found("import sys", "from attention import sys\nsys.modules") == [
        "reaches_outside sys.modules"
    ]


DEEP = "x = " + "-" * 20_000 + "1\n"


def test_what_runs_and_cannot_be_read_here_is_marked() -> None:
    files = {"attention.py": f"import sys\n{DEEP}", "mlp.py": ""}
    assert stacks.parsed(files["attention.py"]) is None
    (mark,) = marks.forbidden(LAB, files, (), ran={"attention.py", "mlp.py"})
    assert mark.key == "check.unread_source" and mark.values == {"file": "attention.py"}
    assert marks.is_unread(files, {"attention.py"})


def test_what_does_not_run_is_not_marked_for_not_being_read() -> None:
    for text in ("def f(:", DEEP, "x = 1\0"):
        files = {"attention.py": text, "mlp.py": ""}
        assert marks.forbidden(LAB, files, (), ran={"mlp.py"}) == []
        assert not marks.is_unread(files, {"mlp.py"})


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "+".join(["a.b"] * 9_000),
        "softmax = " + ".".join(["x"] * 900),
        "".join(f"a{n} = a{n - 1}\n" for n in range(1, 3_000)) + "a2999.softmax",
        "".join(f"a{n} = a{n - 1}.x\na{n} = a{n - 1}.y\n" for n in range(1, 1_000)),
        "".join(f"a{n} = a{m}\n" for n in range(40) for m in range(40)) + "import torch as a0",
        "import torch\nx = torch" + ".sys" * 900,
        "from torch import *\n" + "softmax;" * 5_000,
        "\n".join(f"class A{n}:\n    softmax = 1" for n in range(1_500)),
        "(" * 80 + "lambda softmax: " * 80 + "softmax" + ")" * 80,
    ],
)
def test_reading_names_ends_soon(text: str) -> None:
    started = time.process_time()
    marks.forbidden(LAB, {"attention.py": f"# softmax\n{text}"}, ())
    assert time.process_time() - started < 2


@pytest.mark.parametrize("name", ["a" * 300, "名" * 100, "/proc/1/fd", "..", "a/../.."])
def test_a_students_names_make_no_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that no file can have, or that is a path of its own, is looked for nowhere."""

    def looked_for(path: Path) -> bool:
        raise OSError(36, "File name too long", str(path))

    monkeypatch.setattr(Path, "is_dir", looked_for)
    text = (
        f"import torch\nif 0: eval(getattr(torch, {name!r}).x)\nsoftmax = getattr(torch, {name!r})"
    )
    text += f"\ny = torch.{name}.x" if name.isidentifier() else ""
    assert marks.forbidden(LAB, {"attention.py": text}, ())
