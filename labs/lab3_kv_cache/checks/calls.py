"""How the checks of lab 3 make a cache and an attention, and call them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import expect_close, expect_shape
from autograder.reference.cases import Case
from autograder.sandbox.student import Dtype, Handle, Result, Student
from autograder.wire.messages import Tensor

SPARE = 3  # tokens that a cache could hold beyond those of a case


def table_of(student: Student, case: Case, *, rows: slice = slice(None)) -> Handle:
    """The case's rotation table, so that attention does not depend on the student's own."""
    cos, sin = (Tensor.of(case[name].array[rows]) for name in ("cos", "sin"))
    return student.new("torch.complex", cos, sin)


def cache_of(
    student: Student, case: Case, *, spare: int = SPARE, heads: int | None = None
) -> Handle:
    """The student's cache for the case's batch, with room for all its tokens and ``spare``.

    It holds the case's kv heads, unless ``heads`` says how many.
    """
    batch, tokens, _ = case["x"].shape
    kv_heads, head_dim = case.config["num_key_value_heads"], case.config["head_dim"]
    size = batch, tokens + spare, heads or kv_heads, head_dim
    return student.new("attention.KVCache", *size, Dtype(case.values.get("dtype", "float32")))


def attention_of(
    student: Student,
    case: Case,
    cache: Handle | None = None,
    *,
    changed: Mapping[str, Tensor] | None = None,
) -> Handle:
    """The student's attention with the case's weights, some of them replaced."""
    weights = case.weights | dict(changed or {})
    dtype = case.values.get("dtype", "float32")
    return student.new(
        "attention.GroupedQueryAttention", *sizes(case), cache, weights=weights, dtype=dtype
    )


def sizes(case: Case) -> tuple[int, int, int, int, float]:
    """dim, n_heads, n_kv_heads, head_dim and norm_eps."""
    c = case.config
    heads = c["num_attention_heads"], c["num_key_value_heads"]
    return c["hidden_size"], *heads, c["head_dim"], c["rms_norm_eps"]


def expect_parity(student: Student, case: Case, **options: object) -> None:
    """The whole answer to a case, without a cache, near the reference."""
    given = {"mask": case["mask"]} if "mask" in case.tensors else {}
    result = attention_of(student, case)(case["x"], case["start"], table_of(student, case), **given)
    expect_close(result, case["y"], case, **options)  # type: ignore[arg-type]


def bounds(pieces: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First token and end of every piece."""
    yield from pairwise(np.cumsum([0, *pieces]).tolist())


def in_pieces(
    attention: Handle, x: Tensor, table: Handle, pieces: Sequence[int], mask: Tensor | None = None
) -> list[Result]:
    """The answers to the tokens of ``x``, handed over in pieces; nothing runs yet.

    Args:
        attention: with a cache.
        x: ``[B, T, dim]``.
        table: the whole rotation table.
        pieces: numbers of tokens, T in all.
        mask: of all tokens, ``[…, T, T]``; each piece gets its rows, up to its end.
    """
    found = []
    for first, end in bounds(pieces):
        given = {"mask": like(mask.dtype, mask.array[..., first:end, :end])} if mask else {}
        found.append(attention(like(x.dtype, x.array[:, first:end]), first, table, **given))
    return found


def joined(results: Sequence[Result], x: Tensor, pieces: Sequence[int], case: Case) -> Tensor:
    """The answers to all pieces as one ``[B, T, dim]``, each of the right shape."""
    batch, _, dim = x.shape
    parts = [
        expect_shape(result, (batch, count, dim), case).array
        for result, count in zip(results, pieces, strict=True)
    ]
    return Tensor.of(np.concatenate(parts, axis=1))


def like(dtype: str, array: NDArray[Any]) -> Tensor:
    """``array`` in a torch dtype; numpy has no bfloat16, so the lower bytes are cut off."""
    if dtype != "bfloat16":
        return Tensor.of(array.astype(dtype))
    raw = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    return Tensor("bfloat16", array.shape, (raw >> 16).astype(np.uint16).tobytes())


def changed_at(tensor: Tensor, part: tuple[object, ...], factor: float = -1.5) -> Tensor:
    """A copy with other values in one part."""
    array = tensor.array.copy()
    array[part] = array[part] * factor + 0.7  # type: ignore[index]
    return Tensor.of(array)
