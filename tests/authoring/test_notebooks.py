"""Notebooks: generated as they should be, valid Python, and without a line of any solution."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from autograder.authoring import notebooks

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
LABS = sorted(path.parent.name for path in (ROOT / "labs").glob("*/lab.toml"))


def write_source(folder: Path, text: str) -> Path:
    path = folder / "lesson.py"
    path.write_text(text, encoding="utf-8")
    return path


def solution_lines(lab: str) -> set[str]:
    """The lines that no student file may hold: between the markers, longer than 20 characters."""
    given = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "labs" / "given").glob("*.py"))
    lines: set[str] = set()
    for path in (ROOT / "solutions" / lab).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for body in re.findall(r"# BEGIN SOLUTION.*?\n(.*?)# END SOLUTION", text, flags=re.S):
            lines.update(line.strip() for line in body.splitlines())
    return {line for line in lines if len(line) > 20 and line not in given}


def test_there_is_one_for_every_lab_and_one_before_them() -> None:
    assert [source.stem for source in SOURCES] == ["00_tokens_to_text", *LABS]
    assert [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb"))] == [
        source.stem for source in SOURCES
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_checked_in_is_what_the_source_gives(source: Path) -> None:
    assert not notebooks.stale(source, source.with_suffix(".ipynb"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_built_twice_is_the_same_without_outputs(source: Path) -> None:
    first, second = notebooks.build(source), notebooks.build(source)
    assert first == second
    assert (first.nbformat, first.nbformat_minor) == (4, 5)
    ids = [cell.id for cell in first.cells]
    assert len(set(ids)) == len(ids) > 10
    code = [cell for cell in first.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_cells_titles_and_comments(tmp_path: Path) -> None:
    source = write_source(
        tmp_path,
        "# %% [markdown] title\n# # Head\n#\n# text\n\n# %% first\nx = 1  # %% no marker\n\n\n"
        "# a comment\ny = 2\n\n# %%\n\n# %% [markdown]\n#no blank\n",
    )
    cells = [(cell.kind, cell.text, cell.line) for cell in notebooks.parse(source)]
    assert cells == [
        ("markdown", "# Head\n\ntext", 1),
        ("code", "x = 1  # %% no marker\n\n\n# a comment\ny = 2", 6),
        ("markdown", "no blank", 15),
    ]


def test_equal_cells_get_different_ids_and_old_ones_keep_theirs(tmp_path: Path) -> None:
    twice = notebooks.build(write_source(tmp_path, "# %%\nx = 1\n# %%\nx = 1\n"))
    assert twice.cells[0].id != twice.cells[1].id
    longer = notebooks.build(write_source(tmp_path, "# %%\nnew = 0\n# %%\nx = 1\n"))
    assert longer.cells[1].id == twice.cells[0].id


@pytest.mark.parametrize(
    ("text", "line", "mending"),
    [
        ("import torch\n# %%\nx = 1\n", 1, "put '# %%' above it"),
        ("# %%\nx = 1\n# %% [raw]\ntext\n", 3, r"names the cell \[raw\]; write \[markdown\]"),
        ("# %% [markdown]\n# text\nx = 1\n", 3, "begin it with '# '"),
    ],
)
def test_faults_name_file_line_and_mending(
    tmp_path: Path, text: str, line: int, mending: str
) -> None:
    with pytest.raises(ValueError, match=rf"lesson\.py, line {line}: this line .*{mending}"):
        notebooks.build(write_source(tmp_path, text))


def test_an_empty_source_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no cell in it"):
        notebooks.build(write_source(tmp_path, "\n# %%\n"))


def test_stale_sees_absence_change_and_outputs(tmp_path: Path) -> None:
    source, target = write_source(tmp_path, "# %%\nx = 1\n"), tmp_path / "lesson.ipynb"
    assert notebooks.stale(source, target)
    notebooks.write(source, target)
    assert not notebooks.stale(source, target)

    raw = json.loads(target.read_text(encoding="utf-8"))
    raw["cells"][0]["execution_count"] = 1
    target.write_text(json.dumps(raw, indent=1), encoding="utf-8")
    assert notebooks.stale(source, target)

    notebooks.write(source, target)
    write_source(tmp_path, "# %%\nx = 2\n")
    assert notebooks.stale(source, target)


@pytest.mark.parametrize("lab", LABS)
def test_no_line_of_a_solution_is_in_a_notebook(lab: str) -> None:
    secret = solution_lines(lab)
    assert len(secret) > 25  # the markers were found
    for source in SOURCES:
        text = "\n".join(cell.source for cell in notebooks.build(source).cells)
        assert [line for line in sorted(secret) if line in text] == [], source.name


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_cell_is_valid_and_told_in_both_languages(source: Path) -> None:
    cells = notebooks.parse(source)
    for cell in cells:
        if cell.kind == "code":
            plain = "\n".join(line for line in cell.text.split("\n") if not line.startswith("%"))
            ast.parse(plain)
        else:
            words = re.sub(r"\$[^$]*\$|`[^`]*`", "", cell.text)
            assert re.search("[\u4e00-\u9fff]", words) and re.search("[a-z]{3}", words), cell.line
    magics = [line for cell in cells for line in cell.text.split("\n") if line.startswith("%")]
    assert "%load_ext autograder" in magics
    wanted = [] if source.stem.startswith("00") else [f"%check {source.stem.split('_')[0]}"]
    assert [line for line in magics if line.startswith("%check")] == wanted


def test_a_commented_magic_is_one_in_the_notebook_only(tmp_path: Path) -> None:
    text = "# %%\n# %check lab2\nx = 1  # %check\n# % of all\n# %% [markdown]\n# %check lab2\n"
    first, second = notebooks.parse(write_source(tmp_path, text))
    assert first.text == "%check lab2\nx = 1  # %check\n# % of all"
    assert second.text == "%check lab2"
