"""Answers of one hand-in that stand for another's, where both have the same text to answer with.

Known hand-ins of a lab are mostly one solution with a line changed. A request names the functions
and classes that it asks; what they come to hangs on their definitions and on all that these
mention. Where two hand-ins have the same ones, the second need not run. It is not for hand-ins of
students: their code may do more than it says.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import starmap
from typing import Any, cast

from autograder.sandbox.prefetcher import ForeseenRequest, OutOfTurn, Prefetcher
from autograder.sandbox.ranks import RankReplies, RankTransport, Request
from autograder.sandbox.recording import PassingTransport, digest_of
from autograder.sandbox.transport import CheckTransport, Reply
from autograder.wire.messages import Tensor, pack, unpack

MOST_SHARED = 512 << 20  # bytes of replies; those of a lab and its mistakes have a tenth
# By these, text reaches what it does not mention.
_REACHES = {"globals", "locals", "vars", "eval", "exec", "__import__"}
_REACHES |= {"import importlib", "import sys"}


@dataclass(frozen=True)
class _Part:
    """Some statements of a file: their text, and the words by which they mention others.

    ``lines``: where they stand, for answers that tell it.
    """

    text: str = ""
    words: frozenset[str] = frozenset()
    lines: tuple[int, ...] = ()

    def __add__(self, other: _Part) -> _Part:
        text, words = self.text + other.text, self.words | other.words
        return _Part(text, words, self.lines + other.lines)


def _part(node: ast.stmt, lines: Sequence[str]) -> _Part:
    """One statement of a file that has these lines."""
    words = set()
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=word):
                words.add(word)
            case ast.Constant(value=str(word)) if word.isidentifier():
                words.add(word)
            case ast.Import(names=names):
                words.update(f"import {part}" for one in names for part in one.name.split("."))
            case ast.ImportFrom(module=module, names=names):
                # `from . import mlp` and `import labs.<lab>.mlp` mean another file, too.
                parts = [*(module or "").split("."), *(one.name for one in names)]
                words.update(f"import {part}" for part in parts)
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    text = "\n".join(lines[first - 1 : node.end_lineno])
    return _Part(f"{text}\n", frozenset(words), (first,))


@lru_cache(maxsize=64)
def _parts(text: str) -> tuple[Mapping[str, _Part], _Part]:
    """Definitions of a file by name, and the text that runs in any case and defines nothing."""
    named, always = dict[str, _Part](), _Part()
    try:
        nodes = ast.parse(text).body
    except (SyntaxError, ValueError):
        return named, _Part(text)
    lines = text.split("\n")
    for node in nodes:
        part, names = _part(node, lines), _defined(node)
        for name in names:
            named[name] = named.get(name, _Part()) + part
        if not (names and _is_quiet(node)) and not _is_text(node):
            always += part
    return named, always


class Definitions:
    """Definitions of a hand-in, and what each of them hangs on.

    Args:
        files: text by file name.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self._whole = tuple(_Part(text) for _, text in sorted(files.items()))
        self._files = {name.removesuffix(".py"): _parts(text) for name, text in files.items()}

    def behind(self, path: str) -> tuple[_Part, ...]:
        """The text that ``"file.name"`` hangs on: definitions, and what runs in any case."""
        file, _, name = path.partition(".")
        named, always = self._files[file]
        reaches = _REACHES | {f"import {other}" for other in self._files if other != file}
        seen = {name}
        found = [always, named.get(name, _Part(f"no {name}"))]
        for part in found:  # it grows
            if part.words & reaches:
                return self._whole
            more = (part.words & named.keys()) - seen
            seen |= more
            found += (named[word] for word in sorted(more))
        return tuple(found)


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement gives a value to."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets) if all(isinstance(t, ast.Name) for t in targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [(alias.asname or alias.name).split(".")[0] for alias in names]
    return []


def _is_quiet(node: ast.stmt) -> bool:
    """Whether a statement that gives a value to names calls nothing on the way."""
    return not isinstance(node, ast.Assign | ast.AnnAssign) or not any(
        isinstance(inner, ast.Call) for inner in ast.walk(node)
    )


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


class SharedReplies:
    """Replies by what they hang on; beyond :data:`MOST_SHARED` no more are taken in."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[list[bytes], RankReplies, str]] = {}
        self._left = MOST_SHARED
        # Each is taken once for a class; and the text of the steps.
        self.digests: dict[ForeseenRequest, tuple[str, str]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def get(self, key: str) -> tuple[RankReplies, str] | None:
        """Replies by rank, and what was printed on the way; None where there are none."""
        if key not in self._found:
            return None
        blobs, replies, prints = self._found[key]
        # Anew: whoever reads a reply may change it.
        return replace(replies, replies=tuple(unpack(bytearray(b)) for b in blobs)), prints

    def put(self, key: str, found: RankReplies, prints: str) -> None:
        """Take replies in, unless a rank gave none, or tells where it raised."""
        blobs = [pack(*reply) for reply in found.replies if reply and "error" not in reply[0]]
        self._left -= sum(map(len, blobs))
        if len(blobs) == len(found.replies) and self._left >= 0:
            self._found[key] = blobs, replace(found, replies=()), prints


class SharingTransport(PassingTransport):
    """Tells what another hand-in answered where that has the same text; else this one runs.

    Args:
        inner: what runs this hand-in.
        shared: what was answered so far, by this hand-in or others.
        files: text by file name.
        ahead: what asks ``inner`` ahead.
    """

    def __init__(
        self,
        inner: CheckTransport,
        shared: SharedReplies,
        files: Mapping[str, str],
        ahead: Prefetcher | None = None,
    ) -> None:
        super().__init__(inner)
        self._shared = shared
        self._definitions = Definitions(files)
        names = "|".join(name.removesuffix(".py") for name in files)
        self._path = re.compile(rf'"((?:{names})\.\w+)')
        self._behind: dict[tuple[str, bool], str] = {}
        self._alone, self._ranks = _Objects(), _Objects()
        self._dead: set[str] = set()  # keys that run: what goes on with them is known of nobody
        self._off = False
        self._ahead = ahead
        if ahead is not None:
            ahead.is_answered = self._needs_no_worker

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        """Execute, or tell what came back elsewhere.

        Raises:
            OutOfTurn: what was made elsewhere is needed here; the check begins again.
            WorkerLost, NoWorker: see :meth:`WorkerTransport.exchange`.
        """

        def run(requests: Sequence[Request]) -> RankReplies:
            (one, tensors), *_ = requests
            return RankReplies((self._inner.exchange(dict(one), tensors),), ())

        (reply,) = self._answer(self._alone, [(request, tensors)], run).replies
        assert reply is not None
        return reply

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        """Execute on ranks, or tell what came back from others."""
        return self._answer(self._ranks, requests, cast(RankTransport, self._inner).exchange_ranks)

    def _answer(
        self,
        objects: _Objects,
        requests: Sequence[Request],
        run: Callable[[Sequence[Request]], RankReplies],
    ) -> RankReplies:
        text = _steps_of(requests)
        steps = (step for request, _ in requests for step in request["steps"])
        made, needed = {str(s["as"]) for s in steps if "as" in s}, set(_HANDLE.findall(text))
        before = {objects.made.get(number, _NOWHERE) for number in needed - made}
        key = "" if self._off else self._key(requests, text, [one.key for one in before])
        elsewhere = {one.elsewhere for one in before}
        here = False in elsewhere or key in self._dead
        known = None if here else self._shared.get(key)
        answered = _Object(key, elsewhere=known is not None)
        objects.made |= dict.fromkeys(made | needed, answered)
        if known is not None:
            objects.stale |= any(request["fresh"] for request, _ in requests)
            self._prints += known[1]
            return known[0]
        if True in elsewhere:
            self._dead.update(one.key for one in before)
            if self._ahead is not None:  # as it has answers that leave no objects behind
                self._ahead.stop()
            raise OutOfTurn
        stale, objects.stale = objects.stale, False
        if stale:
            requests = [({**request, "fresh": True}, tensors) for request, tensors in requests]
        try:
            found = run(requests)
        finally:
            prints = self._inner.take_prints()
            self._prints += prints
        if key:
            self._shared.put(key, found, prints)
        return found

    def _key(
        self, requests: Sequence[Request], text: str, before: Sequence[str], digest: str = ""
    ) -> str:
        """Hash of all that the replies hang on; empty where that is not known.

        Args:
            requests: by rank.
            text: of their steps.
            before: the keys of what these go on with.
            digest: of the requests, if it is known.
        """
        steps = [step for request, _ in requests for step in request["steps"]]
        if "" in before or any(step["op"] == "import" for step in steps):
            return ""
        placed = any("measure" in step for step in steps)  # tells a line
        texts = [*sorted(before), digest or " ".join(starmap(digest_of, requests))]
        for path in sorted(set(self._path.findall(text))):
            if (path, placed) not in self._behind:
                parts = self._definitions.behind(path)
                own = [f"{part.text}{part.lines if placed else ''}" for part in parts]
                self._behind[path, placed] = _hashed(own)
            texts += [path, self._behind[path, placed]]
        return _hashed(texts)

    def _needs_no_worker(self, asked: ForeseenRequest) -> bool:
        if self._off:
            return False
        requests, digests = [(asked.request, asked.tensors)], self._shared.digests
        if asked not in digests:
            digests[asked] = digest_of(*requests[0]), _steps_of(requests)
        digest, text = digests[asked]
        key = self._key(requests, text, (), digest)
        return key in self._shared and key not in self._dead

    @contextmanager
    def aside(self) -> Iterator[None]:
        """See :class:`CheckTransport`; what is asked meanwhile runs."""
        off, self._off = self._off, True
        with super().aside():
            yield
        self._off = off


@dataclass(frozen=True)
class _Object:
    """An object: the key of what was last asked of it, and whether another hand-in has it."""

    key: str
    elsewhere: bool


_NOWHERE = _Object("", elsewhere=False)


@dataclass
class _Objects:
    """Objects that requests have made, here or in another hand-in."""

    made: dict[str, _Object] = field(default_factory=dict)  # by number
    stale: bool = False  # whether the namespaces here are those of an earlier check


_HANDLE = re.compile(r'"(?:\$h|target|held)": (\d+)')  # of objects that steps go on with


def _steps_of(requests: Sequence[Request]) -> str:
    return json.dumps([request["steps"] for request, _ in requests])


def _hashed(texts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
