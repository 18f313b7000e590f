"""Messages: whole round trips, files that the safetensors package reads, lies that are refused."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load as safetensors_load

from autograder.wire import frames, messages
from autograder.wire.frames import WireError, frame, frame_length
from autograder.wire.messages import Tensor, pack, unpack
from autograder.worker.values import from_torch, to_torch

DTYPES = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
)  # fmt: skip
SHAPES = ((), (0,), (3, 0, 2), (1,), (2, 3), (2, 1, 5))


def numbers(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(7)) * 20
    return values.to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_tensor_comes_back_bit_by_bit(dtype: str, shape: tuple[int, ...]) -> None:
    sent = numbers(dtype, shape)
    tree, tensors = unpack(pack({"value": {"$t": "a"}}, {"a": from_torch(sent)}))
    assert tree == {"value": {"$t": "a"}}
    came = to_torch(tensors["a"])
    assert came.dtype is sent.dtype and came.shape == sent.shape
    assert torch.equal(came, sent)
    widened = tensors["a"].array
    assert widened.shape == shape
    expected = sent.float() if dtype == "bfloat16" else sent
    assert np.array_equal(widened, expected.numpy())


def test_views_and_gradients_are_sent_as_plain_values() -> None:
    base = torch.arange(24.0).reshape(4, 6).requires_grad_()
    for view in (base.t(), base[:, ::2], base[:1].expand(3, 6), torch.nn.Parameter(base[1:2])):
        assert torch.equal(to_torch(from_torch(view)), view)


@pytest.mark.parametrize("value", [1.5, [1, 2], np.float32(2), np.arange(6).reshape(2, 3).T])
def test_numpy_values_become_tensors_of_their_shape(value: Any) -> None:
    tensor = Tensor.of(value)
    assert tensor.shape == np.shape(value)
    assert np.array_equal(tensor.array, np.asarray(value))


def test_special_values_keep_their_bits() -> None:
    array = np.array([np.nan, np.inf, -np.inf, -0.0, np.finfo(np.float32).tiny], np.float32)
    _, tensors = unpack(pack({}, {"a": Tensor.of(array)}))
    assert tensors["a"].data == array.tobytes()


def test_trees_keep_their_form() -> None:
    tree = {"text": "旋转 ✓ \ud800", "list": [1, 2.5, None, True, {"deep": []}], "big": 1 << 61}
    assert unpack(pack(tree, {}))[0] == tree


def test_the_safetensors_package_reads_our_blobs(tmp_path: Path) -> None:
    sent = {dtype: numbers(dtype, (2, 3)) for dtype in DTYPES}
    sent |= {"empty": torch.empty(0, 4), "scalar": torch.tensor(2.5)}
    tree = {"about": "线性", "list": [1, None]}
    blob = pack(tree, {name: from_torch(tensor) for name, tensor in sent.items()})
    came = safetensors_load(blob)
    assert came.keys() == sent.keys()
    for name, tensor in sent.items():
        assert came[name].dtype is tensor.dtype and torch.equal(came[name], tensor)
    (tmp_path / "blob.safetensors").write_bytes(blob)
    with safe_open(tmp_path / "blob.safetensors", framework="pt") as opened:
        assert json.loads(opened.metadata()["m"]) == tree


# ---------------------------------------------------------------- hostile blobs


def blob(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    """A message with whatever header, which may lie about its length."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head) if length is None else length) + head + body


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8), **more: Any) -> bytes:
    """A message of one tensor of eight bytes, some of it changed."""
    tensor = {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}
    return blob({"__metadata__": {"m": "{}"}, "a": tensor}, bytes(8))


META = {"__metadata__": {"m": "{}"}}
DEEP = b'{"__metadata__":{"m":"{}"},"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
DEEP_TREE = blob({"__metadata__": {"m": '{"a":' + "[" * 200_000 + "]" * 200_000 + "}"}})
HOSTILE = {
    "nothing": b"",
    "seven bytes": bytes(7),
    "only a length": struct.pack("<Q", 100),
    "a header longer than the message": blob(META, length=1000),
    "a header of 2^63 bytes": blob(META, length=1 << 63),
    "a header of 2^64 - 1 bytes": blob(META, length=(1 << 64) - 1),
    "a header of no bytes": blob(b""),
    "no JSON": blob(b"{"),
    "no text": blob(b"\xff\xfe\x00"),
    "a list": blob([]),
    "a number": blob(7),
    "no metadata": blob({}),
    "metadata without a tree": blob({"__metadata__": {}}),
    "metadata that is a list": blob({"__metadata__": []}),
    "a tree that is no JSON": blob({"__metadata__": {"m": "{"}}),
    "a tree that is a list": blob({"__metadata__": {"m": "[]"}}),
    "a tree that is a number": blob({"__metadata__": {"m": 7}}),
    "deep JSON": blob(DEEP),
    "a deep tree": DEEP_TREE,
    "a number of 5000 digits": blob({"__metadata__": {"m": '{"a": ' + "9" * 5000 + "}"}}),
    "too many tensors": blob(META | {str(n): {} for n in range(messages.MAX_TENSORS + 1)}),
    "a tensor that is a number": blob(META | {"a": 1}),
    "a tensor that is null": blob(META | {"a": None}),
    "a tensor of 33 dimensions": entry(shape=(1,) * 32 + (2,)),
    "an unknown dtype": entry("F8_E4M3"),
    "a dtype in words": entry("float32"),
    "a dtype that is a list": entry(["F32"]),
    "another dtype's size": entry("F64"),
    "a shape too large": entry(shape=(3,)),
    "a shape too small": entry(shape=(1,)),
    "a shape of 2^62": entry(shape=(1 << 62,)),
    "a shape whose product is 2^64 + 2": entry(shape=(1 << 31, 1 << 31, 4)),
    # numpy counts the bytes of an empty tensor as if no side were zero.
    "an empty shape beyond any memory": entry(shape=(0, *[(1 << 31) - 1] * 3), offsets=(0, 0)),
    "a negative shape": entry(shape=(-2,)),
    "two negative sides": entry(shape=(-1, -2)),
    "a shape of fractions": entry(shape=(2.0,)),
    "a shape of truths": entry(shape=(True, 2)),
    "a shape that is a number": entry(shape=2),
    "a shape in words": entry(shape="22"),
    "a negative offset": entry(offsets=(-8, 0)),
    "offsets the wrong way": entry(offsets=(8, 0)),
    "offsets beyond the end": entry(offsets=(8, 16)),
    "offsets of 2^40": entry(offsets=(1 << 40, (1 << 40) + 8)),
    "one offset": entry(offsets=(0,)),
    "three offsets": entry(offsets=(0, 4, 8)),
    "offsets of fractions": entry(offsets=(0.0, 8.0)),
    "an empty tensor beyond the end": entry(shape=(0,), offsets=(9, 9)),
    "a tree of 66 levels": blob({"__metadata__": {"m": '{"a":' + "[" * 65 + "]" * 65 + "}"}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_message_is_refused(name: str) -> None:
    with pytest.raises(WireError) as error:
        unpack(HOSTILE[name])
    assert len(str(error.value)) < 200


def test_every_truncation_is_refused() -> None:
    whole = pack({"a": {"$t": "x"}}, {"x": Tensor.of(np.arange(5)), "y": Tensor.of([True])})
    for length in range(len(whole)):
        with pytest.raises(WireError):
            unpack(whole[:length])


def test_flipped_bytes_never_raise_anything_else() -> None:
    whole = pack({"values": [{"$t": "x"}]}, {"x": Tensor.of(np.arange(5, dtype=np.float32))})
    dice, refused = random.Random(5), 0
    for _ in range(4000):
        changed = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            changed[dice.randrange(len(whole))] = dice.randrange(256)
        try:
            _, tensors = unpack(bytes(changed))
            assert all(len(tensor.data) == tensor.array.nbytes for tensor in tensors.values())
        except WireError:
            refused += 1
    assert 1000 < refused < 4000


def allocated(action: Callable[[], object]) -> int:
    """Bytes that Python allocates at the peak of an action that is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [frames.MAX_MESSAGE + 1, 1 << 40, (1 << 64) - 1])
def test_the_length_of_a_frame_is_capped_before_anything_is_allocated(length: int) -> None:
    assert allocated(lambda: frame_length(struct.pack("<Q", length))) < 1 << 16


@pytest.mark.parametrize(
    "name", ["a header of 2^63 bytes", "a shape of 2^62", "offsets of 2^40", "a shape too large"]
)
def test_a_lying_header_allocates_nothing(name: str) -> None:
    assert allocated(lambda: unpack(HOSTILE[name])) < 1 << 16


def test_overlapping_tensors_cannot_multiply_a_message() -> None:
    """Every tensor of a blob may claim the same bytes: a small message must stay small."""
    body = bytes(1 << 20)
    tensor = {"dtype": "U8", "shape": [1 << 20], "data_offsets": [0, 1 << 20]}
    message = blob(META | {str(n): tensor for n in range(64)}, body)
    assert len(message) < 2 << 20
    assert allocated(lambda: unpack(message)) < 16 << 20


def test_a_header_is_capped_before_it_is_parsed() -> None:
    """Empty lists take twenty times their text once they are parsed."""
    header = b'{"a":[' + b"[]," * (messages.MAX_HEADER // 3) + b"[]]}"
    message = blob(header)
    assert len(message) < frames.MAX_MESSAGE
    assert allocated(lambda: unpack(message)) < 1 << 16


def test_a_request_may_say_more_than_a_reply() -> None:
    """Requests carry sources, and come from the judge; replies come from student code."""
    message = pack({"sources": "x" * (messages.MAX_HEADER + 1)}, {})
    with pytest.raises(WireError, match="a header of"):
        unpack(message)
    assert len(unpack(message, messages.MAX_REQUEST)[0]["sources"]) > messages.MAX_HEADER
    # Two files of the largest size that is taken, in characters that JSON writes longest.
    sources = dict.fromkeys(("a.py", "b.py"), "\x01" * (1 << 20))
    unpack(pack({"sources": sources}, {}), messages.MAX_REQUEST)


@pytest.mark.parametrize("size", [0, 1, 7, 9])
def test_a_length_that_is_cut_short_is_refused(size: int) -> None:
    with pytest.raises(WireError, match=f"a length of {size} bytes"):
        frame_length(bytes(size))


def test_the_largest_empty_tensors_are_arrays() -> None:
    """Numpy multiplies the sides that are not zero, too."""
    shape = (0, 1 << 20, 1 << 28)
    for dtype in DTYPES:
        _, tensors = unpack(pack({}, {"a": Tensor(dtype, shape, b"")}))
        assert tensors["a"].array.shape == shape


def test_a_tree_of_64_levels_is_read() -> None:
    tree: dict[str, Any] = {"a": []}
    for _ in range(62):
        tree = {"a": tree}
    assert unpack(pack(tree, {}))[0] == tree


def test_a_frame_is_a_length_and_the_message() -> None:
    message = pack({"a": 1}, {})
    framed = frame(message)
    assert frame_length(framed[:8]) == len(message) and framed[8:] == message
    assert frame_length(struct.pack("<Q", frames.MAX_MESSAGE)) == frames.MAX_MESSAGE
