"""``audit``: proves what labs promise, one line per promise, and goes on after a failure."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from autograder.authoring import (
    build,
    docstrings,
    notebooks,
    pages,
    prove_cases,
    prove_lab,
    prove_words,
    styles,
)
from autograder.authoring.place import LabSources, NotProvedError
from autograder.authoring.stubs import Fate
from autograder.course import labfile
from autograder.intake import notebook

MAX_BREACHES = 12  # shown per promise


@dataclass(frozen=True)
class Promise:
    """A promise, and the function that looks for breaches (what, where, the mend).

    One about Chinese is not made where a lab is taught in English alone.
    """

    text: str
    breaches: Callable[[LabSources], Iterable[str]]
    about_chinese: bool = False


@dataclass(frozen=True)
class Verdict:
    """The outcome of one promise; ``doubt`` says why it could be neither proved nor refuted."""

    promise: str
    breaches: tuple[str, ...] = ()
    doubt: str = ""


def _lab(place: LabSources) -> Iterable[str]:
    return () if place.lab.points == 100 else ("lab.toml: the points do not sum to 100",)


def _scores(place: LabSources) -> Iterable[str]:
    # The engine is needed by this promise alone.
    from autograder.authoring import prove_lab

    return prove_lab.unfair_scores(place)


def _draft_scores(place: LabSources) -> Iterable[str]:
    from autograder.authoring import prove_draft

    return prove_draft.unfair_scores(place)


def _draft_mistakes(place: LabSources) -> Iterable[str]:
    from autograder.authoring import prove_draft

    return prove_draft.unseen_mistakes(place)


_ALWAYS: tuple[Promise, ...] = (
    Promise("lab.toml can be read, its points sum to 100", _lab),
    Promise("what lab.toml gives and forbids exists", prove_lab.unknown_names),
    Promise("every function of a stub is a TODO", prove_lab.told_bodies),
    Promise("every exercise has TODO, checks and hint", prove_words.exercises),
    Promise("checks and recipes belong together", prove_cases.unmatched),
)
# What holds of a lab that is being written, in the order in which one would mend it.
DRAFT: tuple[Promise, ...] = (
    *_ALWAYS,
    Promise("solution and styles score 100, hidden cases included, and stubs 0", _draft_scores),
    Promise("every mistake costs points, and is told from the others", _draft_mistakes),
)
_OF_WHOLE = DRAFT[len(_ALWAYS) :]
PROMISES: tuple[Promise, ...] = (
    *_ALWAYS,
    Promise("stubs are what their solutions give", prove_lab.stale_stubs),
    Promise("stubs keep every signature and docstring", prove_lab.other_faces),
    Promise("notebooks are what their sources give", prove_lab.stale_notebooks),
    Promise("spot-the-error questions are what their source gives", build.stale_spots),
    Promise("no line of the solution stands where students read", prove_lab.leaks),
    Promise("hints and checks are told in two languages", prove_words.docstrings, True),
    Promise("every message says the same in two languages", prove_words.messages, True),
    Promise("every message that code asks for exists", prove_words.absent_messages),
    Promise("the handout has every part, and the points of lab.toml", prove_lab.handout_breaches),
    Promise("Chinese pages are made of the English as it stands", pages.breaches, True),
    Promise("Chinese docstrings are made of the English as it stands", docstrings.breaches, True),
    Promise("labels of charts are in Chinese, too", notebooks.unlabelled, True),
    Promise("pages and messages use the words of the glossary", prove_words.breaches),
    Promise("no check expects what another request held", prove_cases.handed_out),
    Promise("public cases are what their recipes give", prove_cases.stale),
    Promise("the number of hidden cases is told as it is", build.stale_count),
    Promise("fingerprints are those of the listed mistakes", prove_lab.stale),
    Promise("stubs score 0 and solutions 100, hidden cases included", _scores),
)


def verdict(promise: Promise, place: LabSources) -> Verdict:
    """Look for breaches of one promise. Whatever goes wrong on the way is one, too."""
    try:
        return Verdict(promise.text, tuple(promise.breaches(place)))
    except NotProvedError as error:
        return Verdict(promise.text, doubt=str(error))
    except ValueError as error:  # our own errors are finished sentences
        return Verdict(promise.text, (str(error),))
    except SyntaxError as error:
        return Verdict(promise.text, (f"{error.filename}:{error.lineno}: {error.msg}",))
    except Exception as error:
        what = f"could not be looked into: {type(error).__name__}: {error}"
        return Verdict(promise.text, (what,))


def run(lab_name: str, promises: Sequence[Promise] = PROMISES, root: Path = labfile.ROOT) -> int:
    """Prove the promises of a lab and print what became of them.

    Returns:
        0 when none is broken, 1 when one is.

    Raises:
        LabError: no lab goes by that name.
    """
    place = LabSources.find(lab_name, root)
    promises = [one for one in promises if place.is_chinese or not one.about_chinese]
    broken = doubted = 0
    for promise in promises:
        found = verdict(promise, place)
        if promise in _OF_WHOLE and broken:  # it would say the same once more, for every check
            found = Verdict(promise.text, doubt="mend what is said above first")
        broken += bool(found.breaches)
        doubted += bool(found.doubt)
        print(said(found), flush=True)
    kept = len(promises) - broken - doubted
    print(f"{place.name}: {kept} promises kept, {broken} broken, {doubted} not proved")
    return 1 if broken else 0


def run_draft(lab_name: str, root: Path = labfile.ROOT) -> int:
    """Write the stubs and public cases of a lab, then prove what holds of one being written.

    Returns:
        As :func:`run`.

    Raises:
        LabError: no lab goes by that name, or its lab.toml is wrong.
        ValueError: a source cannot be built from (names it).
    """
    place = LabSources.find(lab_name, root)
    for line in build.draft(place):
        if not line.startswith(Fate.UNCHANGED.value):
            print(line, flush=True)
    if found := [folder.name for folder in styles.folders(place.name, root)]:
        print(f"styles     {len(found)} beside the solution: {', '.join(found)}", flush=True)
    return run(lab_name, DRAFT, root)


def run_all(jobs: int, names: Sequence[str] = (), promises: Sequence[Promise] = PROMISES) -> int:
    """Prove the promises of every lab, or of those named, printing the lines of each together.

    Each lab has a process of its own, since checks of several labs go by the same module names.
    Where it is forked, what all labs need is imported and read once.

    Returns:
        0 when no promise is broken, 1 when one is, or a process ended before it could tell.
    """
    left = deque(names or (path.parent.name for path in sorted(labfile.LABS.glob("*/lab.toml"))))
    forks = sys.platform.startswith("linux")
    context: Any = multiprocessing.get_context("fork" if forks else "spawn")
    if forks:
        _warm()
    at_work: dict[Any, str] = {}  # the lab, by the end of the pipe from its process
    status = 0
    while left or at_work:
        while left and len(at_work) < jobs:
            here, there = context.Pipe(duplex=False)
            context.Process(target=_tell, args=(left[0], promises, there)).start()
            there.close()  # so that the pipe ends when the process does
            at_work[here] = left.popleft()
        ready: list[Any] = wait(list(at_work))
        for end in ready:
            name = at_work.pop(end)
            try:
                text, broken = end.recv()
            except EOFError:
                text, broken = f"FAILED  {name}: its process ended before it could tell\n", 1
            print(text, end="", flush=True)
            status |= broken
    return status


def _tell(name: str, promises: Sequence[Promise], end: Connection) -> None:
    """Audit a lab, and send what would be printed and the status."""
    torch.set_num_threads(1)  # more would get in the way of the lab beside it
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # as in the judge
    with redirect_stdout(io.StringIO()) as lines:
        broken = run(name, promises)
    end.send((lines.getvalue(), broken))


def _warm() -> None:
    """Import and read what every lab needs; compute nothing, as a fork is without torch's threads.

    nbformat and the syntax of all our code take two seconds. What fails here does so again under
    the promise that it breaks.
    """
    with suppress(Exception):
        from autograder.authoring import prove_lab  # noqa: F401

        notebook.library()

        deque(prove_words.uses(labfile.ROOT), maxlen=0)
    gc.freeze()  # pytest collects garbage as it ends, and need not look through all of this


def said(found: Verdict) -> str:
    """A verdict as lines of a terminal."""
    if found.doubt:
        return f"?       {found.promise}\n          not proved: {found.doubt}"
    if not found.breaches:
        return f"ok      {found.promise}"
    lines = [f"          {breach}" for breach in found.breaches[:MAX_BREACHES]]
    if len(found.breaches) > MAX_BREACHES:
        lines.append(f"          … and {len(found.breaches) - MAX_BREACHES} more")
    return "\n".join((f"FAILED  {found.promise}", *lines))
