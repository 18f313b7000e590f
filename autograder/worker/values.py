"""Values of the worker as wire trees, and back: the only things that leave student code."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from autograder.wire.messages import MAX_NUMEL, Tensor
from autograder.worker import loader

MAX_TEXT = 500  # characters, or bytes
MAX_ITEMS = 1024  # of a list or dict; the whole reply has a bound of its own
MAX_DEPTH = 6
_PLAIN = (torch.Tensor, torch.nn.Parameter)
# What a class derived from one of these holds, whatever its methods say: an OrderedDict is a dict.
_DERIVED: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    dict: lambda value: dict(dict.items(value)),
}
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def to_torch(tensor: Tensor) -> torch.Tensor:
    """A torch tensor of its own memory, so that a change to it stays its own."""
    dtype = _DTYPES[tensor.dtype]
    if not tensor.data:
        return torch.empty(tensor.shape, dtype=dtype)
    return torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(tensor.shape)


def from_torch(value: torch.Tensor) -> Tensor:
    """The bytes of a plain dense tensor on any device."""
    plain = value.detach().cpu().resolve_neg()
    raw = plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain
    return Tensor(_NAMES[plain.dtype], tuple(plain.shape), raw.numpy().tobytes())


def decode(
    tree: Any,
    tensors: Mapping[str, Tensor],
    handle: Callable[[int], Any],
    named: Callable[[str], Any],
    config: type,
) -> Any:
    """Turn an argument tree into values: tensors, handles, configs, dtypes, plain data.

    What goes by a name (a class of the hand-in, or a given one) comes from ``named``; a folder
    becomes the path under which it can be read here.
    """
    if isinstance(tree, dict):
        if "$t" in tree:
            return to_torch(tensors[tree["$t"]])
        if "$h" in tree:
            return handle(tree["$h"])
        if "$named" in tree:
            return named(tree["$named"])
        if "$folder" in tree:
            return loader.path_of(tree["$folder"])
        if "$config" in tree:
            return config(**tree["$config"])
        if "$literal" in tree:
            return marshal.loads(tensors[tree["$literal"]].data)  # of the judge, so no stranger's
        if "$dtype" in tree:
            return _DTYPES[tree["$dtype"]]
        return {key: decode(item, tensors, handle, named, config) for key, item in tree.items()}
    if isinstance(tree, list):
        return [decode(item, tensors, handle, named, config) for item in tree]
    return tree


def encode(value: Any, add: Callable[[Tensor], str], depth: int = 0) -> Any:
    """Turn a result into a tree. What has no place there becomes ``{"$other": description}``."""
    if value is None or type(value) in (bool, float):
        return value
    if type(value) is int:
        return value if abs(value) < 1 << 62 else {"$other": "a number beyond 64 bits"}
    if type(value) is str:
        return value[:MAX_TEXT]
    if type(value) is bytes:
        return {"$bytes": value[:MAX_TEXT].hex()}
    if isinstance(value, np.generic):
        return encode(value.item(), add, depth)
    if isinstance(value, torch.Tensor):
        if torch.nn.Parameter in type(value).__mro__[1:]:
            with torch._C.DisableTorchFunctionSubclass():
                value = torch.Tensor.as_subclass(value, torch.Tensor)
        problem = _tensor_problem(value)
        return {"$other": problem} if problem else {"$t": add(from_torch(value))}
    if depth < MAX_DEPTH and type(value) is dict and len(value) <= MAX_ITEMS:
        return {"$dict": [[str(k)[:MAX_TEXT], encode(v, add, depth + 1)] for k, v in value.items()]}
    if depth < MAX_DEPTH and isinstance(value, (list, tuple)) and len(value) <= MAX_ITEMS:
        kind = "$list" if isinstance(value, list) else "$tuple"
        return {kind: [encode(item, add, depth + 1) for item in value]}
    above: tuple[type, ...] = type(value).__mro__  # and not what its __class__ says
    for derived, plain in _DERIVED.items():
        if derived in above:
            return encode(plain(value), add, depth)
    return {"$other": f"a {type(value).__name__}"[:MAX_TEXT]}


def _tensor_problem(value: torch.Tensor) -> str | None:
    """Why the bytes of ``value`` cannot be taken, in words; None if they can."""
    if type(value) not in _PLAIN:
        return f"a tensor subclass called {type(value).__name__}"
    if value.layout is not torch.strided or value.is_quantized:
        return "a sparse or quantised tensor"
    if value.device.type == "meta":
        return "a tensor on the meta device, which holds no values"
    if value.dtype not in _NAMES:
        return f"a tensor of dtype {str(value.dtype).removeprefix('torch.')}"
    if value.numel() > MAX_NUMEL:
        return f"a tensor of {value.numel()} elements, more than {MAX_NUMEL}"
    return None
