"""Mutation operators for tensor code, beside those of mutmut.

An operator gets a node and its :class:`Scope` and yields nodes to put in its place. mutmut
changes what any program has (numbers, signs, arguments, assignments); what is confused in a
model is more often which tensor, which method, or which operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

from tests.mutation.scope import Scope

Operator = Callable[[cst.CSTNode, Scope], Iterable[cst.CSTNode]]

BINARY = (
    cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power,
    cst.MatrixMultiply,
)  # fmt: skip
# Methods, functions and constants of torch that are taken for one another.
ALIKE = (
    ("cos", "sin", "tan"),
    ("triu", "tril"),
    ("ones", "zeros"),
    ("min", "max", "tiny", "eps"),
    ("float32", "float64", "float16", "bfloat16"),
    ("float", "double", "half", "bfloat16"),
    ("view", "reshape"),
    ("silu", "gelu", "relu", "sigmoid", "tanh", "softplus", "mish", "elu"),
    ("softmax", "log_softmax", "softmin"),
    ("cat", "stack"),
    ("itemsize", "is_complex"),
    ("repeat_interleave", "tile", "repeat"),
    ("arange", "ones", "zeros"),
)


def other_operator(node: cst.CSTNode, scope: Scope) -> Iterator[cst.CSTNode]:
    """``a + b`` becomes ``a - b``, ``a * b``, ``a @ b``, …"""
    if isinstance(node, cst.BinaryOperation):
        for kind in BINARY:
            if not isinstance(node.operator, kind):
                yield node.with_changes(operator=kind())


def one_operand(node: cst.CSTNode, scope: Scope) -> Iterator[cst.CSTNode]:
    """``a - b`` becomes ``a``, ``b``, ``b - a``; ``-a`` becomes ``a``."""
    if isinstance(node, cst.BinaryOperation):
        yield node.left
        yield node.right
        if not isinstance(node.operator, cst.Add | cst.Multiply):  # those commute
            left, right = _enclosed(node.left), _enclosed(node.right)
            yield node.with_changes(left=right, right=left)
    elif isinstance(node, cst.UnaryOperation):
        yield node.expression
    elif isinstance(node, cst.IfExp):
        yield from (node.body, node.orelse)


def other_number(node: cst.CSTNode, scope: Scope) -> Iterator[cst.CSTNode]:
    """``2`` becomes ``1``, ``-2``, ``4``."""
    if isinstance(node, cst.Integer | cst.Float):
        number = node.evaluated_value
        for value in (number - 1, -number, 2 * number):
            yield cst.parse_expression(repr(value))


def unwrapped(node: cst.CSTNode, scope: Scope) -> Iterator[cst.CSTNode]:
    """``x.method(…)`` becomes ``x``; ``function(a, b)`` becomes ``a``, ``b``; ``x[i]``, ``x``."""
    if isinstance(node, cst.Subscript):
        yield node.value
    if not isinstance(node, cst.Call):
        return
    method = node.func if isinstance(node.func, cst.Attribute) else None
    if method is not None and not _names_a_module(method.value, scope):
        yield method.value
    else:
        yield from (arg.value for arg in node.args if arg.star == "")


def swapped(node: cst.CSTNode, scope: Scope) -> Iterator[cst.CSTNode]:
    """``f(a, b)`` becomes ``f(b, a)``; ``(a, b)`` becomes ``(b, a)``."""
    if isinstance(node, cst.Call):
        values: Sequence[cst.Arg | cst.BaseElement] = node.args
        field = "args"
    elif isinstance(node, cst.Tuple | cst.List):
        values, field = node.elements, "elements"
    else:
        return
    for i in range(len(values) - 1):
        first, second = values[i], values[i + 1]
        if getattr(first, "keyword", None) or getattr(second, "keyword", None):
            continue
        changed = list(values)
        changed[i : i + 2] = (
            first.with_changes(value=second.value),
            second.with_changes(value=first.value),
        )
        yield node.with_changes(**{field: changed})


def other_name(node: cst.CSTNode, scope: Scope) -> Iterator[cst.CSTNode]:
    """A local name becomes any other one of the function."""
    if isinstance(node, cst.Name) and node.value in scope.names:
        yield from (node.with_changes(value=n) for n in scope.names if n != node.value)


def other_attribute(node: cst.CSTNode, scope: Scope) -> Iterator[cst.CSTNode]:
    """``config.a`` becomes ``config.b``; ``x.cos`` becomes ``x.sin``."""
    if not isinstance(node, cst.Attribute):
        return
    name = node.attr.value
    others = {other for group in ALIKE if name in group for other in group}
    if isinstance(node.value, cst.Name) and node.value.value in ("self", "config"):
        others |= set(scope.attributes[node.value.value])
    for other in sorted(others - {name}):
        yield node.with_changes(attr=cst.Name(other))


def nearly(node: cst.CSTNode, scope: Scope) -> Iterator[cst.CSTNode]:
    """``x`` becomes ``x * 1.001``, ``x.clamp(-4, 4)``, ``x`` rounded to bfloat16.

    Of what is not a tensor this makes a crash; of what is, an answer that is almost right.
    """
    if isinstance(node, cst.Name) and node.value in scope.names and node.value != "self":
        x = node.value
        yield cst.parse_expression(f"{x} * 1.001")
        yield cst.parse_expression(f"{x}.clamp(-4, 4)")
        yield cst.parse_expression(f"{x}.bfloat16().to({x}.dtype)")


def removed(node: cst.CSTNode, scope: Scope) -> Iterator[cst.CSTNode]:
    """A statement becomes ``pass``; the condition of an ``if`` becomes True, False."""
    if isinstance(node, cst.SimpleStatementLine) and not isinstance(node.body[0], cst.Pass):
        yield node.with_changes(body=[cst.Pass()])
    if isinstance(node, cst.If):
        for value in ("True", "False"):
            yield node.with_changes(test=cst.Name(value), whitespace_before_test=_SPACE)
    if isinstance(node, cst.Dict) and len(node.elements) > 1:
        for i in range(len(node.elements)):
            yield node.with_changes(elements=[*node.elements[:i], *node.elements[i + 1 :]])


_SPACE = cst.SimpleWhitespace(" ")


_LOOSE = (
    cst.BinaryOperation | cst.UnaryOperation | cst.BooleanOperation | cst.Comparison | cst.IfExp
)


def _enclosed(node: cst.CSTNode) -> cst.CSTNode:
    """In parentheses where it would otherwise fall apart in its new place."""
    if not isinstance(node, _LOOSE) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _names_a_module(node: cst.BaseExpression, scope: Scope) -> bool:
    return isinstance(node, cst.Name) and node.value not in scope.names


def changes(node: cst.CSTNode, scope: Scope) -> Iterator[tuple[str, cst.CSTNode]]:
    """Every operator's name with every node that it would put in the place of ``node``."""
    for kind, operator in mutation_operators:
        if isinstance(node, kind):
            yield from ((f"mutmut {operator.__name__}", _enclosed(n)) for n in operator(node))
    for own in OWN:
        yield from ((own.__name__, _enclosed(new)) for new in own(node, scope))


OWN: tuple[Operator, ...] = (
    other_operator, one_operand, other_number, unwrapped, swapped, other_name, other_attribute,
    nearly, removed,
)  # fmt: skip
