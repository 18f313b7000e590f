"""The modules students get: all that their commands import, found in the syntax trees.

An edge is an import statement, also one inside a function, or a string that is the full name of
one of our modules (``python -m …``, a pytest plugin): processes are started by such names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autograder.authoring.place import read

PACKAGE = "autograder"
ROOTS = (f"{PACKAGE}.__main__", f"{PACKAGE}.cli.pytest_plugin")
# What may never be in a student's copy: answers, what makes them, and what instructors do. Code of
# students may name one of these in a string, and must then do without it; it may not import it.
NEVER = (
    "solutions",
    f"{PACKAGE}.authoring",
    f"{PACKAGE}.cli.instructor_commands",
    f"{PACKAGE}.reference.build",
    f"{PACKAGE}.reference.recipes",
)


class PartsError(ValueError):
    """A student's command imports what students must not get; names both modules."""


def is_never(module: str) -> bool:
    """Return whether a module is one that students must not get, or lies in such a package."""
    return any(module == one or module.startswith(f"{one}.") for one in NEVER)


def parts(root: Path) -> dict[str, Path]:
    """The modules of students by full name, with their files; ``root`` is the checkout.

    Raises:
        PartsError: one of them imports a module of :data:`NEVER`.
    """
    files = dict(_modules(root))
    found: dict[str, Path] = {}
    waiting = [*ROOTS, *_of_labs(root, files)]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = files[name]
        for module in _imported(name, files[name], files):
            if is_never(module):
                raise PartsError(f"{name} imports {module}, which students must not get")
            waiting += _with_packages(module)
        for module in _edges(read(files[name])).strings:
            if module in files and module != PACKAGE and not is_never(module):
                waiting += _with_packages(module)
    return dict(sorted(found.items()))


def _of_labs(root: Path, files: dict[str, Path]) -> Iterator[str]:
    """Return what checks and given code import of ours."""
    for path in sorted(root.glob("labs/*/**/*.py")):
        for module in _imported(path.name, path, files):
            yield from _with_packages(module)


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted([*(root / PACKAGE).rglob("*.py"), *(root / "solutions").rglob("*.py")]):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@dataclass(frozen=True)
class _Edges:
    """Names in the import statements of a module, and its strings."""

    imports: tuple[str, ...]
    strings: tuple[str, ...]
    relative: bool


@lru_cache(maxsize=1024)
def _edges(text: str) -> _Edges:
    """The edges of a module's text; most texts of a release are read for several of its parts."""
    imports, strings, relative = [], [], False
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            relative = relative or node.level > 0
            # `from package import x`: x may be a module or a name in the package.
            imports += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append(node.value)
    return _Edges(tuple(imports), tuple(strings), relative)


def _imported(name: str, path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    """Modules of ours, those of ``files``, that import statements of ``name`` load."""
    edges = _edges(read(path))
    if edges.relative:
        raise PartsError(f"{name}: relative imports are not followed; write the full name")
    return (module for module in edges.imports if module in files)


def _with_packages(module: str) -> list[str]:
    """The module and the packages that are imported with it."""
    pieces = module.split(".")
    return [".".join(pieces[:count]) for count in range(1, len(pieces) + 1)]
