"""Promises about generated files: stubs and notebooks are current and give nothing away."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from autograder.authoring import stubs
from autograder.authoring.markers import solution_lines
from autograder.authoring.place import Place, read
from autograder.course import asked


def stale_stubs(place: Place) -> Iterator[str]:
    """Stubs that are absent, or differ from what the solution gives now."""
    for name, wanted in stubs.stubs(place.lab, place.solutions).items():
        path = place.folder / name
        if not path.is_file():
            yield f"{place.shown(path)} is absent; run: {asked.command('build')}"
            continue
        text = read(path)
        if text == wanted:
            continue
        pairs = enumerate(zip_longest(text.splitlines(), wanted.splitlines()), 1)
        line = next((number for number, (has, wants) in pairs if has != wants), 1)
        mend = f"run: {asked.command('build')}"
        if not stubs.is_untouched(text):
            mend += " --force (it was changed by hand: move the change into the solution first)"
        yield f"{place.shown(path)}:{line} is not what {name} of the solution gives; {mend}"


def other_faces(place: Place) -> Iterator[str]:
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
                    f"markers, then run: {asked.command('build')}"
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


def stale_notebooks(place: Place) -> Iterator[str]:
    """Notebooks that are absent, or differ from what their source gives."""
    # nbformat is an instructor's package, and slow to import.
    from autograder.authoring import notebooks

    for source in place.notebooks:
        target = source.with_suffix(".ipynb")
        if notebooks.stale(source, target):
            mend = asked.command("build")
            yield f"{place.shown(target)} is not what {source.name} gives; run: {mend}"
    for target in place.built_notebooks:
        if target.with_suffix(".py") not in place.notebooks:
            yield f"{place.shown(target)} has no source; add {target.stem}.py, or delete it"


def leaks(place: Place) -> Iterator[str]:
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


def _readable(place: Place) -> Iterator[Path]:
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
