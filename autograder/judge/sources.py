"""Sources of students read by scope: what each name in a file is bound to, and what it names.

Scopes are Python's: module, class, function, comprehension. No call goes as deep as a source does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

Path = tuple[str, ...]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Nodes that tell nothing: how a name is used, and which operator it is.
_EMPTY = frozenset(
    kind
    for base in (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
    for kind in base.__subclasses__()
)
_LOOKUPS = frozenset(("attrgetter", "methodcaller", "__getattribute__", "__getattr__"))
_REGISTERING = frozenset(
    ("register_buffer", "register_parameter", "register_module", "add_module", "setattr")
)
UNKNOWN = "?"  # an attribute whose name is made, not written down
LONGEST = 100  # names with dots between them: an honest source has no more
OURS = "labs"  # what a lab gives


class TooMuchError(ValueError):
    """A source names so much, or so deviously, that it is not followed to its end."""


@dataclass(frozen=True)
class Use:
    """One place where a source names something that is not its own.

    ``path`` is dotted: from the outermost module on where the root is known to come from
    elsewhere (``foreign``); of an object that could be anything, its attributes alone; of a
    builtin, its name (``builtin``). ``runs`` is False for an import, an annotation and a type that
    is asked for, ``imports`` True for an import, ``stored`` True for what is put in its place.
    ``idle`` is the name that an import binds, as long as nothing mentions that.
    """

    line: int
    path: Path
    foreign: bool = False
    builtin: bool = False
    runs: bool = True
    imports: bool = False
    stored: bool = False
    idle: str = ""


def beside(path: Path, modules: Collection[str]) -> Path:
    """A path from the hand-in's own file on, where it leads to one through the lab's folder."""
    through = path[0] == OURS and path[1:2] != ("given",) and path[2:3] and path[2] in modules
    return path[2:] if through else path


@dataclass
class Scope:
    """A scope: what its names are bound to."""

    parent: Scope | None
    kind: str = "function"
    # Paths from elsewhere; None where a name is the source's own.
    names: dict[str, dict[Path | None, None]] = field(default_factory=dict)
    stars: list[Path] = field(default_factory=list)
    outer: dict[str, str] = field(default_factory=dict)  # names that are global or nonlocal

    def bind(self, name: str, path: Path | None = None) -> None:
        scope: Scope = self
        if name in self.outer and self.parent is not None:
            scope = self.module if self.outer[name] == "global" else self.parent
        scope.names.setdefault(name, {})[path] = None

    @property
    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass
class Chain:
    """``root.a.b.c`` as it stands in the source; ``root`` is "" where it is no name."""

    line: int
    root: str
    attributes: Path
    scope: Scope
    runs: bool
    stored: bool = False


class Source:
    """One file: its scopes, and what it names.

    Args:
        tree: its syntax.
        modules: names of the hand-in's modules.
    """

    def __init__(self, tree: ast.Module, modules: Iterable[str]) -> None:
        self._modules = frozenset(modules)
        self.top = Scope(None, "module")
        self.chains: list[Chain] = []
        self.imports: list[Use] = []
        self.attributes: dict[str, int] = {}  # of own classes and objects: first line by name
        self.strings: list[tuple[int, str]] = []
        self.words: set[str] = set()  # of all texts, and of what comes from other own files
        self.looks_up = False  # attributes by names that are not written down
        self._classes: list[Scope] = []
        self._read(tree)
        for scope in self._classes:
            for name in scope.names:
                self.attributes.setdefault(name, 0)

    def _read(self, tree: ast.Module) -> None:
        # A stack, not calls: a source may be nested as deep as its author likes.
        waiting: list[tuple[ast.AST, Scope, bool]] = [(tree, self.top, True)]
        while waiting:
            node, scope, runs = waiting.pop()
            if type(node) is ast.Constant:
                if isinstance(node.value, str):
                    self.words.update(re.findall(r"\w+", node.value))
                    if node.value.isidentifier():
                        self.strings.append((node.lineno, node.value))
            elif type(node) not in _EMPTY:
                # Bindings come before what is done with them: aliases are resolved only at the end.
                waiting += reversed(list(self._parts(node, scope, runs)))

    def _parts(
        self, node: ast.AST, scope: Scope, runs: bool
    ) -> Iterator[tuple[ast.AST, Scope, bool]]:
        """Take in one node; yields what is in it, and in which scope."""
        if isinstance(node, (ast.Attribute, ast.Name, ast.Call, ast.Subscript)):
            yield from self._expression(node, scope, runs)
        elif isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            yield from self._function(node, scope, runs)
        elif isinstance(node, ast.ClassDef):
            scope.bind(node.name)
            inner = Scope(scope, "class")
            self._classes.append(inner)
            outside = (*node.bases, *node.keywords, *node.decorator_list)
            yield from ((part, scope, runs) for part in outside)
            yield from ((part, inner, runs) for part in node.body)
        elif isinstance(node, _COMPREHENSIONS):
            inner = Scope(scope, "comprehension")
            yield from ((part, inner, runs) for part in ast.iter_child_nodes(node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, scope)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            kind = type(node).__name__.lower()
            scope.outer.update(dict.fromkeys(node.names, kind))
        elif isinstance(node, ast.If) and scope is self.top and self._is_main(node.test):
            # Nothing of it runs in a module that is imported.
            yield from ((part, scope, runs) for part in node.orelse)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        else:
            yield from self._others(node, scope, runs)

    def _others(
        self, node: ast.AST, scope: Scope, runs: bool
    ) -> Iterator[tuple[ast.AST, Scope, bool]]:
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if isinstance(name, str):  # of an exception, a pattern, a type parameter
            scope.bind(name)
        if isinstance(node, ast.keyword) and node.arg:
            self.attributes.setdefault(node.arg, node.lineno)
        if isinstance(node, ast.MatchClass):
            taken = node.kwd_attrs
            self.chains += (Chain(node.lineno, "", (name,), scope, runs) for name in taken)
        if isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            chain = self._chain(node.value, scope, runs)[0]
            if chain is not None and chain.root:
                # Another name for it: followed when all bindings are known.
                for target in node.targets:
                    assert isinstance(target, ast.Name)
                    scope.bind(target.id, ("=", chain.root, *chain.attributes))
                yield node.value, scope, runs
                return
        if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
            outer = scope
            while outer.kind == "comprehension" and outer.parent is not None:
                outer = outer.parent
            outer.bind(node.target.id)
        for name_of in node._fields:
            value, active = getattr(node, name_of, None), runs and name_of != "annotation"
            if isinstance(value, list):
                yield from ((part, scope, active) for part in value if isinstance(part, ast.AST))
            elif isinstance(value, ast.AST):
                yield value, scope, active

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope, runs: bool
    ) -> Iterator[tuple[ast.AST, Scope, bool]]:
        inner, args = Scope(scope), node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        every += [arg for arg in (args.vararg, args.kwarg) if arg is not None]
        for arg in every:
            inner.bind(arg.arg)
            if arg.annotation is not None:
                yield arg.annotation, scope, False
        defaults = (*args.defaults, *(one for one in args.kw_defaults if one is not None))
        yield from ((part, scope, runs) for part in defaults)
        if isinstance(node, ast.Lambda):
            yield node.body, inner, runs
            return
        scope.bind(node.name)
        if scope.kind == "class":
            self.attributes.setdefault(node.name, node.lineno)
        yield from ((part, scope, runs) for part in node.decorator_list)
        if node.returns is not None:
            yield node.returns, scope, False
        yield from ((part, inner, runs) for part in getattr(node, "type_params", ()))
        yield from ((part, inner, runs) for part in node.body)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                path = beside(tuple(alias.name.split(".")), self._modules)
                bound = alias.asname or alias.name.split(".")[0]
                scope.bind(bound, path if alias.asname else (bound,))
            else:
                # From the lab's folder, whatever it is called, or from the one above.
                above = (OURS, ".") if node.level == 1 else (OURS,) if node.level else ()
                module = (*above, *(node.module.split(".") if node.module else ()))
                if alias.name == "*":
                    scope.stars.append(beside(module, self._modules))
                    continue
                path = beside((*module, alias.name), self._modules)
                bound = alias.asname or alias.name
                scope.bind(bound, path)
            if self.is_own(path):
                self.words.update(path)
                continue
            # A class hands its names on, and Python asks for some by itself.
            idle = "" if scope.kind == "class" or bound.startswith("__") else bound
            found = Use(node.lineno, path, foreign=True, runs=False, imports=True, idle=idle)
            self.imports.append(found)

    def _expression(
        self, node: ast.Attribute | ast.Name | ast.Call | ast.Subscript, scope: Scope, runs: bool
    ) -> Iterator[tuple[ast.AST, Scope, bool]]:
        chain, rest = self._chain(node, scope, runs)
        if chain is not None:
            stored = isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
            if stored and isinstance(node, ast.Name):
                scope.bind(node.id)
            else:
                chain.stored = stored
                self.chains.append(chain)
            if stored and isinstance(node, ast.Attribute):
                self.attributes.setdefault(node.attr, node.lineno)
            yield from ((part, scope, runs) for part in rest)
            return
        if not isinstance(node, ast.Call):
            yield from ((part, scope, runs) for part in ast.iter_child_nodes(node))
            return
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        texts = [arg for arg in node.args if isinstance(arg, ast.Constant)]
        words = [(arg.lineno, arg.value) for arg in texts if isinstance(arg.value, str)]
        if called in _LOOKUPS:
            for line, word in words:
                self.chains.append(Chain(line, "", tuple(word.split(".")), scope, runs))
            self.looks_up |= len(words) < 1
        elif called in _REGISTERING:
            for line, word in words:
                self.attributes.setdefault(word, line)
            owned = node.args[:1] if called == "setattr" else []
            for owner in filter(None, (self._chain(one, scope, runs)[0] for one in owned)):
                name = words[0][1] if words else UNKNOWN
                changed = replace(owner, attributes=(*owner.attributes, name), stored=True)
                self.chains.append(changed)
        asked = called in ("isinstance", "issubclass")
        for place, part in enumerate(ast.iter_child_nodes(node)):
            yield part, scope, not (asked and place == 2)  # the function is the first

    def _chain(self, node: ast.AST, scope: Scope, runs: bool) -> tuple[Chain | None, list[ast.AST]]:
        """The dotted name that an expression is, and the expressions in it; None if it is none."""
        line, names, rest = getattr(node, "lineno", 0), list[str](), list[ast.AST]()
        while True:
            if isinstance(node, ast.Attribute):
                names.append(node.attr)
                node = node.value
                continue
            found = _looked_up(node)
            if found is None:
                break
            names.append(found[1])
            if isinstance(node, ast.Call):
                rest += node.args[1:]
            self.looks_up |= found[1] == UNKNOWN and not _is_self(found[0])
            node = found[0]
        if len(names) > LONGEST:
            raise TooMuchError
        root = node.id if isinstance(node, ast.Name) else ""
        if not root:
            rest.append(node)
        if not root and not names:
            return None, rest
        return Chain(line, root, tuple(reversed(names)), scope, runs), rest

    def is_own(self, path: Path) -> bool:
        """Return whether a module is the hand-in's, or given by the lab."""
        return bool(path) and (path[0] in self._modules or path[0] == OURS)

    def _is_main(self, test: ast.expr) -> bool:
        """Return whether this is ``__name__ == "__main__"``, by the name that modules have."""
        if "__name__" in self.top.names or not isinstance(test, ast.Compare):
            return False
        sides = [test.left, *test.comparators]
        names = [side.id for side in sides if isinstance(side, ast.Name)]
        texts = [side.value for side in sides if isinstance(side, ast.Constant)]
        equal = [isinstance(op, ast.Eq) for op in test.ops] == [True]
        return equal and (names, texts) == (["__name__"], ["__main__"])


@lru_cache(maxsize=8)  # hand-ins of a class may have files in common
def read(tree: ast.Module, modules: frozenset[str]) -> Source:
    """The source of this syntax; nobody changes it.

    Raises:
        TooMuchError: see there.
    """
    return Source(tree, modules)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _looked_up(node: ast.AST) -> tuple[ast.expr, str] | None:
    """The object and the name in ``getattr(x, "a")``, ``vars(x)["a"]``, ``x.__dict__["a"]``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2:
        name = node.args[1]
        if node.func.id == "getattr":
            text = name.value if isinstance(name, ast.Constant) else UNKNOWN
            return (node.args[0], text) if isinstance(text, str) else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        text, table = node.slice.value, node.value
        if not isinstance(text, str):
            return None
        if isinstance(table, ast.Attribute) and table.attr == "__dict__":
            return table.value, text
        if isinstance(table, ast.Call) and isinstance(table.func, ast.Name) and table.args:
            return (table.args[0], text) if table.func.id == "vars" else None
    return None
