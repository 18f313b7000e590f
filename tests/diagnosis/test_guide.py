"""The author's guide: what it shows works as it stands there, and what it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from autograder.authoring.pages import chinese_of, sections
from autograder.course import labfile, spot
from autograder.diagnosis.misconceptions import apply, load
from tests.diagnosis.lab2_probes import (
    BY_ID,
    CATALOGUE,
    FOLDER,
    SOURCES,
    alike,
    observe,
    observe_text,
)

GUIDE = (labfile.ROOT / "autograder" / "guides" / "authors.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```", GUIDE, flags=re.DOTALL)
(ENTRY,) = (block for block in BLOCKS if block.startswith("[[misconception]]"))
(CLASS,) = (block for block in BLOCKS if block.startswith("[[class]]"))


def test_the_entry_of_the_guide_can_be_added_and_is_a_mistake_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "misconceptions.toml"
    path.write_text(
        (FOLDER / "misconceptions.toml").read_text(encoding="utf-8") + "\n" + ENTRY,
        encoding="utf-8",
    )
    added = load(path, SOURCES).entries[-1]
    assert added.id not in BY_ID
    seen = observe_text(added.file, apply(added, SOURCES)[added.file])
    assert not alike(seen, observe(added.file, None))
    twins = [e.id for e in CATALOGUE.entries if e.file == added.file and e.group == added.group]
    assert not [name for name in twins if alike(seen, observe(added.file, name))]


def test_the_class_of_the_guide_is_that_of_lab_2() -> None:
    shown = re.findall(r'^(id|name\.en) = "(.*)"$', CLASS, flags=re.MULTILINE)
    assert [key for key, _ in shown] == ["id", "name.en"]
    assert CATALOGUE.classes[shown[0][1]].name.en == shown[1][1]


def test_what_the_guide_imports_is_there() -> None:
    (imports,) = re.findall(r"```python\n(from autograder\..*?)```", GUIDE, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(imports, names)
    used = {
        *re.findall(r"\b(?:draft|recipe|Limit|Dtype|GivenConfig|reject|checks|confirms)\b", GUIDE)
    }
    assert used <= names.keys()


def test_the_way_of_a_hand_in_names_what_is_there_and_is_short() -> None:
    way = GUIDE.split("## The way of a hand-in\n")[1].split("\n## ")[0]
    steps = re.findall(r"`(\w+/\w+\.py)`: `(\w+)`", way)
    assert len(steps) > 30 and len({path for path, _ in steps}) <= 40
    for path, name in steps:
        tree = ast.parse((labfile.ROOT / "autograder" / path).read_text(encoding="utf-8"))
        kinds = (ast.FunctionDef, ast.ClassDef)
        assert name in {x.name for x in tree.body if isinstance(x, kinds)}, (path, name)


def _known() -> dict[tuple[str, str, str], str]:
    """What the table may name, by exercise or lab and by file, and its name in Chinese."""
    known = {}
    for folder in (path.parent for path in labfile.LABS.glob("*/lab.toml")):
        lab = folder.name[:4]
        for one in labfile.load(folder).exercises:
            known |= {(one.id, one.file, check.name): check.name for check in one.checks}
        known |= {(lab, "spot.toml", one.id): one.id for one in spot.load(folder)}
        for page in (folder / "README.md", labfile.ROOT / "report_template.md"):
            texts = [one.read_text(encoding="utf-8") for one in (page, chinese_of(page))]
            pairs = [(en.title, zh.title) for en, zh in zip(*map(sections, texts), strict=True)]
            pairs += [(field, field) for field in re.findall(r"\[\[(\w+) \|", texts[0])]
            known |= {(lab, page.name, en): zh for en, zh in pairs}
        for book in labfile.ROOT.glob("notebooks/*.py"):
            parts = re.findall(r"^# ## (\d+)\.", book.read_text(encoding="utf-8"), re.MULTILINE)
            known |= {(lab, book.name, part): part for part in parts}
    return known


def test_what_is_taught_where_is_there_in_both_languages_and_leaves_nothing_out() -> None:
    guide, known, named = labfile.ROOT / "autograder/guides/authors.md", _known(), set[str]()
    texts = (page.read_text(encoding="utf-8") for page in (guide, chinese_of(guide)))
    lines = [re.findall(r"^\| (?!item|内容).*", x.rpartition("\n## ")[2], re.M) for x in texts]
    for en, zh in zip(*([re.split(r" ?\| ?", x)[1:-1] for x in y] for y in lines), strict=True):
        assert len(en) == len(zh) == 4 and all(en + zh), en
        if en[1] == "–":
            assert re.match(r"left out: \w", en[3]) and re.match(r"略去：\w", zh[3]), en
            continue
        cells = [re.findall(r"“(.+?)”|`(.+?)`|§ (\d+)", cell) for cell in (*en[1:], *zh[1:])]
        asked, files, shown, *chinese = (["".join(mark) for mark in marks] for marks in cells)
        of = {*asked, *(name[:4] for name in asked)}
        found = {key: word for key, word in known.items() if key[0] in of and key[1] in files}
        words = {mark: word for (_, _, mark), word in found.items()}
        assert [asked, files, [words[mark] for mark in shown]] == chinese, en
        assert {file for _, file, mark in found if mark in shown} == {*files}, en
        named |= {*asked, *shown}
    every = {lab for lab, _, _ in known if "." in lab}
    every |= {mark for _, file, mark in known if file == "spot.toml"}
    assert len(lines[0]) >= 130 and every <= named, every - named
    assert {name for name in named if re.match(r"lab\d\.", name)} <= every
