"""Grades all mutants of a lab, and shows that every survivor is no mistake."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from autograder.authoring.recording import Recording
from autograder.course import labfile
from autograder.course.records import Lab
from autograder.worker.loader import read_sources
from tests.mutation import kept
from tests.mutation.equivalence import unlike
from tests.mutation.grade import survivors
from tests.mutation.mutants import Mutant, mutants_of

# Labs whose random cases are not complete, by their short names: `make mutants-auto` says what is.
OPEN: Mapping[str, str] = {
    "lab5": "not all that is killed is told apart yet",
    "lab7": "not all that is killed is told apart yet, and not all survivors are looked at",
}


@dataclass(frozen=True)
class Tally:
    """What became of the mutants; ``faults`` say what has to be mended, and how."""

    mutants: int
    survivors: int
    shown: int  # on the list, and equivalent on all random cases
    faults: tuple[str, ...]

    @property
    def line(self) -> str:
        """The last line of a run."""
        return (
            f"automatic mutants {self.mutants}, killed {self.mutants - self.survivors}, "
            f"shown equivalent {self.shown}, open {self.survivors - self.shown}"
        )


def short(name: str) -> str:
    """``lab2`` of ``lab2_qwen3_block``."""
    return name.partition("_")[0]


def has_cases(name: str) -> bool:
    """Whether there are random cases in this package for a lab, by its short name."""
    return importlib.util.find_spec(f"tests.mutation.{name}") is not None


def labs() -> tuple[Lab, ...]:
    """The labs whose mutants are all proved: those with complete random cases in this package."""
    found = (labfile.load(path.parent) for path in sorted(labfile.LABS.glob("*/lab.toml")))
    return tuple(lab for lab in found if has_cases(short(lab.name)) and short(lab.name) not in OPEN)


def left_out(names: Iterable[str]) -> tuple[str, ...]:
    """The labs among ``names`` of which nobody says why they have no random cases here."""
    return tuple(n for n in names if not has_cases(short(n)) and short(n) not in OPEN)


def sources_of(lab: Lab) -> dict[str, str]:
    """The solution of a lab: text by file."""
    return read_sources(labfile.SOLUTIONS / lab.name, lab.files)[0]


@cache
def all_mutants(lab: Lab) -> tuple[Mutant, ...]:
    """The mutants of the files of a lab, in the order of their lines."""
    return mutants_of(sources_of(lab))


def judge(lab: Lab, mutants: tuple[Mutant, ...]) -> Tally:
    """Grade mutants, and try each on the random cases.

    These have to agree: what answers them as the solution does survives, and the other way
    round. Otherwise the checks are too blunt, or the random cases are.

    Args:
        lab: whose solution they come from.
        mutants: all of them, or a part.
    """
    sources, entries = sources_of(lab), kept.load(kept.path_of(lab))
    verdict = kept.compare(entries, mutants, survivors(lab, sources, mutants))
    faults, shown = list(verdict.faults), 0
    for mutant in mutants:
        found = unlike(lab, {**sources, mutant.file: mutant.text})
        if mutant in verdict.survivors:
            shown += not found and mutant not in verdict.open
            faults += [f"{mutant} survives, but is a mistake: {found}"] if found else []
        elif not found:
            faults.append(f"{mutant} is killed, but no random case shows why: draw more kinds")
    return Tally(len(mutants), len(verdict.survivors), shown, tuple(faults))


def run(lab: Lab, every: int = 1) -> Tally:
    """All mutants, or a part of them; and the list has no entry that is none of them.

    Args:
        lab: whose solution is mutated.
        every: 1 for all of them, 12 for every twelfth, at the next commit perhaps another one.
    """
    mutants = all_mutants(lab)
    tally = judge(lab, mutants[Recording().turn(every) :: every])
    unknown = kept.unknown(kept.load(kept.path_of(lab)), mutants)
    return replace(tally, faults=tally.faults + unknown)
