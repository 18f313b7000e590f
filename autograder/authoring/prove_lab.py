"""Promises about what a lab gives and forbids."""

from __future__ import annotations

import ast
import importlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from autograder import intake
from autograder.authoring import fingerprints, stubs
from autograder.authoring.answers import catalogue_of, sources_of, together, traces_of
from autograder.authoring.pages import Section, sections
from autograder.authoring.place import LabSources, read
from autograder.authoring.stubs import solution_lines
from autograder.checks.plan import collect
from autograder.course import handed_out, suggestions
from autograder.course.messages import render
from autograder.course.records import CheckResult, HandIn, Lab, Outcome
from autograder.course.score import points_of
from autograder.diagnosis import bank
from autograder.diagnosis.naming import NEAR
from autograder.grading import hidden_cases
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.reference import cases, recipes
from autograder.reference.build import write_private

GIVEN = "# GIVEN"  # stands in a function that the stub hands out whole, on purpose


def told_bodies(place: LabSources) -> Iterator[str]:
    """Functions of a stub that hold more than a TODO: a marker was lost around their body."""
    for name in place.lab.files:
        path = place.folder / name
        text = read(path)
        for node in ast.walk(ast.parse(text, place.shown(path))):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if GIVEN in (ast.get_source_segment(text, node) or ""):
                continue
            if any(not _is_todo(statement) for statement in node.body):
                yield (
                    f"{place.shown(path)}:{node.lineno}: {node.name} shows its body; put it "
                    f"between BEGIN and END SOLUTION, or write {GIVEN} in it"
                )


def _is_todo(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise):
        return "NotImplementedError" in ast.unparse(statement)
    if not isinstance(statement, ast.Expr):
        return False
    is_docstring = isinstance(statement.value, ast.Constant)
    return is_docstring or ast.unparse(statement) == "super().__init__()"


def unknown_names(place: LabSources) -> Iterator[str]:
    """Names in ``given`` and ``forbidden`` that nothing goes by, so that they do nothing."""
    for module in place.lab.given:
        if not (place.root / (module.replace(".", "/") + ".py")).is_file():
            yield f"lab.toml: given: there is no module {module}"
    for dotted in place.lab.forbidden:
        module, _, name = dotted.rpartition(".")
        try:
            known = hasattr(importlib.import_module(module), name)
        except (ImportError, ValueError):
            known = False
        if not known:
            yield f"lab.toml: forbidden: {dotted} does not exist; check how it is spelt"


# Promises about handouts: every part is there, and says of each exercise what lab.toml says.

HANDOUT = "README.md"
# Headings in their order; “Common mistakes” may go on (“, and where they bit real code”).
PARTS = (
    "What you will be able to do",
    "Files, points and time",
    "Readings",
    "Symbols and shapes",
    "The contract",
    "How your work is judged",
    "Common mistakes",
    "Going further",
    "Hand in",
)
_HOURS = re.compile(r"\d+(?: to \d+)? (?:min|h)|–")
FEWEST = 20  # letters about an exercise, beside its test command


def handout_breaches(place: LabSources) -> Iterator[str]:
    """Return what a handout lacks, or tells differently than ``lab.toml``."""
    path = place.folder / HANDOUT
    shown = place.shown(path)
    if not path.is_file():
        yield f"{shown} is absent; write it in the form of the author's guide"
        return
    found = list(sections(read(path)))
    yield from (f"{shown}: {fault}" for fault in _parts(found))
    yield from (f"{shown}: {fault}" for fault in _exercises(place, found))


def _parts(found: Sequence[Section]) -> Iterator[str]:
    titles = [section.title for section in found if section.level == 2]
    at = 0
    for part in PARTS:
        here = [n for n, title in enumerate(titles) if title.startswith(part)]
        if not here:
            yield f"has no section “## {part}”; add it"
        elif here[0] < at:
            yield f"“## {part}” stands too early; the order is {', '.join(PARTS)}"
        else:
            at = here[0]


def _exercises(place: LabSources, found: Sequence[Section]) -> Iterator[str]:
    rows = dict(_rows(found))
    test, match = place.test_command
    pattern = re.compile(rf"`{re.escape(test)} {match}(\S+)`")
    for exercise in place.lab.exercises:
        points = sum(check.points for check in exercise.checks)
        heading = f"TODO `{exercise.id}` ({points} point{'s' * (points != 1)})"
        own = next((section for section in found if section.title == heading), None)
        if own is None:
            yield f"has no section “### {heading}”; add it (points are those of lab.toml)"
            continue
        command = pattern.search(own.body)
        if command is None:
            yield f"line {own.line}: “{heading}” lacks `{test} {match}…`"
        elif command[1] not in (exercise.id, exercise.id.partition(".")[2]):
            odd = f"{match}{command[1]} is not {exercise.id}"
            yield f"line {own.line}: {odd}; take its id or its name"
        if _letters(found, own) < FEWEST:
            says = "says nothing beside its test command; write the idea and the steps"
            yield f"line {own.line}: “{heading}” {says}"
        row = rows.get(exercise.id)
        asked = "" if command is None else command[0]
        wanted = ("", f"`{exercise.id}`", f"`{exercise.file}`", str(points))
        if row is None or tuple(row[:4]) != wanted or asked not in row:
            yield (
                f"“Files, points and time” needs a row “| {' | '.join(wanted[1:])} | hours | "
                f"{asked or 'test command'} |”"
            )
        elif not _HOURS.fullmatch(row[4]):
            yield f"“{row[4]}” is no time for {exercise.id}; write 20 min, 2 h, 2 to 3 h, or –"


def _letters(found: Sequence[Section], own: Section) -> int:
    """Count the letters in the section of an exercise, below it, and in what leads to it."""
    at = found.index(own)
    before = [n for n in range(at) if found[n].level < own.level or found[n].title[:5] == "TODO "]
    first = before[-1] + (found[before[-1]].level >= own.level) if before else 0
    after = (n for n in range(at + 1, len(found)) if found[n].level <= own.level)
    told = found[first : next(after, None)]
    return sum(len(re.findall(r"\w", section.prose)) for section in told)


def _rows(found: Sequence[Section]) -> Iterator[tuple[str, list[str]]]:
    for section in found:
        if section.title == "Files, points and time":
            for line in section.body.splitlines():
                cells = [cell.strip() for cell in line.split("|")]
                if len(cells) > 5 and cells[1].startswith("`"):
                    yield cells[1].strip("`"), cells


# The promise about scores: graded as a class is, a stub earns 0 and a solution 100.


def unfair_scores(place: LabSources) -> Iterator[str]:
    """Grade stub and solution on public and on throw-away hidden cases.

    Yields:
        Every check of the stub that is not ``not_started``, every check of the solution that
        did not pass (optional ones may be ungraded), and wrong sums.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        key = hidden_cases.find(None, folder)
        hidden = folder / "hidden.safetensors"
        made = recipes.build(recipes.of_lab(place.solution), key)
        write_private(hidden, cases.dump(made))
        stub, solution = _graded(place, Options(hidden_cases=hidden, order_seed=key))
        found = [*stub_faults(place.lab, stub.results)]
        found += solution_faults(place.lab, "solution", solution.results)
        if found and (folder / "secret").exists():
            drawn = (folder / "secret").read_text().strip()
            yield f"with hidden cases of {hidden_cases.VARIABLE}={drawn} (set it to repeat this):"
    yield from found


def stub_faults(lab: Lab, results: Sequence[CheckResult]) -> Iterator[str]:
    """Whatever a stub has begun, and points that it earns; a check without points may pass."""
    free = {check.name for check in lab.checks if not check.points}
    for result in _of_all_checks(lab, results):
        passed = result.outcome is Outcome.PASSED and result.check in free
        if result.outcome is not Outcome.NOT_STARTED and not passed:
            yield f"stub: {_said(result)}, but nothing in a stub is started"
    yield from _wrong_score(lab, "stub", results, 0)


def solution_faults(lab: Lab, name: str, results: Sequence[CheckResult]) -> Iterator[str]:
    """Whatever is not right of a right solution, and points that it does not earn."""
    optional = {check.name for check in lab.checks if check.optional}
    for result in _of_all_checks(lab, results):
        ungraded = result.outcome is Outcome.NOT_GRADED and result.check in optional
        if result.outcome is not Outcome.PASSED and not ungraded:
            yield f"{name}: {_said(result)}, but it is right"
    yield from _wrong_score(lab, name, results, lab.points)


def check_faults(results: Iterable[CheckResult]) -> Iterator[str]:
    """Checks that fail by themselves, whatever they are asked about."""
    for result in results:
        if result.message is not None and result.message.key == "check.grader_fault":
            values = result.message.values
            place = str(values.get("place", "")).rpartition(" ")[2]
            yield f"{result.check} itself fails, in {place}: {values['text']}"


def _wrong_score(lab: Lab, name: str, results: Sequence[CheckResult], wanted: int) -> Iterator[str]:
    score = points_of(lab, tuple(results))
    if (score.earned, score.undecided) != (wanted, 0):
        yield (
            f"{name}: earns {score.earned} points, {score.undecided} are undecided; "
            f"it has to earn {wanted}"
        )


def _graded(place: LabSources, options: Options) -> tuple[HandIn, HandIn]:
    folders = {"stub": place.folder, "solution": place.solution}
    hand_ins = [intake.read(intake.Entry(name, at), place.lab) for name, at in folders.items()]
    with Engine(place.lab, options) as engine:
        engine.wait_ready()
        graded = {hand_in.student: hand_in for hand_in in engine.grade(iter(hand_ins))}
    return graded["stub"], graded["solution"]


def _of_all_checks(lab: Lab, results: Sequence[CheckResult]) -> Iterator[CheckResult]:
    found = {result.check: result for result in results}
    for check in lab.checks:
        yield found.get(check.name) or CheckResult(check.name, Outcome.NOT_GRADED)


def _said(result: CheckResult) -> str:
    why = f" ({render(result.message, 'en')})" if result.message else ""
    return f"{result.check} is {result.outcome.value}{why}"


# Promises about generated files: stubs and notebooks are current and give nothing away.


def stale_stubs(place: LabSources) -> Iterator[str]:
    """Stubs that are absent, or differ from what the solution gives now."""
    for name, wanted in stubs.stubs(place.lab, place.solutions).items():
        path = place.folder / name
        if not path.is_file():
            yield f"{place.shown(path)} is absent; run: {suggestions.command('build')}"
            continue
        text = read(path)
        if text == wanted:
            continue
        pairs = enumerate(zip_longest(text.splitlines(), wanted.splitlines()), 1)
        line = next((number for number, (has, wants) in pairs if has != wants), 1)
        mend = f"run: {suggestions.command('build')}"
        if not handed_out.is_untouched(text):
            mend += " --force (it was changed by hand: move the change into the solution first)"
        yield f"{place.shown(path)}:{line} is not what {name} of the solution gives; {mend}"


def other_faces(place: LabSources) -> Iterator[str]:
    """Names whose signature or docstring in the stub is not that of the solution."""
    for name in place.lab.files:
        path = place.folder / name
        have, want = face(read(path)), face(read(place.solution / name))
        for key in sorted(want.keys() | have.keys()):
            where = f"{place.shown(path)}: {key or 'the module'}"
            if key not in have:
                yield f"{where} is lost; keep it outside the solution markers"
            elif key not in want:
                yield f"{where} is not in the solution"
            elif have[key] != want[key]:
                what = "signature" if have[key][0] != want[key][0] else "docstring"
                yield (
                    f"{where}: its {what} differs from the solution's; keep it outside the "
                    f"markers, then run: {suggestions.command('build')}"
                )


def face(text: str) -> dict[str, tuple[str, str]]:
    """Signature and docstring by qualified name, for the module (``""``) and all it defines."""
    tree = ast.parse(text)
    found = {"": ("", ast.get_docstring(tree) or "")}

    def visit(node: ast.Module | ast.ClassDef, prefix: str) -> None:
        for child in node.body:
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = prefix + child.name
                found[name] = (_signature(child), ast.get_docstring(child) or "")
                if isinstance(child, ast.ClassDef):
                    visit(child, f"{name}.")

    visit(tree, "")
    return found


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """The definition without its body, as one normalised line."""
    bare = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(bare, type(node))
    bare.body = [ast.Expr(ast.Constant(...))]
    return ast.unparse(bare)


def stale_notebooks(place: LabSources) -> Iterator[str]:
    """Notebooks that are absent, or differ from what their source gives."""
    # nbformat is an instructor's package, and slow to import.
    from autograder.authoring import notebooks

    for source in place.notebooks:
        target = source.with_suffix(".ipynb")
        if notebooks.stale(source, target):
            mend = suggestions.command("build")
            yield f"{place.shown(target)} is not what {source.name} gives; run: {mend}"
    for target in place.built_notebooks:
        if target.with_suffix(".py") not in place.notebooks:
            yield f"{place.shown(target)} has no source; add {target.stem}.py, or delete it"


def leaks(place: LabSources) -> Iterator[str]:
    """Lines of the solution in what students get, unless they are in the given code as well."""
    given = "\n".join(map(read, sorted((place.root / "labs" / "given").glob("*.py"))))
    secret = {
        line: name
        for name in place.lab.files
        for line in solution_lines(read(place.solution / name), name)
        if line not in given
    }
    for path in _readable(place):
        text = _text_of(path)
        for line, name in sorted(secret.items()):
            if line in text:
                at = text[: text.index(line)].count("\n") + 1
                yield (
                    f"{place.shown(path)}:{at} holds a line of the solution of {name}: "
                    f"“{line}”; say it in words instead"
                )


def _readable(place: LabSources) -> Iterator[Path]:
    """Every text of the lab that a student gets."""
    yield from (path for name in place.lab.files if (path := place.folder / name).is_file())
    yield from sorted(place.folder.glob("*.md"))
    yield from sorted(place.folder.glob("checks/*.py"))
    yield place.folder / "lab.toml"
    yield from sorted(place.folder.glob("*.json"))
    # Those of other labs, too: what is an exercise here may be of use there.
    yield from sorted((place.root / "notebooks").glob("*.py"))
    yield from sorted((place.root / "notebooks").glob("*.ipynb"))
    yield from sorted(place.root.glob("README*.md"))
    yield from sorted((place.root / "labs").glob("*.md"))


def _text_of(path: Path) -> str:
    """The text as it is read: a notebook's cells are JSON strings on disk."""
    if path.suffix != ".ipynb":
        return read(path)
    cells = json.loads(read(path)).get("cells", [])
    return "\n".join("".join(cell.get("source", "")) for cell in cells)


# Promises about fingerprints: they are of the mistakes that are listed, as they answer now.

SAMPLE = 8  # mistakes that are run again: libraries change, too
MAX_BYTES = 1 << 20  # of what students get


def stale(place: LabSources) -> Iterator[str]:
    """Banks that are absent, too large, of other sources, or of other answers than today's."""
    if not place.misconceptions.exists():
        return
    shown = place.shown(place.fingerprints)
    mend = f"run: {suggestions.command('build')}"
    if not fingerprints.is_made_of(place.pairs, fingerprints.made_of(place)):
        yield f"{place.shown(place.pairs)}: not made of what is there today; {mend}"
    if not fingerprints.is_made_of(place.fingerprints, fingerprints.made_of_singles(place)):
        yield f"{shown}: not made of the solution, checks and misconceptions of today; {mend}"
        return
    if bank.load(place.fingerprints).classes != catalogue_of(place).words:
        yield f"{shown}: has other words than misconceptions.toml; {mend}"
    size = place.fingerprints.stat().st_size
    if size > MAX_BYTES:
        yield f"{shown}: has {size} bytes, more than {MAX_BYTES}; give checks fewer cases"
    yield from (f"{shown}: {name} answers otherwise now; {mend}" for name in _changed(place))


def _changed(place: LabSources) -> Iterator[str]:
    """Of a few mistakes those whose answers are not those of the bank any more."""
    known, catalogue = bank.load(place.fingerprints), catalogue_of(place)
    plan, sources = collect(place.folder), sources_of(place)
    for entry in catalogue.entries[:: max(1, len(catalogue.entries) // SAMPLE)]:
        made = together((entry,), sources)
        assert made is not None  # the hash of the sources would have told
        own = (entry.class_name,)
        shows = {name: p for name, p in known.exercises.items() if own in p.mistakes}
        asked = {check.name for check in plan.lab.checks if check.exercise in shows}
        traces = traces_of(plan, made, only=plan.lab.with_needs(asked)) if asked else {}
        # Another way of the same mistake may show in another exercise, and this one not at all.
        wrong = {name: p for name, p in shows.items() if not p.is_right(traces[name])}
        for name, prints in (wrong or shows).items():
            gaps = zip(prints.mistakes, prints.distances(traces[name]).tolist(), strict=True)
            if min(g for c, g in gaps if c == own) > NEAR:
                yield entry.id
                break
