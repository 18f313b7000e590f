"""Messages of a hostile worker, read by the judge's decoder."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder.wire.frames import MAX_MESSAGE, WireError, frame_length
from autograder.wire.messages import KEPT, MAX_TENSORS, Tensor, pack, unpack
from tests.fuzz.changes import change_bytes, change_tree, noise, odd
from tests.fuzz.profile import Draw

DTYPES = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
)  # fmt: skip
CODES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL", "F8_E4M3", "f32", "")
SHAPES = ((), (0,), (1,), (3,), (2, 3), (3, 0, 2), (1, 2, 1, 5), (1,) * 32)
HUGE = (
    (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40, 1 << 62, 1 << 63, (1 << 64) - 1, MAX_MESSAGE, -1, 0,
)  # fmt: skip
PER_BYTE = 100  # what parsed JSON takes, at most, per byte of its text
SPARE = 1 << 20  # bytes of memory that a message of any size may take: no lie fits in


@dataclass
class Message:
    """A message in its parts, each of which may be made to lie."""

    header: Any
    body: bytes
    tail: bytes = b""
    length: int | None = None  # None: the truth
    text: bytes | None = None  # the header's JSON, if it is not to be made from `header`

    def blob(self) -> bytes:
        """The parts put together."""
        text = json.dumps(self.header).encode() if self.text is None else self.text
        length = len(text) if self.length is None else self.length
        return struct.pack("<Q", length) + text + self.body + self.tail


def _bases() -> list[bytes]:
    """Valid messages: every dtype, every shape, kept tensors, trees as both sides send them."""
    trees = (
        {"values": [{"$t": "t0"}, None, 1.5, "text 旋转", {"$tuple": [{"$t": "t1"}, 2]}]},
        {"values": [{"$dict": [["a", {"$t": "t0"}], ["b", {"$other": "a set"}]]}, {"$list": []}]},
        {"values": [], "error": {"stage": "call", "text": "no", "frames": [["a.py", 1, "f", "x"]]}},
        {"steps": [{"op": "call", "args": [{"$t": KEPT + "t1"}], "kwargs": {}}], "fresh": True},
    )
    found = []
    for number in range(40):
        tensors = {}
        for place in range(number % 4):
            dtype = DTYPES[(number + 3 * place) % len(DTYPES)]
            shape = SHAPES[(number + place) % len(SHAPES)]
            raw = np.dtype("u2" if dtype == "bfloat16" else dtype)
            array = np.arange(int(np.prod(shape)), dtype=np.float64).astype(raw)
            name = KEPT * (place == 2) + f"t{place}"
            tensors[name] = Tensor(dtype, shape, array.tobytes())
        found.append(pack(trees[number % len(trees)], tensors))
    return found


BASES = _bases()


def parsed(blob: bytes) -> Message:
    """The parts of a valid message."""
    (length,) = struct.unpack_from("<Q", blob)
    return Message(json.loads(blob[8 : 8 + length]), blob[8 + length :])


def _entry(message: Message, dice: random.Random) -> dict[str, Any]:
    """The header of one tensor, or of a new one that owns no bytes."""
    entries = [e for n, e in message.header.items() if n != "__metadata__" and isinstance(e, dict)]
    if entries and dice.randrange(6):
        return dice.choice(entries)  # type: ignore[no-any-return]
    end = len(message.body)
    made = {"dtype": dice.choice(CODES), "shape": [0], "data_offsets": [end, end]}
    message.header[dice.choice(("t0", "t9", KEPT + "x", "", "\ud800"))] = made
    return made


def _length(message: Message, dice: random.Random) -> None:
    true = len(json.dumps(message.header).encode())
    lies = (*(n % (1 << 64) for n in HUGE), true + 1, true - 1, true // 2, true + len(message.body))
    message.length = dice.choice(lies)


def _dtype(message: Message, dice: random.Random) -> None:
    _entry(message, dice)["dtype"] = dice.choice((*CODES, odd(dice)))


def _shape(message: Message, dice: random.Random) -> None:
    entry = _entry(message, dice)
    side = dice.choice((*HUGE, 1, 2, 3, 2.0, True, "2", None))
    old = entry.get("shape")
    shape: Any = list(old) if isinstance(old, list) else []
    action = dice.randrange(6)
    if action == 0 and shape:
        shape[dice.randrange(len(shape))] = side
    elif action == 1:
        shape = [*shape, *[dice.choice((1, 0, 2))] * dice.choice((1, 31, 32, 33, 500))]
    elif action == 2:
        shape = [side] * dice.randrange(5) + [0]
    elif action == 3:
        shape = shape[::-1] if dice.randrange(2) else shape[1:]
    elif action == 4:
        shape = odd(dice)
    else:
        shape.insert(0, side)
    entry["shape"] = shape


def _offsets(message: Message, dice: random.Random) -> None:
    entry = _entry(message, dice)
    old = entry.get("data_offsets")
    begin, end = old if isinstance(old, list) and len(old) == 2 else (0, 0)
    jump = dice.choice((*HUGE, 1, 2, 4, 8))
    forms: tuple[Any, ...] = (
        [begin, jump], [jump, end], [jump, jump], [end, begin], [begin], [begin, end, end],
        [0, len(message.body)], {"0": begin, "1": end}, "01", [float(jump), end], odd(dice),
    )  # fmt: skip
    entry["data_offsets"] = dice.choice(forms)


def _overlap(message: Message, dice: random.Random) -> None:
    """Many tensors claim the same bytes."""
    for number in range(dice.choice((*[1, 3, 50] * 12, MAX_TENSORS + 1))):
        size = len(message.body)
        message.header[f"o{number}"] = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}


def _tree(message: Message, dice: random.Random) -> None:
    """A field of the tree in the metadata."""
    try:
        tree = json.loads(message.header["__metadata__"]["m"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return _header(message, dice)
    change_tree(tree, dice)
    message.header["__metadata__"]["m"] = json.dumps(tree)
    return None


def _header(message: Message, dice: random.Random) -> None:
    change_tree(message.header, dice)


def _text(message: Message, dice: random.Random) -> None:
    """The header's JSON as text: a key twice, deep, in UTF-16, with a byte order mark, cut."""
    text = json.dumps(message.header)
    key = dice.choice(("__metadata__", "dtype", "shape", "data_offsets", "m"))
    forms = (
        text.replace(f'"{key}": ', f'"{key}": 7, "{key}": ', 1).encode(),
        text.replace(f'"{key}": ', f'"{key}": ' + "[" * 20_000, 1).encode(),
        text.replace(f'"{key}": ', f'"{key}": ' + "9" * 5000, 1).encode(),
        text.encode("utf-16"), text.encode("utf-32-be"), b"\xef\xbb\xbf" + text.encode(),
        text.replace("}", "," * 50 + "}").encode(), b" " * 5000 + text.encode(),
        change_bytes(text.encode(), dice),
    )  # fmt: skip
    message.text = dice.choice(forms)


def _body(message: Message, dice: random.Random) -> None:
    message.body = change_bytes(message.body, dice)


def _tail(message: Message, dice: random.Random) -> None:
    message.tail += noise(dice)


CHANGES: tuple[Callable[[Message, random.Random], None], ...] = (
    _length, _dtype, _shape, _offsets, _overlap, _tree, _header, _text, _body, _tail,
)  # fmt: skip


def changed(blob: bytes, dice: tuple[random.Random, ...]) -> bytes:
    """A valid message with one change per source of choices: of fields, or of raw bytes."""
    message = parsed(blob)
    late = []
    for one in dice:
        if one.randrange(6) == 0:
            late.append(one)
        elif isinstance(message.header, dict):
            one.choice(CHANGES)(message, one)
    blob = message.blob()
    for one in late:
        blob = change_bytes(blob, one)
    return blob


def run(draw: Draw) -> None:
    """Either a `WireError`, or tensors that own their bytes; and memory only for what came."""
    base = BASES[draw.base % len(BASES)]
    blob = {
        "valid": lambda: base,
        "noise": lambda: noise(random.Random(draw.base)),
        "changed": lambda: changed(base, draw.dice),
    }[draw.kind]()
    try:
        assert 0 < frame_length(blob[:8]) <= MAX_MESSAGE
    except WireError as error:
        assert len(str(error)) < 200
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        _read(blob, valid=draw.kind == "valid")
        taken = tracemalloc.get_traced_memory()[1] - before
    finally:
        if not tracing:
            tracemalloc.stop()
    assert taken < SPARE + PER_BYTE * len(blob), f"{taken} bytes for a message of {len(blob)}"


def _read(blob: bytes, *, valid: bool) -> None:
    try:
        tree, tensors = unpack(blob)
    except WireError as error:
        assert not valid and len(str(error)) < 200
        return
    assert isinstance(tree, dict)
    assert sum(len(tensor.data) for tensor in tensors.values()) <= len(blob)
    for tensor in tensors.values():
        array = tensor.array
        assert array.shape == tensor.shape
        assert array.nbytes == len(tensor.data) * (2 if tensor.dtype == "bfloat16" else 1)
    if valid:
        assert unpack(pack(tree, tensors))[0] == tree
