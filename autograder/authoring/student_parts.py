"""The modules students get: all that their commands import, found in the syntax trees.

An edge is an import statement, also one inside a function, or a string that is the full name of
one of our modules (``python -m …``, a pytest plugin): processes are started by such names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
        tree = ast.parse(read(files[name]))
        for module in _imported(tree, name, files):
            if is_never(module):
                raise PartsError(f"{name} imports {module}, which students must not get")
            waiting += _with_packages(module)
        for module in _named(tree, files):
            if not is_never(module):
                waiting += _with_packages(module)
    return dict(sorted(found.items()))


def _of_labs(root: Path, files: dict[str, Path]) -> Iterator[str]:
    """Return what checks and given code import of ours."""
    for path in sorted(root.glob("labs/*/**/*.py")):
        for module in _imported(ast.parse(read(path)), path.name, files):
            yield from _with_packages(module)


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted([*(root / PACKAGE).rglob("*.py"), *(root / "solutions").rglob("*.py")]):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _imported(tree: ast.Module, name: str, files: dict[str, Path]) -> Iterator[str]:
    """Modules of ours that import statements of ``name`` load."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise PartsError(f"{name}: relative imports are not followed; write the full name")
            # `from package import x`: x may be a module or a name in the package.
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (module for module in (str(node.module), *whole) if module in files)


def _named(tree: ast.Module, files: dict[str, Path]) -> Iterator[str]:
    """Modules of ours whose full name stands as a string."""
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and value in files and value != PACKAGE:
            yield value


def _with_packages(module: str) -> list[str]:
    """The module and the packages that are imported with it."""
    pieces = module.split(".")
    return [".".join(pieces[:count]) for count in range(1, len(pieces) + 1)]
