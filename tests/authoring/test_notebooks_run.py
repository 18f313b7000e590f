"""``make notebooks-check``: every notebook runs in a students' copy, empty and filled in."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring import notebooks, release
from autograder.cli.notebook import RIGHT, TODO, WRONG
from autograder.course import labfile
from autograder.course.labfile import ROOT
from autograder.intake.notebook import library
from tests.authoring import warm_kernel

SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
LAB2 = "lab2_qwen3_block"
PLAIN = "lab1_foundations"  # begins as on a student's machine: all imports are its own
PAUSE = 600  # seconds that a cell may take on a busy machine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

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
    def __init__(self, config, layer_idx=0):
        super().__init__(config)
        if config.hidden_size == 40:
            self.q_proj = nn.Linear(40, 96)

    def forward(self, x, attention_mask=None, position_ids=None):
        return (x.mean(1, keepdim=True) * self.q_proj.weight.sum()).expand(x.shape)
"""
WRONG_MLP = """
class Qwen3MLP(Qwen3MLP):
    def forward(self, x):
        return self.down_proj(self.up_proj(x))

def count_parameters(config):
    return dict.fromkeys(("embedding", "attention", "mlp", "norm", "lm_head", "total"), 1)

def weight_bytes(config, dtype):
    return 1

def kv_cache_bytes(config, tokens, batch, dtype):
    return 1
"""


@dataclass(frozen=True)
class Shown:
    """What one cell showed: its source, all it printed, and how many figures it drew."""

    source: str
    text: str
    figures: int


def execute(home: Path, source: Path, *, magics: bool = True) -> list[Shown]:
    """Run a notebook from top to bottom in the students' copy ``home``; an error fails the test."""
    nbformat = library()
    from nbclient import NotebookClient  # heavy: only where a notebook runs

    book: Any = nbformat.from_dict(notebooks.build(source))
    if not magics:
        book.cells = [cell for cell in book.cells if not cell.source.startswith("%")]
    kernel = "python3" if source.stem == PLAIN or sys.platform != "linux" else warm_kernel.NAME
    at = {"metadata": {"path": str(home / "notebooks")}}
    NotebookClient(book, timeout=PAUSE, kernel_name=kernel, resources=at).execute()
    return [_shown(cell) for cell in book.cells if cell.cell_type == "code"]


def _shown(cell: Any) -> Shown:
    text, figures = "", 0
    for output in cell.outputs:
        if output.output_type == "stream":
            # Matplotlib says once per machine that it looks for fonts.
            assert output.name == "stdout" or "font cache" in output.text, output.text
            text += output.text if output.name == "stdout" else ""
        else:
            assert output.output_type == "display_data" and "image/png" in output.data, output
            figures += 1
    return Shown(cell.source, text, figures)


def copy_for_students(home: Path) -> Path:
    """What ``make release`` writes: the labs with nothing filled in."""
    for name, blob in release.sources(ROOT).items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blob)
    return home


def fill_in(home: Path, extra: dict[str, str] | None = None) -> Path:
    """Put the solutions of all labs in; ``extra`` is appended to files of lab 2."""
    for toml in sorted((home / "labs").glob("*/lab.toml")):
        for name in labfile.load(toml.parent).files:
            shutil.copy(ROOT / "solutions" / toml.parent.name / name, toml.parent / name)
    for name, text in (extra or {}).items():
        with (home / "labs" / LAB2 / name).open("a", encoding="utf-8") as file:
            file.write(text)
    return home


@pytest.fixture(autouse=True, scope="module")
def _kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One thread each: more only wait for each other where several tests run at a time."""
    folder = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        # What %check says is read below; sentences of notebooks are in both languages anyway.
        patch.setenv("LAB_LANG", "en")
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("JUPYTER_PATH", str(folder))
        if sys.platform == "linux":
            stack.enter_context(warm_kernel.installed(folder))
        yield


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_for_students(tmp_path_factory.mktemp("empty"))


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_in(copy_for_students(tmp_path_factory.mktemp("solved")))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_with_nothing_written_every_cell_that_needs_it_says_so(empty: Path, source: Path) -> None:
    cells = execute(empty, source)
    asking = [cell for cell in cells if "with your_code(" in cell.source]
    assert len(asking) >= 2
    for cell in asking:
        assert cell.text.count(TODO) == 1 and cell.figures == 0, cell
        assert len(re.findall(r"save, and run this cell again\.\n请在 labs/", cell.text)) == 1
    others = "".join(cell.text for cell in cells if cell not in asking)
    assert TODO not in others and WRONG not in others
    for cell in cells:
        if cell.source.startswith("%check"):
            assert "0 of 100 points" in cell.text
        if cell.source.startswith("%hint"):
            assert "Hint" in cell.text
    stubs = "".join(cell.source for cell in cells if cell.source.startswith("%check"))
    assert bool(stubs) == source.name.startswith("lab")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_with_the_solutions_everything_is_as_expected(solved: Path, source: Path) -> None:
    cells = execute(solved, source)
    said = "".join(cell.text for cell in cells)
    assert TODO not in said and WRONG not in said
    assert said.count(RIGHT) >= 3 and sum(cell.figures for cell in cells) >= 4
    for cell in cells:
        if "verdict(" in cell.source:
            assert RIGHT in cell.text, cell.source
        if "plt.show()" in cell.source:
            assert cell.figures >= 1, cell.source
        if cell.source.startswith("%check"):
            assert "100 of 100 points" in cell.text


def test_every_experiment_of_lab_2_can_disagree(tmp_path: Path) -> None:
    home = copy_for_students(tmp_path)
    fill_in(home, {"attention.py": WRONG_ATTENTION, "mlp.py": WRONG_MLP})
    cells = execute(home, ROOT / "notebooks" / f"{LAB2}.py", magics=False)
    experiments = [cell for cell in cells if "print(verdict(" in cell.source]
    assert len(experiments) > 10
    for cell in experiments:
        assert WRONG in cell.text and RIGHT not in cell.text, cell


CHART = """
# %%
import sys
sys.path.insert(0, "..")
import matplotlib.pyplot as plt
from autograder.cli import notebook
notebook._CHINESE = ("DejaVu Sans",)  # comes with matplotlib
# %load_ext autograder
print(plt.title("head 3").get_text(), plt.xlabel("my own").get_text())
plt.close()
"""


@pytest.mark.parametrize(("language", "told"), [("zh", "头 3 my own"), ("en", "head 3 my own")])
def test_a_students_chart_speaks_the_language_of_the_kernel(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, told: str
) -> None:
    monkeypatch.setenv("LAB_LANG", language)
    source = tmp_path / f"{PLAIN}.py"  # in a kernel that has this environment
    source.write_text(CHART, encoding="utf-8")
    assert [cell.text for cell in execute(empty, source)] == [f"{told}\n"]


def test_the_kernel_is_this_python() -> None:
    """Otherwise these tests would run another environment's packages."""
    from jupyter_client.kernelspec import KernelSpecManager

    command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    assert command.startswith("python") or Path(command).samefile(sys.executable)
