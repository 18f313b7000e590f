"""Checks of ``Engine`` on batches that stand written, and on the student's own scheduler."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypedDict

from autograder.checks.contracts import checks
from autograder.checks.expect import cases, expect_form
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Literal, Named, Result, Student
from labs.lab7_engine.checks.serving import GIVEN, NOTHING, own_cache, refuse, scheduler_of

_PIECES = Text("pieces of text without a line break", "不含换行的各段文本")


def _parts(student: Student, case: Case, scheduler: Handle | None = None) -> tuple[Handle, ...]:
    """The engine, its model and its scheduler."""
    blocks, size, *_ = case["sizes"]
    model = student.new(f"{GIVEN}.PagedModel", case["table"], blocks, size)
    scheduler = scheduler or student.new(f"{GIVEN}.ScriptedScheduler", Literal(case["script"]))
    return student.new("engine.Engine", model, scheduler, case["words"]), model, scheduler


def _listened(student: Student, case: Case, engine: Handle, model: Handle, *given: Named) -> Result:
    return student.call(f"{GIVEN}.heard", engine, model, Literal(case["requests"]), *given)


_LATER = 100  # what ids of a second call have more: no two requests have the same


def _again(case: Case) -> Case:
    """The same requests under other ids, for a second call of the same engine.

    What stands written begins after a pause that is longer than the first call.
    """
    pause = case["script"][-1][0] + 3
    script = [
        [now + pause, [[_LATER + i, *work] for i, *work in works], [_LATER + i for i in ends]]
        for now, works, ends in case["script"]
    ]
    values = {
        "requests": [[_LATER + i, *row] for i, *row in case["requests"]],
        "script": script,
        "texts": {str(_LATER + int(i)): text for i, text in case["texts"].items()},
        "told": [[[_LATER + i, *token] for i, *token in rows] for rows in case["told"]],
    }
    about = Text(
        f"{case.about.en}; a second call of the engine, under other ids",
        f"{case.about.zh}；对同一引擎的第二次调用，id 不同",
    )
    return replace(case, about=about, values={**case.values, **values})


def _asked_again(student: Student, case: Case, scheduler: Handle) -> Case:
    """The case of a second call, which the scripted scheduler begins anew with."""
    again = _again(case)
    student.call(scheduler, Literal(again["script"]), method="__init__")
    return again


class _Heard(TypedDict):
    """By request: its pieces, a line each, and the numbers of the calls that they came after."""

    pieces: dict[str, str]
    calls: dict[str, list[int]]


def _heard(result: Result, case: Case) -> dict[str, list[tuple[int, str]]]:
    """Pieces of each request, each with the number of the call that it came after."""
    found, heard = expect_form(result, _Heard, _PIECES, case), {}
    for i, calls in found["calls"].items():
        pieces = found["pieces"].get(i, "").split("\n") if calls else []
        if len(pieces) != len(calls):  # no token has a line break
            what = Text(f"the pieces of request {i}", f"请求 {i} 的各段文本")
            refuse(repr(found["pieces"].get(i)), _PIECES, case, what)
        heard[i] = list(zip(calls, pieces, strict=True))
    return heard


def _expect_texts(got: dict[str, str], case: Case) -> None:
    missing = Text("missing", "缺失")
    for i, want in case["texts"].items():
        if got.get(i) != want:
            what = Text(f"the text of request {i}", f"请求 {i} 的文本")
            words = Text(repr(want), repr(want))
            refuse(repr(got[i]) if i in got else missing, words, case, what)


class _Told(TypedDict):
    """What a scripted scheduler heard; of each batch, what was sampled and who stopped.

    Of the model, how many tokens each call had, and of each of its sequences tokens, positions,
    block table and length of the context.
    """

    added: list[int]
    times: list[int]
    told: list[list[list[int]]]
    calls: list[int]
    inputs: list[list[tuple[list[int], list[int], list[int], int]]]


def _told(student: Student, case: Case, scheduler: Handle, model: Handle) -> _Told:
    result = student.call(f"{GIVEN}.told", scheduler, model)
    return expect_form(result, _Told, Text("lists of whole numbers", "整数的列表"), case)


def _expect_calls(found: _Told, case: Case) -> None:
    """Batch by batch, the model is given what it has to see, and the token that it says follows."""
    told, made = iter(found["told"]), Counter[int]()
    warm = {row[0] for row in case["requests"] if row[5]}  # they have a temperature
    for batch, (_, works, _) in enumerate(case["script"], start=1):
        _expect_inputs(found["inputs"][batch - 1 : batch], case, batch, works)
        got, _ = {row[0]: row[-1] for row in next(told, []) if row}, next(told, [])
        for i, token in case["told"][2 * batch - 2]:
            made[i] += 1
            what = Text(
                f"new token {made[i]} of request {i}, sampled in batch {batch},",
                f"第 {batch} 批采样的请求 {i} 的第 {made[i]} 个新 token ",
            )
            want = (
                Text(
                    f"{token} (each takes one number of a generator that is seeded once)",
                    f"{token}（每个新 token 取生成器的一个数，种子只设一次）",
                )
                if i in warm
                else Text(
                    f"{token} (the likeliest by the scores of the last token of its work)",
                    f"{token}（按这项工作最后一个 token 的分数，它最可能）",
                )
            )
            if got.get(i) != token:
                refuse(got.get(i, NOTHING), want, case, what)


def _expect_inputs(
    given: list[list[tuple[list[int], list[int], list[int], int]]],
    case: Case,
    batch: int,
    works: list[tuple[int, int, list[int], list[int], bool]],
) -> None:
    """One call of the model, whose sequences are the works, in any order."""
    size = case["sizes"][1]
    got = sorted((row for call in given for row in call), key=lambda row: row[2])
    if len(got) != len(works):
        what = Text(f"the sequences of batch {batch}", f"第 {batch} 批的序列数")
        refuse(len(got), Text(str(len(works)), str(len(works))), case, what)
    for row, work in zip(got, sorted(works, key=lambda one: one[3]), strict=True):
        (tokens, positions, table, context), (i, start, right, blocks, _) = row, work
        end = start + len(right)
        held = [block for block in table if block != -1]
        fits = held == blocks[: len(held)] and len(held) >= -(-end // size)
        padded = table == [*held, *[-1] * (len(table) - len(held))]
        filled = Text(f"{blocks}, filled up with -1", f"{blocks}，其余用 -1 填充")
        for name, mine, want, same in (
            ("block_tables", table, filled, fits and padded),
            ("tokens", tokens, Text(str(right), str(right)), tokens == right),
            ("positions", positions, _span(start, end), positions == [*range(start, end)]),
            ("context_lens", context, Text(str(end), str(end)), context == end),
        ):
            what = Text(
                f"{name} of request {i} in batch {batch}", f"第 {batch} 批中请求 {i} 的 {name} "
            )
            if not same:
                refuse(mine, want, case, what)


def _span(start: int, end: int) -> Text:
    return Text(f"{[*range(start, end)]}", f"{[*range(start, end)]}")


@checks("""
    test_engine_flat: engine_flat
        Prompts of different lengths lie flat in one batch, with tables filled up with -1.
        长度不同的提示在一个批次中首尾相接，块表用 -1 填充。

    test_engine_chunks: engine_chunks
        Texts do not depend on how they are cut into batches, nor on being computed twice.
        文本与如何切分批次、是否重新计算无关。

    test_engine_sampled: engine_sampled
        Sampled texts do not depend on other requests: each has a generator of its own.
        采样得到的文本与其他请求无关：每个请求有自己的生成器。

    test_engine_stops: engine_stops
        A text ends before its first stop word, whichever tokens that is made of.
        文本在第一个停止词之前结束，无论停止词由哪些 token 组成。
    """)
def _expect_right_texts(student: Student, case: Case) -> None:
    engine, model, scheduler = _parts(student, case)
    heard = _heard(_listened(student, case, engine, model), case)
    found = _told(student, case, scheduler, model)
    got = {i: "".join(piece for _, piece in pieces) for i, pieces in heard.items()}
    if got != case["texts"] or case.recipe == "engine_flat":
        _expect_calls(found, case)
    _expect_texts(got, case)


@cases("engine_runs")
def test_engine_runs(student: Student, case: Case) -> None:
    """It runs: some text of a request comes out.

    能运行：得到一个请求的文本。
    """
    engine, model, _ = _parts(student, case)
    heard = _heard(_listened(student, case, engine, model), case)
    for i, pieces in heard.items():
        if not pieces:
            what = Text(f"the pieces of request {i}", f"请求 {i} 的各段文本")
            refuse(NOTHING, Text("at least one", "至少一段"), case, what)


@cases("engine_generates")
def test_engine_generates(student: Student, case: Case) -> None:
    """generate gives every request's whole text by its id, an empty one too, and no other text.

    generate 按 id 给出每个请求的完整文本，空的也要给出，且不给出其他文本。
    """
    engine, _, scheduler = _parts(student, case)
    _expect_texts(_generated(student, case, engine), case)
    again = _asked_again(student, case, scheduler)
    _expect_own_texts(_generated(student, again, engine), again)


def _generated(student: Student, case: Case, engine: Handle) -> dict[str, str]:
    """The texts that ``generate`` gives, by id."""
    result = student.call(f"{GIVEN}.texts", engine, Literal(case["requests"]))
    want = Text("a text for every request", "每个请求各有一段文本")
    return expect_form(result, dict[str, str], want, case)


def _expect_own_texts(got: dict[str, str], case: Case) -> None:
    """Right texts, and none of an earlier call."""
    _expect_texts(got, case)
    if got.keys() != case["texts"].keys():
        given, asked = (", ".join(sorted(ids)) for ids in (got, case["texts"]))
        what = Text("the ids that generate gives a text for", "generate 给出文本的 id")
        want = Text(f"{asked}, the requests of this call", f"{asked}，即这次调用的请求")
        refuse(given, want, case, what)


@checks("""
    test_engine_streams: engine_streams engine_held
        Text is passed on in the step that makes it, except what may begin a stop word.
        文本在生成它的那一步就输出，但可能是停止词开头的部分除外。
    """)
def _expect_pieces(student: Student, case: Case) -> None:
    engine, model, _ = _parts(student, case)
    heard = _heard(_listened(student, case, engine, model), case)
    for i, steps in case["shown"].items():
        pieces = heard.get(i, [])
        if any(not piece for _, piece in pieces):
            what = Text(f"a piece of request {i}", f"请求 {i} 的一段文本")
            refuse("''", Text("a text that is not empty", "非空的文本"), case, what)
        for call, length in steps:
            want = case["texts"][i][:length]
            got = "".join(piece for at, piece in pieces if at <= call)
            if got != want:
                what = Text(
                    f"what is passed on of request {i} by the end of batch {call}",
                    f"到第 {call} 个批次结束时，请求 {i} 已输出的文本",
                )
                refuse(repr(got), Text(repr(want), repr(want)), case, what)


@cases("engine_told", "engine_late")
def test_engine_told(student: Student, case: Case) -> None:
    """Each call tells the scheduler of requests, steps, tokens, stops; idle steps compute nothing.

    每次调用都告诉调度器每个请求、每一步、采样得到的 token 与停止的请求；没有工作的步不计算。
    """
    engine, model, scheduler = _parts(student, case)
    _listened(student, case, engine, model, Named("builtins.iter"))
    _expect_told(_told(student, case, scheduler, model), case)
    again = _asked_again(student, case, scheduler)
    _listened(student, again, engine, model, Named("builtins.iter"))
    found = _told(student, again, scheduler, model)
    found["calls"] = found["calls"][len(case["tokens"]) :]  # the model goes on with its list
    _expect_told(found, again)


def _expect_told(found: _Told, case: Case) -> None:
    asked = [row[0] for row in case["requests"]]
    steps = list(range(case["script"][-1][0] + 1))
    for got, right, what in (
        (sorted(found["added"]), sorted(asked), Text("the requests that were added", "加入的请求")),
        (found["times"], steps, Text("now, from step to step", "各步的 now")),
        (
            found["calls"],
            case["tokens"],
            Text("tokens of every call of the model", "每次调用的 token 数"),
        ),
    ):
        if got != right:
            refuse(got, Text(str(right), str(right)), case, what)
    told = found["told"]
    for place, right in enumerate(case["told"]):
        said = told[place] if place < len(told) else NOTHING
        batch = place // 2 + 1
        if said != right:
            what = (
                Text(f"who is said to have stopped in batch {batch}", f"第 {batch} 批中停止的请求")
                if place % 2
                else Text(f"tokens sampled in batch {batch}", f"第 {batch} 批采样的 token")
            )
            refuse(said, Text(str(right), str(right)), case, what)


@cases("engine_whole")
def test_engine_whole(student: Student, case: Case) -> None:
    """With your scheduler and cache, few blocks and shared beginnings, each text is as if alone.

    使用你的调度器与缓存，在块很少、开头相同的情况下，每段文本都与单独生成时一样。
    """
    scheduler = scheduler_of(student, case, own_cache(student, case))
    engine, *_ = _parts(student, case, scheduler)
    _expect_texts(_generated(student, case, engine), case)
    again = _again(case)
    _expect_own_texts(_generated(student, again, engine), again)
