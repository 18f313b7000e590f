"""Loads solutions, and counts the operators that they ask torch for."""

from __future__ import annotations

import builtins
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.authoring.styles import text_of
from autograder.course.labfile import SOLUTIONS as SOLUTIONS

STYLES = Path(__file__).parent


@dataclass(frozen=True)
class Student:
    """One solution: its modules, executed in namespaces of their own."""

    attention: Any
    mlp: Any
    engine: Any = None  # in the lab that has one


def load(folder: Path, *more: str) -> Student:
    """Execute ``attention.py``, ``mlp.py`` and ``more`` without touching ``sys.modules``."""
    names = "attention", "mlp", *more
    loaded: dict[str, ModuleType] = {}

    def find(name: str) -> ModuleType:
        if name not in loaded:
            module = loaded[name] = ModuleType(name)
            vars(module)["__builtins__"] = {**vars(builtins), "__import__": import_}
            vars(module)["__name__"] = __name__  # one that dataclasses find in sys.modules
            code = compile(text_of(folder, f"{name}.py"), str(folder / f"{name}.py"), "exec")
            exec(code, vars(module))
        return loaded[name]

    def import_(name: str, *args: Any, **kwargs: Any) -> ModuleType:
        if name in names:
            return find(name)
        return builtins.__import__(name, *args, **kwargs)

    return Student(*map(find, names))


class OperatorCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators that reach the dispatcher, composite ones by their parts."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        with self:
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        self.seen[str(func)] += 1
        return func(*args, **kwargs)


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def error(actual: Tensor, expected: Tensor) -> float:
    """Relative Frobenius error."""
    wide = expected.double()
    return float((actual.double() - wide).norm() / wide.norm())


def styles(lab: str) -> list[str]:
    """Names of the folders under ``tests/styles/<lab>``."""
    return sorted({path.parent.name for path in (STYLES / lab).glob("*/*.py")})
