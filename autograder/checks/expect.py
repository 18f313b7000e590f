"""Helpers that checks are written with: ``cases``, and ``expect_…`` that raise a sentence.

A check is a function ``test_…(student, case)``. Its docstring is the line a student reads
(English, an empty line, Chinese). It fails through :class:`CheckFailed` only: one finished
sentence with numbers, case and place, and no traceback of ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from autograder.course.records import Message, Text
from autograder.reference.cases import Case
from autograder.reference.compare import LIMITS, Limit, difference, relation
from autograder.sandbox.links import StudentError
from autograder.sandbox.ranks import Each, Group, RankHandle, RankResult
from autograder.sandbox.student import (
    Dtype,
    Folder,
    GivenConfig,
    Handle,
    Literal,
    Named,
    Other,
    Result,
    Student,
)
from autograder.wire.messages import Tensor

# What a student's code gave where something else was asked, in words of both languages.
#
# Values arrive as data, and whatever is none as a description that the worker wrote in English
# (:func:`autograder.worker.values.encode`). What comes from a worker is not to be trusted: a
# description that is none of the known ones stays the text that it is.

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
    if value is None or isinstance(value, (int, float, str, bytes)):
        return Text(repr(value)[:120], repr(value)[:120])
    return Text(type(value).__name__, type(value).__name__)


def _other(english: str) -> Text:
    for form, chinese in _CHINESE:
        match = re.fullmatch(form, english)
        if match:
            return Text(english, match.expand(chinese))
    return Text(english, english)


__all__ = [
    "OUTPUT", "Case", "CheckFailed", "Dtype", "Folder", "Handle", "Limit", "Literal", "Named",
    "NotCounted", "Result", "Student", "StudentError", "Tensor", "answers", "behaviour", "cases",
    "config", "expect_close", "expect_dtype", "expect_error", "expect_form", "expect_items",
    "expect_keys", "expect_most", "expect_number", "expect_parameter", "expect_same",
    "expect_shape", "expect_tensor", "expect_unchanged", "expect_unlike", "expect_value", "holds",
    "reject", "works",
]  # fmt: skip

OUTPUT = Text("the output", "输出")
config = GivenConfig
_T = TypeVar("_T")
_C = TypeVar("_C", bound=Callable[..., object])
_B = TypeVar("_B", bound=Callable[..., bool])


class CheckFailed(Exception):
    """A student's answer is not right; carries the sentence."""

    def __init__(self, key: str, **values: Any) -> None:
        super().__init__(key)
        self.message = Message(key, values)


class NotCounted(Exception):
    """Nothing of what a check counts was seen: no zero, but work for a human."""

    def __init__(self, what: Text) -> None:
        super().__init__(what.en)
        self.what = _words(what)


def cases(*recipes: str) -> Callable[[_C], _C]:
    """Mark a check with the recipes whose cases it runs on."""
    mark: Callable[[_C], _C] = pytest.mark.cases(*recipes)
    return mark


def behaviour(mistake: str, exercise: str) -> Callable[[_B], _B]:
    """Mark a function of ``behaviours.py``: an experiment that says whether ``mistake`` is there.

    ``mistake`` is the id of a class, or of a ``[[behaviour]]``. It is asked only where answers
    give no name, so that a mistake is known in whatever form it is written.
    """
    mark: Callable[[_B], _B] = pytest.mark.behaviour(mistake, exercise)
    return mark


def works(student: Student, attempt: Callable[[], object]) -> bool:
    """Whether what student code is asked for in ``attempt`` neither raises nor fails."""
    try:
        attempt()
        student.flush()
    except (CheckFailed, StudentError):
        return False
    return True


def answers(student: Student, *calls: Callable[[], Result]) -> list[Any]:
    """The values of those calls that do not raise."""
    found = []
    for call in calls:
        with suppress(StudentError):
            found.append(call().value)
    return found


def holds(student: Student, call: Callable[[], Result], right: Callable[[Any], object]) -> bool:
    """Whether a call gives a tuple, list or dict with an item that passes ``right``."""
    for value in answers(student, call):
        items = value.values() if isinstance(value, dict) else value
        if isinstance(value, (tuple, list, dict)):
            return any(works(student, partial(right, item)) for item in items)
    return False


def _words(text: Text) -> dict[str, str]:
    return {"en": text.en, "zh": text.zh}


def _fail(key: str, case: Case, what: Text, **values: Any) -> CheckFailed:
    return CheckFailed(f"check.{key}", case=case.words, what=_words(what), **values)


def expect_tensor(result: Result | Any, case: Case, what: Text = OUTPUT) -> Tensor:
    """The value of a call, which has to be a plain tensor."""
    value = result.value if isinstance(result, Result) else result
    if isinstance(value, Tensor):
        return value
    items = value.values() if isinstance(value, dict) else value
    if isinstance(value, (tuple, list, dict)) and any(isinstance(one, Tensor) for one in items):
        raise _fail("inside", case, what, got=described(value))
    raise reject(result, Text("a tensor", "张量"), case, what)


def reject(result: Result | Any, want: Text, case: Case, what: Text = OUTPUT) -> CheckFailed:
    """The failure of a value that is something else than ``want``, to be raised.

    None is told apart, as what a function gives that ends without a return, unless an attribute
    was asked for.
    """
    called = not isinstance(result, Result) or result.step["op"] == "call"
    value = result.value if isinstance(result, Result) else result
    key = "nothing" if value is None and called else "type"
    return _fail(key, case, what, got=described(value), want=_words(want))


def expect_items(
    result: Result | Any, count: int, case: Case, what: Text = OUTPUT
) -> Sequence[Any]:
    """The value, which has to be a tuple or list of ``count`` items."""
    value = result.value if isinstance(result, Result) else result
    if not isinstance(value, (tuple, list)) or len(value) != count:
        raise reject(result, Text(f"a tuple of {count}", f"含 {count} 项的 tuple"), case, what)
    return value


def expect_form(
    result: Result | Any, form: type[_T], want: Text, case: Case, what: Text = OUTPUT
) -> _T:
    """The value, which has to be plain data of a type, such as ``list[list[int]]``.

    Args:
        result: what came.
        form: the type; a ``TypedDict`` says what stands under which key.
        want: the type in words, for the sentence.
        case: for the sentence.
        what: the name of the value, for the sentence.
    """
    value = result.value if isinstance(result, Result) else result
    try:
        return msgspec.convert(value, form)
    except (ValueError, OverflowError):  # msgspec's; a text of no character is the first, too
        raise reject(result, want, case, what) from None


def expect_keys(
    result: Result, keys: Sequence[str], case: Case, what: Text = OUTPUT
) -> Mapping[str, Any]:
    """The value of a call, which has to be a dict that holds every one of ``keys``."""
    value = result.value
    missing = [key for key in keys if not isinstance(value, dict) or key not in value]
    if missing or not isinstance(value, dict):
        listed = ", ".join(keys)
        if not isinstance(value, dict):
            want = Text(f"a dict with {listed}", f"含有 {listed} 的 dict")
            raise reject(result, want, case, what)
        others = [str(key)[:60] for key in value if key not in keys]
        shown = ", ".join((*others[:4], *(["…"] if others[4:] else [])))
        found = {"missing": ", ".join(missing)} | ({"others": shown} if others else {})
        raise _fail("lacks_but_has" if others else "lacks", case, what, want=listed, **found)
    return dict(value)


def expect_shape(
    result: Result | Any, shape: Sequence[int], case: Case, what: Text = OUTPUT
) -> Tensor:
    """The value, which has to be a tensor of ``shape``."""
    tensor = expect_tensor(result, case, what)
    if tensor.shape != tuple(shape):
        raise _fail("shape", case, what, got=str(list(tensor.shape)), want=str(list(shape)))
    return tensor


def expect_dtype(result: Result | Any, dtype: str, case: Case, what: Text = OUTPUT) -> Tensor:
    """The value, which has to be a tensor of ``dtype`` (a torch name)."""
    tensor = expect_tensor(result, case, what)
    if tensor.dtype != dtype:
        raise _fail("dtype", case, what, got=tensor.dtype, want=dtype)
    return tensor


def _numbers(
    result: Result | Any,
    want: NDArray[Any],
    case: Case,
    what: Text,
    endless: NDArray[np.bool_] | None = None,
) -> NDArray[Any]:
    """Values of the right shape without NaN; never compared otherwise.

    Where they are to be ``endless``, they have to be as ``want`` has them, and become 0.
    """
    got = expect_shape(result, want.shape, case, what).array.astype(np.float64)
    if endless is not None and endless.any():
        if (other := endless & (got != want)).any():
            first = tuple(np.argwhere(other)[0].tolist())
            said = {"place": str(list(first)), "got": str(got[first]), "want": str(want[first])}
            raise _fail("endless", case, what, count=int(other.sum()), **said)
        got = np.where(endless, 0.0, got)
    if (broken := ~np.isfinite(got)).any():
        first = tuple(np.argwhere(broken)[0].tolist())
        if endless is not None and endless.any():  # so infinity is nothing odd here
            said = {"place": str(list(first)), "got": str(got[first]), "want": f"{want[first]:.6g}"}
            raise _fail("endless", case, what, count=int(broken.sum()), **said)
        place = str(np.argwhere(broken)[0].tolist())
        raise _fail("not_finite", case, what, count=int(broken.sum()), place=place)
    return got


def expect_close(
    result: Result | Any,
    want: Tensor,
    case: Case,
    what: Text = OUTPUT,
    *,
    keep: NDArray[np.bool_] | None = None,
    part: tuple[Any, ...] = (),
    limit: Limit | None = None,
) -> None:
    """The value has to be a tensor near ``want``, over the whole and at every token.

    Where ``want`` is infinite, the value has to be infinite as well, and the rest is compared.

    Args:
        result: what came.
        want: the reference, of the full shape.
        case: for the sentence.
        what: the name of the value, for the sentence.
        keep: ``want.shape[:-1]``, False where a token is padding.
        part: an index; only this part of the value is judged.
        limit: default: the limits of the case's dtype (float32 where it names none). Not of the
            dtype that came: a narrower one would then forgive what is wrong.
    """
    whole = want.array.astype(np.float64)
    endless = np.isinf(whole)
    reference = np.where(endless, 0.0, whole)
    got = _numbers(result, whole, case, what, endless)
    tensor = expect_tensor(result, case, what)
    dtype = case.values.get("dtype", "float32")
    limit = limit or LIMITS[dtype]
    got, reference = got[part], reference[part]
    gap = difference(got, reference, keep)
    close = gap.tensor <= limit.tensor and gap.token <= limit.token
    narrow = tensor.dtype in ("float16", "bfloat16") and limit != LIMITS[tensor.dtype]
    if not close and tensor.dtype != dtype and narrow:
        raise _fail("dtype", case, what, got=tensor.dtype, want=dtype)
    if not gap.tensor <= limit.tensor:
        place = gap.place if reference.ndim else ()
        key = "mismatch" if reference.any() else "mismatch_zeros"
        key = "mismatch_whole" if want.dtype.startswith("int") else key
        # A small error is one of rounding, whatever else it looks like.
        word, factor = relation(got, reference) if gap.tensor > 1e-2 and keep is None else ("", 0)
        key = f"mismatch_{word}" if word else key
        raise _fail(
            key if place else "mismatch_number", case, what, factor=factor,
            error=gap.tensor, limit=limit.tensor, place=_place(place, whole.shape, part),
            got=float(got[place]) + 0.0, want=float(reference[place]),
            count=int((got != reference).sum()),
        )  # fmt: skip
    if not gap.token <= limit.token:
        first = (*gap.token_place, 0) if reference.ndim else ()
        raise _fail(
            "mismatch_token", case, what, error=gap.token, limit=limit.token,
            place=_place(first, whole.shape, part, of=-1),
            got=float(got[first]), want=float(reference[first]),
        )  # fmt: skip


def _place(
    place: Sequence[int], shape: Sequence[int], part: tuple[Any, ...], of: int | None = None
) -> str:
    """Where a place of ``part`` is in an array of ``shape``, as a student would index it.

    ``of=-1`` leaves the last axis out.
    """
    numbers = np.arange(math.prod(shape)).reshape(shape)[part]
    found = np.unravel_index(int(numbers[tuple(place)]), shape)
    return str([int(index) for index in found[:of]])


def _part(values: NDArray[Any], part: tuple[Any, ...], case: Case, what: Text) -> NDArray[Any]:
    """The part that is judged, of values whose shape nobody has looked at yet."""
    try:
        if part and not values.size:  # numpy would make room for places of a list first
            raise IndexError
        return np.asarray(values[part])
    except IndexError:
        want = _words(Text(f"{len(part)} dimensions, none empty", f"{len(part)} 个非空维度"))
        raise _fail("shape", case, what, got=str(list(values.shape)), want=want) from None


_DTYPES = re.compile(r"\bb?float\d+\b")


def expect_unchanged(after: Any, before: Any, case: Case, what: Text) -> None:
    """An argument after the call: what it was before, a tensor bit for bit."""
    if isinstance(before, Tensor):
        tensor = expect_tensor(after, case, what)
        same = tensor.dtype == before.dtype and tensor.shape == before.shape
        same = same and bytes(tensor.data) == bytes(before.data)
    else:
        same = (after.value if isinstance(after, Result) else after) == before
    if not same:
        told = _DTYPES.search(case.about.en)
        if isinstance(before, Tensor) and told and told[0] != before.dtype:  # one of several
            what = Text(f"{what.en}, here in {before.dtype}", f"{what.zh}，此处为 {before.dtype}")
        raise _fail("input_changed", case, what)


def expect_same(
    result: Result | Any,
    before: Result | Any,
    case: Case,
    why: Text,
    what: Text = OUTPUT,
    *,
    part: tuple[Any, ...] = (),
    limit: float = 1e-5,
) -> None:
    """Two values that must agree, up to rounding (``limit`` relative, and 10 x at a token).

    One number everywhere agrees with itself whatever happens, so it is no answer.
    """
    whole = expect_tensor(before, case, what).array.astype(np.float64)
    got = _part(_numbers(result, whole, case, what), part, case, what)
    reference = _part(_numbers(before, whole, case, what), part, case, what)
    if not reference.any() or (whole.size > 1 and (whole == whole.flat[0]).all()):
        raise _fail("constant", case, what, value=float(next(iter(reference.flat), 0)))
    gap = difference(got, reference)
    if not (gap.tensor <= limit and gap.token <= 10 * limit):
        error = max(gap.tensor, gap.token)
        raise _fail("moved", case, what, error=error, why=_words(why))


def expect_unlike(
    result: Result | Any,
    before: Result | Any,
    case: Case,
    why: Text,
    what: Text = OUTPUT,
    *,
    part: tuple[Any, ...] = (),
) -> None:
    """Two values that must differ (by more than 1e-3, relative)."""
    reference = expect_tensor(before, case, what).array.astype(np.float64)
    got = _part(_numbers(result, reference, case, what), part, case, what)
    reference = _part(_numbers(before, reference, case, what), part, case, what)
    if not difference(got, reference).tensor > 1e-3:
        raise _fail("stuck", case, what, why=_words(why))


def expect_parameter(student: Student, module: Handle, name: str, case: Case) -> None:
    """Return what a module holds under a name is an ``nn.Parameter``, which is learned."""
    held = student.new("builtins.getattr", module, name)
    if student.call("builtins.isinstance", held, Named("torch.nn.Parameter")).value is not True:
        raise CheckFailed("check.buffer", case=case.words, name=name)


def expect_value(got: Any, want: int, case: Case, what: Text = OUTPUT) -> None:
    """A whole number; an integral float or a tensor of one element is taken too."""
    value = expect_number(got, case, what)
    if value != want:
        raise _fail("value", case, what, got=f"{value:,}", want=f"{want:,}")


def expect_most(count: Any, most: int, case: Case, what: Text, why: Text) -> None:
    """A number that was counted, which must not be above ``most``."""
    if not expect_number(count, case, what) <= most:  # NaN is not, either
        raise _fail("too_many", case, what, got=count, most=most, why=_words(why))


def expect_number(result: Result | Any, case: Case, what: Text = OUTPUT) -> int | float:
    """The value, which has to be a number; a tensor of one element is taken too."""
    value = result.value if isinstance(result, Result) else result
    if isinstance(value, Tensor) and value.array.size == 1:
        value = value.array.reshape(-1)[0].item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise reject(result, Text("a whole number", "整数"), case, what)
    return value


def expect_error(result: Result, kind: str, naming: str, case: Case, why: Text) -> None:
    """A call that has to raise a ``kind``, or one derived from it, whose text holds ``naming``."""
    try:
        value = result.value
    except StudentError as error:
        if error.todo:
            raise
        fits = kind == "Exception" or error.is_a(kind)
        result.verdict = f"raised {kind if fits else error.type}, {naming in error.text}"
        if fits and naming in error.text:
            return
        key, got = "other_error" if naming else "other_kind", f"{error.type}: {error.text}"
        raise _fail(key, case, OUTPUT, kind=kind, naming=naming, got=got) from None
    told = {"en": "an error", "zh": "异常"} if kind == "Exception" else kind
    raise _fail("no_error", case, OUTPUT, kind=told, got=described(value), why=_words(why))


# What a check on several ranks is written with, beside :mod:`autograder.checks.expect`.

__all__ += ["Each", "Group", "RankHandle", "RankResult", "expect_collectives"]


def expect_collectives(result: RankResult, want: int, case: Case, why: Text) -> None:
    """As many collectives in a counted call as ``want``, whichever they are."""
    if len(result.calls) != want:
        listed = ", ".join(result.calls[:8]) or "–"
        values = {"got": len(result.calls), "want": want, "listed": listed}
        words = {"en": why.en, "zh": why.zh}
        raise CheckFailed("check.collectives", case=case.words, why=words, **values)
