"""Names in students' sources, resolved by scope: which of them come from elsewhere.

A name says nothing by itself: ``rms_norm`` may be a local variable, a method of the student's
own, or torch's. Scopes are Python's: module, class, function, comprehension; what a name is bound
to decides, and where several bindings are possible, the one from elsewhere. Files of a hand-in are
read together: what one imports from another is followed. No call goes as deep as the source does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from autograder.sandbox.stacks import MAX_PARSED

Path = tuple[str, ...]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOKUPS = frozenset(("attrgetter", "methodcaller", "__getattribute__", "__getattr__"))
_REGISTERING = frozenset(
    ("register_buffer", "register_parameter", "register_module", "add_module", "setattr")
)
UNKNOWN = "?"  # an attribute whose name is made, not written down
_FOLLOWED = 20  # bindings, one to the next
_POSSIBLE = 20  # things that one name may stand for
_OURS = "labs"  # what a lab gives


@lru_cache(maxsize=8)  # the files of one hand-in, which several readers ask for
def parsed(text: str) -> ast.Module | None:
    """The syntax of a source; None where it has none, or where it is not to be had here.

    How deep a source may be nested hangs on how deep the calls are from which it is parsed: what
    is too deep for a judge may well run in a worker.
    """
    if len(text) > MAX_PARSED:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(frozen=True)
class Use:
    """One place where a source names something that is not its own.

    ``path`` is dotted: from the outermost module on where the root is known to come from
    elsewhere (``foreign``); of an object that could be anything, its attributes alone; of a
    builtin, its name (``builtin``). ``runs`` is False for an import, an annotation and a type that
    is asked for, ``imports`` True for an import.
    """

    line: int
    path: Path
    foreign: bool = False
    builtin: bool = False
    runs: bool = True
    imports: bool = False


@dataclass
class _Scope:
    parent: _Scope | None
    kind: str = "function"
    # Paths from elsewhere; None where a name is the source's own.
    names: dict[str, list[Path | None]] = field(default_factory=dict)
    stars: list[Path] = field(default_factory=list)
    outer: dict[str, str] = field(default_factory=dict)  # names that are global or nonlocal

    def bind(self, name: str, path: Path | None = None) -> None:
        scope: _Scope = self
        if name in self.outer and self.parent is not None:
            scope = self.module if self.outer[name] == "global" else self.parent
        scope.names.setdefault(name, []).append(path)

    @property
    def module(self) -> _Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass
class _Chain:
    """``root.a.b.c`` as it stands in the source; ``root`` is "" where it is no name."""

    line: int
    root: str
    attributes: Path
    scope: _Scope
    runs: bool


class Source:
    """One file: its scopes, and what it names.

    Args:
        tree: its syntax.
        modules: names of the hand-in's modules.
    """

    def __init__(self, tree: ast.Module, modules: Iterable[str]) -> None:
        self._modules = frozenset(modules)
        self.top = _Scope(None, "module")
        self.chains: list[_Chain] = []
        self.imports: list[Use] = []
        self.attributes: dict[str, int] = {}  # of own classes and objects: first line by name
        self.strings: list[tuple[int, str]] = []
        self.looks_up = False  # attributes by names that are not written down
        self._classes: list[_Scope] = []
        self._read(tree)
        for scope in self._classes:
            for name in scope.names:
                self.attributes.setdefault(name, 0)

    def _read(self, tree: ast.Module) -> None:
        # A stack, not calls: a source may be nested as deep as its author likes.
        waiting: list[tuple[ast.AST, _Scope, bool]] = [(tree, self.top, True)]
        while waiting:
            node, scope, runs = waiting.pop()
            # Bindings come before what is done with them: an alias is resolved only at the end.
            waiting += reversed(list(self._parts(node, scope, runs)))

    def _parts(
        self, node: ast.AST, scope: _Scope, runs: bool
    ) -> Iterator[tuple[ast.AST, _Scope, bool]]:
        """Take in one node; yields what is in it, and in which scope."""
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            yield from self._function(node, scope, runs)
        elif isinstance(node, ast.ClassDef):
            scope.bind(node.name)
            inner = _Scope(scope, "class")
            self._classes.append(inner)
            outside = (*node.bases, *node.keywords, *node.decorator_list)
            yield from ((part, scope, runs) for part in outside)
            yield from ((part, inner, runs) for part in node.body)
        elif isinstance(node, _COMPREHENSIONS):
            inner = _Scope(scope, "comprehension")
            yield from ((part, inner, runs) for part in ast.iter_child_nodes(node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, scope)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            kind = type(node).__name__.lower()
            scope.outer.update(dict.fromkeys(node.names, kind))
        elif isinstance(node, (ast.Attribute, ast.Name, ast.Call, ast.Subscript)):
            yield from self._expression(node, scope, runs)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node.value.isidentifier():
                self.strings.append((node.lineno, node.value))
        elif isinstance(node, ast.If) and _is_main(node.test) and "__name__" not in self.top.names:
            # Nothing of it runs in a module that is imported.
            yield from ((part, scope, runs) for part in node.orelse)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        else:
            yield from self._others(node, scope, runs)

    def _others(
        self, node: ast.AST, scope: _Scope, runs: bool
    ) -> Iterator[tuple[ast.AST, _Scope, bool]]:
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if isinstance(name, str):  # of an exception, a pattern, a type parameter
            scope.bind(name)
        if isinstance(node, ast.keyword) and node.arg:
            self.attributes.setdefault(node.arg, node.lineno)
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
        for name_of, value in ast.iter_fields(node):
            passive = name_of == "annotation"
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield part, scope, runs and not passive

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: _Scope, runs: bool
    ) -> Iterator[tuple[ast.AST, _Scope, bool]]:
        inner, args = _Scope(scope), node.args
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

    def _import(self, node: ast.Import | ast.ImportFrom, scope: _Scope) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                path = tuple(alias.name.split("."))
                bound = alias.asname or path[0]
                scope.bind(bound, path if alias.asname else path[:1])
            else:
                module = tuple(node.module.split(".")) if node.module else ()
                path = (*module, alias.name)
                if alias.name == "*":
                    scope.stars.append(module)
                    continue
                if node.level and not module:
                    path = (alias.name,)  # a file beside this one
                scope.bind(alias.asname or alias.name, path)
            if not self.is_own(path):
                found = Use(node.lineno, path, foreign=True, runs=False, imports=True)
                self.imports.append(found)

    def _expression(
        self, node: ast.Attribute | ast.Name | ast.Call | ast.Subscript, scope: _Scope, runs: bool
    ) -> Iterator[tuple[ast.AST, _Scope, bool]]:
        chain, rest = self._chain(node, scope, runs)
        if chain is not None:
            stored = isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
            if stored and isinstance(node, ast.Name):
                scope.bind(node.id)
            else:
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
                self.chains.append(_Chain(line, "", tuple(word.split(".")), scope, runs))
            self.looks_up |= len(words) < 1
        elif called in _REGISTERING:
            for line, word in words:
                self.attributes.setdefault(word, line)
        asked = called in ("isinstance", "issubclass")
        for place, part in enumerate(ast.iter_child_nodes(node)):
            yield part, scope, not (asked and place == 2)  # the function is the first

    def _chain(
        self, node: ast.AST, scope: _Scope, runs: bool
    ) -> tuple[_Chain | None, list[ast.AST]]:
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
        root = node.id if isinstance(node, ast.Name) else ""
        if not root:
            rest.append(node)
        if not root and not names:
            return None, rest
        return _Chain(line, root, tuple(reversed(names)), scope, runs), rest

    def is_own(self, path: Path) -> bool:
        """Return whether a module is the hand-in's, or given by the lab."""
        return bool(path) and (path[0] in self._modules or path[0] == _OURS)


def _is_main(test: ast.expr) -> bool:
    """Return whether this is ``__name__ == "__main__"``."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return False
    sides = [test.left, *test.comparators]
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    texts = [side.value for side in sides if isinstance(side, ast.Constant)]
    return isinstance(test.ops[0], ast.Eq) and (names, texts) == (["__name__"], ["__main__"])


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


class Names:
    """Names in the files of one hand-in that are not their own.

    Args:
        trees: the syntax of each file that can be read, by the module's name.
        modules: names of all modules of the hand-in.
    """

    def __init__(self, trees: Mapping[str, ast.Module], modules: Iterable[str]) -> None:
        self._modules = frozenset(modules)
        self.sources = {name: Source(tree, self._modules) for name, tree in trees.items()}
        self._known: dict[tuple[int, str], set[Path | None] | None] = {}
        self.attributes = {a for source in self.sources.values() for a in source.attributes}
        self._defined = {n for s in self.sources.values() for n in s.top.names} | self.attributes

    def uses(self, module: str) -> Iterator[Use]:
        """Everything that one file names and that may come from elsewhere, as it stands there."""
        source = self.sources[module]
        yield from source.imports
        for chain in source.chains:
            if not chain.root:
                yield from self._of_anything(chain, chain.attributes)
                continue
            paths = self._resolve(source, chain.scope, chain.root, _FOLLOWED)
            if paths is None:
                whole = (chain.root, *chain.attributes)
                yield Use(chain.line, whole, builtin=True, runs=chain.runs)
                continue
            for path in sorted({self._through(p, chain.attributes, _FOLLOWED) for p in paths}):
                if path[0]:
                    yield Use(chain.line, path, foreign=True, runs=chain.runs)
                else:
                    yield from self._of_anything(chain, path[1:])
        if source.looks_up:
            own = self._defined
            yield from (Use(line, (text,)) for line, text in source.strings if text not in own)

    def _of_anything(self, chain: _Chain, attributes: Path) -> Iterator[Use]:
        """Uses of an object's attributes, but for those that are of the student's own making."""
        for name in attributes:
            if name not in self.attributes:
                yield Use(chain.line, (name,), runs=chain.runs)

    def _resolve(
        self, source: Source, scope: _Scope, name: str, left: int
    ) -> set[Path | None] | None:
        """Paths that a name may stand for, None among them if it is own; None for a builtin."""
        key = id(scope), name
        if key not in self._known:
            self._known[key] = {None}  # what stands for itself is nobody else's
            found = self._look(source, scope, name, left)
            self._known[key] = found and set(sorted(found, key=lambda p: p or ())[-_POSSIBLE:])
        return self._known[key]

    def _look(self, source: Source, scope: _Scope, name: str, left: int) -> set[Path | None] | None:
        here: _Scope | None = scope
        if name in scope.outer:
            here = source.top if scope.outer[name] == "global" else scope.parent
        first, stars = here, list[Path]()
        while here is not None:
            stars += here.stars
            if name in here.names and (here is first or here.kind != "class"):
                return {
                    one
                    for path in here.names[name]
                    for one in (
                        self._alias(source, here, path[1:], left)
                        if path is not None and path[0] == "="
                        else {path}
                    )
                }
            here = here.parent
        own = [module for module in stars if not module or source.is_own(module)]
        for module in own:
            defined = self.sources.get(module[0]) if module else None
            if defined is not None and name in defined.top.names:
                return {(*module, name)}
        foreign = {(*module, name) for module in stars if module not in own}
        return set(foreign) or ({None} if own else None)

    def _alias(self, source: Source, scope: _Scope, path: Path, left: int) -> set[Path | None]:
        """Return what another name stands for, followed."""
        found = self._resolve(source, scope, path[0], left - 1) if left > 0 else None
        return {one and (*one, *path[1:]) for one in found or {None}}

    def _through(self, path: Path | None, attributes: Path, left: int) -> Path:
        """A whole path from elsewhere, also through files of the hand-in.

        What hangs on a thing of the student's own begins with "": it could be anything.
        """
        if path is None:
            return ("", *attributes)
        whole = (*path, *attributes)
        while whole[0] in self._modules:
            source, left = self.sources.get(whole[0]), left - 1
            found = None
            if source is not None and len(whole) > 1 and left > 0:
                found = self._resolve(source, source.top, whole[1], left)
            further = sorted(one for one in found or () if one)
            if not further:
                return ("", *whole[2:])
            whole = (*further[0], *whole[2:])
        return ("",) if whole[0] == _OURS else whole
