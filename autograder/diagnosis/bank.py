"""The fingerprint bank of a lab: fingerprints by exercise, words and stages, and its file.

It holds projections of outputs and words, never code: it may be shipped to students.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autograder.course import suggestions
from autograder.course.plain import from_plain, to_plain
from autograder.course.records import Misconception
from autograder.diagnosis import items
from autograder.diagnosis.fingerprints import Fingerprints
from autograder.diagnosis.items import StagePlan
from autograder.wire.messages import MAX_REQUEST, Tensor, pack, unpack

VERSION = 2  # to be raised when a bank that was made before would tell something else


class BankError(ValueError):
    """A bank cannot be read; the text names the file and the mend."""


@dataclass(frozen=True)
class Bank:
    """Fingerprints by exercise, the words of every class, and the stages of some exercises.

    ``made_of`` hashes the sources.
    """

    exercises: Mapping[str, Fingerprints]
    classes: Mapping[str, Misconception]
    made_of: str = ""
    courses: Mapping[str, StagePlan] = field(default_factory=dict)


def dump(bank: Bank) -> bytes:
    """One compressed safetensors blob."""
    tensors: dict[str, Tensor] = {}
    exercises: dict[str, Any] = {}
    for name, prints in bank.exercises.items():
        words = sorted(set(prints.forms))
        exercises[name] = {
            "mistakes": [list(names) for names in prints.mistakes],
            "items": [keys[0] if len(keys) == 1 else list(keys) for keys in prints.items],
            "forms": words,
            "free": list(prints.free),
        }
        numbers = np.array([words.index(form) for form in prints.forms], np.int32)
        arrays = (prints.rows, prints.reference, prints.weights, prints.vectors, prints.norms)
        for part, array in zip(_PARTS, (*arrays, numbers), strict=True):
            tensors[f"{name}/{part}"] = Tensor.of(array)
    tree = {
        "made_of": bank.made_of,
        "exercises": exercises,
        "classes": to_plain(list(bank.classes.values())),
        "courses": {name: items.to_plain(course) for name, course in bank.courses.items()},
    }
    return zlib.compress(pack(tree, tensors), 9)


_PARTS = ("rows", "reference", "weights", "vectors", "norms", "forms")


def load(path: Path) -> Bank:
    """Read what :func:`dump` wrote.

    Raises:
        BankError: the file is absent or not ours (names the file and the mend).
    """
    try:
        tree, tensors = unpack(zlib.decompress(path.read_bytes()), MAX_REQUEST)
        return Bank(
            {name: _prints(name, raw, tensors) for name, raw in tree["exercises"].items()},
            {one.id: one for one in from_plain(list[Misconception], tree["classes"])},
            str(tree["made_of"]),
            {name: items.from_plain(raw) for name, raw in tree["courses"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError, zlib.error) as error:
        mend = f"run: {suggestions.command('build')}"
        raise BankError(f"{path}: not a bank of fingerprints ({error}); {mend}") from None


def _prints(name: str, raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Fingerprints:
    *arrays, forms = (tensors[f"{name}/{part}"].array for part in _PARTS)
    if arrays[0].shape != (len(raw["mistakes"]), len(raw["items"])):
        raise ValueError(f"exercise {name} has another shape")
    rows, reference, weights, vectors, norms = arrays
    return Fingerprints(
        tuple(tuple(names) for names in raw["mistakes"]),
        tuple((keys,) if isinstance(keys, str) else tuple(keys) for keys in raw["items"]),
        rows,
        reference,
        weights,
        vectors,
        norms,
        tuple(raw["forms"][number] for number in forms),
        tuple(map(int, raw.get("free", ()))),
    )
