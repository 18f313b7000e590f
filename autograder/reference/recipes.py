"""Recipes of cases: they draw inputs from a seed and ask the oracle for results.

A lab's recipes stand in ``solutions/<lab>/cases/``: hidden cases come from the same code as
the public ones, with a seed that only the instructor has.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.cases import Case, CasesError
from autograder.worker.values import from_torch

PUBLIC_SEED = b"public"


class Draw:
    """Random inputs of one case; equal seeds draw equal values under one torch release."""

    def __init__(self, seed: bytes, *, hidden: bool) -> None:
        number = int.from_bytes(hashlib.sha256(seed).digest()[:8], "little") >> 1
        self._generator = torch.Generator().manual_seed(number)
        self.hidden = hidden

    def normal(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        """float32 N(0, scale^2) of ``shape``."""
        return torch.randn(shape, generator=self._generator) * scale

    def uniform(self, *shape: int, low: float, high: float) -> torch.Tensor:
        """float32 between ``low`` and ``high``."""
        return low + (high - low) * torch.rand(shape, generator=self._generator)

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return int(torch.randint(low, high + 1, (), generator=self._generator))

    def permutation(self, count: int) -> torch.Tensor:
        """The whole numbers below ``count`` in random order."""
        return torch.randperm(count, generator=self._generator)

    def pick(self, options: Sequence[Any]) -> Any:
        """The first option in public cases, any other one in hidden cases."""
        return options[self.integer(1, len(options) - 1)] if self.hidden else options[0]


@dataclass(frozen=True)
class Draft:
    """The result of a recipe: the parts of a :class:`Case`, tensors still torch's."""

    about: Text
    tensors: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """A named way to make cases, and how many of each kind."""

    name: str
    make: Callable[[Draw], Draft]
    public: int
    hidden: int


def recipe(*, public: int = 1, hidden: int = 1) -> Callable[[Callable[[Draw], Draft]], Recipe]:
    """Decorator: turn a function of a :class:`Draw` into a :class:`Recipe` of its name."""
    return lambda make: Recipe(make.__name__, make, public, hidden)


def draft(
    about: Text,
    tensors: Mapping[str, torch.Tensor] | None = None,
    config: Mapping[str, Any] | None = None,
    **values: Any,
) -> Draft:
    """Shorthand for a :class:`Draft`."""
    return Draft(about, tensors or {}, config or {}, values)


def package_of(solution: Path) -> Any:
    """The package ``solutions/<lab>/cases``: its ``PARTS`` hold recipes, or it holds them itself.

    Raises:
        CasesError: the folder is absent (a student bundle has none).
    """
    path = solution / "cases" / "__init__.py"
    # By path, so that a copy of a lab elsewhere can be built, beside the one in this tree.
    name = f"cases_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    folder = [str(path.parent)]
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folder)
    if not path.is_file() or spec is None or spec.loader is None:
        raise CasesError(f"{path}: not found; only instructors' copies can build cases")
    if importlib.util.find_spec("solutions") is None:  # of which recipes import their oracles
        sys.path.append(str(solution.resolve().parents[1]))
    package = importlib.util.module_from_spec(spec)
    for known in [known for known in sys.modules if known.partition(".")[0] == name]:
        del sys.modules[known]
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return package


def of_lab(solution: Path) -> tuple[Recipe, ...]:
    """The recipes of ``solutions/<lab>/cases``, in their order.

    Raises:
        CasesError: the folder is absent.
    """
    package = package_of(solution)
    parts = getattr(package, "PARTS", (package,))
    found = [(n, item) for part in parts for n, item in vars(part).items()]
    return tuple(replace(item, name=n) for n, item in found if isinstance(item, Recipe))


def build(recipes: Sequence[Recipe], secret: bytes | None) -> tuple[Case, ...]:
    """Make the public cases (``secret`` None) or the hidden ones."""
    hidden = secret is not None
    cases = []
    for item in recipes:
        for number in range(item.hidden if hidden else item.public):
            seed = b"|".join((secret or PUBLIC_SEED, item.name.encode(), b"%d" % number))
            name = f"{item.name}-{'hidden' if hidden else 'public'}-{number}"
            try:
                made = item.make(Draw(seed, hidden=hidden))
                cases.append(finish(made, name, item.name, hidden=hidden))
            except Exception as error:  # the author's: where it is says more than our own way there
                raise CasesError(
                    f"the recipe {item.name} fails{_place(error)}: {error!r}"
                ) from error
    return tuple(cases)


def _place(error: Exception) -> str:
    """Return the last line of a recipe's own that an error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/cases/" in Path(frame.filename).as_posix()]
    return f" in {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def finish(made: Draft, name: str, recipe_name: str, *, hidden: bool) -> Case:
    """A case of a draft: its tensors as bytes."""
    tensors = {key: from_torch(_narrow(tensor)) for key, tensor in made.tensors.items()}
    return Case(name, recipe_name, hidden, made.about, made.config, tensors, made.values)


def _narrow(tensor: torch.Tensor) -> torch.Tensor:
    """Expectations are computed in float64 and stored as float32, far below every limit."""
    return tensor.float() if tensor.dtype == torch.float64 else tensor
