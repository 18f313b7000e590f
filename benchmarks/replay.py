"""Steps that a hand-in was asked, as direct calls over inputs that are decoded already."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from autograder.sandbox.values import decode, to_torch
from autograder.sandbox.wire import Tensor
from labs.given.config import Qwen3Config

Objects = dict[int, Any]
Call = Callable[[Objects], object]


@dataclass(frozen=True)
class _Handle:
    """Stands for an object that an earlier step of the same check makes."""

    number: int


def calls(
    step: Mapping[str, Any], tensors: Mapping[str, Tensor], find: Callable[[str], Any]
) -> list[Call]:
    """A step as a direct call, or nothing: importing a file is no call.

    Args:
        step: of a request of ``autograder.sandbox.session``.
        tensors: those of the request.
        find: the student's ``"file.name"``.
    """
    if step["op"] == "import":
        return []
    if step["op"] == "get":
        return [lambda objects: getattr(objects[step["target"]], step["name"])]
    args = decode(step["args"], tensors, _Handle, Qwen3Config)
    kwargs = decode(step["kwargs"], tensors, _Handle, Qwen3Config)
    if step["op"] == "new":
        return [_new(step, find(step["path"]), args, kwargs, tensors)]
    target = step["target"]
    function = _Handle(target) if isinstance(target, int) else find(target)

    def call(objects: Objects) -> None:
        with torch.no_grad():
            _here(function, objects)(
                *(_here(value, objects) for value in args),
                **{name: _here(value, objects) for name, value in kwargs.items()},
            )

    return [call]


def _new(
    step: Mapping[str, Any],
    made_by: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
) -> Call:
    names, dtype, number = step["weights"] or {}, getattr(torch, step["dtype"]), step["as"]
    state = {name: to_torch(tensors[ref]) for name, ref in names.items()}

    def new(objects: Objects) -> None:
        made = objects[number] = made_by(*args, **kwargs)
        if dtype is not torch.float32:
            made.to(dtype)
        if state:
            made.load_state_dict(state, strict=True)

    return new


def _here(value: Any, objects: Objects) -> Any:
    return objects[value.number] if type(value) is _Handle else value


def replay(made: Sequence[Call], repeats: int) -> list[float]:
    """CPU seconds of all calls together, once per repeat; one thread."""
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # as in a worker: what was there before is not looked at again and again
    times = []
    for _ in range(repeats):
        objects: Objects = {}
        before = time.process_time()
        for call in made:
            call(objects)
        times.append(time.process_time() - before)
    return times
