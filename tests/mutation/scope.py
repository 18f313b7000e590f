"""What stands around a node: the names and attributes that could stand in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m


@dataclass(frozen=True)
class Scope:
    """The local names of a function with the line that binds them first (parameters: 0).

    ``attributes["config"]`` holds every ``x`` of ``config.x`` anywhere in the file,
    ``attributes["self"]`` every ``x`` of ``self.x`` in the class around.
    """

    names: Mapping[str, int]
    attributes: Mapping[str, tuple[str, ...]]

    def before(self, line: int) -> Scope:
        """The scope as it is at the start of ``line``: with what is bound by then."""
        return replace(self, names={n: bound for n, bound in self.names.items() if bound < line})


def scope_of(
    module: cst.Module,
    around: cst.Module | cst.ClassDef,
    function: cst.FunctionDef,
    line_of: Callable[[cst.CSTNode], int],
) -> Scope:
    """The scope of a function in ``around``; ``line_of`` gives the line of a node."""
    names = {p.name.value: 0 for p in function.params.params}
    for target in m.findall(function, m.AssignTarget()):
        assert isinstance(target, cst.AssignTarget)
        bound = target.target
        elements = [e.value for e in bound.elements] if isinstance(bound, cst.Tuple) else [bound]
        for name in elements:
            if isinstance(name, cst.Name) and name.value != "_":
                names.setdefault(name.value, line_of(name))
    read: dict[str, set[str]] = {}
    own = m.findall(around, m.Attribute(value=m.Name("self")))
    others = m.findall(module, m.Attribute(value=m.Name(m.DoesNotMatch("self"))))
    for node in (*own, *others):
        assert isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name)
        read.setdefault(node.value.value, set()).add(node.attr.value)
    return Scope(names, {root: tuple(sorted(attributes)) for root, attributes in read.items()})
