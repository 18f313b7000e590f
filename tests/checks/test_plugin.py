"""The plugin under a real pytest: cases become items, and failures one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch  # noqa: F401  (stays imported: pytester forgets what its runs import)

from autograder.checks import plugin
from autograder.course.records import Lab
from autograder.reference import cases
from autograder.sandbox import local  # noqa: F401
from tests import tiny_lab

pytest_plugins = ["pytester"]
ARGUMENTS = ("-p", "no:cacheprovider", "--import-mode=importlib", "--timeout=0")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return tiny_lab.build(tmp_path / "lab9_doubling")


class Folder:
    """Runs pytest on a hand-in as `debug` does."""

    def __init__(self, pytester: pytest.Pytester, lab: Lab) -> None:
        self._pytester = pytester
        self.lab = lab

    def run(self, files: dict[str, str], *options: str) -> pytest.RunResult:
        folder = self._pytester.mkdir("hand_in")
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        where = ("--lab-folder", str(self.lab.folder), "--hand-in", str(folder))
        checks = str(self.lab.folder / "checks")
        return self._pytester.runpytest_inprocess(
            checks, *where, *ARGUMENTS, *options, plugins=[plugin]
        )


@pytest.fixture
def folder(pytester: pytest.Pytester, lab: Lab) -> Folder:
    return Folder(pytester, lab)


def items(result: pytest.RunResult) -> list[str]:
    lines = (line for line in result.outlines if "::" in line)
    return [line.split("::")[1].split(" ")[0] for line in lines]


def test_a_right_hand_in_passes_in_the_order_of_the_lab(folder: Folder) -> None:
    result = folder.run(tiny_lab.right(), "-v")
    result.assert_outcomes(passed=8)
    names = [check.name for check in folder.lab.checks]
    assert items(result) == [f"{name}[numbers-public-0]" for name in names]


def test_hidden_and_real_cases_become_items_too(folder: Folder, tmp_path: Path) -> None:
    for name, case in (("hidden", tiny_lab.case(3, hidden=True)), ("real", tiny_lab.case(7))):
        (tmp_path / name).write_bytes(cases.dump([case]))
    more = ("--hidden-cases", str(tmp_path / "hidden"), "--real-cases", str(tmp_path / "real"))
    result = folder.run(tiny_lab.right(), "-v", "--only", "test_two", *more)
    kinds = ("public-0", "hidden-3", "public-7")
    assert items(result) == [f"test_two[numbers-{kind}]" for kind in kinds]
    result.assert_outcomes(passed=3)


def test_only_chooses_and_orders(folder: Folder) -> None:
    result = folder.run(tiny_lab.right(), "-v", "--only", "test_side,test_one")
    names = [name.split("[")[0] for name in items(result)]
    assert names == ["test_side", "test_one"]


def test_a_wrong_answer_is_one_sentence_in_both_languages(folder: Folder) -> None:
    result = folder.run(tiny_lab.doing(two="return 3 * x"), "--only", "test_two")
    result.assert_outcomes(failed=1)
    text = "\n".join(result.outlines)
    assert "should equal the reference" in text and "与参考结果不同" in text
    assert "at [1] expected 4, got 6" in text
    for ours in ("expect_close", "Traceback", "checks.py:", "CheckFailed("):
        assert ours not in text


def test_an_exception_is_shown_with_the_students_lines(folder: Folder) -> None:
    result = folder.run(tiny_lab.doing(two="secret = 1 / 0"), "--only", "test_two")
    text = "\n".join(result.outlines)
    assert "ZeroDivisionError: division by zero" in text
    assert "answer.py:" in text and "secret = 1 / 0" in text
    assert "session.py" not in text and "student.py" not in text


def test_breakpoints_let_the_students_exception_through(folder: Folder) -> None:
    result = folder.run(tiny_lab.doing(two="secret = 1 / 0"), "--only", "test_two", "--breakpoints")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*secret = 1 / 0*"])
    result.stdout.fnmatch_lines(["*ZeroDivisionError*"])


def test_every_check_sees_fresh_modules_and_this_process_keeps_none(folder: Folder) -> None:
    import sys

    before = list(sys.meta_path)
    files = tiny_lab.right()
    files["answer.py"] += "calls = []\n"
    counted = "calls.append(1)\nassert len(calls) == 1"
    for name in ("one", "two"):
        lines = "".join(f"    {line}\n" for line in counted.splitlines())
        old = f"def {name}(x): return 2 * x\n"
        files["answer.py"] = files["answer.py"].replace(
            old, f"def {name}(x):\n{lines}    return 2 * x\n"
        )
    folder.run(files, "--only", "test_one,test_two").assert_outcomes(passed=2)
    assert sys.meta_path == before and "answer" not in sys.modules


def test_without_a_lab_the_plugin_stands_aside(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(): pass\n\ndef test_b(): pass")
    pytester.runpytest_inprocess(*ARGUMENTS, plugins=[plugin]).assert_outcomes(passed=2)


def test_a_lab_that_cannot_be_read_is_told_by_file(folder: Folder) -> None:
    (folder.lab.folder / "lab.toml").write_text("points = [", encoding="utf-8")
    result = folder.run(tiny_lab.right())
    assert result.ret != 0
    assert "lab.toml" in "\n".join((*result.outlines, *result.errlines))
