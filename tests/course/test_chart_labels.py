"""The table of Chinese labels: which entry tells a label, and what is said of a broken one."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.course import chart_labels

TABLE = {"{} bits": "{} 位", "{}: {} bits": "{}：{} 比特", "one": "一"}


@pytest.mark.parametrize(
    ("label", "chinese"),
    [
        ("8 bits", "8 位"),
        ("one: 8 bits", "一：8 比特"),  # the longest entry, and the word in it
        ("two bit", "two bit"),
        ("ones", "ones"),
        ("", ""),
    ],
)
def test_a_label_is_told_by_its_longest_entry_or_stays(label: str, chinese: str) -> None:
    assert chart_labels.in_chinese(label, TABLE) == chinese


def test_a_course_without_a_table_has_no_labels_and_a_broken_one_is_named(tmp_path: Path) -> None:
    assert chart_labels.load(tmp_path) == {}
    (tmp_path / "notebooks").mkdir()
    (tmp_path / chart_labels.FILE).write_text("no table\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"notebooks/labels.zh.toml: .*line 1"):
        chart_labels.load(tmp_path)
