"""Notebooks: generated as they should be, and they run on stubs, right and wrong hand-ins."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring import notebooks

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
LAB2 = ROOT / "notebooks" / "lab2_qwen3_block.py"
SOLUTION = ROOT / "solutions" / "lab2_qwen3_block"
RIGHT, WRONG = "as expected · 符合预期", "NOT as expected · 与预期不符"

# Appended to the solution: every function is wrong in a way that its experiment must see.
WRONG_ATTENTION = """
_Table, _Attention = RotaryEmbedding, Qwen3Attention

def rotate_half(x):
    return -x

def repeat_kv(x, n_rep):
    return x.repeat(1, n_rep, 1, 1)

class RotaryEmbedding(_Table):
    def forward(self, position_ids):
        return super().forward(position_ids + 1)

class Qwen3Attention(_Attention):
    def __init__(self, config):
        super().__init__(config)
        self.q_proj = nn.Linear(40, 96)

    def forward(self, x):
        return x.mean(1, keepdim=True) * self.q_proj.weight.sum()
"""
WRONG_MLP = """
class Qwen3MLP(Qwen3MLP):
    def forward(self, x):
        return self.down_proj(self.up_proj(x))

def count_parameters(config):
    return {"embedding": 1, "total": 1}

def weight_bytes(config, dtype):
    return 1

def kv_cache_bytes(config, tokens, batch, dtype):
    return 1
"""


def write_source(folder: Path, text: str) -> Path:
    path = folder / "lesson.py"
    path.write_text(text, encoding="utf-8")
    return path


def solution_lines() -> set[str]:
    """The lines that no student file may hold: between the markers, longer than 20 characters."""
    given = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "labs" / "given").glob("*.py"))
    lines: set[str] = set()
    for path in SOLUTION.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for body in re.findall(r"# BEGIN SOLUTION.*?\n(.*?)# END SOLUTION", text, flags=re.S):
            lines.update(line.strip() for line in body.splitlines())
    return {line for line in lines if len(line) > 20 and line not in given}


def todo_ids() -> set[str]:
    text = "".join(path.read_text(encoding="utf-8") for path in SOLUTION.glob("*.py"))
    return set(re.findall(r"# BEGIN SOLUTION (\S+)", text))


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


def test_no_line_of_the_solution_is_in_the_notebook() -> None:
    secret = solution_lines()
    assert len(secret) > 40  # the markers were found
    text = "\n".join(cell.source for cell in notebooks.build(LAB2).cells)
    assert [line for line in sorted(secret) if line in text] == []


def execute(folder: Path, lab2: Path, extra: dict[str, str] | None = None) -> str:
    """Everything that the lab 2 notebook prints with the files of ``lab2`` in place."""
    from nbclient import NotebookClient  # heavy: only where a notebook runs

    here = folder / "labs" / "lab2_qwen3_block"
    here.mkdir(parents=True)
    (folder / "notebooks").mkdir()
    shutil.copytree(ROOT / "labs" / "given", folder / "labs" / "given")
    for name in ("attention.py", "mlp.py"):
        text = (lab2 / name).read_text(encoding="utf-8") + (extra or {}).get(name, "")
        (here / name).write_text(text, encoding="utf-8")
    notebook: Any = nbformat.from_dict(notebooks.build(LAB2))  # type: ignore[no-untyped-call]
    at = {"metadata": {"path": str(folder / "notebooks")}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=at).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert {out.output_type for out in outputs} == {"stream"}
    assert {out.name for out in outputs} == {"stdout"}
    return "".join(out.text for out in outputs)


def experiments() -> int:
    return LAB2.read_text(encoding="utf-8").count("\n@experiment\n")


@pytest.mark.slow
def test_runs_on_the_untouched_stubs(tmp_path: Path) -> None:
    printed = execute(tmp_path, ROOT / "labs" / "lab2_qwen3_block")
    assert printed.count("Not written yet: TODO") == experiments()
    assert printed.count("尚未完成") == experiments()
    assert set(re.findall(r"Not written yet: TODO ([\w.]+)", printed)) == todo_ids()
    assert RIGHT not in printed and WRONG not in printed


@pytest.mark.slow
def test_every_experiment_agrees_with_the_solution(tmp_path: Path) -> None:
    printed = execute(tmp_path, SOLUTION)
    assert printed.count(RIGHT) == experiments() > 10
    assert WRONG not in printed and "Not written yet" not in printed


@pytest.mark.slow
def test_every_experiment_can_disagree(tmp_path: Path) -> None:
    wrong = {"attention.py": WRONG_ATTENTION, "mlp.py": WRONG_MLP}
    printed = execute(tmp_path, SOLUTION, wrong)
    assert printed.count(WRONG) == experiments()
    assert RIGHT not in printed
