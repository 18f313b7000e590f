"""Executes the judge's steps on student code, in the worker or (for debugging) in process.

A request is ``{"steps": [...], "fresh": bool}``; every step is one of

* ``import``  file                                     run a file of the hand-in
* ``new``     as, path, args, kwargs, dtype, weights, mapped   construct, load weights strictly
* ``call``    target, args, kwargs, echo, operators    call a function, class or object
              method, count, held (absent: none)       its method; count what the call costs
              measure (absent: no): bytes at most      the same by bytes and FLOPs; 0: no limit
              trace (absent: no)                       write down what torch makes on the way
* ``get``     target, name                             read an attribute

and the reply ``{"values": [...]}``, one per step, or ``{"error": {...}, "done": n}`` with the
values of the steps before. ``"again": True`` in it says that a file raised which had run well in
this process before. An argument may be a tensor, an object made before, a config, a dtype,
a class by its name (of the hand-in, or given code) or a folder that the lab lists, which becomes
a path here. Nothing here knows an answer.
"""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from autograder.wire.messages import KEPT, MAX_OPERATORS, Tensor
from autograder.worker import costs, loader, real_weights
from autograder.worker.loader import StudentModules
from autograder.worker.values import decode, encode, to_torch

TODO = re.compile(r"TODO (\w+\.\w+): ")  # how a stub says which exercise is not begun
Config: type = dict  # what a config is in student code: the given class, where a course has one
with suppress(ImportError):
    Config = importlib.import_module("labs.given.config").Config

# Which torch functions student code calls: what the syntax of a file can hide.


class _Recorder(TorchFunctionMode):
    """Writes down every function that reaches torch, ``torch.ops`` among them.

    Not a dispatch mode: the first one in a process imports 800 modules.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.seen.append(str(getattr(func, "__name__", func)))
        return func(*args, **(kwargs or {}))


@contextmanager
def recorded_operators() -> Iterator[list[str]]:
    """Names of the functions that run inside the block."""
    with costs.watching(_Recorder()) as recorder:
        yield recorder.seen


# What torch makes while a call runs: a few numbers for every tensor, whatever its layout.
#
# They do not depend on the order of a tensor's elements, so that a step is found again in code that
# splits, moves or names its axes in another way.

MAX_STEPS = 500
MAX_NUMEL = 1 << 20
COLUMNS = 6  # how many elements, means of x, x^2, x^3 and x^4, and one that hangs on their order


def summary(tensor: torch.Tensor) -> list[float]:
    """``COLUMNS`` numbers of a tensor of floats."""
    flat = tensor.detach().reshape(-1).double()
    powers = [float((flat**power).mean()) for power in (1, 2, 3, 4)]
    order = torch.cos(torch.arange(flat.numel(), dtype=torch.float64))
    return [float(flat.numel()), *powers, float((flat * order).mean())]


class _Steps(TorchFunctionMode):
    """Summarises every tensor of floats that a torch function returns."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[list[float]] = []

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for made in result if isinstance(result, (tuple, list)) else (result,):
            if len(self._rows) < MAX_STEPS and _is_plain(made):
                self._rows.append(summary(made))
        return result

    def table(self) -> torch.Tensor:
        """float64 ``[steps, COLUMNS]``."""
        return torch.tensor(self._rows, dtype=torch.float64).reshape(-1, COLUMNS)


def _is_plain(value: Any) -> bool:
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or not value.is_floating_point():
        return False
    return value.layout is torch.strided and 0 < value.numel() <= MAX_NUMEL


@contextmanager
def recorded_tensors() -> Iterator[_Steps]:
    """The steps that torch makes inside the block."""
    with _Steps() as steps:
        yield steps


MAX_TEXT = 400
MAX_FRAMES = 8
MAX_NAMES = 6


class Session:
    """Student modules and the objects made from them.

    Args:
        sources: text of the hand-in's files by name.
        paths: paths to show in tracebacks, by file name.
        seed: of torch's generator at the beginning of every request.
        lab: see :class:`StudentModules`.
    """

    def __init__(
        self,
        sources: Mapping[str, str],
        paths: Mapping[str, str] | None = None,
        *,
        seed: int = 0,
        lab: str = "",
    ) -> None:
        self._seed = seed
        self.modules = StudentModules(sources, paths, lab).install()
        self._objects: dict[int, Any] = {}
        self._kept: dict[str, Tensor] = {}
        self._operators: Sequence[str] = ()  # that ran so far, in a request that asks for them

    def execute(
        self, request: Mapping[str, Any], tensors: Mapping[str, Tensor], *, debug: bool = False
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Run the steps of one request; with ``debug`` student exceptions come through."""
        _reset_torch(self._seed)
        self._kept.update((name, t) for name, t in tensors.items() if name.startswith(KEPT))
        tensors = self._kept | dict(tensors)
        if request.get("fresh"):
            self.modules.fresh()
            self._objects.clear()
        with ExitStack() as stack:
            if any(step.get("operators") for step in request["steps"]):
                # In all steps: a constructor, or a file, may do in advance what a call is asked.
                self._operators = stack.enter_context(recorded_operators())
            reply = self._run(request["steps"], tensors, debug)
        return reply

    def _run(
        self, steps: Sequence[Mapping[str, Any]], tensors: Mapping[str, Tensor], debug: bool
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        out: dict[str, Tensor] = {}

        def add(tensor: Tensor) -> str:
            name = f"r{len(out)}"
            out[name] = tensor
            return name

        values: list[Any] = []
        for step in steps:
            stage, whole = step["op"], len(out)
            try:
                values.append(encode(self._step(step, tensors), add))
            except BaseException as error:
                if debug:
                    raise
                out = dict(list(out.items())[:whole])  # what came before this step
                told = {"values": values, "error": self._describe(error, stage)}
                return told | self._again(), out
        return {"values": values} | self._again(), out

    def _again(self) -> dict[str, Any]:
        return {"again": True} if self.modules.failed_again else {}

    def _step(self, step: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
        if step["op"] == "import":
            self.modules.module(step["file"])
            return None
        if step["op"] == "get":
            return getattr(self._objects[step["target"]], step["name"])
        by = tensors, self._objects.__getitem__, self._find, Config
        args = [decode(tree, *by) for tree in step["args"]]
        kwargs = {name: decode(tree, *by) for name, tree in step["kwargs"].items()}
        if step["op"] == "new":
            made = self._find(step["path"])(*args, **kwargs)
            self._objects[step["as"]] = made
            if isinstance(made, torch.nn.Module):
                made.eval()
                if step["dtype"] != "float32":  # what modules are made in
                    made.to(getattr(torch, step["dtype"]))
            if step["weights"] is not None:
                _load(made, {n: to_torch(tensors[ref]) for n, ref in step["weights"].items()})
            if step["mapped"] is not None:
                _load(made, real_weights.held(step["mapped"]))
            return None
        target = step["target"]
        function = self._objects[target] if isinstance(target, int) else self._find(target)
        if "method" in step:
            function = getattr(function, step["method"])
        if "measure" in step:
            return costs.measure(function, args, kwargs, self.modules.files, step["measure"])
        with torch.no_grad():
            if "trace" in step:
                with recorded_tensors() as made:
                    answer = self._answer(step, function, args, kwargs)
                return [answer, made.table()]
            return self._answer(step, function, args, kwargs)

    def _answer(
        self,
        step: Mapping[str, Any],
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Return what a call gives back: its result, and what else the step asks for."""
        if step["operators"]:
            result = function(*args, **kwargs)
            names = sorted({name[:80] for name in self._operators})[:MAX_OPERATORS]
            # A list of a reply is short.
            return [result, [names[at : at + 200] for at in range(0, len(names), 200)]]
        if step.get("count"):
            with costs.counted(function, step["count"]) as counts:
                result = function(*args, **kwargs)
            return [result, dict(counts)]
        result = function(*args, **kwargs)
        if "held" in step:
            return [result, costs.held(self._objects[step["held"]])]
        return [result, args, kwargs] if step["echo"] else result

    def _find(self, path: str) -> Any:
        module, _, name = path.rpartition(".")
        return getattr(self.modules.module(module), name)

    def _describe(self, error: BaseException, stage: str) -> dict[str, Any]:
        """The error as plain data: type, text, and the frames that lie in student files."""
        text = _safe_text(error)
        begun = TODO.match(text)
        todo = begun[1] if begun else None
        frames: list[tuple[str, int, str, str]] = []
        try:
            for entry in traceback.extract_tb(error.__traceback__):
                if entry.filename in self.modules.files:
                    line = (entry.line or "")[:200]
                    frames.append((entry.filename, entry.lineno or 0, entry.name[:80], line))
        except BaseException:
            frames = []  # a hostile exception object; the type and text remain
        if isinstance(error, SyntaxError) and error.filename in self.modules.files:
            line = (error.text or "").strip()[:200]
            frames.append((str(error.filename), error.lineno or 0, "", line))
            stage, text = "syntax", error.msg
        names: dict[str, Any] = {}
        if isinstance(error, _WeightsError):
            stage = "weights"
            names = dict(error.names)
        return names | {
            "stage": stage,
            "type": type(error).__name__[:80],
            "kinds": [kind.__name__[:80] for kind in type(error).__mro__[1:MAX_FRAMES]],
            "text": text,
            "todo": todo if isinstance(error, NotImplementedError) else None,
            "frames": frames[-MAX_FRAMES:],
        }


class _WeightsError(RuntimeError):
    """The weights of Hugging Face do not fit the student's parameters.

    ``names`` tells which: ``lacking`` ones are missing in the module, ``plain`` ones of these are
    there and not registered, ``extra`` ones stand in it too much, and ``shapes`` lists
    ``(name, shape in the module, shape in Hugging Face)``.
    """

    def __init__(self, text: str, names: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.names = names


def _load(module: Any, state: Mapping[str, torch.Tensor]) -> None:
    try:
        module.load_state_dict(dict(state), strict=True)
    except (RuntimeError, AttributeError, TypeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        names: dict[str, Any] = {}
        if isinstance(module, torch.nn.Module):
            own = module.state_dict()
            names["lacking"] = sorted(set(state) - set(own))[:MAX_NAMES]
            names["plain"] = [name for name in names["lacking"] if _is_there(module, name)]
            names["extra"] = sorted(map(str, set(own) - set(state)))[:MAX_NAMES]
            names["shapes"] = [
                (name, str(list(own[name].shape)), str(list(state[name].shape)))
                for name in sorted(set(own) & set(state))
                if own[name].shape != state[name].shape
            ][:MAX_NAMES]
        raise _WeightsError(" ".join(lines[1:] or lines)[:MAX_TEXT], names) from None


def _is_there(holder: Any, name: str) -> bool:
    """Whether a tensor goes by this name, in attributes and lists that torch does not register."""
    try:
        for part in name.split("."):
            holder = holder[int(part)] if isinstance(holder, list) else getattr(holder, part)
        return isinstance(holder, torch.Tensor)
    except BaseException:  # whatever an attribute of a student's own does
        return False


def _reset_torch(seed: int) -> None:
    """Undo what the call before may have changed for the whole process."""
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    # Not torch.manual_seed: that formats a stack trace for every absent accelerator.
    torch.default_generator.manual_seed(seed)
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)
    if sys.getrecursionlimit() != 1000:
        sys.setrecursionlimit(1000)


def _safe_text(error: BaseException) -> str:
    try:
        return loader.without_base(str(error))[:MAX_TEXT]
    except BaseException:  # a student's own __str__ may raise anything
        return "(an exception without a readable text)"
