"""The student's code as checks see it: it reads like local code, and runs elsewhere.

Steps are queued and travel together when the first result is looked at, so a check that
constructs a module, loads weights and calls it is one round trip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder.course.records import Frame
from autograder.sandbox.link import WorkerLost
from autograder.sandbox.transport import Transport
from autograder.sandbox.wire import KEPT, Tensor

MAX_TEXT = 400
MAX_OPERATORS = 200  # names of one call
MAX_LINE = 1 << 20  # a file of the largest size that is taken has no more lines


class StudentError(Exception):
    """Student code raised: where (``stage``), what (``type``, ``text``), the student's frames.

    ``todo`` is the id of a stub's TODO that was reached, or None. When weights do not load,
    ``lacking`` and ``extra`` name parameters, ``shapes`` name, own shape and shape wanted.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.stage = str(error.get("stage"))[:20]
        self.type = str(error.get("type"))[:80]
        self.text = str(error.get("text"))[:MAX_TEXT]
        self.todo = str(error["todo"])[:60] if error.get("todo") else None
        self.frames = tuple(
            Frame(str(file)[:300], _line(line), str(function)[:80], str(text)[:200])
            for file, line, function, text in list(error.get("frames") or ())[:8]
        )
        self.lacking = _names(error.get("lacking"))
        self.extra = _names(error.get("extra"))
        self.shapes = tuple(
            (str(name)[:80], str(got)[:40], str(want)[:40])
            for name, got, want in list(error.get("shapes") or ())[:6]
        )
        super().__init__(f"{self.type}: {self.text}")


def _names(raw: Any) -> tuple[str, ...]:
    return tuple(str(name)[:80] for name in list(raw or ())[:6])


def _expect_echo(step: Mapping[str, Any], value: Any) -> None:
    """``[result, args, kwargs]``, with the arguments of the call; checks take them for granted.

    Raises:
        ValueError, TypeError: something else came back.
    """
    _, args, kwargs = value
    if type(args) is not list or len(args) != len(step["args"]):
        raise ValueError("other arguments than those of the call")
    if type(kwargs) is not dict or kwargs.keys() != step["kwargs"].keys():
        raise ValueError("other keywords than those of the call")


def _line(raw: Any) -> int:
    return max(0, min(int(raw), MAX_LINE))


_SCALARS = (int, float, str, bool, type(None))


@dataclass(frozen=True)
class GivenConfig:
    """A given ``Qwen3Config`` as an argument; student code receives the real class."""

    values: Mapping[str, Any]


class Other:
    """A result that is neither data nor a plain tensor, in words."""

    def __init__(self, description: str) -> None:
        self.description = description

    def __repr__(self) -> str:
        return self.description


class Result:
    """A value that student code returns; looking at ``value`` runs what is queued."""

    def __init__(self, student: Student) -> None:
        self._student = student
        self._value: Any = None
        self._ready = False

    @property
    def value(self) -> Any:
        """Tensors (:class:`Tensor`), scalars, strings, tuples, lists, dicts, or `Other`."""
        if not self._ready:
            self._student.flush()
        if not self._ready:
            raise RuntimeError("this call stood behind one that raised")
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
    """One check's view of a hand-in; with ``fresh`` its files run again in new namespaces."""

    def __init__(self, transport: Transport, *, fresh: bool = True) -> None:
        self._transport = transport
        self._steps: list[dict[str, Any]] = []
        self._results: list[Result | None] = []
        self.operators: set[str] = set()  # dispatched by calls that asked for them
        self._tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Tensor] = []
        self._objects = 0
        self._fresh = fresh

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
        **kwargs: Any,
    ) -> Result:
        """Call ``"file.function"`` or an object.

        With ``echo`` the value is ``[result, args, kwargs]``, the arguments as they are after
        the call; with ``operators`` the names of the operators dispatched are written down.
        """
        result = Result(self)
        self._step(
            result,
            op="call",
            target=target.number if isinstance(target, Handle) else target,
            args=self._trees(args),
            kwargs=self._tree(kwargs),
            echo=echo,
            operators=operators,
        )
        return result

    def get(self, handle: Handle, name: str) -> Result:
        """Read an attribute of an object."""
        result = Result(self)
        self._step(result, op="get", target=handle.number, name=name)
        return result

    def import_file(self, file: str) -> None:
        """Run a file of the hand-in, as every other step does when it needs it."""
        self._step(None, op="import", file=file)

    def flush(self) -> None:
        """Run what is queued.

        Raises:
            StudentError: a step raised.
            WorkerLost: the worker did not survive it.
        """
        if not self._steps:
            return
        steps, results, tensors = self._steps, self._results, self._tensors
        self._steps, self._results, self._tensors = [], [], {}
        self._names.clear()
        self._kept.clear()
        request = {"steps": steps, "fresh": self._fresh}
        self._fresh = False
        reply, arrays = self._transport.exchange(request, tensors)
        try:
            for step, result, value in zip(steps, results, reply["values"], strict=False):
                if step.get("operators"):
                    value, names = value["$list"]
                    self.operators.update(str(n)[:80] for n in names["$list"][:MAX_OPERATORS])
                if result is not None:
                    decoded = _decode(value, arrays)
                    if step.get("echo"):
                        _expect_echo(step, decoded)
                    result.set(decoded)
            error = StudentError(reply["error"]) if "error" in reply else None
            if error is None and len(reply["values"]) < len(steps):
                raise ValueError("fewer values than steps")
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

    def _trees(self, values: tuple[Any, ...]) -> list[Any]:
        return [self._tree(value) for value in values]

    def _tree(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return value
        if kind is GivenConfig:
            return {"$config": value.values}
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


def _decode(tree: Any, arrays: Mapping[str, Tensor]) -> Any:
    """A reply tree as values; whatever does not fit the form becomes :class:`Other`."""
    if isinstance(tree, dict):
        if "$t" in tree:
            return arrays.get(str(tree["$t"]), Other("nothing"))
        if "$tuple" in tree:
            return tuple(_decode(item, arrays) for item in tree["$tuple"])
        if "$list" in tree:
            return [_decode(item, arrays) for item in tree["$list"]]
        if "$dict" in tree:
            return {str(key): _decode(item, arrays) for key, item in tree["$dict"]}
        return Other(str(tree.get("$other"))[:MAX_TEXT])
    if isinstance(tree, list) or (type(tree) is int and abs(tree) >= 1 << 63):
        return Other("a list" if isinstance(tree, list) else "a number beyond 64 bits")
    return tree[:MAX_TEXT] if isinstance(tree, str) else tree
