"""Checks of speculative decoding: all outcomes are counted, none is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Literal, Named, Result, Student
from autograder.wire.messages import Tensor
from labs.lab7_engine.checks.serving import GIVEN, as_array, refuse

TOKENS = Text("the tokens that come out", "得到的 token")


def _accepted(student: Student, case: Case, **options: Any) -> Result:
    q, p, uniforms = (as_array(case[name]) for name in ("q", "p", "uniforms"))
    return student.call("engine.accept", case["tokens"], q, p, uniforms, **options)


def _expect_tokens(value: Any, want: list[int], case: Case, why: Text, what: Text = TOKENS) -> None:
    got = value.array.reshape(-1).tolist() if isinstance(value, Tensor) else value
    if not isinstance(got, (list, tuple)) or [
        item.array.item() if isinstance(item, Tensor) and item.array.size == 1 else item
        for item in got
    ] != list(want):
        refuse(got, Text(f"{want}{why.en}", f"{want}{why.zh}"), case, what)


@checks("""
    test_accept_edges: accept_greedy accept_all accept_never accept_nearly
        Guesses stay below p / q; one token follows, from the residual or from the last row of p.
        随机数小于 p / q 的猜测保留，之后再接一个 token：取自残差，或取自 p 的最后一行。
    """)
def _expect_accepted(student: Student, case: Case) -> None:
    _expect_tokens(_accepted(student, case).value, case["want"], case, _follows(case))


def _follows(case: Case) -> Text:
    """How many guesses stay, and where the token comes from that follows them."""
    guesses, kept, last = case["tokens"].array.tolist(), len(case["want"]) - 1, case["uniforms"][-1]
    if kept == len(guesses):
        return Text(
            " (all guesses stay, and the last row of p gives the token after them)",
            "（全部猜测都保留，其后的 token 取自 p 的最后一行）",
        )
    residual = np.maximum(as_array(case["p"])[kept] - as_array(case["q"])[kept], 0)
    listed = [float(f"{share:.3g}") for share in residual / residual.sum()]
    stays, kept_zh = f"the first {kept} stay{'s' * (kept == 1)}", f"保留前 {kept} 个"
    if not kept:
        stays, kept_zh = "none stays", "一个也不保留"
    return Text(
        f" (of the guesses {guesses} {stays}; the last uniform, {last:g}, chooses from the "
        f"residual {listed})",
        f"（猜测 {guesses} 中{kept_zh}，再由最后一个随机数 {last:g} 从残差 {listed} 中选出一个）",
    )


@cases("accept_runs")
def test_accept_runs(student: Student, case: Case) -> None:
    """It runs: a list of tokens comes out.

    能运行：得到一列 token。
    """
    value = _accepted(student, case).value
    if not isinstance(value, (list, tuple, Tensor)):
        refuse(value, Text("a list of tokens", "token 的列表"), case, TOKENS)


def _outcomes(student: Student, case: Case) -> tuple[NDArray[Any], NDArray[Any]]:
    """Tokens of every outcome, filled up with -1, and its probability."""
    given = (case[name].array.astype(np.float64) for name in ("q", "p", "uniforms"))
    drafts, vocab = case["drafts"], case["p"].shape[-1]
    result = student.call(f"{GIVEN}.each", Named("engine.accept"), drafts, *given)
    rows, count = drafts.shape
    expect_dtype(result, "int64", case, TOKENS)
    made = expect_shape(result, (rows, count + 2), case, TOKENS).array
    if made[:, :-1].min() < -1 or made[:, :-1].max() >= vocab:
        refuse(made[:, :-1].max(), Text(f"ids below {vocab}", f"小于 {vocab} 的编号"), case, TOKENS)
    return made[:, :-1], case["weights"].array.astype(np.float64)


def _shares(
    made: NDArray[Any], weights: NDArray[Any], place: int, vocab: int, after: tuple[int, ...] = ()
) -> NDArray[Any]:
    """The distribution of the token at a place, where the ones before are ``after``."""
    counted = np.zeros(vocab)
    keep = (made[:, place] >= 0) & (made[:, : len(after)] == after).all(axis=1)
    np.add.at(counted, made[keep, place], weights[keep])
    return counted / (counted.sum() or 1.0)


@cases("accept_shares")
def test_accept_shares(student: Student, case: Case) -> None:
    """Over all outcomes, each token has exactly the target's distribution, and most drafts stay.

    在全部结果中，每个 token 的分布恰好是目标模型的分布，并且保留的草稿尽可能多。
    """
    made, weights = _outcomes(student, case)
    vocab = case["p"].shape[-1]
    first = _shares(made, weights, 0, vocab)
    what = Text("the distribution of the first token", "首个 token 的分布")
    expect_close(Tensor.of(first), case["first"], case, what)
    following = _shares(made, weights, 1, vocab)
    what = Text("the distribution of the token after it", "其后 token 的分布")
    expect_close(Tensor.of(following), case["next"], case, what)
    # As often as it may: the sum of min(p, q).
    q, p = case["q"].array[0, 0], case["p"].array[0, 0]
    stayed = np.array([weights[made[:, 1] >= 0].sum() / weights.sum()])
    want = np.array([np.minimum(p, q).sum()])
    what = Text("the share of proposed tokens that stay", "提出的 token 保留的比例")
    expect_close(Tensor.of(stayed), Tensor.of(want.astype(np.float64)), case, what)


@cases("accept_chain")
def test_accept_chain(student: Student, case: Case) -> None:
    """With two proposed tokens, the second has the target's distribution after the first.

    提出两个 token 时，在首个 token 之后，第二个的分布就是目标模型的分布。
    """
    made, weights = _outcomes(student, case)
    vocab = case["p"].shape[-1]
    first = _shares(made, weights, 0, vocab)
    what = Text("the distribution of the first token", "首个 token 的分布")
    expect_close(Tensor.of(first), case["first"], case, what)
    then = case["then"].array
    shown = np.flatnonzero([(made[made[:, 0] == t, 1] >= 0).any() for t in range(vocab)])
    for token in shown.tolist():
        got = _shares(made, weights, 1, vocab, (token,))
        what = Text(f"the distribution of what follows token {token}", f"token {token} 之后的分布")
        expect_close(Tensor.of(got), Tensor.of(then[token]), case, what)
    stayed = _shares(made, weights, 2, vocab)
    what = Text("the distribution of the third token", "第三个 token 的分布")
    expect_close(Tensor.of(stayed), case["next"], case, what)


@cases("accept_pure")
def test_accept_pure(student: Student, case: Case) -> None:
    """It does not change what it is given.

    不修改传入的内容。
    """
    result = _accepted(student, case, echo=True)
    _, args, _ = expect_items(result, 3, case)
    expect_unchanged(args[0], case["tokens"], case, Text("tokens", "tokens"))
    for number, name in enumerate(("q", "p", "uniforms"), start=1):
        before = Tensor.of(as_array(case[name]))
        expect_unchanged(args[number], before, case, Text(name, name))


def _models(student: Student, case: Case) -> list[Handle]:
    return [student.new(f"{GIVEN}.TextModel", case[name]) for name in ("draft", "target")]


def _stepped(student: Student, case: Case, models: list[Handle], **asked: Any) -> list[Result]:
    given = zip(case["texts"], case["uniforms"], strict=True)
    options = case["count"], case["temperature"]
    return [
        student.call(
            "engine.speculative_step", *models, Literal(text), *options, as_array(row), **asked
        )
        for text, row in given
    ]


@checks("""
    test_speculate_greedy: speculate_greedy
        At temperature 0 the target's likeliest tokens come out.
        温度为 0 时，得到目标模型最可能的 token。

    test_speculate_sampled: speculate_sampled speculate_twins
        With a temperature, draft, acceptance and last token use their own uniforms.
        有温度时，草稿、接受与最后的 token 各用自己的均匀随机数。
    """)
def _expect_steps(student: Student, case: Case) -> None:
    models = _models(student, case)
    results = _stepped(student, case, models)
    listed = [student.get(model, "calls") for model in models]
    told = zip(results, case["texts"], case["wants"], strict=True)
    for number, (result, text, want) in enumerate(told):
        row = len(text) - 1
        why = Text(
            f" (the first guess is judged by row {row} of the target, counted from 0)",
            f"（首个猜测由目标模型的第 {row} 行评判，从 0 数）",
        )
        what = Text(
            f"what comes out for text {number + 1}, of {len(text)} tokens,",
            f"第 {number + 1} 段文本（{len(text)} 个 token）得到的 token",
        )
        if result.value != want:
            _expect_given([one.value for one in listed], case, number)
        _expect_tokens(result.value, want, case, why, what)


def _expect_given(calls: list[Any], case: Case, number: int) -> None:
    """Both models were given what they have to see of a text: how many tokens, call by call."""
    tokens, count = len(case["texts"][number]), case["count"]
    rights = [*range(tokens, tokens + count)], [tokens + count]
    names = Text("the draft", "草稿模型"), Text("the target", "目标模型")
    for name, right, given in zip(names, rights, calls, strict=True):
        first = len(right) * number
        got = given[first : first + len(right)] if isinstance(given, list) else given
        if got != right:
            what = Text(
                f"the numbers of tokens that calls of {name.en} are given for text {number + 1}",
                f"对第 {number + 1} 段文本，{name.zh}各次调用收到的 token 数",
            )
            refuse(got, Text(str(right), str(right)), case, what)


@cases("speculate_runs")
def test_speculate_runs(student: Student, case: Case) -> None:
    """It runs: one to count + 1 tokens.

    能运行：得到 1 到 count + 1 个 token。
    """
    for result in _stepped(student, case, _models(student, case)):
        value, most = result.value, case["count"] + 1
        if not isinstance(value, (list, tuple, Tensor)):
            refuse(value, Text("a list of tokens", "token 的列表"), case, TOKENS)
        length = value.array.size if isinstance(value, Tensor) else len(value)
        if not 1 <= length <= most:
            refuse(length, Text(f"1 to {most} tokens", f"1 到 {most} 个 token"), case, TOKENS)


@cases("speculate_sampled")
def test_speculate_calls(student: Student, case: Case) -> None:
    """The draft is called once for each proposed token, the target once; the text stays as it was.

    草稿模型每提出一个 token 调用一次；目标模型总共只调用一次；不修改传入的文本。
    """
    models = _models(student, case)
    echoes = _stepped(student, case, models, echo=True)
    listed = [student.get(model, "calls") for model in models]
    steps, count = len(case["texts"]), case["count"]
    names = (
        Text("calls of the draft", "草稿模型的调用次数"),
        Text("calls of the target", "目标模型的调用次数"),
    )
    for echo, text in zip(echoes, case["texts"], strict=True):
        after = expect_items(echo, 3, case)[1][2]
        if after != list(text):
            what = Text("the tokens that were passed", "传入的 tokens")
            refuse(after, Text(f"{text}, as before", f"{text}，保持不变"), case, what)
    for result, want, what in zip(listed, (steps * count, steps), names, strict=True):
        calls = result.value
        got = len(calls) if isinstance(calls, list) else calls
        if got != want:
            refuse(got, Text(str(want), str(want)), case, what)
