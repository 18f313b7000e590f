"""Steps that a hand-in was asked, as direct calls over inputs that are decoded already."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from autograder.wire.messages import Tensor
from autograder.worker.values import decode, to_torch
from labs.given.config import Qwen3Config

Objects = dict[int, Any]
Call = Callable[[Objects], object]


@dataclass(frozen=True)
class _Handle:
    """Stands for an object that an earlier step of the same check makes."""

    number: int


def calls(
    request: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    find: Callable[[str], Any],
    reply: Mapping[str, Any],
) -> list[Call]:
    """The direct calls that a request stands for.

    Args:
        request: of ``autograder.worker.session``.
        tensors: those of the request.
        find: the student's ``"file.name"``.
        reply: what it gave; a step that raised is to raise again, and none follows it.
    """
    steps = request["steps"][: len(reply["values"])]
    made = [call for step in steps for call in _calls(step, tensors, find)]
    if "error" in reply:
        made += map(_raising, _calls(request["steps"][len(steps)], tensors, find))
    return made


def _raising(call: Call) -> Call:
    def raises(objects: Objects) -> None:
        with suppress(Exception):
            call(objects)

    return raises


def _calls(
    step: Mapping[str, Any], tensors: Mapping[str, Tensor], find: Callable[[str], Any]
) -> list[Call]:
    """A step as a direct call, or nothing: importing a file is no call."""
    if step["op"] == "import":
        return []
    if step["op"] == "get":
        return [lambda objects: getattr(objects[step["target"]], step["name"])]
    args = decode(step["args"], tensors, _Handle, find, Qwen3Config)
    kwargs = decode(step["kwargs"], tensors, _Handle, find, Qwen3Config)
    if step["op"] == "new":
        return [_new(step, find(step["path"]), args, kwargs, tensors)]
    target = step["target"]
    function = _Handle(target) if isinstance(target, int) else find(target)
    method = step.get("method")

    def call(objects: Objects) -> None:
        with torch.no_grad():
            called = _here(function, objects)  # a class too: its __call__ is that of its objects
            called = getattr(called, method) if method else called
            called(*_here(args, objects), **_here(kwargs, objects))

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
        made = objects[number] = made_by(*_here(args, objects), **_here(kwargs, objects))
        if dtype is not torch.float32:
            made.to(dtype)
        if state:
            made.load_state_dict(state, strict=True)

    return new


def _here(value: Any, objects: Objects) -> Any:
    """``value`` with the objects that the handles in it stand for."""
    if type(value) is _Handle:
        return objects[value.number]
    if isinstance(value, list):
        return [_here(item, objects) for item in value]
    if isinstance(value, dict):
        return {name: _here(item, objects) for name, item in value.items()}
    return value


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
