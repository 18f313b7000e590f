"""Chinese docstrings: put into the stubs, and told from the English where facts differ."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from autograder.authoring import docstrings, stubs
from autograder.authoring.place import LabSources
from autograder.course import labfile
from autograder.course.labfile import ROOT

STUB = '''# the banner
"""A file."""

# how much
FACTOR = 2  # GIVEN


class Double:
    """Twice ``x``."""

    def forward(self, x: int) -> int:
        """Double it.

        Args:
            x: at most 7.
        """
        # TODO lab9.double: Double it
        raise NotImplementedError("TODO lab9.double: to be written")
'''
KNOWN = {
    "module": docstrings.Chinese("一个文件。"),
    "# how much": docstrings.Chinese("# 多少倍"),
    "Double.forward": docstrings.Chinese("加倍。\n\nArgs:\n    x: 不超过 7，写作 ``\\x``。\n"),
}


def test_names_and_words_of_a_stub() -> None:
    assert docstrings.english(STUB) == {
        "module": "A file.",
        "Double": "Twice ``x``.",
        "Double.forward": "Double it.\n\nArgs:\n    x: at most 7.",
        "# how much": "# how much",
    }


def test_known_words_become_chinese_and_all_else_stays() -> None:
    made = docstrings.in_chinese(STUB, KNOWN)
    assert docstrings.english(made) == {
        "module": "一个文件。",
        "Double": "Twice ``x``.",
        "Double.forward": "加倍。\n\nArgs:\n    x: 不超过 7，写作 ``\\x``。",
        "# 多少倍": "# 多少倍",
    }
    assert made.splitlines()[0] == "# the banner" and made.endswith(
        STUB[STUB.index("        # TODO") :]
    )


@pytest.fixture
def place(tmp_path: Path) -> LabSources:
    """A copy of lab 2 that may be changed."""
    name = labfile.find_lab("2").name
    for part in ("labs", "solutions"):
        ignored = shutil.ignore_patterns("__pycache__", "*.bank")
        shutil.copytree(ROOT / part / name, tmp_path / part / name, ignore=ignored)
    return LabSources(tmp_path, name)


CHANGES = {
    "a number": ("实验 2", "实验 3", "other numbers"),
    "a word of code": ("``q_proj k_proj v_proj o_proj``", "``q_proj k_proj v_proj``", "code words"),
    "an argument": ("    n_rep:", "    reps:", "other arguments"),
    "its table": ('["attention.py".repeat_kv]', '["attention.py".other]', "no Chinese text"),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_what_no_language_may_change_is_told(place: LabSources, change: str) -> None:
    assert list(docstrings.breaches(place)) == []
    old, new, told = CHANGES[change]
    path = place.solution / docstrings.FILE
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert any(told in fault for fault in docstrings.breaches(place))


def test_other_english_words_make_the_chinese_stale_until_somebody_has_looked(
    place: LabSources,
) -> None:
    path = place.folder / "attention.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Let every token gather", "Let each token gather"), "utf-8")
    (fault,) = docstrings.breaches(place)
    assert "Qwen3Attention.forward was made from another English text" in fault
    catalogue = place.solution / docstrings.FILE
    before = docstrings.load(place.solution)
    assert docstrings.run(catalogue) == 0
    assert list(docstrings.breaches(place)) == []
    after = docstrings.load(place.solution)
    assert [[one.zh for one in names.values()] for names in after.values()] == [
        [one.zh for one in names.values()] for names in before.values()
    ]


@pytest.mark.parametrize("name", [path.parent.name for path in labfile.LABS.glob("*/lab.toml")])
def test_chinese_stubs_of_the_labs_compile_and_are_chinese(name: str) -> None:
    lab = labfile.load(labfile.LABS / name)
    for file, text in stubs.stubs(lab, language="zh").items():
        compile(text, file, "exec")
        words = docstrings.english(text).values()
        assert all(any("\u4e00" <= sign <= "\u9fff" for sign in one) for one in words)
