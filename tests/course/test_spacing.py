"""Chinese sentences have their spaces right, whatever their values begin and end with."""

from __future__ import annotations

import pytest

from autograder.course.messages import render
from autograder.course.messages.spacing import filled
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
