"""Answers of one hand-in that stand for another's, where both have the same text to answer with.

Known hand-ins of a lab are mostly one solution with a line changed. A request names the functions
and classes that it asks; what they come to hangs on their definitions and on all that these
mention. Where two hand-ins have the same ones, the second need not run, and a check need not look
at a case again that it passed. It is not for hand-ins of students: their code may do more than it
says.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from autograder.sandbox.prefetcher import ForeseenRequest, OutOfTurn, Prefetcher
from autograder.sandbox.ranks import RankReplies, RankTransport, Request
from autograder.sandbox.recording import PassingTransport
from autograder.sandbox.stacks import parsed
from autograder.sandbox.student import Result, Student
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
    tree = parsed(text)
    if tree is None:
        return named, _Part(text)
    lines = text.split("\n")
    for node in tree.body:
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


_Place = tuple[str, bool]  # "file.name", and whether the lines count on which it stands


@dataclass(frozen=True)
class PassedCase:
    """One case that a check has passed, of whatever hand-in.

    ``behind``: hashes of the text that each thing it asked hangs on. ``asked``, ``operators`` and
    ``size`` are those of the check's :class:`Student`; ``prints`` was printed on the way.
    """

    behind: Mapping[_Place, str]
    asked: Sequence[Result]
    operators: Set[str]
    size: int
    prints: str


class SharedReplies:
    """Replies by what they hang on; beyond :data:`MOST_SHARED` no more are taken in."""

    def __init__(self) -> None:
        self.passed = defaultdict[tuple[str, str], list[PassedCase]](list)  # by check and case
        self._found: dict[str, tuple[list[bytes], RankReplies, str]] = {}
        self._left = MOST_SHARED
        self.texts: dict[ForeseenRequest, tuple[str, str]] = {}  # once for a class

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def get(self, key: str) -> tuple[RankReplies, str] | None:
        """Replies by rank, and what was printed on the way; None where there are none."""
        if key not in self._found:
            return None
        blobs, replies, prints = self._found[key]
        # Anew: whoever reads a reply may change it.
        return replace(replies, replies=tuple(unpack(bytearray(b)) for b in blobs)), prints

    def keep(self, check: str, case: str, passed: PassedCase) -> None:
        """Take a case in that was passed."""
        self._left -= passed.size
        if self._left >= 0:
            self.passed[check, case].append(passed)

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
        self._behind: dict[_Place, str] = {}
        self._asked: dict[_Place, str] | None = None  # by the case at hand; None: not all is known
        self._printed = 0  # characters, before the case at hand
        self._alone, self._ranks = _Objects(), _Objects()
        self._dead: set[str] = set()  # keys that run: what goes on with them is known of nobody
        self._off = False
        self._ahead = ahead
        if ahead is not None:
            ahead.is_answered = self._needs_no_worker

    def passed(self, check: str, case: str, *, fresh: bool) -> PassedCase | None:
        """Return what this case came to elsewhere, where all that it asks has the same text here.

        None where it has to be asked; what it asks is written down then, for :meth:`learn`.

        Args:
            check, case: their names.
            fresh: it would have begun with new namespaces.
        """
        for one in () if self._off else self._shared.passed[check, case]:
            if all(self._text_behind(place) == text for place, text in one.behind.items()):
                for objects in (self._alone, self._ranks):
                    objects.stale |= fresh
                self._prints += one.prints
                return one
        self._asked, self._printed = None if self._off else {}, len(self._prints)
        return None

    def learn(self, check: str, case: str, student: Student) -> None:
        """Take in the case that was asked last: it was passed."""
        if self._asked is not None:
            prints = self._prints[self._printed :]
            found = student.asked, student.operators, student.bytes, prints
            self._shared.keep(check, case, PassedCase(self._asked, *found))

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
        text, held = _text_of(requests)
        steps = (step for request, _ in requests for step in request["steps"])
        made, needed = {str(s["as"]) for s in steps if "as" in s}, set(_HANDLE.findall(text))
        before = {objects.made.get(number, _NOWHERE) for number in needed - made}
        places = self._places(requests, text)
        key = self._key(places, text, held, [one.key for one in before])
        if not key:
            self._asked = None
        elif self._asked is not None:
            self._asked |= {place: self._text_behind(place) for place in places}
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

    def _places(self, requests: Sequence[Request], text: str) -> list[_Place]:
        """Names that the steps of requests, which have this text, ask of the hand-in."""
        steps = (step for request, _ in requests for step in request["steps"])
        placed = any("measure" in step for step in steps)  # tells a line
        return [(path, placed) for path in sorted(set(self._path.findall(text)))]

    def _text_behind(self, place: _Place) -> str:
        """Hash of the text that something hangs on."""
        if place not in self._behind:
            path, placed = place
            parts = self._definitions.behind(path)
            own = [f"{part.text}{part.lines if placed else ''}" for part in parts]
            self._behind[place] = _hashed(own)
        return self._behind[place]

    def _key(
        self, places: Sequence[_Place], text: str, held: str, before: Sequence[str] = ()
    ) -> str:
        """Hash of all that the replies hang on; empty where that is not known.

        Args:
            places: what the requests ask.
            text: of their steps.
            held: by tensors of theirs.
            before: the keys of what these go on with.
        """
        if self._off or "" in before or _IMPORT in text:
            return ""
        behind = [part for place in places for part in (place[0], self._text_behind(place))]
        return _hashed([*sorted(before), text, held, *behind])

    def _needs_no_worker(self, asked: ForeseenRequest) -> bool:
        requests, texts = [(asked.request, asked.tensors)], self._shared.texts
        if asked not in texts:
            texts[asked] = _text_of(requests)
        text, held = texts[asked]
        key = self._key(self._places(requests, text), text, held)
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


_IMPORT = '"op": "import"'  # runs whole files: hangs on more than what it names
_HANDLE = re.compile(r'"(?:\$h|target|held)": (\d+)')  # of objects that steps go on with


def _text_of(requests: Sequence[Request]) -> tuple[str, str]:
    """The text of the steps, and what those tensors hold whose names do not tell it."""
    held = [
        [rank, name, tensor.dtype, tensor.shape, hashlib.sha256(tensor.data).hexdigest()]
        for rank, (_, tensors) in enumerate(requests)
        for name, tensor in tensors.items()
        if not tensor.key
    ]
    return json.dumps([request["steps"] for request, _ in requests]), json.dumps(held)


def _hashed(texts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
