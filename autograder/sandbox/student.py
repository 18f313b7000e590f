"""The student's code as checks see it: it reads like local code, and runs elsewhere.

Steps are queued and travel together when the first result is looked at, so a check that
constructs a module, loads weights and calls it is one round trip.
"""

from __future__ import annotations

import marshal
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder.sandbox.links import StudentError, WorkerLost
from autograder.sandbox.ranks import Group
from autograder.sandbox.transport import Reply, Transport
from autograder.wire.messages import KEPT, MAX_NUMEL, MAX_OPERATORS, MAX_SIDES, Tensor

# What checks pass that is neither a number nor a tensor: each becomes something real there.


@dataclass(frozen=True)
class GivenConfig:
    """A given ``Qwen3Config`` as an argument; student code receives the real class."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Dtype:
    """A torch dtype by its name (``"bfloat16"``) as an argument."""

    name: str


@dataclass(frozen=True)
class Named:
    """A class as an argument, by name: ``"attention.Qwen3Attention"``, or one of given code."""

    path: str


@dataclass(frozen=True)
class Literal:
    """Plain data as an argument that arrives as it is: bytes, tuples, sets, any keys of a dict.

    Lists and dicts need no such wrapper; only their tuples arrive as lists, and their keys as text.
    """

    value: Any


@dataclass(frozen=True)
class Folder:
    """A folder that ``lab.toml`` lists; student code receives a path where it can read it."""

    path: str


# Reads what a worker replies: values from trees, and whether extras have their form.

MAX_TEXT = 400


class Other:
    """A result that is neither data nor a plain tensor, in words."""

    def __init__(self, description: str) -> None:
        self.description = description

    def __repr__(self) -> str:
        return self.description


def expect_echo(step: Mapping[str, Any], value: Any) -> None:
    """``[result, args, kwargs]``, with the arguments of the call; checks take them for granted.

    Raises:
        ValueError, TypeError: something else came back.
    """
    _, args, kwargs = value
    if type(args) is not list or len(args) != len(step["args"]):
        raise ValueError("other arguments than those of the call")
    if type(kwargs) is not dict or kwargs.keys() != step["kwargs"].keys():
        raise ValueError("other keywords than those of the call")


def expect_cost(value: Any) -> None:
    """``[result, whole number]``, or a dict of such numbers in its place.

    Raises:
        ValueError, TypeError: something else came back.
    """
    _, cost = value
    numbers = list(cost.values()) if type(cost) is dict else [cost]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("costs that are no whole numbers")


_COUNTS = ("peak", "alive", "flops", "largest", "line")
_TRUTHS = ("over", "fenced", "kept")
_NAMES = ("operator", "kind", "file")


def expect_measured(value: Any) -> None:
    """``[result, costs]`` of a measured call; its texts are names, so that they may be shown.

    Raises:
        ValueError, TypeError, KeyError: something else came back.
    """
    _, costs = value
    if costs.keys() != {*_COUNTS, *_TRUTHS, *_NAMES, "shape"} or len(costs["shape"]) > MAX_SIDES:
        raise ValueError("other costs than those that are counted")
    numbers = [*(costs[name] for name in _COUNTS), *costs["shape"]]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("costs that are no whole numbers")
    if not all(type(costs[name]) is bool for name in _TRUTHS):
        raise TypeError("costs that are neither kept nor broken")
    if not all(re.fullmatch(r"[\w.]{0,80}", costs[name], re.ASCII) for name in _NAMES):
        raise ValueError("names that are none")


def decode(tree: Any, arrays: dict[str, Tensor]) -> Any:
    """A reply tree as values; whatever does not fit the form becomes :class:`Other`.

    Tensors are taken out of ``arrays``: each stands in one place, and what is left is nowhere.
    """
    if isinstance(tree, dict):
        if "$t" in tree:
            return _tensor(arrays.pop(str(tree["$t"]), None))
        if "$tuple" in tree:
            return tuple(decode(item, arrays) for item in tree["$tuple"])
        if "$list" in tree:
            return [decode(item, arrays) for item in tree["$list"]]
        if "$bytes" in tree:
            return _bytes(tree["$bytes"])
        if "$dict" in tree:
            return {str(key): decode(item, arrays) for key, item in tree["$dict"]}
        return Other(str(tree.get("$other"))[:MAX_TEXT])
    if isinstance(tree, list) or (type(tree) is int and abs(tree) >= 1 << 63):
        return Other("a list" if isinstance(tree, list) else "a number beyond 64 bits")
    return tree[:MAX_TEXT] if isinstance(tree, str) else tree


_SCALARS = (int, float, str, bool, type(None))


def _tensor(found: Tensor | None) -> Tensor | Other:
    """A tensor that is there, unless it holds more than a worker of ours sends."""
    if found is None:
        return Other("nothing")
    count = math.prod(found.shape)
    if count > MAX_NUMEL:
        return Other(f"a tensor of {count} elements, more than {MAX_NUMEL}")
    return found


def _bytes(digits: Any) -> bytes | Other:
    try:
        return bytes.fromhex(digits)[:MAX_TEXT]
    except (TypeError, ValueError):
        return Other("bytes")


def _operators(parts: list[Any]) -> list[str]:
    """Names of operators, from lists of them; what was kept long ago is one list."""
    lists = (part["$list"] if isinstance(part, dict) else [part] for part in parts)
    return [str(name)[:80] for names in lists for name in names][:MAX_OPERATORS]


class Result:
    """A value that student code returns; looking at ``value`` runs what is queued."""

    def __init__(self, student: Student, step: Mapping[str, Any], given: Sequence[Any]) -> None:
        self.student = student  # who is asked: one of several, where there are ranks
        self.step = step  # what was asked
        self.given = given  # the arguments, in order, then those by name
        self.verdict = ""  # what a check says of a measured call's costs, or of an exception
        self._value: Any = None
        self._ready = False

    @property
    def ready(self) -> bool:
        """Return whether the call was made and came back."""
        return self._ready

    @property
    def value(self) -> Any:
        """Tensors (:class:`Tensor`), scalars, text, bytes, tuples, lists, dicts, or `Other`.

        Texts and bytes come without what is beyond 400 of them; keys of dicts that are no text
        come as their ``repr``.
        """
        if not self._ready:
            self.student.flush()
        if not self._ready:
            raise RuntimeError("this call stood behind one that raised: look at that one first")
        return self._value

    def set(self, value: Any) -> None:
        """Take the value that came back."""
        self._value, self._ready = value, True


class Handle:
    """An object that student code made; calling it calls it there."""

    def __init__(self, student: Student, number: int) -> None:
        self._student = student
        self.number = number

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        return self._student.call(self, *args, **kwargs)


class Student:
    """One check's view of a hand-in.

    Args:
        transport: where it runs.
        fresh: its files run again, in new namespaces.
        traced: every call writes down what torch made on the way, see ``traces``.
    """

    def __init__(self, transport: Transport, *, fresh: bool = True, traced: bool = False) -> None:
        self._transport = transport
        self._steps: list[dict[str, Any]] = []
        self._results: list[Result | None] = []
        self.operators: set[str] = set()  # dispatched by calls that asked for them
        self.asked: list[Result] = []  # every call so far
        self.traces: list[Any] = []  # of the calls so far, see autograder.worker.session
        self.requests: list[tuple[dict[str, Any], dict[str, Tensor]]] = []  # but for ranks
        self.began_fresh = fresh
        self.bytes = 0  # of all tensors that came back, as float64: so they are compared
        self._traced = traced
        self._tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Tensor] = []
        self._objects = 0
        self._fresh = fresh
        self._group: Group | None = None

    def ranks(self, count: int) -> Group:
        """The hand-in as so many ranks; one group at a time."""
        self.flush()
        self._group = Group(self, self._transport, count)
        return self._group

    @property
    def queued(self) -> bool:
        """Return whether steps wait to be run."""
        return bool(self._steps)

    def note(self, value: Any, **step: Any) -> None:
        """Write down what was found out in another way, beside the answers to calls."""
        result = Result(self, {"op": "note", **step}, ())
        result.set(value)
        self.asked.append(result)

    def new(
        self,
        path: str,
        *args: Any,
        weights: Mapping[str, Tensor] | None = None,
        mapped: str | None = None,
        dtype: str = "float32",
        **kwargs: Any,
    ) -> Handle:
        """Construct ``"file.Class"``; ``weights`` are loaded strictly after going to ``dtype``.

        ``mapped`` names, by their common prefix, real weights that the worker holds already.
        """
        self._objects += 1
        names = None
        if weights is not None:
            names = {parameter: self._name(tensor) for parameter, tensor in weights.items()}
        self._step(
            None,
            op="new",
            path=path,
            args=self._trees(args),
            kwargs=self._tree(kwargs),
            weights=names,
            mapped=mapped,
            dtype=dtype,
            **{"as": self._objects},
        )
        return Handle(self, self._objects)

    def call(
        self,
        target: str | Handle,
        *args: Any,
        echo: bool = False,
        operators: bool = False,
        method: str | None = None,
        count: Sequence[str] = (),
        held: Handle | None = None,
        measure: int | None = None,
        **kwargs: Any,
    ) -> Result:
        """Call ``"file.function"``, an object, or its ``method``.

        With ``echo`` the value is ``[result, args, kwargs]``, the arguments as they are after
        the call; with ``operators`` the names of all that the request dispatches are written down.
        With ``count``, names of linear submodules of the object, it is ``[result, {name: rows
        that entered it}]``; with ``held`` it is ``[result, bytes]``, those of all tensors that
        hang on that object after the call; with ``measure``, bytes that the call may have alive (0:
        any number), it is ``[result, costs]``, see :mod:`autograder.worker.costs`. One of these
        five at a time.
        """
        # Absent where not asked for: what was kept of older requests stays findable.
        asked: dict[str, Any] = {"method": method} if method else {}
        asked |= {"count": list(count)} if count else {}
        asked |= {"held": held.number} if held else {}
        asked |= {"measure": measure} if measure is not None else {}
        asked |= {"trace": True} if self._traced and measure is None else {}
        return self._ask(
            (*args, *kwargs.values()),
            op="call",
            target=target.number if isinstance(target, Handle) else target,
            args=self._trees(args),
            kwargs=self._tree(kwargs),
            echo=echo,
            operators=operators,
            **asked,
        )

    def get(self, handle: Handle, name: str) -> Result:
        """Read an attribute of an object."""
        return self._ask((), op="get", target=handle.number, name=name)

    def import_file(self, file: str) -> None:
        """Run a file of the hand-in, as every other step does when it needs it."""
        self._step(None, op="import", file=file)

    def flush(self) -> None:
        """Run what is queued.

        Raises:
            StudentError: a step raised.
            WorkerLost: the worker did not survive it.
        """
        if self._group is not None:
            self._group.flush()
        if self._steps:
            request, tensors, take = self.packed()
            self.requests.append((request, tensors))
            take(self._transport.exchange(request, tensors))

    def packed(self) -> tuple[dict[str, Any], dict[str, Tensor], Callable[[Reply], None]]:
        """Return what is queued, as a request with its tensors, and what takes the reply to it.

        The latter raises StudentError or WorkerLost, see :meth:`flush`.
        """
        steps, results, tensors = self._steps, self._results, self._tensors
        self._steps, self._results, self._tensors = [], [], {}
        self._names.clear()
        self._kept.clear()
        request = {"steps": steps, "fresh": self._fresh}
        self._fresh = False
        return request, tensors, lambda reply: self._take(steps, results, *reply)

    def _take(
        self,
        steps: Sequence[dict[str, Any]],
        results: Sequence[Result | None],
        reply: dict[str, Any],
        arrays: dict[str, Tensor],
    ) -> None:
        """Hand out the values of a reply."""
        self.bytes += sum(8 * math.prod(tensor.shape) for tensor in arrays.values())
        try:
            for step, result, value in zip(steps, results, reply["values"], strict=False):
                if "trace" in step:
                    value, rows = value["$list"]
                    self.traces.append(decode(rows, arrays))
                if step.get("operators"):
                    value, names = value["$list"]
                    self.operators.update(_operators(names["$list"]))
                if result is not None:
                    decoded = decode(value, arrays)
                    if step.get("echo"):
                        expect_echo(step, decoded)
                    if "count" in step or "held" in step:
                        expect_cost(decoded)
                    if "measure" in step:
                        expect_measured(decoded)
                    result.set(decoded)
            error = StudentError(reply["error"]) if "error" in reply else None
            if error is None and len(reply["values"]) < len(steps):
                raise ValueError("fewer values than steps")
            if arrays:
                raise ValueError("tensors that stand nowhere")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
            raise WorkerLost("it answered in a form that is not ours") from None
        if error is not None:
            raise error

    def _name(self, tensor: Tensor) -> str:
        """The name of a tensor in the message: one copy travels, however many steps use it."""
        if tensor.key:
            name = KEPT + tensor.key
        else:
            name = self._names.setdefault(id(tensor), f"a{len(self._names)}")
            self._kept.append(tensor)  # keeps id() from being used again
        self._tensors[name] = tensor
        return name

    def _step(self, result: Result | None, **step: Any) -> None:
        self._steps.append(step)
        self._results.append(result)

    def _ask(self, given: Sequence[Any], **step: Any) -> Result:
        result = Result(self, step, given)
        self._step(result, **step)
        self.asked.append(result)
        return result

    def _trees(self, values: tuple[Any, ...]) -> list[Any]:
        return [self._tree(value) for value in values]

    def _tree(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return value
        if kind is GivenConfig:
            return {"$config": value.values}
        if kind is Dtype:
            return {"$dtype": value.name}
        if kind is Named:
            return {"$named": value.path}
        if kind is Literal:
            data = marshal.dumps(value.value, 2)  # in this version equal data have equal bytes
            return {"$literal": self._name(Tensor("uint8", (len(data),), data))}
        if kind is Folder:
            return {"$folder": value.path}
        if kind is np.ndarray:
            value, kind = Tensor.of(value), Tensor
        if kind is Tensor:
            return {"$t": self._name(value)}
        if kind is Handle:
            return {"$h": value.number}
        if kind is dict:
            return {str(key): self._tree(item) for key, item in value.items()}
        if kind in (list, tuple):
            return [self._tree(item) for item in value]
        raise TypeError(f"a check passes a {kind.__name__}, which has no form on the wire")
