"""What a student's code gave where something else was asked, in words of both languages.

Values arrive as data, and whatever is none as a description that the worker wrote in English
(:func:`autograder.sandbox.values.encode`). What comes from a worker is not to be trusted: a
description that is none of the known ones stays the text that it is.
"""

from __future__ import annotations

import re
from typing import Any

from autograder.course.records import Text
from autograder.sandbox.replies import Other
from autograder.sandbox.wire import Tensor

# A description of the worker's, and the same in Chinese.
_CHINESE = (
    (r"a tensor of dtype (\w+)", r"数据类型为 \1 的张量"),
    (r"a tensor of (\d+) elements, more than (\d+)", r"含 \1 个元素的张量，超过上限 \2"),
    (r"a tensor subclass called (.+)", r"张量的子类 \1"),
    (r"a sparse or quantised tensor", "稀疏或量化的张量"),
    (r"a tensor on the meta device, which holds no values", "meta 设备上的张量，其中没有数值"),
    (r"a number beyond 64 bits", "超出 64 位的数"),
    (r"a list", "list"),
    (r"an? ([A-Za-z_]\w*)", r"\1 对象"),
)


def described(value: Any) -> dict[str, str]:
    """A value that is not what was asked for, as the words of a message's field."""
    text = _text(value)
    return {"en": text.en, "zh": text.zh}


def _text(value: Any) -> Text:
    if isinstance(value, Tensor):
        return Text(f"a tensor {list(value.shape)}", f"形状为 {list(value.shape)} 的张量")
    if isinstance(value, (tuple, list, dict)):
        kind, count = type(value).__name__, len(value)
        return Text(f"a {kind} of {count}", f"含 {count} 项的 {kind}")
    if isinstance(value, Other):
        return _other(value.description[:120])
    if value is None or isinstance(value, (int, float, str)):
        return Text(repr(value)[:120], repr(value)[:120])
    return Text(type(value).__name__, type(value).__name__)


def _other(english: str) -> Text:
    for form, chinese in _CHINESE:
        match = re.fullmatch(form, english)
        if match:
            return Text(english, match.expand(chinese))
    return Text(english, english)
