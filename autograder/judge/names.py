"""Names in students' sources: which of them come from elsewhere.

A name says nothing by itself: ``rms_norm`` may be a local variable, a method of the student's
own, or torch's. What a name is bound to decides, and where several bindings are possible, the one
from elsewhere. Files of a hand-in are read together: what one imports from another is followed.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path as FilePath

from autograder.judge.sources import (
    LONGEST,
    OURS,
    UNKNOWN,
    Chain,
    Path,
    Scope,
    Source,
    TooMuchError,
    Use,
    beside,
    read,
)

# No honest source has more of these, and one that has is left to a person.
_FOLLOWED = 50  # bindings, one to the next
_POSSIBLE = 20  # things that one name may stand for
_DEPTH = 10  # names of modules of torch, one in the other
_MODULE = re.compile("[A-Za-z0-9_]{1,80}")
_STEPS = 500_000  # from scope to scope and from binding to binding, for one hand-in
# What holds functions of torch beside its modules.
_NAMESPACES = {
    *(("torch", "Tensor"), ("torch", "_tensor", "Tensor"), ("torch", "ops"), ("torch", "_VF")),
    *(("torch", "_C"), ("torch", "_C", "_nn"), ("torch", "_C", "_VariableFunctions")),
}
# By these, code reaches names that stand nowhere; and by what Python calls `__so__`, but for these.
_ROUNDABOUT = frozenset(
    (
        *("vars", "locals", "getattr", "attrgetter", "methodcaller", "getattr_static", UNKNOWN),
        *("import_module", "resolve_name", "locate", "getmembers", "get_type_hints"),
        *("get_field", "load", "loads", "exec", "eval", "globals"),
    )
)
_PLAIN = frozenset(
    (
        *("__call__", "__class__", "__file__", "__init__", "__name__", "__post_init__"),
        *("__repr__", "__version__"),
    )
)


class Names:
    """Names in the files of one hand-in that are not their own.

    Args:
        trees: the syntax of each file that can be read, by the module's name.
        modules: names of all modules of the hand-in.
        never_own: attributes that count whoever has one of that name.

    Raises:
        TooMuchError: see there.
    """

    def __init__(
        self,
        trees: Mapping[str, ast.Module],
        modules: Iterable[str],
        never_own: Collection[str] = (),
    ) -> None:
        self._modules = frozenset(modules)
        self.sources = {name: read(tree, self._modules) for name, tree in trees.items()}
        self._known: dict[tuple[int, str], set[Path | None] | None] = {}
        self._steps = _STEPS
        self.attributes = {a for source in self.sources.values() for a in source.attributes}
        self._defined = {n for s in self.sources.values() for n in s.top.names} | self.attributes
        self._own = self.attributes.difference(never_own)
        if any(_is_namespace(path) for name in self.sources for path in self._values(name)):
            # `self.lib = F`: what hangs on an attribute may be torch's, whatever it is called.
            self._own = set()
        every = self.sources.values()
        named = {name for s in every for c in s.chains for name in (c.root, *c.attributes)}
        imported = {name for source in every for use in source.imports for name in use.path}
        self._words = {word for source in every for word in source.words}
        self._words |= {name for source in every for c in source.chains for name in c.attributes}
        stars = any(source.is_own(module) for source in every for module in source.top.stars)
        odd = {name for name in named if name.startswith("__")} - _PLAIN
        self._reaches = bool(stars or odd or (named | imported) & _ROUNDABOUT)

    def uses(self, module: str) -> Iterator[Use]:
        """Everything that one file names and that may come from elsewhere, as it stands there.

        Raises:
            TooMuchError: see there.
        """
        source = self.sources[module]
        here = self._words | {chain.root for chain in source.chains}
        for use in source.imports:
            yield replace(use, idle="") if self._reaches or use.idle in here else use
        for chain in source.chains:
            if not chain.root:
                yield from self._of_anything(chain, chain.attributes)
                continue
            paths = self._paths(source, chain)
            if paths is None or self._is_perhaps_builtin(source, chain, paths):
                whole = (chain.root, *chain.attributes)
                yield Use(chain.line, whole, builtin=True, runs=chain.runs)
            for path in paths or ():
                if path[0]:
                    stored = chain.stored
                    yield Use(chain.line, path, foreign=True, runs=chain.runs, stored=stored)
                else:
                    yield from self._of_anything(chain, path[1:])
        if source.looks_up:
            own = self._defined
            yield from (Use(line, (text,)) for line, text in source.strings if text not in own)

    def _is_perhaps_builtin(self, source: Source, chain: Chain, paths: list[Path]) -> bool:
        """Return whether a name is a builtin's, or of some module that everything came from."""
        known = hasattr(builtins, chain.root) and all(path[0] for path in paths)
        return known and self._binding(source, chain.scope, chain.root) is None

    def _values(self, module: str) -> Iterator[Path]:
        """Things that stand in a file by their whole name, and may be handed on."""
        source = self.sources[module]
        for chain in source.chains:
            if chain.root and chain.runs:
                yield from self._paths(source, chain) or ()

    def _paths(self, source: Source, chain: Chain) -> list[Path] | None:
        paths = self._resolve(source, chain.scope, chain.root, _FOLLOWED)
        if paths is None:
            return None
        self._step(len(paths))
        found = {self._through(path, chain.attributes, _FOLLOWED) for path in paths}
        # What a lab gives is anybody's to use, and nobody's to change.
        return sorted(("",) if path[0] == OURS and not chain.stored else path for path in found)

    def _of_anything(self, chain: Chain, attributes: Path) -> Iterator[Use]:
        """Uses of an object's attributes, but for those that are of the student's own making."""
        for name in attributes:
            if name not in self._own:
                yield Use(chain.line, (name,), runs=chain.runs)

    def _step(self, count: int = 1) -> None:
        self._steps -= count
        if self._steps < 0:
            raise TooMuchError

    def _resolve(
        self, source: Source, scope: Scope, name: str, left: int
    ) -> set[Path | None] | None:
        """Paths that a name may stand for, None among them if it is own; None for a builtin."""
        here = self._binding(source, scope, name)
        key = id(here or source.top), name
        if key not in self._known:
            self._known[key] = {None}  # what stands for itself is nobody else's
            found = self._bound(source, here, name, left) if here else self._starred(source, name)
            if found and len(found) > _POSSIBLE:
                raise TooMuchError
            self._known[key] = found
        return self._known[key]

    def _binding(self, source: Source, scope: Scope, name: str) -> Scope | None:
        """The scope whose name it is; None where it is of no scope of the source."""
        here: Scope | None = scope
        if name in scope.outer:
            here = source.top if scope.outer[name] == "global" else scope.parent
        first = here
        while here and not (name in here.names and (here is first or here.kind != "class")):
            self._step()
            here = here.parent
        return here

    def _bound(self, source: Source, here: Scope, name: str, left: int) -> set[Path | None]:
        found: set[Path | None] = set()
        for path in here.names[name]:
            self._step()
            if path is not None and path[0] == "=":
                found |= self._alias(source, here, path[1:], left)
            else:
                found.add(path)
        return found

    def _starred(self, source: Source, name: str) -> set[Path | None] | None:
        stars = dict.fromkeys(source.top.stars)
        for _ in self.sources:  # a file hands on what it has from another
            self._step(len(stars))
            for module in [*stars]:
                defined = self.sources.get(module[0])
                if defined is not None and name in defined.top.names:
                    return {(*module, name)}
                stars |= dict.fromkeys(defined.top.stars if defined is not None else ())
        own = [module for module in stars if source.is_own(module)]
        foreign: set[Path | None] = {(*module, name) for module in stars if module not in own}
        return foreign or ({None} if own and not hasattr(builtins, name) else None)

    def _alias(self, source: Source, scope: Scope, path: Path, left: int) -> set[Path | None]:
        """Return what another name stands for, followed."""
        if left <= 0:
            raise TooMuchError
        found = self._resolve(source, scope, path[0], left - 1)
        if found is None:
            return {None}
        whole = {one and (*one, *path[1:]) for one in found}
        if any(one and len(one) > LONGEST for one in whole):
            raise TooMuchError
        return whole or {None}

    def _through(self, path: Path | None, attributes: Path, left: int) -> Path:
        """A whole path from elsewhere, also through files of the hand-in.

        What hangs on a thing of the student's own begins with "": it could be anything.
        """
        if path is None:
            return ("", *attributes)
        whole = beside((*path, *attributes), self._modules)
        while whole[0] in self._modules:
            source, left = self.sources.get(whole[0]), left - 1
            if left <= 0:
                raise TooMuchError
            found = None
            if source is not None and len(whole) > 1:
                found = self._resolve(source, source.top, whole[1], left)
            further = sorted(one for one in found or () if one)
            if not further:
                return ("", *whole[2:])
            whole = beside((*further[0], *whole[2:]), self._modules)
        return whole


@cache
def _is_namespace(path: Path) -> bool:
    """Return whether functions of torch hang on what this is: on a module of it, or a class."""
    if path[0] != "torch" or path in _NAMESPACES:
        return path in _NAMESPACES
    # The names are a student's: no others become a path.
    if len(path) > _DEPTH or not all(map(_MODULE.fullmatch, path)):
        return False
    spec = importlib.util.find_spec("torch")
    folders = (spec and spec.submodule_search_locations) or ["/nowhere"]
    place = FilePath(folders[0], *path[1:])
    beside = place.parent.iterdir() if place.parent.is_dir() else ()
    return place.name in {one.stem for one in beside if one.is_dir() or one.suffix == ".py"}
