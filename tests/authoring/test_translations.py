"""Pages in two languages: what is the same, what is stale, and how an author says it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograder.authoring.pages import (
    Pair,
    Section,
    breaches,
    chinese_of,
    faults,
    odd,
    pages,
    pair_up,
    sections,
    unbroken,
    with_digests,
)
from autograder.authoring.place import LabSources
from autograder.cli.main import main
from autograder.course import labfile, suggestions

ENGLISH = """# Title

Words of 3 kinds, `code`, $x^2$ and [a link](https://example.org/1).

## Second

```bash
make test   # a comment of the code
# not a heading
```

### Third

The end.
"""
CHINESE = """# 标题

三种文字用 3 表示，`code`、$x^2$ 与[链接](https://example.org/1)。

## 第二

```bash
make test   # a comment of the code
# not a heading
```

### 第三

结束。
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """An English page whose Chinese one is current."""
    (tmp_path / "a.md").write_text(ENGLISH, encoding="utf-8")
    (tmp_path / "a.zh-CN.md").write_text(CHINESE, encoding="utf-8")
    assert main(["translated", str(tmp_path / "a.zh-CN.md")]) == 0
    return tmp_path / "a.md"


def told(page: Path) -> list[str]:
    return list(faults(page, chinese_of(page), "a.zh-CN.md"))


def swap(page: Path, old: str, new: str) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count(old) == 1
    page.write_text(text.replace(old, new), encoding="utf-8")


# ---------------------------------------------------------------- pages


def test_a_page_is_its_sections_and_code_holds_no_headings() -> None:
    found = list(sections(ENGLISH))
    assert [(one.level, one.title, one.line) for one in found] == [
        (1, "Title", 1),
        (2, "Second", 5),
        (3, "Third", 12),
    ]
    assert "# not a heading" in found[1].body and found[2].body.strip() == "The end."


def test_what_no_language_changes_is_found_and_the_rest_is_not() -> None:
    fixed = next(sections(ENGLISH)).fixed
    assert fixed == {
        "code block": [],
        "code word": ["code"],
        "formula": ["x^2"],
        "link": ["https://example.org/1"],
        "number": ["3"],
    }


def test_code_and_formulas_may_go_on_in_the_next_line() -> None:
    text = "# A\nSay `make\ntest` or $a +\n b$, at 1,024.5 and 7.\n\n`one\n\ntwo` is none: 2$\n"
    fixed = next(sections(text)).fixed
    assert fixed["code word"] == ["make test"] and fixed["formula"] == ["a + b"]
    assert fixed["number"] == ["1,024.5", "2", "7"]


def test_a_link_to_a_page_of_ours_leads_to_the_readers_language() -> None:
    english = next(sections("# A\n[x](../b.md), [here](#a)\n")).fixed
    assert english == next(sections("# 甲\n[x](../b.zh-CN.md)，[这里](#甲)\n")).fixed


def test_line_breaks_do_not_change_a_digest_and_words_do() -> None:
    one, other, third = (
        next(sections(f"# A\n{body}\n")).digest for body in ("a b\nc", "a\nb   c", "a b d")
    )
    assert one == other != third
    assert next(sections("# B\na b c")).digest != one  # the heading is part of it


def test_a_page_begins_with_a_heading() -> None:
    with pytest.raises(ValueError, match="line 2: a page begins with its heading"):
        list(sections("\nwords\n# A\n"))


def test_digests_are_written_under_headings_once() -> None:
    text = "# A\nx\n## B"
    first = with_digests(text, {1: "0" * 12, 3: "1" * 12})
    assert first == f"# A\n<!-- en: {'0' * 12} -->\nx\n## B\n<!-- en: {'1' * 12} -->"
    found = list(sections(first))
    assert [one.made_of for one in found] == ["0" * 12, "1" * 12]
    assert [one.body for one in found] == ["x", ""]
    again = with_digests(first, {1: "2" * 12})
    assert again == first.replace("0" * 12, "2" * 12)


# ---------------------------------------------------------------- what is stale


def test_a_current_page_has_no_faults(page: Path) -> None:
    assert told(page) == []


def test_a_changed_section_is_stale_and_only_that(page: Path) -> None:
    swap(page, "The end.", "The very end.")
    (fault,) = told(page)
    assert fault == (
        "a.zh-CN.md:14: “第三” was made from another version of “Third” (a.md:12); bring the "
        f"Chinese up to date, then run: "
        f"{suggestions.command('translated')} a.zh-CN.md --section 'Third'"
    )


def test_a_section_without_a_digest_is_told(page: Path) -> None:
    text = chinese_of(page).read_text(encoding="utf-8")
    digest = next(one.made_of for one in sections(text) if one.title == "第三")
    swap(chinese_of(page), f"<!-- en: {digest} -->\n", "")
    (fault,) = told(page)
    assert "“第三” does not say from which version it was made of “Third”" in fault


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("`code`", "`kode`", "other code words than “Title” (a.md:1): lacks “code” and has “kode”"),
        ("$x^2$", "$x^3$", "other formulas"),
        ("example.org/1", "example.org/2", "other links"),
        ("用 3 表示", "用 4 表示", "other numbers than “Title” (a.md:1): lacks “3” and has “4”"),
        ("a comment of the code", "一句注释", "other code blocks than “Second” (a.md:5)"),
        ("### 第三", "#### 第三", "nothing tells “Third” (a.md:12)"),
        ("### 第三", "#### 第三", "“第三” has no section in a.md; take it out"),
    ],
)
def test_what_differs_is_told_with_its_place(page: Path, old: str, new: str, words: str) -> None:
    swap(chinese_of(page), old, new)
    found = "\n".join(told(page))
    assert words in found and "a.zh-CN.md" in found


def test_a_row_of_a_table_that_a_line_break_cuts_is_told_on_either_page() -> None:
    table = "| a | b |\n|---|---|\n"
    whole, cut = (
        next(sections(f"# A\n{table}{row}\n```\n| code\n```"))
        for row in ("| one | two and three |", "| one | two and\nthree |")
    )
    assert list(odd(Pair(whole, whole), "a.md", "a.zh-CN.md")) == []
    for pair, page in ((Pair(cut, whole), "a.md"), (Pair(whole, cut), "a.zh-CN.md")):
        (fault,) = odd(pair, "a.md", "a.zh-CN.md")
        assert fault.startswith(f"{page}:1: “A”") and "| one | two and" in fault


def test_code_blocks_keep_their_order() -> None:
    one, other = "```\na\n```\n", "```\nb\n```\n"
    english, same, swapped = (
        next(sections(f"# A\n{text}")) for text in (one + other, one + other, other + one)
    )
    assert list(odd(Pair(english, same), "a.md", "a.zh-CN.md")) == []
    (fault,) = odd(Pair(english, swapped), "a.md", "a.zh-CN.md")
    assert "other code blocks" in fault and "in another order" in fault


def test_a_line_break_between_chinese_characters_is_told(page: Path) -> None:
    swap(chinese_of(page), "结束。", "结\n束。")
    (fault,) = told(page)
    assert "a line ends with “结”" in fault and "translated joins them" in fault
    swap(chinese_of(page), "结\n束。", "结束 code\n完。\n\n- 甲\n- 乙\n\n```\n甲\n乙\n```")
    assert not [fault for fault in told(page) if "joins them" in fault]


def test_a_space_after_a_wide_mark_is_told_and_taken_out(page: Path) -> None:
    swap(chinese_of(page), "结束。", "结束： code，\ncode")
    (fault,) = told(page)
    assert "a space follows" in fault and "结束：”" in fault
    assert unbroken("结束： code，\ncode。\n| 甲： | 乙 |\n```\n， x") == (
        "结束：code，code。\n| 甲： | 乙 |\n```\n， x"
    )
    assert main(["translated", str(page)]) == 0
    assert told(page) == []


def test_lines_of_a_chinese_paragraph_are_joined_and_nothing_else(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "# 甲\n<!-- en: 000000000000 -->\n\n一行\n接着 `a`\nb，\n**粗**\n\n"
        "- 一\n  二\n- 三\n1. 四\n\n"
        "| 甲 |\n|---|\n| 乙 |\n\n```text\n甲\n乙\n```\n末\n尾\n"
    )
    whole = (
        "# 甲\n<!-- en: 000000000000 -->\n\n一行接着 `a` b，**粗**\n\n- 一二\n- 三\n1. 四\n\n"
        "| 甲 |\n|---|\n| 乙 |\n\n```text\n甲\n乙\n```\n末尾\n"
    )
    assert unbroken(text) == whole == unbroken(whole)
    swap(chinese_of(page), "结束。", "结\n束。")
    assert main(["translated", str(page)]) == 0
    assert "joined" in capsys.readouterr().out and told(page) == []


def section(title: str, level: int = 2, made_of: str = "") -> Section:
    return Section(level, title, 1, "", made_of)


def test_a_new_section_shifts_no_other() -> None:
    english = [section(name) for name in "abcd"]
    chinese = [section("甲", made_of=english[0].digest), section("丁", made_of=english[3].digest)]
    pairs = pair_up(english, chinese)
    assert [(p.english and p.english.title, p.chinese and p.chinese.title) for p in pairs] == [
        ("a", "甲"),
        ("b", None),
        ("c", None),
        ("d", "丁"),
    ]
    lone = pair_up(english[:1], [*chinese[:1], section("乙")])
    assert lone[-1].english is None and lone[-1].both is None


def test_every_page_of_the_course_has_a_chinese_one_and_is_looked_at() -> None:
    place = LabSources.find("2")
    names = {place.shown(path) for path in pages(place)}
    assert {
        "README.md",
        "labs/glossary.md",
        f"labs/{place.name}/README.md",
        "autograder/guides/authors.md",
        "autograder/guides/instructors.md",
        "student/README.md",
    } == names


def test_links_to_files_of_ours_lead_somewhere() -> None:
    for folder in sorted(labfile.LABS.glob("*/lab.toml")):
        for english in pages(LabSources.find(folder.parent.name)):
            for page in (english, chinese_of(english)):
                links = re.findall(
                    r"\]\(([^)\s:#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")
                )
                assert [link for link in links if not (page.parent / link).exists()] == [], page


def test_a_page_without_a_chinese_one_is_told(tmp_path: Path) -> None:
    for folder in ("labs/lab9_x", "autograder/guides"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "labs/lab9_x/README.md").write_text("# A\n")
    place = LabSources(tmp_path, "lab9_x")
    assert list(breaches(place)) == [
        "labs/lab9_x/README.md has no README.zh-CN.md; write it, then "
        f"{suggestions.command('translated')} FILE"
    ]
    (tmp_path / "labs/lab9_x/README.zh-CN.md").write_text("words\n")
    with pytest.raises(ValueError, match=r"README\.zh-CN\.md: line 1: a page begins"):
        list(breaches(place))


# ---------------------------------------------------------------- the command


def test_the_command_writes_what_was_looked_at(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swap(page, "The end.", "The very end.")
    swap(page, "Words of", "Some words of")
    capsys.readouterr()
    assert main(["translated", str(page), "--section", "Third"]) == 0
    out = capsys.readouterr().out
    assert "“第三” (“Third”)" in out and "标题" not in out
    assert ["“标题”" in fault for fault in told(page)] == [True]
    assert main(["translated", str(page)]) == 0
    assert told(page) == []
    before = chinese_of(page).read_bytes()
    assert main(["translated", str(page)]) == 0
    assert "nothing was stale" in capsys.readouterr().out
    assert chinese_of(page).read_bytes() == before


def test_the_command_refuses_what_cannot_be_current(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swap(page, "Words of 3", "Words of 5")
    before = chinese_of(page).read_bytes()
    assert main(["translated", str(page)]) == 1
    out = capsys.readouterr().out
    assert "lacks “5” and has “3”" in out and "nothing was written" in out
    assert chinese_of(page).read_bytes() == before
    # The section that was looked at is another one.
    assert main(["translated", str(page), "--section", "Third"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["absent.md"], "there is no such page"), (["a.md", "--section", "Fourth"], "“Fourth”")],
)
def test_the_command_says_what_is_not_there(
    page: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translated", str(page.parent / arguments[0]), *arguments[1:]]) == 2
    assert words in capsys.readouterr().err


def test_the_pages_of_every_lab_are_current() -> None:
    for folder in sorted(labfile.LABS.glob("*/lab.toml")):
        assert list(breaches(LabSources.find(folder.parent.name))) == []
