"""Which parts of a right reply a check looks at, so that a pass on a changed one can be judged.

Every leaf of every right reply is spoiled in five ways, one at a time. A way that costs the pass
tells what the check looks at, and then no change of that sort may pass later on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from autograder.course.records import CheckResult, Outcome
from autograder.judge.runner import Runner
from autograder.sandbox.student import Other, decode
from autograder.sandbox.transport import Sources, WorkerTransport
from autograder.wire.messages import Tensor, pack, unpack
from tests.fuzz.changes import copied
from tests.fuzz.right_replies import Replying, SingleCheck

Path = tuple[Any, ...]
MARKS = ("$tuple", "$list", "$dict")
WIDER = {"float32": "float64", "float16": "float32", "bfloat16": "float32"}


@dataclass(frozen=True)
class Leaf:
    """One value of a right reply, and the ways of spoiling it that cost the pass."""

    path: Path
    value: Any
    fatal: frozenset[str]


def graded(single: SingleCheck, reply: bytes, *, hidden: bool = False) -> CheckResult:
    """The check's result if the worker gives this reply to it."""
    transport = worker_of(single, reply)
    (result,) = Runner(single.plan(hidden=hidden), transport).run({}, set())
    return result


def worker_of(single: SingleCheck, reply: bytes) -> WorkerTransport:
    """What the judge has of a worker that gives this reply to the check."""
    worker = Replying((*single.replies[:-1], reply))
    return WorkerTransport(worker.start, Sources({}), single.lab.limits)


def _leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Path]]:
    """Paths of the leaves below a wire tree: as values, and as keys of the tree."""
    mark = next((m for m in MARKS if isinstance(tree, dict) and m in tree), None)
    if mark is None:
        yield path, ()
        return
    for number, item in enumerate(tree[mark]):
        key, keys = (number, (mark, number)) if mark != "$dict" else (item[0], (mark, number, 1))
        for inner, below in _leaves(tree[mark][number] if mark != "$dict" else item[1]):
            yield (*path, key, *inner), (*keys, *below)


def _put(tree: Any, keys: Path, value: Any) -> None:
    for key in keys[:-1]:
        tree = tree[key]
    tree[keys[-1]] = value


def _at(values: Any, path: Path) -> Any:
    try:
        for key in path:
            values = values[key]
    except (LookupError, TypeError):
        return Other("nothing")
    return values


def tensor(array: Any, dtype: str) -> Tensor:
    """An array as a tensor of a torch dtype."""
    array = np.asarray(array)
    if dtype != "bfloat16":
        return Tensor(dtype, array.shape, array.astype(dtype).tobytes())
    wide = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return Tensor(dtype, array.shape, (wide >> 16).astype("<u2").tobytes())


def drawn(like: Tensor, size: float = 1.0, dtype: str = "") -> Tensor:
    """Finite values that have nothing to do with those of ``like``, but for shape and size."""
    array = np.nan_to_num(like.array.astype(np.float64), posinf=1.0, neginf=1.0).clip(-1e50, 1e50)
    rms = math.sqrt(float((array**2).mean())) if array.size else 0.0
    values = np.random.default_rng(array.size).standard_normal(array.shape)
    return tensor(array + (2 * np.sign(values) + values) * (rms or 1.0) * size, dtype or like.dtype)


SPOILED: dict[str, Callable[[Tensor], Tensor]] = {
    "shape": lambda t: Tensor(t.dtype, (*t.shape, 1), t.data),
    "dtype": lambda t: tensor(t.array, WIDER.get(t.dtype, "float64")),
    "finite": lambda t: tensor(np.full(t.shape, np.nan), t.dtype),
    "values": drawn,
}


@cache
def leaves(single: SingleCheck) -> tuple[Leaf, ...]:
    """The leaves that a check looks at."""
    tree, arrays = unpack(single.replies[-1])
    found = []
    for number, value in enumerate(tree["values"]):
        for path, keys in _leaves(value):
            old = _at(decode(value, dict(arrays)), path)
            spoilt: dict[str, tuple[Any, dict[str, Tensor]]] = {"kind": ({"$other": "x"}, {})}
            if isinstance(old, Tensor):
                for name, spoil in SPOILED.items():
                    spoilt[name] = {"$t": "spoilt"}, {"spoilt": spoil(old)}
            elif isinstance(old, (int, float)):
                spoilt["values"] = not old if isinstance(old, bool) else old + 1, {}
            fatal = set()
            for name, (node, more) in spoilt.items():
                other = copied(tree)
                _put(other["values"], (number, *keys), node)
                result = graded(single, pack(other, named(other, {**arrays, **more})))
                if result.outcome is not Outcome.PASSED:
                    fatal.add(name)
            if fatal:
                found.append(Leaf((number, *path), old, frozenset(fatal)))
    return tuple(found)


def named(tree: Any, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that stand somewhere in a reply; one with others is not taken."""
    text = json.dumps(tree)
    return {name: array for name, array in arrays.items() if f'"{name}"' in text}


def unearned(single: SingleCheck, reply: bytes) -> str:
    """Why a pass on this reply was not earned; empty if it was."""
    tree, arrays = unpack(reply)
    if "error" in tree and "error" not in unpack(single.replies[-1])[0]:
        return "it says that student code raised"
    values = [_decoded(value, arrays) for value in tree["values"]]
    pairs = [(leaf, _at(values, leaf.path)) for leaf in leaves(single)]
    for leaf, new in pairs:
        if problem := _problem(leaf, new):
            return f"{problem} at {leaf.path}"
    moved = [leaf.path for leaf, new in pairs if "values" in leaf.fatal and _moved(leaf.value, new)]
    bent = [leaf.path for leaf, new in pairs if "shape" in leaf.fatal and _bent(leaf.value, new)]
    # Two values that are only compared with each other may move, or be bent, together.
    if len(bent) == 1:
        return f"another shape at {bent[0]}"
    return f"another value at {moved[0]}" if len(moved) == 1 else ""


def _decoded(value: Any, arrays: dict[str, Tensor]) -> Any:
    """A value as the check gets it; what constructing an object replies, nobody reads."""
    try:
        return decode(value, dict(arrays))
    except (TypeError, ValueError):
        return Other("no form of ours")


def _problem(leaf: Leaf, new: Any) -> str:
    old = leaf.value
    if not isinstance(old, Tensor):
        plain = isinstance(new, (int, float, str, bytes, Tensor)) or not (old or new)
        return "another kind" if "kind" in leaf.fatal and not plain else ""
    if not isinstance(new, Tensor):
        return "no tensor" if leaf.fatal else ""
    whole = "int" in new.dtype and "int" in old.dtype  # some checks take whole numbers of any size
    if "dtype" in leaf.fatal and new.dtype != old.dtype and not whole:
        return "another dtype"
    if "finite" in leaf.fatal and not np.isfinite(new.array).any():
        return "no finite numbers"
    return ""


def _bent(old: Any, new: Any) -> bool:
    return isinstance(old, Tensor) and isinstance(new, Tensor) and new.shape != old.shape


def _moved(old: Any, new: Any) -> bool:
    """Whether a value is another one: a tensor at every place, by half of its size.

    A constant has every symmetry that a check may look for, and passes that one rightly.
    """
    if isinstance(old, (str, bytes)) or isinstance(new, (str, bytes)):
        return bool(old != new)
    if isinstance(old, bool) and not isinstance(new, Tensor):
        return bool(new) is not old
    if not isinstance(old, Tensor):
        numbers = new.array.reshape(-1).tolist() if isinstance(new, Tensor) else [new]
        return bool(numbers != [old])
    if new.shape != old.shape or not old.array.size:
        return False
    before, after = old.array.astype(np.float64), new.array.astype(np.float64)
    if (after == after.flat[0]).all():
        return False
    with np.errstate(all="ignore"):
        size = math.sqrt(float((before**2).mean()))
        return bool((np.abs(after - before) > size / 2).all())
