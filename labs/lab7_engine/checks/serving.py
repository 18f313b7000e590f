"""How the checks of lab 7's engine call what students write, and replay what it decided.

Counts come from batches alone: who computed which tokens in which blocks is written down here,
step by step, whatever the code beside the student's says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from autograder.checks.expect import (
    CheckFailed,
    expect_dtype,
    expect_keys,
    expect_number,
    expect_shape,
    expect_tensor,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Literal, Other, Result, Student

GIVEN = "labs.given.serving"
EMPTY = Text("", "")
_KEYS = ("works", "tokens", "tables", "ends", "fills", "filled", "steps", "available")
_FIELDS = ("what", "got", "want")
_LISTED = 14  # requests that a message lists


NOTHING = Text("nothing", "空")


def refuse(got: object, want: Text, case: Case, what: Text) -> NoReturn:
    """Fail with a value in words, of both languages where they differ."""
    if not isinstance(got, Text):
        raise reject(Other(str(got)), want, case, what)
    words = ({"en": text.en, "zh": text.zh} for text in (what, got, want))
    raise CheckFailed("check.type", case=case.words, **dict(zip(_FIELDS, words, strict=True)))


def plain_cache(student: Student, case: Case, known: Any = ()) -> Handle:
    """The stand-in of a prefix cache."""
    blocks, size, *_ = case["sizes"]
    return student.new(f"{GIVEN}.PlainCache", blocks, size, Literal([list(t) for t in known]))


def own_cache(student: Student, case: Case) -> Handle:
    """The student's prefix cache."""
    blocks, size, *_ = case["sizes"]
    return student.new("engine.PrefixCache", blocks, size)


def scheduler_of(student: Student, case: Case, cache: Handle) -> Handle:
    """The student's scheduler on a cache."""
    _, _, budget, most = case["sizes"]
    return student.new("engine.Scheduler", cache, budget, most)


@dataclass(frozen=True)
class Work:
    """A work of a batch, in plain numbers."""

    step: int
    request: int
    start: int
    tokens: tuple[int, ...]
    blocks: tuple[int, ...]
    sample: bool
    available: int

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


class Run:
    """A scheduler's whole life: works in order, who ended when, what was made known."""

    def __init__(self, result: Result, case: Case) -> None:
        self.case = case = with_requests(case)
        found = expect_keys(result, _KEYS, case)
        works, ends, fills = (
            _whole_numbers(found[name], columns, case)
            for name, columns in (("works", 7), ("ends", 2), ("fills", 3))
        )
        lengths = (("tokens", works, 3), ("tables", works, 4), ("filled", fills, 2))
        tokens, tables, filled = (
            iter(expect_shape(found[name], (sum(row[at] for row in rows),), case).array.tolist())
            for name, rows, at in lengths
        )
        self.requests = {row[0]: row for row in case["requests"]}
        self.prompt = {i: list(row[1]) for i, row in self.requests.items()}
        self.works = [
            Work(step, i, start, _take(tokens, n), _take(tables, blocks), bool(sample), left)
            for step, i, start, n, blocks, sample, left in works
        ]
        self.ends = [tuple(row) for row in ends]
        self.fills = [(s, block, _take(filled, n)) for s, block, n in fills]
        self.steps = int(expect_number(found["steps"], case))
        self.available = int(expect_number(found["available"], case))
        self.text = {
            i: [*prompt, *(_token_of(i, len(prompt) + n) for n in range(row[2]))]
            for i, (row, prompt) in ((i, (self.requests[i], p)) for i, p in self.prompt.items())
        }

    def by_step(self) -> dict[int, list[Work]]:
        """Works of each step that has any."""
        found: dict[int, list[Work]] = {}
        for work in self.works:
            found.setdefault(work.step, []).append(work)
        return found


def with_requests(case: Case) -> Case:
    """The same case, which says of each request what decides when it is served."""
    en, zh = [], []
    for number, prompt, new, arrival, stop in case["requests"][:_LISTED]:
        ends = (f", stops after {stop}", f"，第 {stop} 个后停止") if stop else ("", "")
        en.append(f"{number} (arrives {arrival}, prompt {len(prompt)}, new {new}{ends[0]})")
        zh.append(f"{number}（到达 {arrival}，提示 {len(prompt)}，新 {new}{ends[1]}）")
    if (more := len(case["requests"]) - _LISTED) > 0:
        en.append(f"and {more} more")
        zh.append(f"另有 {more} 个")
    about = Text(
        f"{case.about.en}; requests, by id: {', '.join(en)}",
        f"{case.about.zh}；请求（按 id）：{'、'.join(zh)}",
    )
    return replace(case, about=about)


def _whole_numbers(value: Any, columns: int, case: Case) -> list[list[int]]:
    """Rows of so many whole numbers."""
    tensor = expect_dtype(value, "int64", case)
    rows = tensor.shape[0] if tensor.shape else 0
    return list(expect_shape(tensor, (rows, columns), case).array.tolist())


def _take(items: Iterator[int], count: int) -> tuple[int, ...]:
    return tuple(islice(items, max(count, 0)))


def _token_of(request: int, position: int) -> int:
    return (7 * request + 5 * position + request * position) % 97


def driven(student: Student, case: Case, cache: Handle | None = None, *, late: bool = False) -> Run:
    """The case's requests, served to their end on the stand-in, or on a cache; not for nothing."""
    cache = cache or plain_cache(student, case)
    scheduler = scheduler_of(student, case, cache)
    rows = Literal([list(row) for row in case["requests"]])
    options = (300, True) if late else ()
    run = Run(student.call(f"{GIVEN}.drive", scheduler, cache, rows, *options), case)
    if not run.works:
        what = Text(f"works in {run.steps} steps", f"{run.steps} 步中的工作")
        refuse(0, Text("at least one", "至少一项"), case, what)
    return run


Planned = tuple[int, int, int]  # request, first position, tokens


def _words(works: list[Planned], why: Text = EMPTY) -> Text:
    parts = [
        f"{i}: {start}" + (f"…{start + count - 1}" if count > 1 else "")
        for i, start, count in sorted(works)
    ]
    listed = Text(", ".join(parts), ", ".join(parts)) if parts else NOTHING
    return Text(f"{listed.en}{why.en}", f"{listed.zh}{why.zh}")


def _plans(run: Run) -> Iterator[tuple[int, list[Planned], list[Planned]]]:
    """Every step, what should be computed in it, and what is."""
    want: dict[int, list[Planned]] = {}
    for step, i, start, count, _ in expect_tensor(run.case["works"], run.case).array.tolist():
        want.setdefault(step, []).append((i, start, count))
    got = {
        step: [(work.request, work.start, len(work.tokens)) for work in works]
        for step, works in run.by_step().items()
    }
    for step in range(max(*want, *got, 0) + 1):
        yield step, sorted(want.get(step, [])), sorted(got.get(step, []))


def expect_trace(run: Run) -> None:
    """In every step the same tokens of the same requests as the reference."""
    rows = expect_tensor(run.case["works"], run.case).array.tolist()
    for step, right, here in _plans(run):
        if right != here:
            what = Text(
                f"what is computed in step {step} (request: positions)",
                f"第 {step} 步计算的内容（请求：位置）",
            )
            refuse(_words(here, _reason(run, rows, step, here)), _words(right), run.case, what)


def expect_available(run: Run) -> None:
    """After every step as many blocks as in the reference, until something else is computed."""
    found, want = {work.step: work.available for work in run.works}, dict(run.case["left"])
    for step, right, here in _plans(run):
        if right != here:
            return  # other requests own other blocks: who computes what is a question of its own
        if here and found[step] != want[step]:
            what = Text(
                f"blocks that are available after step {step}, before update,",
                f"第 {step} 步之后、update 之前可用的块数",
            )
            words = Text(
                f"{want[step]} (those that run own the blocks of their texts so far, and no more)",
                f"{want[step]}（运行中的请求各拥有其现有文本所需的块，此外没有）",
            )
            refuse(found[step], words, run.case, what)


def _reason(run: Run, rows: list[list[int]], step: int, here: list[Planned]) -> Text:
    """What the first request that should compute, and does not, or the other way round, shows.

    Args:
        run: what happened.
        rows: what should: step, request, first position, tokens, whether the last is the newest.
        step: the first one that differs.
        here: what is computed in it.
    """
    arrivals = {i: row[3] for i, row in run.requests.items()}
    by_age = sorted(arrivals, key=arrivals.__getitem__)  # of one arrival: as they were added
    now = {i: (count, last) for at, i, _, count, last in rows if at == step}
    before = {i: at for at, i, *_ in rows if at < step}
    gone = {int(i) for at, i in run.case["ends"] if at < step}
    mine = {i: count for i, _, count in here}
    left = run.case["sizes"][2] - sum(mine.values())
    for i in by_age:
        if i in now and i not in mine and now[i] == (1, 1) and i in before:
            return Text(
                f", where request {i}, which lacks only its newest token, computes nothing",
                f"，而请求 {i} 只差最新的 token，却没有得到计算",
            )
        if i in now and left > 0 and mine.get(i, 0) < now[i][0] and not mine.keys() - now:
            more = Text("compute more", "计算更多") if i in mine else Text("come in", "进入")
            return Text(
                f", where {left} tokens of the budget are left, and request {i} could {more.en}",
                f"，而预算还剩 {left} 个 token，请求 {i} 本可{more.zh}",
            )
    for i in (i for i in by_age if i in mine and i not in now):
        older = by_age[: by_age.index(i)]
        waits = [j for j in older if arrivals[j] <= step and j not in {*gone, *mine, *now}]
        if i in gone:
            return Text(
                f", where request {i} computes, which is finished",
                f"，其中计算了已完成的请求 {i}",
            )
        if before.get(i) == step - 1:
            return Text(
                f", where request {i}, which goes back in this step, comes in at once",
                f"，其中请求 {i} 在这一步退回，又立即进入",
            )
        if waits:
            return Text(
                f", where request {i} passes request {waits[0]}, which is older and waits",
                f"，其中请求 {i} 先于更早到达、仍在等待的请求 {waits[0]}",
            )
        made = sum(last for at, j, *_, last in rows if j == i and at < step)
        tokens = len(run.prompt[i]) + made
        blocks = -(-tokens // run.case["sizes"][1])
        return Text(
            f", where request {i} computes; its text has {tokens} tokens by now, which take "
            f"{blocks} blocks",
            f"，其中计算了请求 {i}：它的文本此时有 {tokens} 个 token，需要 {blocks} 个块",
        )
    return EMPTY


def expect_ends(run: Run) -> None:
    """The same requests end in the same steps as in the reference."""
    case = run.case
    want = sorted((int(step), int(i)) for step, i in case["ends"])
    if sorted(run.ends) != want:
        first = next(iter(sorted({*want} ^ {*run.ends})), want[-1])
        what = Text(
            f"what update says is finished in step {first[0]}",
            f"第 {first[0]} 步 update 返回的已完成请求",
        )
        got, right = ([i for step, i in ends if step == first[0]] for ends in (run.ends, want))
        refuse(got, Text(str(right), str(right)), case, what)


def expect_legal(run: Run, found: dict[int, int] | None = None) -> dict[int, int]:
    """Every work is one that a model can compute, and reads what was written for its text.

    Args:
        run: what happened.
        found: tokens that stand in blocks before, by request.

    Returns:
        Tokens computed for each request, those that were computed again included.
    """
    case = run.case
    _, size, budget, _ = case["sizes"]
    held: dict[tuple[int, int], tuple[int, ...]] = {}  # (block, slot) -> the text up to there
    computed: Counter[int] = Counter()
    for step, works in run.by_step().items():
        what = Text(f"the batch of step {step}", f"第 {step} 步的批次")
        total, ids = sum(len(work.tokens) for work in works), [work.request for work in works]
        if total > budget:
            want = Text(f"of {budget} tokens at most", f"至多 {budget} 个 token")
            refuse(f"{total}", want, case, what)
        if len({*ids}) < len(ids) or not {*ids} <= {*run.requests}:
            want = Text("one work at most for each request", "每个请求至多一项工作")
            refuse(ids, want, case, what)
        for work in works:
            _expect_work(run, work)
            computed[work.request] += len(work.tokens)
            for place in range(work.start, work.end):
                key = work.blocks[place // size], place % size
                held[key] = tuple(run.text[work.request][: place + 1])
        for work in works:
            skipped = (found or {}).get(work.request, 0)
            for place in range(skipped, work.end):
                block = work.blocks[place // size]
                if held.get((block, place % size)) != tuple(run.text[work.request][: place + 1]):
                    _refuse_block(case, work, place, block)
    return computed


def _expect_work(run: Run, work: Work) -> None:
    case = run.case
    what = Text(
        f"the work of request {work.request} in step {work.step}",
        f"第 {work.step} 步中请求 {work.request} 的工作",
    )
    blocks, size, *_ = case["sizes"]
    text = run.text[work.request]
    if not work.tokens or list(work.tokens) != text[work.start : work.end]:
        want = Text(
            f"the text's tokens from position {work.start} on",
            f"该文本从位置 {work.start} 开始的 token",
        )
        refuse(list(work.tokens)[:12], want, case, what)
    needed = -(-work.end // size)
    used = work.blocks[:needed]
    if len(used) < needed or len({*used}) < needed or not all(0 <= b < blocks for b in used):
        want = Text(
            f"on {needed} different blocks, numbered below {blocks}",
            f"使用 {needed} 个不同的块，编号小于 {blocks}",
        )
        refuse(list(work.blocks), want, case, what)


def _refuse_block(case: Case, work: Work, place: int, block: int) -> NoReturn:
    what = Text(
        f"block {block}, which request {work.request} reads in step {work.step},",
        f"第 {work.step} 步中请求 {work.request} 读取的块 {block} ",
    )
    want = Text(
        f"written for its text up to position {place}", f"已写入该文本直到位置 {place} 的内容"
    )
    refuse(Text("something else", "其他内容").en, want, case, what)


def expect_samples(run: Run) -> None:
    """``sample`` where the newest token is computed, and each new token is sampled once."""
    case = run.case
    made: Counter[int] = Counter()
    for work in run.works:
        newest = len(run.prompt[work.request]) + made[work.request]
        if work.sample != (work.end == newest):
            what = Text(
                f"sample of request {work.request} in step {work.step}, which computes up to "
                f"position {work.end - 1} of {newest} tokens,",
                f"第 {work.step} 步中请求 {work.request} 的 sample（计算到位置 {work.end - 1}，"
                f"共 {newest} 个 token）",
            )
            want = str(work.end == newest)
            refuse(work.sample, Text(want, want), case, what)
        made[work.request] += work.sample


def expect_all_back(run: Run) -> None:
    """Everybody came to an end, the last one with every block there is; then nobody owns one."""
    case = run.case
    ended = sorted(i for _, i in run.ends)
    if ended != sorted(run.requests):
        what = Text(
            f"the requests that are finished after {run.steps} steps",
            f"{run.steps} 步之后已完成的请求",
        )
        want = str(sorted(run.requests))
        last, blocks = max(run.requests), case["sizes"][0]
        lost, stood = blocks - run.available, run.works[-1].step
        got = Text(f"{ended}", f"{ended}")
        if stood + 1 < run.steps:  # nobody computes any more
            got = Text(
                f"{ended}: nothing is computed after step {stood}, and {lost} of {blocks} blocks "
                "still have an owner",
                f"{ended}：第 {stood} 步之后不再计算，而 {blocks} 个块中仍有 {lost} 个有所有者",
            )
        refuse(
            got,
            Text(
                f"{want} (request {last} needs all {blocks} blocks)",
                f"{want}（请求 {last} 需要全部 {blocks} 个块）",
            ),
            case,
            what,
        )
    if run.available != case["sizes"][0]:
        what = Text("blocks that are available at the end", "结束时可用的块数")
        want = str(case["sizes"][0])
        refuse(run.available, Text(want, want), case, what)


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """A case's numbers in float64."""
    return np.asarray(value, np.float64)
