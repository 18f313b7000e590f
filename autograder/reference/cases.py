"""Cases: inputs with their expected results, stored as data and never as seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autograder.course import suggestions
from autograder.course.records import Text
from autograder.wire.messages import Tensor, pack, unpack


class CasesError(ValueError):
    """A file of cases cannot be read; the text names it and the mend."""


@dataclass(frozen=True)
class Case:
    """One set of inputs and expectations for checks that ask for its ``recipe``.

    ``tensors`` holds inputs, expectations and, under ``w.``, weights; ``values`` scalars.
    ``about`` says in words what is particular about it.
    """

    name: str
    recipe: str
    hidden: bool
    about: Text
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor] = field(repr=False, default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.tensors[name] if name in self.tensors else self.values[name]

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights by parameter name."""
        return self.group("w.")

    def group(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with ``prefix``, without it."""
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }

    @property
    def words(self) -> dict[str, str]:
        """Return what the case is about, as a value of a message (one entry per language)."""
        return {"en": self.about.en, "zh": self.about.zh}


def dump(cases: Iterable[Case], torch_release: str = "") -> bytes:
    """One safetensors blob of all cases; equal tensors are stored once.

    ``torch_release`` says who drew the numbers: another release may draw others.
    """
    entries: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    names: dict[Tensor, str] = {}
    for case in cases:
        refs: dict[str, str] = {}
        for name, tensor in case.tensors.items():
            refs[name] = names.setdefault(tensor, f"t{len(names)}")
            tensors[refs[name]] = tensor
        about = [case.about.en, case.about.zh]
        entry = {"name": case.name, "recipe": case.recipe, "hidden": case.hidden, "about": about}
        entries.append(
            {**entry, "config": dict(case.config), "values": dict(case.values), "tensors": refs}
        )
    return pack({"torch": torch_release, "cases": entries}, tensors)


def load(path: Path) -> tuple[Case, ...]:
    """Read what :func:`dump` wrote.

    Raises:
        CasesError: the file is absent or not ours (names the file and the mend).
    """
    tree, tensors = _read(path)
    try:
        return tuple(
            Case(
                name=entry["name"],
                recipe=entry["recipe"],
                hidden=entry["hidden"],
                about=Text(*entry["about"]),
                config=entry["config"],
                tensors={name: tensors[ref] for name, ref in entry["tensors"].items()},
                values=entry["values"],
            )
            for entry in tree["cases"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _not_cases(path, error) from None


def release(path: Path) -> str:
    """The torch release that drew the cases of a file; empty if it does not say.

    Raises:
        CasesError: see :func:`load`.
    """
    return str(_read(path)[0].get("torch", ""))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        tree, tensors = unpack(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _not_cases(path, error) from None
    return tree, {name: replace(tensor, key=_key(tensor)) for name, tensor in tensors.items()}


def _key(tensor: Tensor) -> str:
    """Cases stay for the judge's whole life: workers need what is in their tensors only once."""
    content = hashlib.sha256(f"{tensor.dtype}{tensor.shape}".encode())
    content.update(tensor.data)
    return content.hexdigest()[:24]


def _not_cases(path: Path, error: Exception) -> CasesError:
    return CasesError(f"{path}: not a file of cases ({error}); run: {suggestions.command('build')}")
