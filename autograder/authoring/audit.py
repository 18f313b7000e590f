"""``audit``: proves what a lab promises, one line per promise, and goes on after a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from autograder.authoring import (
    hidden_counts,
    prove_banks,
    prove_cases,
    prove_handout,
    prove_lab,
    prove_sources,
    prove_terms,
    prove_words,
    spots,
    translations,
)
from autograder.authoring.place import NotProvedError, Place

MAX_BREACHES = 12  # shown per promise


@dataclass(frozen=True)
class Promise:
    """What is promised, and the function that looks for breaches (what, where, the mend)."""

    text: str
    breaches: Callable[[Place], Iterable[str]]


@dataclass(frozen=True)
class Verdict:
    """What became of a promise; ``doubt`` says why it could be neither proved nor refuted."""

    promise: str
    breaches: tuple[str, ...] = ()
    doubt: str = ""


def _lab(place: Place) -> Iterable[str]:
    return () if place.lab.points == 100 else ("lab.toml: the points do not sum to 100",)


def _scores(place: Place) -> Iterable[str]:
    # The engine is needed by this promise alone.
    from autograder.authoring import prove_scores

    return prove_scores.breaches(place)


PROMISES = (
    Promise("lab.toml can be read, its points sum to 100", _lab),
    Promise("what lab.toml gives and forbids exists", prove_lab.unknown_names),
    Promise("stubs are what their solutions give", prove_sources.stale_stubs),
    Promise("stubs keep every signature and docstring", prove_sources.other_faces),
    Promise("every function of a stub is a TODO", prove_lab.told_bodies),
    Promise("notebooks are what their sources give", prove_sources.stale_notebooks),
    Promise("spot-the-error questions are what their source gives", spots.stale),
    Promise("no line of the solution stands where students read", prove_sources.leaks),
    Promise("every exercise has TODO, checks and hint", prove_words.exercises),
    Promise("every check is described in two languages", prove_words.docstrings),
    Promise("every message says the same in two languages", prove_words.messages),
    Promise("every message that code asks for exists", prove_words.absent_messages),
    Promise("the handout has every part, and the points of lab.toml", prove_handout.breaches),
    Promise("Chinese pages are made of the English as it stands", translations.breaches),
    Promise("pages and messages use the words of the glossary", prove_terms.breaches),
    Promise("checks and recipes belong together", prove_cases.unmatched),
    Promise("public cases are what their recipes give", prove_cases.stale),
    Promise("the number of hidden cases is told as it is", hidden_counts.stale),
    Promise("fingerprints are those of the listed mistakes", prove_banks.stale),
    Promise("stubs score 0 and solutions 100, hidden cases included", _scores),
)


def verdict(promise: Promise, place: Place) -> Verdict:
    """Look for breaches of one promise. Whatever goes wrong on the way is one, too."""
    try:
        return Verdict(promise.text, tuple(promise.breaches(place)))
    except NotProvedError as error:
        return Verdict(promise.text, doubt=str(error))
    except ValueError as error:  # our own errors are finished sentences
        return Verdict(promise.text, (str(error),))
    except Exception as error:
        what = f"could not be looked into: {type(error).__name__}: {error}"
        return Verdict(promise.text, (what,))


def run(lab_name: str, promises: Sequence[Promise] = PROMISES) -> int:
    """Prove the promises of a lab and print what became of them.

    Returns:
        0 when none is broken, 1 when one is.

    Raises:
        LabError: no lab goes by that name.
    """
    place = Place.find(lab_name)
    broken = doubted = 0
    for promise in promises:
        found = verdict(promise, place)
        broken += bool(found.breaches)
        doubted += bool(found.doubt)
        print(said(found), flush=True)
    kept = len(promises) - broken - doubted
    print(f"{place.name}: {kept} promises kept, {broken} broken, {doubted} not proved")
    return 1 if broken else 0


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
