"""Lab files out of notebooks: read by nbformat, never run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder.course.messages import render
from autograder.intake import tree
from tests.archives import GOOD, MIB, keys, laid, notebook, placed, problem, taken, tarred, zipped

CELL = "%%writefile attention.py\nA = 1\n"
MLP = "%%writefile mlp.py\nM = 2"
OTHER_LAB = "%%writefile labs/lab1_x/attention.py\nA = 9"


def book(tmp_path: Path, *cells: str) -> Path:
    return laid(tmp_path / "li", {"lab2.ipynb": notebook(*cells)})


def test_cells_become_files(tmp_path: Path) -> None:
    whole = {"lab2.ipynb": notebook("import torch", CELL, MLP, "print(1)")}
    for path in (
        laid(tmp_path / "li", whole),
        placed(tmp_path / "li.zip", zipped({f"work/{k}": v for k, v in whole.items()})),
        placed(tmp_path / "li.tgz", tarred(whole, mode="w:gz")),
    ):
        submission = taken(path)
        assert submission.files == {"attention.py": "A = 1\n", "mlp.py": "M = 2\n"}
        assert keys(submission.notes) == ["from_notebook", "from_notebook"]


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (["\n\n%%writefile attention.py\nA = 1\n"], "A = 1\n"),
        (["%%writefile ./lab2/attention.py\nA = 1"], "A = 1\n"),
        (['%%writefile "attention.py"\nA = 1'], "A = 1\n"),
        (["%%writefile   attention.py  \r\nA = 1\r\nB = 2"], "A = 1\nB = 2\n"),
        (["%%file attention.py\nA = 1"], "A = 1\n"),
        ([CELL, "%%writefile attention.py\nA = 9\n"], "A = 9\n"),
        ([CELL, "%%writefile -a attention.py\nB = 2\n"], "A = 1\nB = 2\n"),
        ([CELL, "%%writefile --append attention.py\nB = 2"], "A = 1\nB = 2\n"),
        (["%%writefile -a attention.py\nA = 1"], "A = 1\n"),
        (["%%writefile attention.py"], ""),
        (["%%writefile labs/lab2/attention.py\nA = 1", OTHER_LAB], "A = 1\n"),
        ([CELL, OTHER_LAB], "A = 1\n"),
        (["%%writefile src/attention.py\nA = 9", CELL], "A = 1\n"),
    ],
)
def test_what_a_cell_writes(tmp_path: Path, cells: list[str], text: str) -> None:
    assert taken(book(tmp_path, *cells)).files["attention.py"] == text


@pytest.mark.parametrize(
    "cell",
    [
        "A = 1",
        "# %%writefile attention.py\nA = 1",
        "x = 1\n%%writefile attention.py\nA = 1",
        "%writefile attention.py\nA = 1",
        "%%writefile attention.py.bak\nA = 1",
        "%%bash\necho attention.py",
        OTHER_LAB,
    ],
)
def test_a_notebook_without_such_cells_says_what_to_do(tmp_path: Path, cell: str) -> None:
    text = problem(book(tmp_path, cell, MLP))
    assert text.startswith("no_cells: attention.py")
    assert "%%writefile attention.py" in text
    assert "lab2.ipynb" in text
    named = laid(tmp_path / "bo", {"attention.ipynb": notebook(cell), "mlp.py": b""})
    assert problem(named).startswith("no_cells: attention.py")


def test_a_file_beside_the_notebook_comes_first(tmp_path: Path) -> None:
    path = laid(tmp_path / "li", {**GOOD, "a.ipynb": notebook("%%writefile mlp.py\nNO = 1")})
    assert taken(path).files["mlp.py"] == "M = 2\n"
    assert not taken(path).notes
    wrong = laid(tmp_path / "bo", {"Attention.py": b"", "mlp.py": b"", "a.ipynb": notebook("x")})
    assert problem(wrong).startswith(
        "wrong_name: attention.py is not in the hand-in, but Attention"
    )


def test_two_notebooks(tmp_path: Path) -> None:
    other = CELL + "\nB = 2"
    differ = laid(tmp_path / "a", {"1.ipynb": notebook(CELL, MLP), "2.ipynb": notebook(other)})
    assert problem(differ).startswith("ambiguous")
    assert "1.ipynb, 2.ipynb" in problem(differ)
    assert taken(differ).files["mlp.py"] == "M = 2\n"
    same = laid(tmp_path / "c", {"1.ipynb": notebook(CELL, MLP), "2.ipynb": notebook(CELL)})
    assert not taken(same).problems
    deeper = laid(tmp_path / "b", {"1.ipynb": notebook(CELL, MLP), "old/2.ipynb": notebook(CELL)})
    assert not taken(deeper).problems


def test_a_notebook_is_never_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    code = f"open({str(made)!r}, 'w')"
    path = book(
        tmp_path, code, f"!touch {made}", f"%%bash\ntouch {made}", CELL, MLP, f"%run {code}"
    )
    assert not taken(path).problems
    assert not made.exists()


def test_older_and_odd_notebooks_are_read(tmp_path: Path) -> None:
    third = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [
            {"cells": [{"cell_type": "code", "input": [CELL], "outputs": [], "language": "python"}]}
        ],
    }
    path = laid(tmp_path / "li", {"a.ipynb": json.dumps(third).encode()})
    assert taken(path).files["attention.py"] == "A = 1\n"
    odd = json.loads(notebook(CELL))
    odd["cells"][0] |= {"source": CELL.splitlines(keepends=True), "unknown": 1}
    odd["cells"].append({"cell_type": "wonder", "source": "x", "metadata": {}})
    path = laid(tmp_path / "bo", {"a.ipynb": json.dumps(odd).encode()})
    assert taken(path).files["attention.py"] == "A = 1\n"
    gbk = notebook("%%writefile attention.py\n# 注意力\n")
    gbk = gbk.decode("unicode_escape").replace("\n", "\\n").encode("gbk")
    submission = taken(laid(tmp_path / "ann", {"a.ipynb": gbk}))
    assert submission.files["attention.py"] == "# 注意力\n"
    assert keys(submission.notes) == ["from_notebook", "gbk"]


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"{",
        b'{"cells": 5, "nbformat": 4}',
        b'{"cells": [5], "nbformat": 4, "nbformat_minor": 4, "metadata": {}}',
        b'{"cells": [{"cell_type": "code"}], "nbformat": 4}',
        b'{"cells": [{"cell_type": "code", "source": {"a": 1}}], "nbformat": 4}',
        b'{"nbformat": 99, "cells": []}',
        b'{"nbformat": "x"}',
        b'{"nbformat": ' + b"9" * 5000 + b"}",
        b'{"a": ' + b"[" * 100_000,
        b'{"worksheets": [{"cells": null}], "nbformat": 3}',
        b'{"cells": [], "nbformat": 4, "metadata": \xff}',
    ],
)
def test_a_notebook_that_is_none(tmp_path: Path, data: bytes) -> None:
    text = problem(laid(tmp_path / "li", {"a.ipynb": data}))
    assert text.startswith(("broken_notebook: a.ipynb", "no_cells", "undecodable"))


def test_caps_of_notebooks(tmp_path: Path) -> None:
    big = notebook(CELL, "x" * tree.MAX_NOTEBOOK_BYTES)
    assert problem(laid(tmp_path / "a", {"a.ipynb": big})).startswith("too_big: a.ipynb")
    cell = "%%writefile -a attention.py\n" + "#" * (MIB // 2)
    assert problem(book(tmp_path, cell, cell, cell)).startswith("too_big: attention.py")
    assert problem(book(tmp_path, "%%writefile attention.py\n\0")).startswith("nul: attention.py")


def test_what_is_said_in_chinese(tmp_path: Path) -> None:
    message = taken(book(tmp_path, "x = 1")).problems["attention.py"]
    assert "%%writefile attention.py" in render(message, "zh")
