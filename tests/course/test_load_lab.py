"""Student code comes in from its text: fresh, by plain name, and nothing beside it."""

from __future__ import annotations

import inspect
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from autograder.worker.loader import StudentModules, read_sources

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("alpha_of_test", "beta_of_test")
ALPHA = """\
from beta_of_test import two

counter = []

def three():
    counter.append(1)
    return two() + 1

def fails():
    number = 0
    return 1 / number
"""
BETA = (
    "def two():\n    return 2\n\ndef back():\n    import alpha_of_test\n    return alpha_of_test\n"
)
SOURCES = {"alpha_of_test.py": ALPHA, "beta_of_test.py": BETA}


@pytest.fixture
def modules() -> Iterator[StudentModules]:
    made = StudentModules(SOURCES, {"alpha_of_test.py": "lab9/alpha_of_test.py"}).install()
    yield made
    if made in sys.meta_path:
        made.remove()


def alpha(modules: StudentModules) -> ModuleType:
    return modules.module("alpha_of_test.py")


def test_files_import_each_other_by_plain_name(modules: StudentModules) -> None:
    assert alpha(modules).three() == 3
    assert modules.module("beta_of_test.py").back() is alpha(modules)


def test_fresh_runs_the_code_again_in_new_namespaces(modules: StudentModules) -> None:
    first = alpha(modules)
    first.three()
    vars(first)["two"] = lambda: 100
    assert alpha(modules) is first  # until asked for anew
    modules.fresh()
    second = alpha(modules)
    assert second is not first
    assert second.counter == []
    assert second.three() == 3
    assert modules.module("beta_of_test.py").back() is second
    assert first.three() == 101  # what was handed out goes on as it was


def test_code_is_compiled_once(modules: StudentModules, monkeypatch: pytest.MonkeyPatch) -> None:
    first = alpha(modules).three.__code__
    modules.fresh()
    assert alpha(modules).three.__code__ is first


def test_remove_leaves_nothing_behind(modules: StudentModules) -> None:
    alpha(modules)
    modules.remove()
    assert not set(NAMES) & sys.modules.keys()
    with pytest.raises(ModuleNotFoundError):
        modules.module("alpha_of_test.py")


def test_a_file_that_fails_is_tried_again(modules: StudentModules) -> None:
    broken = StudentModules({"gamma_of_test.py": "import no_such_module_at_all"}).install()
    try:
        for _ in range(2):
            with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
                broken.module("gamma_of_test.py")
            assert "gamma_of_test" not in sys.modules
    finally:
        broken.remove()


def test_tracebacks_and_inspect_carry_the_text(modules: StudentModules) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        alpha(modules).fails()
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == ("lab9/alpha_of_test.py", 11, "fails")
    assert last.line == "return 1 / number"
    assert modules.files[last.filename] == "alpha_of_test.py"
    assert inspect.getsource(alpha(modules).three).startswith("def three():\n    counter")


def test_a_syntax_error_names_path_and_line() -> None:
    modules = StudentModules(
        {"gamma_of_test.py": "x = 1\ny = = 2\n"}, {"gamma_of_test.py": "a/g.py"}
    )
    modules.install()
    try:
        with pytest.raises(SyntaxError) as caught:
            modules.module("gamma_of_test.py")
    finally:
        modules.remove()
    assert (caught.value.filename, caught.value.lineno) == ("a/g.py", 2)


def test_our_own_future_imports_do_not_leak_in() -> None:
    """This package says ``from __future__ import annotations``; a hand-in may not."""
    modules = StudentModules({"gamma_of_test.py": "def f(x: int): ...\n"}).install()
    try:
        assert modules.module("gamma_of_test.py").f.__annotations__ == {"x": int}
    finally:
        modules.remove()


def test_only_the_files_of_the_lab_are_read(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_bytes("\ufeffname = '鲸'\n".encode())
    (tmp_path / "torch.py").write_text("raise SystemExit")
    (tmp_path / "folder.py").mkdir()
    texts, paths = read_sources(tmp_path, ("work.py", "absent.py", "folder.py"))
    assert texts == {"work.py": "name = '鲸'\n"}  # without the byte order mark
    assert paths == {"work.py": str(tmp_path / "work.py")}


SHADOWED = """\
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from autograder.worker.loader import StudentModules, read_sources
modules = StudentModules(*read_sources(Path({folder!r}), ("work.py",))).install()
print(modules.module("work.py").found)
"""


def test_a_file_beside_the_hand_in_is_never_imported(tmp_path: Path) -> None:
    """Not even with the hand-in's folder as the current one, as a worker is started."""
    for name in ("torch", "colorsys", "numbers", "mine"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the shadow ran')\n")
    (tmp_path / "work.py").write_text(
        "import colorsys, importlib.util, numbers\n"
        "found = [importlib.util.find_spec('mine'), importlib.util.find_spec('torch').origin,\n"
        "         colorsys.__file__, numbers.__file__]\n"
    )
    code = SHADOWED.format(root=str(ROOT), folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[None, ")
    assert str(tmp_path) not in done.stdout
