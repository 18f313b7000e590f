"""What the catalogues say: whole sentences in both languages, sections that exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from autograder.authoring.stubs import solution_lines
from autograder.course import labfile
from autograder.course.records import Misconception, anchor
from autograder.diagnosis import misconceptions
from autograder.diagnosis.misconceptions import Catalogue, Entry
from autograder.worker.loader import read_sources

LABS = sorted(path.parent for path in labfile.LABS.glob("*/README.md"))
CATALOGUES = {
    folder.name: misconceptions.load(labfile.SOLUTIONS / folder.name / "misconceptions.toml")
    for folder in LABS
}


@pytest.fixture(params=CATALOGUES)
def lab(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def said(catalogue: Catalogue) -> dict[str, Entry | Misconception]:
    """Everything that has words, under a name for messages."""
    return {
        **{f"entry {entry.id}": entry for entry in catalogue.entries},
        **{f"class {name}": words for name, words in catalogue.classes.items()},
        **{f"behaviour {name}": words for name, words in catalogue.behaviours.items()},
        **{f"contract {name}": words for name, words in catalogue.contract.items()},
    }


def secrets(lab: str) -> set[str]:
    """The lines of a solution."""
    folder = labfile.SOLUTIONS / lab
    files = labfile.load(labfile.find_lab(lab)).files
    texts, _ = read_sources(folder, files)
    return {line for name, text in texts.items() for line in solution_lines(text, name)}


def has_chinese(text: str) -> bool:
    return any("\u4e00" <= c <= "\u9fff" for c in text)


def anchors(markdown: str) -> Iterator[str]:
    """The anchors of all headings, by GitHub's rule."""
    seen: dict[str, int] = {}
    for line in re.sub(r"```.*?```", "", markdown, flags=re.DOTALL).splitlines():
        if heading := re.fullmatch(r"#{1,6} +(.+)", line):
            slug = anchor(heading[1])
            times = seen[slug] = seen.get(slug, -1) + 1
            yield f"{slug}-{times}" if times else slug


def wrong(lab: str, right: Callable[[Entry | Misconception], object]) -> list[str]:
    words_of = said(CATALOGUES[lab])
    return [f"{of}: {words}" for of, words in words_of.items() if not right(words)]


def test_what_one_sees_and_the_hint_are_sentences(lab: str) -> None:
    def whole(words: Entry | Misconception) -> bool:
        told = (words.sees, words.hint)
        return all(t.en[-1] in ".?" and t.zh[-1] in "。？" and has_chinese(t.zh) for t in told)

    assert wrong(lab, whole) == []


def test_a_name_completes_a_sentence(lab: str) -> None:
    """“This looks like a known mistake: …”: no sentence of its own, no second colon."""
    capital = re.compile(r"(LayerNorm|RoPE|ReLU|SiLU|GiB|[A-Z]{2,})\b")

    def fits(words: Entry | Misconception) -> bool:
        en, zh = words.name.en, words.name.zh
        return (
            not re.search(r"\b(is|are|was|were|has|have)\b|[.:;?!]$|: ", en)
            and bool(en[0].islower() or capital.match(en))
            and not re.search(r"[：；。？！]", zh)
            and has_chinese(zh)
        )

    assert wrong(lab, fits) == []


def test_nothing_of_the_solution_is_given_away(lab: str) -> None:
    def secret(words: Entry | Misconception) -> bool:
        texts = [t for text in (words.name, words.sees, words.hint) for t in (text.en, text.zh)]
        return not any(line in text for text in texts for line in lines)

    lines = secrets(lab)
    assert len(lines) > 25
    assert wrong(lab, secret) == []


def test_english_is_english_and_sources_are_links(lab: str) -> None:
    def clean(words: Entry | Misconception) -> bool:
        english = [text.en for text in (words.name, words.sees, words.hint)]
        return not any(has_chinese(text) or text != text.strip() for text in english) and bool(
            re.fullmatch(r"(https://\S+)?", words.source)
        )

    assert wrong(lab, clean) == []


def test_no_two_classes_are_called_the_same(lab: str) -> None:
    for language in ("en", "zh"):
        names = [words.name.in_(language) for words in CATALOGUES[lab].classes.values()]
        assert not {name for name in names if names.count(name) > 1}


def test_every_section_stands_in_the_handout(lab: str) -> None:
    folder = labfile.find_lab(lab)
    for name, language in (("README.md", "en"), ("README.zh-CN.md", "zh")):
        known = list(anchors((folder / name).read_text(encoding="utf-8")))
        for group, section in CATALOGUES[lab].sections.items():
            title = section.title.in_(language)
            assert known.count(anchor(title)) == 1, f"{name} has no heading “{title}” ({group})"


def test_families_are_those_of_the_checks(lab: str) -> None:
    known = {check.family for check in labfile.load(labfile.find_lab(lab)).checks}
    assert wrong(lab, lambda words: known.issuperset(getattr(words, "families", ()))) == []


def test_anchors_follow_github() -> None:
    text = "# A `b_c` (4 points)\n```\n# no\n```\n## q/k-norm: x, y\n## A `b_c` (4 points)"
    assert list(anchors(text)) == ["a-b_c-4-points", "qk-norm-x-y", "a-b_c-4-points-1"]
