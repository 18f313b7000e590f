"""``translated``: an author has looked at Chinese sections, and says that they are current."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder.authoring.pages import unbroken, with_digests
from autograder.authoring.place import read
from autograder.authoring.translations import CHINESE, chinese_of, is_stale, odd, paired


def run(page: Path, titles: Sequence[str]) -> int:
    """Write the digests of English sections under the Chinese headings, and say which.

    Lines of the Chinese page that go on in the next one are joined on the way.

    Args:
        page: the Chinese page, or its English one.
        titles: English titles of the sections that were looked at; all stale ones for none.

    Returns:
        0, or 1 when nothing was written because the two pages differ in what no language changes.

    Raises:
        ValueError: a page is absent, or a title is none of the page's.
    """
    chinese = page if page.name.endswith(CHINESE) else chinese_of(page)
    english = chinese.with_name(chinese.name.removesuffix(CHINESE) + ".md")
    for path in (english, chinese):
        if not path.is_file():
            raise ValueError(f"{path}: there is no such page; give one that has both languages")
    written = read(chinese)
    whole = unbroken(written)
    if whole != written:
        chinese.write_text(whole, encoding="utf-8", newline="\n")
        print(f"joined     {chinese}: lines of one paragraph")
    pairs = paired(english, chinese)
    known = [pair.english.title for pair in pairs if pair.english is not None]
    for title in titles:
        if title not in known:
            raise ValueError(f"{english}: no section is called “{title}”; it has: {known}")
    wanted = [p for p in pairs if not titles or (p.english and p.english.title in titles)]
    differ = [fault for pair in wanted for fault in odd(pair, english.name, str(chinese))]
    if differ:
        print(*differ, "nothing was written: mend this first", sep="\n")
        return 1
    stale = [pair.both for pair in wanted if pair.both is not None and is_stale(*pair.both)]
    text = with_digests(whole, {zh.line: en.digest for en, zh in stale})
    chinese.write_text(text, encoding="utf-8", newline="\n")
    for en, zh in stale:
        print(f"current    {chinese}: “{zh.title}” (“{en.title}”)")
    if not stale:
        print(f"unchanged  {chinese}: nothing was stale")
    return 0
