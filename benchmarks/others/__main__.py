"""``make bench-others``: CPU per hand-in of otter-grader, nbgrader, check50 and ours.

Every tool gets the lab in its own form with the same checks and cases, and the same hand-ins; each
has to give every hand-in the same points as ours. Writes the table of ``benchmarks/RESULTS.md``.
Exit status 2 where a verdict differs or a tool fails; one that cannot be installed has its reason
in the table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from os import cpu_count, getloadavg
from pathlib import Path
from statistics import median

from autograder.course import labfile
from autograder.course.records import Lab
from autograder.grading.judge_process import versions
from benchmarks import hand_ins, measure
from benchmarks.others import check50, environment, hostile, nbgrader, otter
from benchmarks.others.sides import Ours, Side, SideInput, SideResult, build_hidden, points_of
from benchmarks.others.table import Row, put, table

PAGE = labfile.ROOT / "benchmarks" / "RESULTS.md"
OURS = "ours"
TOOLS: Mapping[str, tuple[str, tuple[str, ...], Callable[[SideInput], Side]]] = {
    "otter": (otter.PACKAGE, otter.REQUIREMENTS, otter.Otter),
    "nbgrader": (nbgrader.PACKAGE, nbgrader.REQUIREMENTS, nbgrader.Nbgrader),
    "check50": (check50.PACKAGE, check50.REQUIREMENTS, check50.Check50),
}


class Differs(RuntimeError):
    """A side's verdict is not the right one; the text says whose and of what."""


@dataclass
class SideCost:
    """CPU seconds per hand-in of one side, a figure per round."""

    alone: list[float] = field(default_factory=list)
    ten: list[float] = field(default_factory=list)
    hundred: list[float] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; see the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lab", default="2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args(argv)
    measure.adopt_orphans()
    lab = labfile.load(labfile.find_lab(arguments.lab))
    try:
        with tempfile.TemporaryDirectory() as folder:
            measured = _measured(lab, Path(folder), arguments.rounds)
            for number, rows in enumerate(measured, 1):
                text = table(rows, _heading(lab, number))
                page = put(text, arguments.page.read_text(encoding="utf-8"))
                arguments.page.write_text(page, encoding="utf-8")
                print(text, flush=True)
    except (Differs, ValueError, OSError, measure.CommandFailed) as error:
        print(f"bench-others: {error}", file=sys.stderr)
        return 2
    return 0


def _measured(lab: Lab, folder: Path, rounds: int) -> Iterator[list[Row]]:
    """The rows after every round; in it all sides one after the other, as moments may be slow."""
    small = hand_ins.make(folder / "ten", lab, 10)
    large = hand_ins.make(folder / "hundred", lab, 100)
    ten, hundred = ([p for paths in made.values() for p in paths] for made in (small, large))
    secret = folder / "secret"
    secret.write_text("a secret that only benchmarks use\n", encoding="utf-8")
    hidden = build_hidden(lab, secret, folder)
    sides: dict[str, Side] = {
        OURS: Ours(_given(lab, hidden, Path(sys.executable), folder, OURS), secret)
    }
    named, missing = {OURS: (OURS, "")}, []
    for name, (package, requirements, made) in TOOLS.items():
        try:
            python = environment.prepare(name, requirements)
        except environment.NotInstalled as error:
            missing.append(Row(package, "", missing=str(error)))
            continue
        sides[name] = made(_given(lab, hidden, python, folder, name))
        named[name] = (package, environment.version_of(python, package))
    expected = sides[OURS].grade(ten)  # builds its hidden cases and byte code, too
    _right(lab, expected)
    found = {name: SideCost() for name in sides}
    tried = {name: _tried(side, lab, folder / "tried" / name) for name, side in sides.items()}
    for number in range(1, rounds + 1):
        for name, side in sides.items():
            alone, all_ten = side.grade(ten[:1]), side.grade(ten)
            for said in (alone.points, all_ten.points):
                if said != {hand_in: expected.points[hand_in] for hand_in in said}:
                    raise Differs(f"{name} says {said}, ours {expected.points}")
            if len(all_ten.points) != len(ten):
                raise Differs(f"{name} graded {len(all_ten.points)} of {len(ten)} hand-ins")
            found[name].alone.append(alone.cpu)
            found[name].ten.append(all_ten.cpu / len(ten))
            print(f"round {number}: {name} done", file=sys.stderr, flush=True)
        found[OURS].hundred.append(sides[OURS].grade(hundred).cpu / len(hundred))
        rows = []
        for name, (tool, version) in named.items():
            row = Row(tool, version, points=_points(expected), hostile=tried[name])
            rows.append(_filled(row, found[name], found[OURS]))
        rows.insert(1, _large(rows[0], found[OURS]))
        yield [*rows, *missing]


def _given(lab: Lab, hidden: Path, python: Path, folder: Path, name: str) -> SideInput:
    own = folder / name
    own.mkdir()
    return SideInput(lab, hidden, python, own)


def _right(lab: Lab, graded: SideResult) -> None:
    """Full points for right ones, some but not all for wrong ones, none for stubs."""
    full = points_of(lab, (exercise.id for exercise in lab.exercises))
    for name, points in graded.points.items():
        kind = name.partition("_")[0]
        good = {"right": points == full, "wrong": 0 < points < full, "stub": points == 0}[kind]
        if not good:
            raise Differs(f"ours gives {name} {points} of {full}")


def _tried(side: Side, lab: Lab, folder: Path) -> str:
    """The end of the hostile hand-in, in words."""
    mark = folder / "mark"
    points = side.grade([hostile.make(folder, lab, mark)]).points[hostile.NAME]
    wrote = "wrote a file outside" if mark.exists() else "wrote nothing outside"
    return f"{points} points, {wrote}"


def _points(graded: SideResult) -> str:
    kinds: dict[str, set[int]] = {}
    for hand_in, points in graded.points.items():
        kinds.setdefault(hand_in.partition("_")[0], set()).add(points)
    said = (f"{kind} {', '.join(map(str, sorted(kinds[kind])))}" for kind in hand_ins.KINDS)
    return "; ".join(said)


def _filled(row: Row, own: SideCost, ours: SideCost) -> Row:
    """The row with its figures; a ratio is taken within a round."""
    return replace(
        row,
        alone=median(own.alone),
        in_class=median(own.ten),
        over_ten=median(one / unit for one, unit in zip(own.ten, ours.ten, strict=True)),
        over_hundred=median(one / unit for one, unit in zip(own.ten, ours.hundred, strict=True)),
    )


def _large(row: Row, ours: SideCost) -> Row:
    """Our second row, of the class of 100."""
    over = [one / unit for one, unit in zip(ours.hundred, ours.ten, strict=True)]
    tool = f"{OURS}, class of 100"
    return Row(tool, row.version, in_class=median(ours.hundred), over_ten=median(over))


def _heading(lab: Lab, rounds: int) -> str:
    here = versions()
    said = f"Python {here['python']}, torch {here['torch']}, {here['system']}, {cpu_count()} cores"
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, `{lab.name}`, {said}.\n"
        f"CPU seconds per hand-in, rounds: {rounds}, medians. Load average: {getloadavg()[2]:.1f}."
    )


if __name__ == "__main__":
    sys.exit(main())
