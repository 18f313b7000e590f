"""Files of a hand-in that import each other: every right spelling means the hand-in's own files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from autograder.course import labfile
from autograder.grading.judge_process import Options
from autograder.worker.loader import StudentModules
from tests import hand_ins
from tests.engines import warm

LAB = labfile.load(labfile.find_lab("2"))
SHOWN = {name: f"{LAB.name}/{name}" for name in LAB.files}
FULL = f"labs.{LAB.name}"
SPELLINGS = {
    "plain": "import attention as here",
    "from the lab": f"from {FULL} import attention as here",
    "the lab's module": f"import {FULL}.attention as here",
    "by its whole name": f"import {FULL}.attention\nhere = labs.{LAB.name}.attention",
    "from beside": "from . import attention as here",
    "from above": f"from ..{LAB.name} import attention as here",
}
NAMES = (f"from {FULL}.attention import X", "from .attention import X", "from attention import X")


@pytest.fixture
def installed() -> Iterator[Any]:
    """Makes modules of two texts; takes them out of this process again."""
    made: list[StudentModules] = []

    def make(attention: str, mlp: str, paths: Mapping[str, str] | None = None) -> StudentModules:
        texts = {"attention.py": attention, "mlp.py": mlp}
        made.append(StudentModules(texts, SHOWN if paths is None else paths).install())
        return made[-1]

    yield make
    for modules in made:
        modules.remove()


def within(text: str) -> str:
    """The text as a function, which is called."""
    body = "".join(f"    {line}\n" for line in text.splitlines())
    return f"def f():\n{body}    return here\nhere = f()\n"


@pytest.mark.parametrize("wrap", [str, within])
@pytest.mark.parametrize("name", SPELLINGS)
def test_the_other_file_is_one_module_by_every_name(installed: Any, name: str, wrap: Any) -> None:
    modules = installed("", wrap(SPELLINGS[name]))
    for _ in range(2):  # in fresh namespaces, too
        attention = modules.module("attention.py")
        assert modules.module("mlp.py").here is attention and attention.__name__ == "attention"
        modules.fresh()
        assert not {"attention", "mlp", f"{FULL}.attention", f"{FULL}.mlp"} & sys.modules.keys()


@pytest.mark.parametrize("spelling", NAMES)
def test_names_come_from_the_other_file_however_it_was_imported_first(
    installed: Any, spelling: str
) -> None:
    modules = installed("import mlp\nfrom . import mlp as m\nX = [mlp is m]", spelling)
    with pytest.raises(ImportError, match="cannot import name 'X'"):
        modules.module("attention.py")  # in a circle, as ever
    later = f"{spelling}\nhere = __file__"
    modules = installed("def f():\n    from .mlp import here\n    return here\nX = 3", later)
    assert modules.module("mlp.py").X == 3
    assert modules.module("attention.py").f() == SHOWN["mlp.py"]


def test_a_file_that_the_other_one_imports_knows_where_it_lies(installed: Any) -> None:
    modules = installed(
        "from mlp import here", "from .attention import __name__ as n\nhere = __file__"
    )
    assert modules.module("attention.py").here == SHOWN["mlp.py"]


def test_files_beside_each_other_need_no_folder_that_is_known(installed: Any) -> None:
    for paths in ({}, {name: f"/a folder.x/{name}" for name in LAB.files}):
        modules = installed(
            "", "from . import attention as here\nfrom .attention import __file__", paths
        )
        assert modules.module("mlp.py").here is modules.module("attention.py")
        modules.fresh()


@pytest.mark.parametrize("text", ["from labs.lab0_other import attention", f"import {FULL}.engine"])
def test_nothing_else_of_the_labs_is_the_hand_ins(installed: Any, text: str) -> None:
    with pytest.raises(ImportError):
        installed("", text).module("mlp.py")


# What a hand-in may try to import, and what of it there is in a worker: "own" or "given".
ASKED = (
    *("attention", f"{FULL}.attention", ".attention", f"{FULL}.checks", f"{FULL}.checks.calls"),
    *(".checks", "..given.standin", "..given.norm", "labs.given.norm", "labs.given.standin"),
    *("labs.lab1_foundations.attention", "..lab1_foundations.attention", ".lab", "solutions"),
    *(f"solutions.{LAB.name}", "labs.lab1_foundations", "autograder.course", "tests"),
)
ASKS = f"""
import attention, importlib
def kinds():
    for name in {ASKED!r}:
        try:
            found = importlib.import_module(name, __package__)
        except (ImportError, OSError):
            continue
        yield name + "=" + ("own" if found is attention else "given")
raise RuntimeError("found: " + " ".join(kinds()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a zygote")
def test_a_worker_has_the_hand_ins_own_files_and_what_its_lab_gives() -> None:
    files = {"attention.py": "", "mlp.py": ASKS}
    with warm(LAB, Options()) as engine:
        record = hand_ins.grade(engine, hand_ins.hand_in("curious", files))["curious"]
    told = next(text for r in record.results if "found: " in (text := str(r.message)))
    found = dict(one.split("=") for one in told.partition("found: ")[2].split("'")[0].split())
    own, given = (
        ("attention", f"{FULL}.attention", ".attention"),
        ("..given.norm", "labs.given.norm"),
    )
    assert found == dict.fromkeys(own, "own") | dict.fromkeys(given, "given")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a zygote")
def test_a_right_hand_in_whose_files_import_each_other_earns_everything() -> None:
    extra = {
        "attention.py": f"from {FULL}.mlp import Qwen3MLP as other\nimport {FULL}.mlp as m\n",
        "mlp.py": f"def late():\n    from .attention import Qwen3Attention\n    from {FULL} import "
        "attention as a\n    assert a.Qwen3Attention is Qwen3Attention\n",
    }
    files = hand_ins.right()
    for name, text in extra.items():
        files[name] = files[name].replace(hand_ins.FUTURE, hand_ins.FUTURE + text, 1)
    files["mlp.py"] += "\n_forward = Qwen3MLP.forward\n\ndef _late(self, x):\n    late()\n"
    files["mlp.py"] += "    return _forward(self, x)\n\nQwen3MLP.forward = _late\n"
    with warm(LAB, Options()) as engine:
        record = hand_ins.grade(engine, hand_ins.hand_in("right", files))["right"]
    assert hand_ins.not_passed(record) == [] and record.marks == ()
