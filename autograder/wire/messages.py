"""Messages between judge and worker: one safetensors blob each, never pickle.

A message is a JSON tree (in the blob's metadata) and named tensors. Trees hold None, bool,
int, float, str, lists and dicts; a tensor stands in them as ``{"$t": name}``.

The format is written out here because the low-level calls of the safetensors package differ
between its releases, and its reader does not hand out the metadata; a test reads our blobs
with that package.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.wire.frames import LENGTH, WireError

# Bytes of JSON, which takes many times its size once it is parsed, and seconds to look through.
MAX_HEADER = 1 << 20  # in what student code may have made
MAX_REQUEST = 16 << 20  # in what the judge says; sources are among it
KEPT = "k:"  # names of tensors that the receiver keeps begin so
MAX_TENSORS = 4096
MAX_NUMEL = 1 << 24  # numbers in a tensor that student code gives; as float64 they are 128 MiB
MAX_OPERATORS = 4000  # names in what one call ran: more than torch has functions
MAX_COLLECTIVE = 8 << 20  # bytes that one rank may give to the others at a time
MAX_PRODUCT = 1 << 48  # of the sides that are not zero: numpy multiplies those of empty tensors too
MAX_SIDES = 32  # dimensions of a tensor: what every numpy can hold
MAX_LEVELS = 64  # of a tree: ours have a dozen, and Python's recursion ends at a thousand

# torch dtype -> (name in a safetensors header, numpy dtype of the raw bytes)
_DTYPES: dict[str, tuple[str, np.dtype[Any]]] = {
    "float64": ("F64", np.dtype("<f8")),
    "float32": ("F32", np.dtype("<f4")),
    "float16": ("F16", np.dtype("<f2")),
    "bfloat16": ("BF16", np.dtype("<u2")),
    "int64": ("I64", np.dtype("<i8")),
    "int32": ("I32", np.dtype("<i4")),
    "int16": ("I16", np.dtype("<i2")),
    "int8": ("I8", np.dtype("i1")),
    "uint8": ("U8", np.dtype("u1")),
    "bool": ("BOOL", np.dtype("?")),
}
_BY_CODE = {code: name for name, (code, _) in _DTYPES.items()}


@dataclass(frozen=True)
class Tensor:
    """Raw values of a tensor: the torch name of its dtype, its shape, little-endian bytes.

    A tensor with a ``key`` is known by it to both sides, and travels to a worker only once.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview
    key: str = field(default="", compare=False)

    @classmethod
    def of(cls, array: Any) -> Tensor:
        """Wrap a numpy array (or nested list) of a dtype that numpy knows."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        return cls(array.dtype.name, array.shape, array.tobytes())

    @property
    def array(self) -> NDArray[Any]:
        """The values as numpy; bfloat16 is widened to float32, which is exact."""
        raw: NDArray[Any] = np.frombuffer(self.data, dtype=_DTYPES[self.dtype][1])
        raw = raw.reshape(self.shape)
        if self.dtype == "bfloat16":
            wide: NDArray[Any] = (raw.astype(np.uint32) << 16).view(np.float32)
            return wide.reshape(self.shape)
        return raw


def pack(tree: dict[str, Any], tensors: dict[str, Tensor]) -> bytes:
    """Serialise a message."""
    header: dict[str, Any] = {"__metadata__": {"m": json.dumps(tree)}}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + len(tensor.data)
        code = _DTYPES[tensor.dtype][0]
        header[name] = {"dtype": code, "shape": tensor.shape, "data_offsets": (begin, end)}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return b"".join((LENGTH.pack(len(head)), head, *(t.data for t in tensors.values())))


def unpack(
    blob: bytes | bytearray, most: int = MAX_HEADER
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a message that may be hostile; its tensors share the memory of ``blob``.

    Args:
        blob: the message.
        most: bytes that its header may have.

    Raises:
        WireError: it is no safetensors blob, or a header lies about sizes.
    """
    try:
        (length,) = LENGTH.unpack_from(blob)
        if length > len(blob) - 8:
            raise WireError("the header is longer than the message")
        if length > most:
            raise WireError(f"a header of {length} bytes; at most {most} are read")
        header = json.loads(blob[8 : 8 + length])
        text = header.pop("__metadata__")["m"]
        tree = json.loads(text)
        if not isinstance(tree, dict) or len(header) > MAX_TENSORS:
            raise WireError("the message is not a tree, or has too many tensors")
        # No tree is deeper than it has brackets, and most have few.
        if text.count("[") + text.count("{") > MAX_LEVELS and not _is_shallow(tree):
            raise WireError(f"a tree of more than {MAX_LEVELS} levels")
        tensors = {}
        body = memoryview(blob)[8 + length :]
        claimed = 0
        for name, entry in header.items():
            dtype, shape = _BY_CODE[entry["dtype"]], tuple(entry["shape"])
            begin, end = entry["data_offsets"]
            if len(shape) > MAX_SIDES:
                raise WireError(f"a tensor of {len(shape)} dimensions")
            if not all(type(n) is int and 0 <= n < 1 << 31 for n in (*shape, begin, end)):
                raise WireError("a shape or offset is no number of a tensor")
            size = math.prod(shape) * _DTYPES[dtype][1].itemsize
            if math.prod(side or 1 for side in shape) > MAX_PRODUCT:
                raise WireError("a shape that no memory could hold")
            if end - begin != size or end > len(body):
                raise WireError("a tensor's size does not fit its shape")
            claimed += size
            if claimed > len(body):
                raise WireError("tensors share bytes")  # a small message must stay small
            tensors[str(name)] = Tensor(dtype, shape, body[begin:end])
        return tree, tensors
    except WireError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise WireError(f"not a message: {type(error).__name__}") from None


def unpack_trusted(blob: bytes | bytearray) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a message of the judge: a worker has no reason to doubt it, and no time to."""
    (length,) = LENGTH.unpack_from(blob)
    header = json.loads(blob[8 : 8 + length])
    tree = json.loads(header.pop("__metadata__")["m"])
    body = memoryview(blob)[8 + length :]
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = Tensor(_BY_CODE[entry["dtype"]], tuple(entry["shape"]), body[begin:end])
    return tree, tensors


def _is_shallow(tree: Any) -> bool:
    """Say whether whoever walks a tree comes to its end, however deep in calls they are already."""
    level = [tree]
    for _ in range(MAX_LEVELS):
        held = (node.values() if isinstance(node, dict) else node for node in level)
        level = [item for items in held for item in items if isinstance(item, (dict, list))]
        if not level:
            return True
    return False
