"""Checks of ``generate`` on a stand-in model: its scores are a table, and it counts its calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_form,
    expect_items,
    expect_most,
    expect_same,
    expect_shape,
    expect_unchanged,
    expect_unlike,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Result, Student
from labs.lab4_tinyllm.checks.calls import STAND_IN_MODEL, expect_shares, like

TEXT = Text("the text", "生成的文本")
COUNTS = Text("a list of counts", "各次调用的 token 数")


def _model(student: Student, case: Case) -> Handle:
    return student.new(STAND_IN_MODEL, case["table"])


def _generated(student: Student, model: Handle, case: Case, **given: Any) -> Result:
    if "keep" in case.tensors:
        given["attention_mask"] = case["keep"]
    if case["eos"] is not None:
        given["eos"] = case["eos"]
    return student.call("model.generate", model, case["ids"], case["new"], **given)


@checks("""
    test_generate_greedy: generate_greedy
        Every step adds the most likely token.
        每一步接上最可能的 token。

    test_generate_padded: generate_padded
        Padded rows: the mask goes along and grows with the text.
        有填充的各行：掩码随文本一起增长并传给模型。

    test_generate_eos: generate_eos generate_large
        A row that gets eos only gets eos again; others go on, even with eos in the prompt.
        生成了 eos 的行已经结束，之后只补 eos；其他行继续，提示中有 eos 的行也一样。
    """)
def _expect_text(student: Student, case: Case) -> None:
    expect_close(_generated(student, _model(student, case), case), case["y"], case, TEXT)


@cases("generate_greedy")
def test_generate_runs(student: Student, case: Case) -> None:
    """It runs and gives the prompt with max_new_tokens more.

    能运行，给出提示与新增的 max_new_tokens 个 token。
    """
    result = _generated(student, _model(student, case), case)
    text = expect_shape(result, case["y"].shape, case, TEXT)
    prompt = like(case["ids"], text.array[:, : case["ids"].shape[1]])
    expect_close(prompt, case["ids"], case, Text("the prompt in the text", "文本中的提示"))


@cases("generate_greedy")
def test_generate_calls(student: Student, case: Case) -> None:
    """The prompt is read once, then one token per step, and nothing after the last.

    提示只读一次，之后每步一个 token，最后一个之后不再计算。
    """
    model = _model(student, case)
    result = _generated(student, model, case)
    calls = student.get(model, "calls")
    expect_shape(result, case["y"].shape, case, TEXT)
    counted = calls.value
    if not isinstance(counted, list) or not all(type(count) is int for count in counted):
        raise reject(counted, Text("a list of counts", "各次调用的 token 数"), case)
    most = case["ids"].shape[1] + case["new"] - 1
    what = Text("tokens that the model reads in all", "模型一共读入的 token 数")
    why = Text(
        "keys and values of earlier tokens are in the cache.", "之前 token 的键与值已在缓存中。"
    )
    expect_most(sum(counted), most, case, what, why)
    what = Text("calls of the model", "模型被调用的次数")
    why = Text("one call per new token is enough.", "每个新 token 调用一次就够了。")
    expect_most(len(counted), case["new"], case, what, why)


@cases("generate_all_end")
def test_generate_all_end(student: Student, case: Case) -> None:
    """When all rows have drawn eos, it stops; token 0 can be eos, too.

    所有行都生成了 eos 时停止；eos 也可能是 token 0。
    """
    model = _model(student, case)
    result = _generated(student, model, case)
    calls = student.get(model, "calls")
    expect_close(result, case["y"], case, TEXT)
    most = case["y"].shape[1] - case["ids"].shape[1]
    what = Text("calls of the model", "模型被调用的次数")
    why = Text("all rows are done by then.", "此时所有行都已结束。")
    counted = calls.value
    expect_most(len(counted) if isinstance(counted, list) else 0, most, case, what, why)


@checks("""
    test_generate_sampled: generate_sampled
        temperature and top_k reach the choice of every token.
        temperature 与 top_k 用于每个 token 的选择。

    test_generate_top_p: generate_sampled_top_p
        temperature and top_p reach the choice of every token.
        temperature 与 top_p 用于每个 token 的选择。
    """)
def _expect_shares(student: Student, case: Case) -> None:
    ids = case["ids"]
    many = like(ids, np.repeat(ids.array, case["rows"], axis=0))
    expect_shares(student, "model.generate", [_model(student, case), many, 1], case)


@cases("generate_sampled")
def test_generate_generator(student: Student, case: Case) -> None:
    """The generator reaches the choice, and goes on: same seed, same text, once.

    选择 token 时使用 generator，它的状态随之改变：种子相同，文本相同，仅此一次。
    """
    ids = case["ids"]
    many = like(ids, np.repeat(ids.array, 300, axis=0))
    held, alike = (student.new("labs.given.standin.seeded", 5) for _ in range(2))
    first, later, same = (
        student.call(
            "model.generate", _model(student, case), many, 3, generator=one, temperature=1.0
        )
        for one in (held, held, alike)
    )
    expect_shape(first, (300, ids.shape[1] + 3), case, TEXT)
    why = Text("both generators were seeded alike.", "两个 generator 的种子相同。")
    expect_same(same, first, case, why, TEXT)
    why = Text(
        "the same generator goes on; nothing may seed it again.",
        "同一个 generator 每抽取一次，状态就会改变；不要重新设定种子。",
    )
    expect_unlike(later, first, case, why, TEXT)


@cases("generate_eos", "generate_large", "generate_all_end")
def test_generate_streams(student: Student, case: Case) -> None:
    """on_token gets the new tokens of every step, in their order, before the model goes on.

    on_token 依次收到每一步的新 token，而且在模型继续计算之前收到。
    """
    model = _model(student, case)
    listener = student.new("labs.given.standin.Listener", model)
    _generated(student, model, case, on_token=listener)
    steps = case["y"].array[:, case["ids"].shape[1] :].T
    what = Text("what on_token was given", "on_token 收到的内容")
    told, when = student.call(listener, method="heard"), student.get(listener, "when")
    expect_close(told, like(case["y"], steps), case, what)
    what = Text("calls of the model before each of on_token", "每次 on_token 之前的模型调用次数")
    counted, wanted = expect_form(when, list[int], COUNTS, case, what), [*range(1, len(steps) + 1)]
    if counted != wanted:
        raise reject(counted, Text(*[str(wanted)] * 2), case, what)


@cases("generate_padded")
def test_generate_pure(student: Student, case: Case) -> None:
    """It leaves prompt and mask alone, and a second text starts afresh.

    不修改提示与掩码，第二次生成重新开始。
    """
    model = _model(student, case)
    first = _generated(student, model, case, echo=True)
    second = _generated(student, model, case)
    value, args, kwargs = expect_items(first, 3, case)
    expect_unchanged(args[1], case["ids"], case, Text("input_ids", "input_ids"))
    what = Text("attention_mask", "attention_mask")
    expect_unchanged(kwargs["attention_mask"], case["keep"], case, what)
    why = Text("nothing may be left over from the first text.", "第一次生成不应留下任何影响。")
    expect_same(second, value, case, why, TEXT)
