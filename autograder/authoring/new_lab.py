"""``new-lab``: writes a tiny lab that holds what it promises; its author edits it from there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Template

from autograder.authoring.place import LabSources
from autograder.course import labfile, suggestions
from autograder.course.labfile import LabError
from autograder.worker.loader import COURSE

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_FILE = re.compile(r"[a-z_][a-z0-9_]*\.py")

TOML = """\
title = { en = "$lab", zh = "$lab" }
files = [$files]
# A use marks the hand-in for a human and never changes the score.
forbidden = []

[limits] # of one check, in the process that runs student code
cpu_seconds = 2
wall_seconds = 20
memory_mib = 1024
lost_workers = 3
"""
EXERCISE = """
[[exercise]]
id = "$id.$stem"
file = "$stem.py"
title = { en = "Scale", zh = "缩放" }
hint.en = "Which operation makes every number as many times as large?"
hint.zh = "哪种运算能让每个数变为原来的若干倍？"
check = [
    { name = "test_$stem", points = $points, family = "numeric parity" },
]
"""
SOLUTION = '''\
"""What students write in this file."""

from __future__ import annotations

from torch import Tensor


def $stem(x: Tensor, factor: float) -> Tensor:
    """Scale a tensor.

    Args:
        x: any shape.
        factor: what every number is multiplied by.

    Returns:
        A tensor of the shape of ``x``.
    """
    # BEGIN SOLUTION $id.$stem
    return x * factor
    # END SOLUTION
'''
CHECKS = '''\
"""Checks of ``$stem.py``."""

from __future__ import annotations

from autograder.checks.expect import cases, expect_close
from autograder.reference.cases import Case
from autograder.sandbox.student import Student


@cases("$stem")
def test_$stem(student: Student, case: Case) -> None:
    """Every number is multiplied by the factor.

    每个数都乘以 factor。
    """
    expect_close(student.call("$stem.$stem", case["x"], case["factor"]), case["y"], case)
'''
CASES = '''\
"""Cases: inputs drawn from a seed, and what is right for them."""

from __future__ import annotations

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe

SHAPES = ((2, 3, 5), (3, 4, 7), (4, 2, 9))  # the first in public cases, the others in hidden ones
'''
RECIPE = '''

@recipe(hidden=2)
def $stem(draw: Draw) -> Draft:
    """Sizes that all differ, and a factor that is neither 0 nor 1."""
    x, factor = draw.normal(*draw.pick(SHAPES)), draw.pick((1.5, -0.5, 2.5))
    about = Text(f"x {list(x.shape)}, factor {factor}", f"x {list(x.shape)}，factor 为 {factor}")
    return draft(about, {"x": x, "y": x.double() * factor}, factor=factor)
'''
MISTAKES = """\
# Mistakes that implementations really make, each a patch of the reference solution.
# How to add one: autograder/guides/authors.md.

[[section]]
groups = ["scaling"]
title.en = "The contract"
title.zh = "约定"
"""
MISTAKE = '''
[[misconception]]
id = "$stem$name"
group = "scaling"$file
name.en = "$en"
name.zh = "$zh"
hint.en = "What does your function give for a factor of 2, and what should it give?"
hint.zh = "factor 为 2 时，你的函数给出什么？应该给出什么？"
old = """return x * factor"""
new = """return $new"""
'''
PATCHES = (
    {"name": "_unscaled", "en": "a result that is not scaled", "zh": "结果没有缩放", "new": "x"},
    {"name": "_added", "en": "the factor added", "zh": "加上了 factor", "new": "x + factor"},
)
HANDOUT = """\
# $lab

What it is about, and the **goal** in one sentence.

## What you will be able to do

- three to six abilities; what one needs to know before.

## Files, points and time

| TODO | file | points | time | test command |
|---|---|---:|---:|---|
$rows

## Readings

| read | for |
|---|---|

## Symbols and shapes

## The contract

## Part 1: scaling

$todos
## How your work is judged

## Common mistakes

## Going further

## Hand in
"""
ROW = "| `$id.$stem` | `$stem.py` | $points | 20 min | `$test$stem` |"
TODO = """\
### TODO `$id.$stem` ($points points)

The idea, the formula, the steps. Then `$test$stem`.
"""


def root() -> Path:
    """The course that a new lab belongs to: the one that is named, or that one is in, or begins."""
    named, present = os.environ.get(COURSE), Path.cwd()
    return labfile.ROOT if named or present.is_relative_to(labfile.ROOT) else present


def look(place: LabSources, files: Sequence[str]) -> None:
    """Look whether a lab can be written: names that are names, and nothing in the way.

    Raises:
        LabError: the name or a file is no name, the lab exists, or another one has its number.
    """
    if not _NAME.fullmatch(place.name):
        raise LabError(f"{place.name!r} is no name of a lab; write one like lab8_gate")
    if odd := [file for file in files if not _FILE.fullmatch(file)]:
        raise LabError(
            f"{odd[0]!r} is no name of a file that students edit; write one like gate.py"
        )
    if len({*files}) < len(files):
        raise LabError(f"--files {' '.join(files)}: a name stands twice")
    if place.folder.exists() or place.solution.exists():
        raise LabError(f"{place.shown(place.folder)} or {place.shown(place.solution)} exists")
    names = [path.parent.name for path in place.root.glob("labs/*/lab.toml")]
    labs = {suggestions.number(name): name for name in names}
    if (own := suggestions.number(place.name)) and own in labs:
        free = 1 + max(int(taken) for taken in labs if taken)
        rest = place.name.partition("_")[2] or "gate"
        raise LabError(f"lab {own} is {labs[own]} already; the next free name is lab{free}_{rest}")


def write(place: LabSources, texts: Iterable[tuple[Path, str]]) -> None:
    """Write the files of a lab, and say so; where it is the first one, ``labs`` too."""
    print(f"course     {place.root.resolve()}")
    (place.root / "labs").mkdir(parents=True, exist_ok=True)
    (place.root / "labs" / "__init__.py").touch()
    for path, text in texts:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"written    {place.shown(path)}")


def run(name: str, files: Sequence[str], root: Path, *, english: bool = False) -> int:
    """Write a tiny lab, and print what to do next.

    Args:
        name: of the lab and its folders, as ``lab8_gate``.
        files: what students will edit, ``.py`` each.
        root: of the course.
        english: leave out all Chinese.

    Returns:
        0.

    Raises:
        LabError: see :func:`look`; or ``files`` has several names in one.
    """
    place = LabSources(root, name)
    given = [one for file in files for one in re.split(r"[\s,;]+", file) if one]
    if given != [*files]:
        told = "--files takes one name per argument, without quotes or commas"
        raise LabError(f"{told}: --files {' '.join(given)}")
    look(place, files)
    texts = _texts(place, [file.removesuffix(".py") for file in files])
    write(place, ((path, _in_english(text)) if english else (path, text) for path, text in texts))
    number = name.removeprefix("lab").split("_")[0]
    print(f"next: {suggestions.command('try')} --lab {number}, change something, and again")
    return 0


def _in_english(text: str) -> str:
    """A lab's file without its Chinese."""
    text = re.sub(r', zh = "[^"]*"', "", re.sub(r"(?m)^[\w.]+\.zh = .*\n", "", text))
    text = re.sub(r', f"[^"]*[\u4e00-\u9fff][^"]*"', "", text)
    return re.sub(r"\n\n    [^\n]*[\u4e00-\u9fff][^\n]*\n    \"\"\"", '"""', text)


def _texts(place: LabSources, stems: Sequence[str]) -> Iterator[tuple[Path, str]]:
    first, *more = (100 // len(stems) for _ in stems)
    points = [first + 100 % len(stems), *more]
    common = {
        "lab": place.name,
        "id": place.name.split("_")[0],
        "test": " ".join(place.test_command),
        "files": ", ".join(f'"{stem}.py"' for stem in stems),
    }
    each = [
        common | {"stem": stem, "points": str(p)} for stem, p in zip(stems, points, strict=True)
    ]

    def joined(text: str, separator: str = "") -> str:
        return separator.join(Template(text).substitute(values) for values in each)

    mistakes = ""
    for values in each:
        file = f'\nfile = "{values["stem"]}.py"' if len(stems) > 1 else ""
        for patch in PATCHES:
            mistakes += Template(MISTAKE).substitute(values | patch | {"file": file})
    yield place.folder / "lab.toml", Template(TOML).substitute(common) + joined(EXERCISE)
    rows, todos = joined(ROW, "\n"), joined(TODO, "\n")
    handout = Template(HANDOUT).substitute(common | {"rows": rows, "todos": todos})
    yield place.folder / "README.md", handout
    yield place.solution / "cases" / "__init__.py", CASES + joined(RECIPE)
    yield place.misconceptions, MISTAKES + mistakes
    for values in each:
        stem = values["stem"]
        checks = Template(CHECKS).substitute(values)
        yield place.folder / "checks" / f"test_{stem}.py", checks
        yield place.solution / f"{stem}.py", Template(SOLUTION).substitute(values)
