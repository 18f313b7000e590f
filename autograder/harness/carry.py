"""Whether code could keep something from one call to the next, as its text tells.

Names what plain model code does not need: module-level containers, caches, assignments to
attributes of anything but ``self``, other modules than torch's, access to the interpreter. Where
nothing of it stands in a hand-in, running its checks in another order would show nothing new.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from autograder.harness.names import MAX_TEXT, parsed

_MODULES = frozenset(
    (
        *("__future__", "torch", "math", "typing", "typing_extensions", "collections", "labs"),
        *("dataclasses", "functools", "itertools", "operator", "enum", "abc", "numbers"),
    )
)
_NAMES = frozenset(
    (
        *("setattr", "delattr", "globals", "locals", "vars", "exec", "eval", "compile", "open"),
        *("breakpoint", "input", "cache", "lru_cache", "cached_property", "modules", "data_ptr"),
        *("manual_seed", "seed", "library", "overrides", "serialization", "hub", "compiler"),
    )
)
_HARMLESS_CALLS = ("register_buffer", "register_parameter", "register_module")
_DUNDERS = frozenset(("__init__", "__name__", "__all__", "__class__", "__call__", "__repr__"))
_SILENT = frozenset(("ctx", "op", "ops", "id", "attr", "name", "asname", "arg", "kind", "n", "s"))
_CONTAINERS = (ast.Dict, ast.List, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Call)


def may_carry_state(files: Mapping[str, str]) -> bool:
    """Whether any of ``files`` (text by name) could; False for text that does not parse.

    What is too long to be parsed here is not looked at but suspected.
    """
    own = {name.rsplit(".", 1)[0] for name in files}
    if any(len(text) > MAX_TEXT for text in files.values()):
        return True
    for text in files.values():
        tree = parsed(text)
        if tree is None:
            continue  # as a rule it never runs; see `marks.is_unread`
        nodes = _nodes(tree)
        if any(_keeps(node, own) for node in nodes) or any(_shared(tree, nodes)):
            return True
    return False


def _nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes that tell anything; ``ast.walk`` takes six times as long over each hand-in."""
    found = [tree]
    for node in found:  # grows meanwhile
        kind = type(node)
        if kind is ast.Name or kind is ast.Constant:
            continue
        for field in kind._fields:
            if field in _SILENT:
                continue
            value = getattr(node, field, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def _keeps(node: ast.AST, own: set[str]) -> bool:
    """Whether one node of the syntax tree is among what the module's docstring names."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return True
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] not in _MODULES | own for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] not in _MODULES | own
    if isinstance(node, ast.Attribute):
        stored = not isinstance(node.ctx, ast.Load)
        by_self = isinstance(node.value, ast.Name) and node.value.id == "self"
        return (stored and not by_self) or _risky(node.attr)
    if isinstance(node, ast.Name):
        return _risky(node.id)
    if isinstance(node, ast.arguments):
        return any(isinstance(default, _CONTAINERS) for default in node.defaults)
    return False


def _risky(name: str) -> bool:
    if name.startswith("__"):
        return name not in _DUNDERS
    return name in _NAMES or (
        name.startswith(("set_", "register_")) and name not in _HARMLESS_CALLS
    )


def _shared(tree: ast.Module, nodes: Iterable[ast.AST]) -> Iterator[bool]:
    """Whether statements of modules and classes make containers that their functions share."""
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    for body in (tree.body, *(node.body for node in classes)):
        for statement in body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                yield isinstance(statement.value, _CONTAINERS)
