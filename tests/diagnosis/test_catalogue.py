"""The reader of a catalogue of misconceptions, and the patching."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.records import Misconception, Text
from autograder.diagnosis.misconceptions import (
    TOLD,
    Catalogue,
    MisconceptionError,
    Section,
    apply,
    load,
)

ENTRY = '''
[[misconception]]
id = "one"
group = "causal mask"
class = "one"
file = "attention.py"
families = ["causal mask"]
name.en = "a name"
name.zh = "名字"
sees.en = "a sight"
sees.zh = "现象"
hint.en = "a hint"
hint.zh = "提示"
source = "https://example.org/1"
old = """triu(1)"""
new = """triu(2)"""
'''
SECTION = """
[[section]]
groups = ["causal mask"]
title.en = "a title"
title.zh = "标题"
"""
CLASS = """
[[class]]
id = "both"
name.en = "a class"
name.zh = "类名"
sees.en = "its sight"
sees.zh = "它的现象"
hint.en = "its hint"
hint.zh = "它的提示"
"""
FILE = ENTRY + SECTION
# Two entries of one class, which therefore has words of its own.
PAIR = (
    ENTRY.replace('class = "one"', 'class = "both"').replace('source = "https://example.org/1"', "")
    + ENTRY.replace('"one"', '"two"').replace('class = "two"', 'class = "both"').replace("a n", "n")
    + CLASS
    + SECTION
)


def read(tmp_path: Path, text: str) -> Catalogue:
    path = tmp_path / "misconceptions.toml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def test_an_entry_is_read(tmp_path: Path) -> None:
    (one,) = read(tmp_path, FILE).entries
    assert (one.id, one.class_name, one.source) == ("one", "one", "https://example.org/1")
    assert (one.sees.en, one.sees.zh) == ("a sight", "现象")
    assert [(p.old, p.new) for p in one.patches] == [("triu(1)", "triu(2)")]


def test_what_can_be_derived_may_be_left_out_and_new_be_empty(tmp_path: Path) -> None:
    left_out = r"(?m)^(class|file|families|sees\.\w+|source) = .*\n"
    (one,) = read(tmp_path, re.sub(left_out, "", FILE).replace("triu(2)", "")).entries
    assert (one.class_name, one.file, one.families, one.source) == ("one", "", (), "")
    assert (one.sees, one.patches[0].new) == (Text("", ""), "")
    sources = {"attention.py": "a triu(1) b", "mlp.py": "c"}
    assert apply(one, sources) == {"attention.py": "a  b", "mlp.py": "c"}
    for text, told in (("c", "no file of the solution"), ("triu(1)", "fits 2 files")):
        with pytest.raises(MisconceptionError, match=f"entry one: file: patch 1.*{told}"):
            apply(one, {"attention.py": text, "mlp.py": text})
    path = tmp_path / "misconceptions.toml"
    assert load(path, sources).entries[0].file == "attention.py"


def test_several_patches_are_applied_in_their_order(tmp_path: Path) -> None:
    patches = "".join(
        f'[[misconception.patch]]\nold = "{old}"\nnew = "{new}"\n' for old, new in ("ab", "bc")
    )
    text = ENTRY[: ENTRY.index("old =")] + patches + SECTION
    assert apply(read(tmp_path, text).entries[0], {"attention.py": "a"}) == {"attention.py": "c"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('id = "one"\n', "", ["entry number 1", "id", "missing"]),
        ('id = "one"', "id = 3", ["entry number 1", "id", "kind str"]),
        ('id = "one"', 'id = " "', ["entry  ", "id", "empty"]),
        ('group = "causal mask"\n', "", ["entry one", "group", "missing"]),
        ('group = "causal mask"', 'group = "mask"', ["section number 1", "groups", "causal mask"]),
        ('families = ["causal mask"]', "families = [3]", ["entry one", "families", "texts"]),
        ('name.en = "a name"\n', "", ["entry one", "name", "needs en"]),
        ("name.zh", "name.fr", ["entry one", "name", "nothing else"]),
        ('sees.zh = "现象"', 'sees.zh = " "', ["entry one", "sees", "zh", "not be empty"]),
        ('file = "attention.py"', 'fil = "attention.py"', ["entry one", "fil", "unknown"]),
        ("old =", "[misconception.patch]\nold =", ["entry one", "patch", "[[…patch]]"]),
        ("old =", "patch = []\nold =", ["entry one", "patch", "every old and new"]),
        ('old = """triu(1)"""\n', "", ["entry one", "old", "missing"]),
        ("triu(2)", "triu(1)", ["entry one", "new", "differ from old"]),
        ('new = """triu(2)"""', "", ["entry one", "new"]),
        ("old =", "[[misconception.patch]]\nold = 3\n# ", ["entry one", "patch 1", "old"]),
        ("[[misconception]]", "[[misconceptions]]", ["top level", "misconceptions", "unknown"]),
        ('id = "one"', "id = ", ["line 3"]),
        ('title.en = "a title"\n', "", ["section number 1", "title", "needs en"]),
        (SECTION, "", ["group causal mask", "expected in a [[section]]"]),
        (SECTION, SECTION * 2, ["section number 2", "groups", "stands twice"]),
        (SECTION, SECTION + SECTION.replace("causal mask", "x"), ["section number 2", "no entry"]),
        (SECTION, SECTION + CLASS, ["class both", "id", "at least two entries"]),
        (SECTION, SECTION + "[section.x]", ["section number 1", "x", "unknown"]),
    ],
)
def test_errors_name_entry_and_key(tmp_path: Path, old: str, new: str, told: list[str]) -> None:
    assert old in FILE
    with pytest.raises(MisconceptionError) as caught:
        read(tmp_path, FILE.replace(old, new))
    for word in ["misconceptions.toml", *told]:
        assert word in str(caught.value)


def test_an_id_may_not_stand_twice(tmp_path: Path) -> None:
    with pytest.raises(MisconceptionError, match=r"misconceptions\.toml: entry one: id: .*twice"):
        read(tmp_path, ENTRY + ENTRY)


def test_an_empty_or_absent_list_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MisconceptionError, match=r"misconception: must hold tables, \[\["):
        read(tmp_path, "")
    with pytest.raises(MisconceptionError, match="misconception: must hold at least one"):
        read(tmp_path, "misconception = []")
    with pytest.raises(MisconceptionError, match="entry one: patch: must hold at least one"):
        read(tmp_path, FILE[: FILE.index("old =")] + "patch = []")
    with pytest.raises(MisconceptionError, match=r"none\.toml"):
        load(tmp_path / "none.toml")


def test_a_class_of_one_entry_has_its_words(tmp_path: Path) -> None:
    found = read(tmp_path, FILE)
    section = Text("a title", "标题")
    assert found.sections == {"causal mask": Section(section, "a-title")}
    assert found.classes == {
        "one": Misconception(
            "one",
            "causal mask",
            Text("a name", "名字"),
            Text("a sight", "现象"),
            Text("a hint", "提示"),
            section,
            "a-title",
            "https://example.org/1",
        )
    }


BEHAVIOUR = """
[[behaviour]]
id = "shown"
group = "causal mask"
name.en = "a behaviour"
hint.en = "its hint"
"""


def test_a_behaviour_has_words_and_no_patch(tmp_path: Path) -> None:
    found = read(tmp_path, FILE + BEHAVIOUR)
    (words,) = found.behaviours.values()
    assert (words.id, words.name, words.sees) == ("shown", Text("a behaviour"), Text("", ""))
    assert (words.section, words.anchor) == (Text("a title", "标题"), "a-title")
    assert list(found.classes) == ["one"] and list(found.words)[-2:] == ["one", "shown"]


def test_what_checks_tell_has_words_in_every_lab(tmp_path: Path) -> None:
    """The section is that of the group ``contract``, if a lab has one."""
    plain = read(tmp_path, FILE)
    placed = read(
        tmp_path, FILE.replace('groups = ["causal mask"]', 'groups = ["causal mask", "contract"]')
    )
    assert {*TOLD.values()} == plain.contract.keys() <= plain.words.keys()
    assert {one.section for one in plain.contract.values()} == {Text("", "")}
    assert {one.anchor for one in placed.contract.values()} == {"a-title"}
    with pytest.raises(MisconceptionError, match="behaviour tuple_returned: id: stands twice"):
        read(tmp_path, FILE + BEHAVIOUR.replace("shown", "tuple_returned"))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"shown"', '"one"', "behaviour one: id: stands twice"),
        ('hint.en = "its hint"\n', "", "behaviour shown: hint"),
        ('"causal mask"', '"GQA"', r"group GQA: expected in a \[\[section"),
        ("name.en", "old = 'x'\nname.en", "behaviour shown.*old"),
    ],
)
def test_a_behaviour_that_is_wrong_is_told(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in BEHAVIOUR
    with pytest.raises(MisconceptionError, match=told):
        read(tmp_path, FILE + BEHAVIOUR.replace(old, new))


def test_a_class_of_two_entries_has_words_of_its_own(tmp_path: Path) -> None:
    found = read(tmp_path, PAIR)
    assert [entry.id for entry in found.entries] == ["one", "two"]
    (words,) = found.classes.values()
    assert (words.id, words.name, words.sees.zh) == ("both", Text("a class", "类名"), "它的现象")
    assert words.source == "https://example.org/1"  # of the first entry that has one


ALSO = '''
[[misconception.also]]
old = """triu(1)"""
new = """tril(1)"""
[[misconception.also]]
[[misconception.also.patch]]
old = """triu(1)"""
new = """tril(2)"""
'''


def test_a_mistake_has_other_ways_that_take_its_words(tmp_path: Path) -> None:
    found = read(tmp_path, ENTRY + ALSO + SECTION)
    assert [entry.id for entry in found.entries] == ["one", "one-2", "one-3"]
    assert {entry.class_name for entry in found.entries} == set(found.classes) == {"one"}
    assert found.classes["one"].name == Text("a name", "名字")
    patched = [apply(e, {"attention.py": "triu(1)"})["attention.py"] for e in found.entries]
    assert patched == ["triu(2)", "tril(1)", "tril(2)"]
    for old, new, told in (
        ('new = """tril(1)"""', "", "entry one: way 2: new"),
        ("[[misconception.also.patch]]", "name = 3", "entry one: way 3: name: unknown"),
    ):
        with pytest.raises(MisconceptionError, match=told):
            read(tmp_path, ENTRY + ALSO.replace(old, new) + SECTION)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (CLASS, "", ["class both", "2 entries share it", "expected a [[class]]"]),
        (CLASS, CLASS * 2, ["class both", "id", "stands twice"]),
        ('hint.en = "its hint"\n', "", ["class both", "hint", "needs en"]),
        ('id = "both"\n', "", ["class number 1", "id", "missing"]),
        (CLASS, CLASS + 'group = "GQA"\n', ["class both", "group", "unknown"]),
        (CLASS, CLASS + CLASS.replace("both", "one"), ["class one", "at least two"]),
    ],
)
def test_errors_name_the_class(tmp_path: Path, old: str, new: str, told: list[str]) -> None:
    assert old in PAIR
    with pytest.raises(MisconceptionError) as caught:
        read(tmp_path, PAIR.replace(old, new))
    for word in ["misconceptions.toml", *told]:
        assert word in str(caught.value)


@pytest.mark.parametrize(("text", "times"), [("nothing", 0), ("triu(1) triu(1)", 2)])
def test_old_must_stand_exactly_once(tmp_path: Path, text: str, times: int) -> None:
    (one,) = read(tmp_path, FILE).entries
    with pytest.raises(MisconceptionError) as caught:
        apply(one, {"attention.py": text})
    for word in ("attention.py", "entry one", "patch 1", "old", "exactly once", f"{times} times"):
        assert word in str(caught.value)


def test_apply_needs_the_file_and_keeps_the_sources(tmp_path: Path) -> None:
    (one,) = read(tmp_path, FILE).entries
    with pytest.raises(MisconceptionError, match=r"attention\.py: entry one: file: .*mlp\.py"):
        apply(one, {"mlp.py": ""})
    sources = {"attention.py": "a triu(1) b", "mlp.py": "c"}
    assert apply(one, sources) == {"attention.py": "a triu(2) b", "mlp.py": "c"}
    assert sources["attention.py"] == "a triu(1) b"


def test_files_that_a_catalogue_names_are_there() -> None:
    named = re.compile(r"\b(?:autograder|labs|solutions|student|tests)/[\w./-]+\.(?:md|py|toml)\b")
    for path in sorted(labfile.SOLUTIONS.glob("*/misconceptions.toml")):
        for name in named.findall(path.read_text(encoding="utf-8")):
            assert (labfile.ROOT / name).is_file(), f"{path.parent.name}: {name}"
