"""Sentences put together: spaces are right, and so are the words that stand with a number."""

from __future__ import annotations

import re

import pytest

from autograder.course.messages import catalogue, filled, render
from autograder.course.records import Message


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("旋转后的 xq", "旋转后的 xq 的形状"),
        ("xk'", "xk' 的形状"),
        ("权重", "权重的形状"),
        ("feed_forward_size(3)", "feed_forward_size(3) 的形状"),
        ("[2, 3]", "[2, 3] 的形状"),
    ],
)
def test_a_space_stands_between_chinese_and_latin(what: str, sentence: str) -> None:
    assert filled("{what}的形状", {"what": what}) == sentence


@pytest.mark.parametrize(
    ("template", "what", "sentence"),
    [
        ("修改了传入的 {what}。", "权重", "修改了传入的权重。"),
        ("修改了传入的 {what}。", "mask", "修改了传入的 mask。"),
        ("应为 {what}，实际", "含 0 项的 dict", "应为含 0 项的 dict，实际"),
        ("应为{what}，实际", "-1", "应为 -1，实际"),
        ("“{what}”的", "x", "“x”的"),
        ("{what} has the shape", "the output", "the output has the shape"),
        ("{what!r:>5}|{what:.1}", "ab", " 'ab'|a"),
    ],
)
def test_no_other_space_comes_or_goes(template: str, what: str, sentence: str) -> None:
    assert filled(template, {"what": what}) == sentence


def test_what_a_value_holds_is_its_own_business() -> None:
    """A student's text keeps its form inside; only its ends are looked at."""
    assert filled("得到 {what}。", {"what": "ID是x 中\x1c文 文"}) == "得到 ID是x 中文 文。"


def test_messages_go_this_way() -> None:
    case = {"en": "a case", "zh": "用例"}
    what = {"en": "the rotated xq", "zh": "旋转后的 xq"}
    message = Message("check.shape", {"what": what, "got": "[1]", "want": "[2]", "case": case})
    assert render(message, "zh").startswith("旋转后的 xq 的形状是 [1]，应为 [2]（")


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        filled("{what}", {})


@pytest.mark.parametrize(
    ("key", "values", "english", "chinese"),
    [
        ("report.next_points", "points", ("0 points", "1 point ", "2 points"), ("0", "1", "2")),
        (
            "diagnosis.others",
            "count failing",
            ("Of 0 hand-ins", "Of 1 hand-in that lost points, 1 has", "2 hand-ins"),
            ("都识别出了错误", "其中 1 份没有", "其中 2 份没有"),
        ),
        ("check.worker_lost", "count", ("0 times", "process once in", "2 times"), ("0", "1", "2")),
        ("report.late_short", "days penalty final", (" 0, 0 count", "−1, 1 counts", "−2, 2 count"),
         ("0，计", "−1，计", "−2，计")),
    ],
)  # fmt: skip
def test_words_fit_their_number(
    key: str, values: str, english: tuple[str, ...], chinese: tuple[str, ...]
) -> None:
    for number in (0, 1, 2):
        message = Message(key, dict.fromkeys(values.split(), number))
        for language, expected in (("en", english), ("zh", chinese)):
            assert expected[number] in render(message, language)
            assert "−0" not in render(message, language)


def test_no_english_sentence_counts_one_of_something_in_the_plural() -> None:
    things = (
        "archives|attempts|bytes|cases|checks|claims|cores|days|exercises|files|hand-ins"
        "|mistakes|numbers|others|points|promises|reasons|reports|rows|seconds|tensors|tokens"
        "|trials|workers"
    )
    plural = re.compile(rf"(?<![\w./])1 (?:{things})\b(?! outside)")
    ones = Ones()
    told = {key: filled(text.en, ones) for key, text in catalogue().items()}
    assert {key: text for key, text in told.items() if plural.search(text)} == {}


class Ones(dict[str, object]):
    """One of everything."""

    def __missing__(self, key: str) -> int:
        return 1
