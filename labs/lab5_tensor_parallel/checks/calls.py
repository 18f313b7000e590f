"""How the checks of lab 5 make modules, on one rank and on several, and call them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from autograder.checks.expect import (
    OUTPUT,
    CheckFailed,
    Result,
    expect_close,
    expect_collectives,
    expect_dtype,
    expect_error,
    expect_same,
    expect_shape,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import Limit
from autograder.sandbox.ranks import Each, Group, RankHandle, RankResult
from autograder.sandbox.student import Handle, Student
from autograder.wire.messages import Tensor

INPUT = Text("the input x", "输入 x")
WEIGHT = Text("the weight after loading", "weight（加载后）")


def spaced(chinese: str) -> str:
    """This text as it stands behind a Chinese word: Latin letters keep a space before them."""
    return f" {chinese}" if chinese[:1].isascii() else chinese


def on(rank: int, what: Text = OUTPUT) -> Text:
    """``what`` of a rank, in words."""
    return Text(f"{what.en} on rank {rank}", f"rank {rank} 上的{spaced(what.zh)}")


def about(case: Case, en: str, zh: str) -> Case:
    """The same case with other words for what is particular about it."""
    return replace(case, about=Text(en, zh))


def each(case: Case, world: int, name: str) -> Each:
    """The tensor of every rank that a case names ``world.rank.name``."""
    return Each([case[f"{world}.{rank}.{name}"] for rank in range(world)])


def sharded(case: Case, world: int, prefix: str = "") -> Each:
    """What every rank holds of the weights, as a state dict."""
    return Each([case.group(f"{prefix}{world}.{rank}.") for rank in range(world)])


def worlds(case: Case) -> Iterator[int]:
    """The numbers of ranks that a case has weights for, more than one."""
    for world in (2, 4):
        if any(name.startswith(f"{world}.") for name in case.tensors):
            yield world


def expect_ranks_close(
    result: RankResult, want: Sequence[Tensor], case: Case, what: Text = OUTPUT
) -> None:
    """Every rank's value near its own of ``want``."""
    for rank, (one, wanted) in enumerate(zip(result, want, strict=True)):
        expect_close(one, wanted, case, on(rank, what))


def weights_of_ranks(case: Case, world: int) -> list[Tensor]:
    """What ``weight`` should be on every rank."""
    return [case[f"{world}.{rank}.weight"] for rank in range(world)]


def expect_kept(after: Any, before: Any, case: Case, what: Text) -> None:
    """Plain data that was an argument: after the call what it was before."""
    if after != before:
        words = {"en": what.en, "zh": what.zh}
        raise CheckFailed("check.input_changed", case=case.words, what=words)


def expect_kept_narrow(group: Group, path: str, case: Case, *shape: int) -> None:
    """A bfloat16 parameter stays bfloat16 when ones of this shape are loaded, which are float32."""
    linear = group.new(path, *case["sizes"], dtype="bfloat16")
    weight = group.new("builtins.getattr", linear, "weight")
    whole = Tensor.of(np.ones(shape, np.float32))
    group.call(linear, weight, whole, method="weight_loader")
    for rank, held in enumerate(group.get(linear, "weight")):
        expect_dtype(held, "bfloat16", case, on(rank, WEIGHT))


def expect_unknown(result: Result, name: str, case: Case) -> None:
    """A KeyError for a tensor of this name, which no parameter takes."""
    words = f"no parameter takes the tensor {name}", f"没有参数可接收张量 {name}"
    why = Text(
        "a tensor that is dropped in silence is a model gone wrong.",
        "悄悄丢弃张量会得到错误的模型。",
    )
    expect_error(result, "KeyError", name.split(".")[-2], about(case, *words), why)


# ---- attention


def attention_sizes(case: Case) -> tuple[int, int, int, int, float, float]:
    """hidden_size, num_heads, num_kv_heads, head_dim, rms_norm_eps, rope_theta."""
    c = case.config
    heads = c["num_attention_heads"], c["num_key_value_heads"]
    return c["hidden_size"], *heads, c["head_dim"], c["rms_norm_eps"], c["rope_theta"]


def qkv_sizes(case: Case) -> tuple[int, int, int, int]:
    """hidden_size, head_dim, num_heads, num_kv_heads."""
    hidden, heads, kv_heads, head_dim, _, _ = attention_sizes(case)
    return hidden, head_dim, heads, kv_heads


def attention_of(student: Student, case: Case, changed: dict[str, Tensor] | None = None) -> Handle:
    """The student's attention with the case's weights, some of them replaced."""
    weights = case.weights | (changed or {})
    dtype = case.values.get("dtype", "float32")
    sizes = attention_sizes(case)
    return student.new("attention.Qwen3Attention", *sizes, weights=weights, dtype=dtype)


def expect_parity(
    student: Student, case: Case, *, limit: Limit | None = None, part: tuple[object, ...] = ()
) -> None:
    """The answer of attention to a case near the reference."""
    result = attention_of(student, case)(case["positions"], case["x"], case["cu"])
    expect_close(result, case["y"], case, part=part, limit=limit)


def attention_on_ranks(group: Group, case: Case, prefix: str = "") -> RankHandle:
    """The student's attention, on every rank with what that rank holds."""
    weights = sharded(case, group.world, prefix)
    return group.new("attention.Qwen3Attention", *attention_sizes(case), weights=weights)


def expect_one_collective(result: RankResult, case: Case) -> None:
    """Exactly one, whichever it is."""
    why = Text(
        "one sum at the end of a block is all that ranks have to tell each other; everything "
        "before it works on a rank's own heads or features.",
        "各 rank 只需在块的末尾求一次和；在此之前都只用到本 rank 自己的头或特征。",
    )
    expect_collectives(result, 1, case, why)


# ---- single sequences


def bounds(cu: Tensor) -> list[tuple[int, int]]:
    """First token and end of every sequence."""
    return list(pairwise(cu.array.tolist()))


def rows(tensor: Tensor, first: int, end: int) -> Tensor:
    """Some rows of a tensor as one of its own."""
    return Tensor.of(np.ascontiguousarray(tensor.array[first:end]))


def single(count: int) -> Tensor:
    """The ``cu_seqlens`` of one sequence."""
    return Tensor.of(np.array([0, count], np.int32))


def reverse(tensor: Tensor, *axes: int) -> Tensor:
    """The same numbers in reverse order along these axes."""
    return Tensor.of(np.ascontiguousarray(np.flip(tensor.array, axes)))


def expect_each_alone(
    case: Case, want: Sequence[int], attend: Callable[[int, int, Tensor], Result]
) -> None:
    """A ragged batch gives what its sequences give one by one, and so it does when cut elsewhere.

    Args:
        case: with the batch.
        want: the shape of the batch's output.
        attend: called with the first token, the end, and ``cu_seqlens`` of these tokens.
    """
    cu = case["cu"]
    other = Tensor.of(cu.array[-1] - reverse(cu, 0).array)  # the lengths in reverse order
    plain = Text("a sequence has nothing to do with its neighbours.", "一个序列与相邻的序列无关。")
    again = Text(
        "these are the same tokens once more, cut in other places: nothing may be left over from "
        "the first call.",
        "还是这些 token，只是在别处切开：第一次调用不应留下任何影响。",
    )
    batches = [(cut, why, attend(0, want[0], cut)) for cut, why in ((cu, plain), (other, again))]
    for cut, why, together in batches:
        whole = expect_shape(together, want, case)
        for first, end in bounds(cut):
            alone = attend(first, end, single(end - first))
            expect_same(alone, rows(whole, first, end), case, why)


def changed_rows(tensor: Tensor, first: int, end: int) -> Tensor:
    """A copy with other values in some rows."""
    array = tensor.array.copy()
    array[first:end] = array[first:end] * -1.5 + 0.7
    return Tensor.of(array)
