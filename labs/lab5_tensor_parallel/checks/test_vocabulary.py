"""Checks of ``VocabParallelEmbedding`` and ``ParallelLMHead``."""

from __future__ import annotations

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_collectives,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.ranks import Each, Group, RankHandle
from autograder.sandbox.student import Handle, Student
from labs.lab5_tensor_parallel.checks.calls import (
    WEIGHT,
    each,
    expect_kept_narrow,
    expect_ranks_close,
    on,
    rows,
    weights_of_ranks,
    worlds,
)

EMBEDDING, HEAD = "model.VocabParallelEmbedding", "model.ParallelLMHead"
STATES, BORDERS = Text("hidden_states", "hidden_states"), Text("cu_seqlens", "cu_seqlens")
LOGITS = Text("the logits", "logits")
IDS = Text("input_ids", "input_ids")
ONE = Text("the output for a single token", "只有一个 token 时的输出")


def _alone(student: Student, case: Case, path: str) -> Handle:
    """The module on one rank, which holds everything."""
    dtype = case.values["dtype"]
    return student.new(path, *case["sizes"], weights={"weight": case["weight"]}, dtype=dtype)


def _on_ranks(group: Group, case: Case, path: str) -> RankHandle:
    """The module on ranks, each with the rows that it has to hold."""
    held = Each([{"weight": weight} for weight in each(case, group.world, "weight").values])
    return group.new(path, *case["sizes"], weights=held, dtype=case.values["dtype"])


@cases("embedding_alone")
def test_embedding_runs(student: Student, case: Case) -> None:
    """On one rank it is a plain embedding, [tokens, hidden].

    只有一个 rank 时，就是普通的词嵌入，形状为 [tokens, hidden]。
    """
    result = student.new(EMBEDDING, *case["sizes"])(case["ids"])
    expect_shape(result, case["y"].shape, case)


@cases("embedding_alone")
def test_embedding_parity(student: Student, case: Case) -> None:
    """One parameter, weight: every token gets its row, token 0 too.

    只有一个参数 weight：每个 token 取到自己的那一行，0 号 token 也不例外。
    """
    expect_close(_alone(student, case, EMBEDDING)(case["ids"]), case["y"], case)


@cases("embedding", "embedding_few")
def test_embedding_shapes(student: Student, case: Case) -> None:
    """Every rank has as many rows: the vocabulary shared out, rounded up.

    每个 rank 的行数相同：词表平分后向上取整。
    """
    for world in worlds(case):
        group = student.ranks(world)
        weights = group.get(group.new(EMBEDDING, *case["sizes"]), "weight")
        for rank in range(world):
            what = on(rank, Text("weight", "weight"))
            expect_shape(weights[rank], case[f"{world}.{rank}.weight"].shape, case, what)


@checks("""
    test_embedding_loader: embedding_loading embedding_few_loading embedding_even_loading
        Every rank loads the rows of its own range; rows without an id are zero.
        每个 rank 加载自己范围内的行；没有编号的行为零。
    """)
def _expect_rows(student: Student, case: Case) -> None:
    for world in worlds(case):
        group = student.ranks(world)
        embedding = group.new(EMBEDDING, *case["sizes"])
        weight = group.new("builtins.getattr", embedding, "weight")
        group.call(embedding, weight, case["weight"], method="weight_loader")
        loaded = group.get(embedding, "weight")
        expect_ranks_close(loaded, weights_of_ranks(case, world), case, WEIGHT)


@checks("""
    test_embedding_ranks: embedding embedding_few
        On 2 and 4 ranks every rank gets the row of every token: ranks without it add zeros.
        在 2 个与 4 个 rank 上，每个 rank 都得到每个 token 的那一行：不持有它的 rank 加的是零。
    """)
def _expect_looked_up(student: Student, case: Case) -> None:
    for world in worlds(case):
        group = student.ranks(world)
        embedding = _on_ranks(group, case, EMBEDDING)
        result, alone = embedding(case["ids"]), embedding(rows(case["ids"], 0, 1))
        expect_ranks_close(result, [case["y"]] * world, case)
        expect_ranks_close(alone, [rows(case["y"], 0, 1)] * world, case, ONE)


@cases("embedding")
def test_embedding_collectives(student: Student, case: Case) -> None:
    """One forward pass makes one collective call.

    一次前向计算恰好调用一次集合通信。
    """
    group = student.ranks(4)
    result = group.call(_on_ranks(group, case, EMBEDDING), case["ids"], counted=True)
    why = Text(
        "one sum brings every row to every rank: those who do not hold it add zeros.",
        "一次求和就能把每一行送到每个 rank：不持有该行的 rank 加的是零。",
    )
    expect_collectives(result, 1, case, why)


@cases("embedding_bfloat16")
def test_embedding_bfloat16(student: Student, case: Case) -> None:
    """A bfloat16 weight gives bfloat16, its numbers untouched, and stays so when float32 is loaded.

    weight 为 bfloat16 时输出 bfloat16，数值原样取出；加载 float32 的张量后，weight 仍为 bfloat16。
    """
    group = student.ranks(2)
    expect_kept_narrow(group, EMBEDDING, case, *case["sizes"])
    result = group.call(_on_ranks(group, case, EMBEDDING), case["ids"])
    for rank in range(2):
        expect_dtype(result[rank], "bfloat16", case, on(rank))
        expect_close(result[rank], case["y"], case, on(rank))


@cases("embedding")
def test_embedding_pure(student: Student, case: Case) -> None:
    """Token ids and weight are left alone, also on ranks.

    token 编号与 weight 都不被修改，在多个 rank 上也是如此。
    """
    group = student.ranks(2)
    embedding = _on_ranks(group, case, EMBEDDING)
    first = group.call(embedding, case["ids"], echo=True)
    second = group.call(embedding, case["ids"])
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    for rank in range(2):
        value, args, _ = expect_items(first[rank], 3, case, on(rank))
        expect_unchanged(args[0], case["ids"], case, on(rank, IDS))
        expect_same(second[rank], value, case, why, on(rank))


@cases("lm_head")
def test_lm_head_runs(student: Student, case: Case) -> None:
    """It gives one row per sequence, [sequences, vocabulary].

    每个序列得到一行，形状为 [sequences, vocabulary]。
    """
    result = student.new(HEAD, *case["sizes"])(case["x"], case["cu"])
    expect_shape(result, case["y"].shape, case, LOGITS)


@cases("lm_head")
def test_lm_head_parity(student: Student, case: Case) -> None:
    """On one rank: the scores after the last token of every sequence.

    只有一个 rank 时：每个序列最后一个 token 之后的分数。
    """
    result = _alone(student, case, HEAD)(case["x"], case["cu"])
    expect_close(result, case["y"], case, LOGITS)


@cases("lm_head", "lm_head_few")
def test_lm_head_ranks(student: Student, case: Case) -> None:
    """On 2 and 4 ranks every rank has all scores, in the order of the ids, and none for padding.

    在 2 个与 4 个 rank 上，每个 rank 都得到全部分数，按编号的顺序排列，不含填充列的分数。
    """
    for world in worlds(case):
        group = student.ranks(world)
        result = group.call(_on_ranks(group, case, HEAD), case["x"], case["cu"])
        expect_ranks_close(result, [case["y"]] * world, case, LOGITS)


@cases("lm_head")
def test_lm_head_collectives(student: Student, case: Case) -> None:
    """One forward pass makes one collective call.

    一次前向计算恰好调用一次集合通信。
    """
    group = student.ranks(4)
    head = _on_ranks(group, case, HEAD)
    result = group.call(head, case["x"], case["cu"], counted=True)
    why = Text(
        "one gathering brings all scores to every rank.", "一次收集就让每个 rank 得到全部分数。"
    )
    expect_collectives(result, 1, case, why)


@cases("lm_head_bfloat16")
def test_lm_head_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 out, ranks or not; the inputs stay the same.

    输入 bfloat16，输出 bfloat16，无论有几个 rank；不修改输入。
    """
    group = student.ranks(2)
    head = _on_ranks(group, case, HEAD)
    result = group.call(head, case["x"], case["cu"])
    called = group.call(head, case["x"], case["cu"], echo=True)
    for rank in range(2):
        expect_dtype(result[rank], "bfloat16", case, on(rank, LOGITS))
        expect_close(result[rank], case["y"], case, on(rank, LOGITS))
        _, args, _ = expect_items(called[rank], 3, case)
        expect_unchanged(args[0], case["x"], case, on(rank, STATES))
        expect_unchanged(args[1], case["cu"], case, on(rank, BORDERS))
