"""Modules that a worker finds imported already, and the files it may still read."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import site
import sys
import sysconfig
import warnings
from collections.abc import Collection, Iterable, Sequence
from contextlib import ContextDecorator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from autograder.wire.messages import pack, unpack_trusted
from autograder.worker import collective, loader
from autograder.worker.jail import CPU_BACKSTOP_SECONDS, Jail, harden_parent
from autograder.worker.landlock import python_readable
from autograder.worker.session import Session
from autograder.worker.values import from_torch

WARM_TURNS = 24
# No solution: it only touches the functions that solutions touch. Student code can find its
# classes, so nothing in it may be an answer.
REHEARSAL = """
import torch
import torch.nn.functional as F

class Norm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        wide = x.float()
        wide = wide * 0.5 + torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1)
        return self.weight * wide.to(x.dtype)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(12, 24, bias=False)
        self.norm = Norm(8)

    def forward(self, x):
        low = torch.finfo(x.dtype).min
        heads = self.norm(self.up(x).view(2, 5, 3, 8)).transpose(1, 2)
        first, second = heads.chunk(2, dim=-1)
        angles = torch.arange(5)[:, None].float() * torch.ones(4)
        angles = torch.cat([angles] * 2, -1)
        q = heads * angles.cos().to(x.dtype) - heads.unsqueeze(2).expand(2, 3, 2, 5, 8)[:, :, 0]
        k = q[:, :1].repeat_interleave(3, dim=1) + angles.sin().to(x.dtype)
        scores = q @ k.transpose(-1, -2) * 8**-0.5 + torch.zeros(5, 5, dtype=x.dtype)
        scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), low)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
        torch.einsum("bhqd,bhkd->bhqk", q, k).exp().sum(-1).sigmoid()
        F.scaled_dot_product_attention(q, k, k, is_causal=True)
        F.rms_norm(first.contiguous().float().rsqrt().pow(2), (4,))
        torch.view_as_complex(second.float().reshape(2, 3, 5, 2, 2).contiguous()).abs()
        return F.silu((weights @ k).transpose(1, 2).reshape(2, 5, -1)).mean(-1, keepdim=True)
"""


def jail(
    root: Path,
    memory_bytes: int,
    given: Iterable[str],
    without: Collection[str] = (),
    given_files: str = "",
) -> Jail:
    """Import what workers need, then build the jail around it.

    Args:
        root: the project's folder, which no worker may read.
        memory_bytes: what a worker may allocate beyond what it starts with.
        given: modules that the lab gives; those of other labs hold its answers, and whatever is
            imported here student code can reach.
        without: layers to leave off, see :meth:`Jail.prepare`.
        given_files: where :func:`folders.copied` has put what the lab lets read; empty: nothing.
    """
    readable = everything(root, given)
    if given_files:
        loader.hold(Path(given_files))
        readable = (*readable, given_files)
    os.environ.pop(loader.COURSE, None)  # found by now, and nothing for student code to know
    harden_parent()
    return Jail.prepare(readable, memory_bytes, CPU_BACKSTOP_SECONDS, without)


def everything(root: Path, given: Iterable[str] = ()) -> tuple[str, ...]:
    """Import torch and the given code, run the operators that load things lazily.

    A lab that is being written may list what is not there yet: the audit says so.

    Returns:
        The paths that a worker may read: Python, torch and what torch imports lazily.
        The project's own folder is not among them, and leaves ``sys.path`` here.
    """
    for module in ("safetensors.torch", *given):
        if importlib.util.find_spec(module):
            importlib.import_module(module)
    # Weights are loaded strictly, or only shapes are looked at: drawing random ones first
    # would be a tenth of what a module costs.
    torch.nn.Linear.reset_parameters = _zero_parameters  # type: ignore[assignment]
    # oneDNN compiles a kernel for every new shape of a bfloat16 product: for the few small ones of
    # a hand-in that takes ten times as long as the products.
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    # What is decorated with it stays as it is: a compiler writes files, which no worker may.
    torch.compile = _as_it_is
    _speak_to_no_compiler()
    # Counting devices may start a thread of NVIDIA's driver. Torch does so once, and remembers
    # that its environment shows none: no worker has to try, and to be denied.
    torch.cuda.is_available()
    collective.join(0, 1)  # so that a world of one needs nothing
    collective.explain_what_a_jail_denies()
    _warm_up()
    # What leads to it besides, where it is installed as editable.
    sys.meta_path[:] = [
        finder
        for finder in sys.meta_path
        if not getattr(finder, "__module__", "").startswith("__editable__")
    ]
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != root]
    readable = python_readable()
    sys.meta_path.append(ReadableFinder(readable))
    sys.meta_path.remove(PathFinder)
    # Forked workers share these pages, and collecting would copy them. What is garbage already
    # stays: looking for that little takes 70 ms.
    gc.freeze()
    gc.enable()
    return readable


class ReadableFinder:
    """Finds what a worker may read: any other package is as good as not installed.

    Denied reading alone would be a PermissionError, which code that can do without an optional
    package, torch's own among it, does not expect.

    Args:
        readable: files and folders.
    """

    def __init__(self, readable: Iterable[str]) -> None:
        self._readable = frozenset(readable)
        roots = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        roots |= {root for root in site.getsitepackages() if root.endswith("-packages")}
        self._closed = tuple(root + os.sep for root in roots)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is; None if nowhere that may be read."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or path is not None:
            return spec
        found = [*(spec.submodule_search_locations or ()), *filter(None, [spec.origin])]
        closed = [one for one in found if one.startswith(self._closed)]
        return None if closed and not self._readable & set(closed) else spec

    def invalidate_caches(self) -> None:
        """Forget what folders hold."""
        PathFinder.invalidate_caches()


def _as_it_is(model: Any = None, *_: Any, fn: Any = None, **__: Any) -> Any:
    """Stand in for ``torch.compile`` and its like, as a function and as a decorator with options.

    Their first argument is called ``model``, or ``fn``.
    """
    found = fn if model is None else model
    return _as_it_is if found is None else found


class _NoStance(ContextDecorator):
    """Stand in for ``torch.compiler.set_stance``: a function, a context, and a decorator."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _speak_to_no_compiler() -> None:
    """Spare whoever gives a compiler its hints the import of one: most of what a check may take."""
    hints = ("allow_in_graph", "assume_constant_result", "disable", "reset")
    vars(torch.compiler).update(dict.fromkeys(hints, _as_it_is), set_stance=_NoStance)
    vars(torch)["_disable_dynamo"] = _as_it_is  # for operators that are registered from now on


def _zero_parameters(layer: torch.nn.Linear) -> None:
    with torch.no_grad():
        layer.weight.zero_()
        if layer.bias is not None:
            layer.bias.zero_()


def _warm_up() -> None:
    """Run a small hand-in many times; what initialises itself at first use does so here.

    The interpreter specialises code that runs often, torch looks kernels up once, and a
    worker forked from a warm zygote needs two thirds of the time.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        session = Session({"rehearsal.py": REHEARSAL})
        for turn in range(WARM_TURNS):
            dtype = ("float32", "float32", "bfloat16", "float16")[turn % 4]
            weight = from_torch(torch.randn(24, 12).to(getattr(torch, dtype)))
            x = from_torch(torch.randn(2, 5, 12).to(getattr(torch, dtype)))
            norm = from_torch(torch.ones(8).to(getattr(torch, dtype)))
            names = {"up.weight": "w", "norm.weight": "n"}
            new = {"op": "new", "as": 1, "path": "rehearsal.Block", "args": [], "kwargs": {}}
            new |= {"dtype": dtype, "weights": names, "mapped": None}
            call = {"op": "call", "target": 1, "args": [{"$t": "x"}], "kwargs": {}}
            steps = [new, call | {"echo": turn % 2 == 0, "operators": turn % 3 == 0}]
            tensors = {"w": weight, "x": x, "n": norm}
            request = pack({"steps": steps, "fresh": True}, tensors)
            reply, _ = session.execute(*unpack_trusted(bytearray(request)))
            if "error" in reply:
                raise RuntimeError(f"the rehearsal failed: {reply['error']}")
        session.modules.remove()
        torch.nn.Linear(3, 3)(torch.randn(2, 3)).sum().backward()
