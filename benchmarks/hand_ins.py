"""A class to grade: right hand-ins, hand-ins with one mistake each, untouched stubs."""

from __future__ import annotations

from pathlib import Path

from autograder.authoring.styles import texts_of
from autograder.course.labfile import ROOT, SOLUTIONS
from autograder.course.records import Lab
from autograder.diagnosis import misconceptions
from autograder.worker.loader import read_sources

KINDS = ("right", "wrong", "stub")
SHARES = {"right": 0.6, "wrong": 0.3, "stub": 0.1}


def make(folder: Path, lab: Lab, size: int) -> dict[str, list[Path]]:
    """Write a class of ``size`` hand-ins, one folder per student.

    Right ones go round the styles of ``tests/styles`` and the solution; wrong ones are
    misconceptions, taken evenly from the list and put into the solution.

    Args:
        folder: where the folders are made.
        size: a multiple of 10, so that the shares come out even.

    Returns:
        The folders by kind.
    """
    if size % 10 or size <= 0:
        raise ValueError(f"a class of {size}: expected a multiple of 10")
    counts = {kind: round(size * share) for kind, share in SHARES.items()}
    right, wrong = _right(lab), _wrong(lab, counts["wrong"])
    stubs = [("stub", read_sources(lab.folder, lab.files)[0])]
    made: dict[str, list[Path]] = {}
    for kind, pool in zip(KINDS, (right, wrong, stubs), strict=True):
        made[kind] = []
        for number in range(counts[kind]):
            name, files = pool[number % len(pool)]
            path = folder / f"{kind}_{number:03}_{name}"
            path.mkdir(parents=True)
            for file, text in files.items():
                (path / file).write_text(text, encoding="utf-8")
            made[kind].append(path)
    return made


def _right(lab: Lab) -> list[tuple[str, dict[str, str]]]:
    styles = ROOT / "tests" / "styles" / lab.name.split("_")[0]
    folders = [SOLUTIONS / lab.name, *sorted(path.parent for path in styles.glob("*/*.py"))]
    return [(path.name, texts_of(path, lab.files)) for path in dict.fromkeys(folders)]


def _wrong(lab: Lab, count: int) -> list[tuple[str, dict[str, str]]]:
    solution, _ = read_sources(SOLUTIONS / lab.name, lab.files)
    known = misconceptions.load(SOLUTIONS / lab.name / "misconceptions.toml").entries
    chosen = [known[n * len(known) // count] for n in range(count)]
    return [(one.id, misconceptions.apply(one, solution)) for one in chosen]
