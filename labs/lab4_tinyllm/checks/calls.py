"""How the checks of lab 4 make models, from stand-ins or the student's parts, and call them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import config, expect_close, expect_shape, expect_value, reject
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.reference.compare import Limit
from autograder.sandbox.links import StudentError
from autograder.sandbox.student import Handle, Named, Result, Student
from autograder.wire.messages import Tensor

STAND_INS = Named("labs.given.standin.StandInAttention"), Named("labs.given.standin.StandInMLP")
OWN = Named("attention.Qwen3Attention"), Named("mlp.Qwen3MLP")
CACHE, STAND_IN_MODEL = "labs.given.cache.KVCache", "labs.given.standin.StandInModel"
LOGITS = Text("the logits", "logits")
PIECES = Text(
    "tokens that come in pieces meet the same keys and values as all at once. Look at positions, "
    "at the mask, and at what the cache is given.",
    "分段输入的 token 面对的键与值应与一次输入时相同。请检查位置、掩码与交给缓存的内容。",
)


def layer_of(student: Student, case: Case) -> Handle:
    """The student's decoder layer, built from stand-ins, with the case's weights."""
    return student.new(
        "model.Qwen3DecoderLayer", config(case.config), case["layer"], *STAND_INS,
        weights=case.weights, dtype=case.values.get("dtype", "float32"),
    )  # fmt: skip


def model_of(student: Student, case: Case, kind: str, parts: Sequence[Named] = STAND_INS) -> Handle:
    """The student's ``kind`` (Qwen3Model, Qwen3ForCausalLM) with the case's weights."""
    dtype = case.values.get("dtype", "float32")
    made = config(case.config)
    return student.new(f"model.{kind}", made, *parts, weights=case.weights, dtype=dtype)


def attention_of(student: Student, case: Case, layer: int | None = None) -> Handle:
    """The student's attention for this layer or the case's, with the case's weights."""
    made, number = config(case.config), case["layer"] if layer is None else layer
    dtype = case.values.get("dtype", "float32")
    return student.new("attention.Qwen3Attention", made, number, weights=case.weights, dtype=dtype)


def bounds(pieces: Sequence[int]) -> list[tuple[int, int]]:
    """First token and end of every piece."""
    return list(pairwise(np.cumsum([0, *pieces]).tolist()))


def like(tensor: Tensor, array: NDArray[Any]) -> Tensor:
    """A tensor of ``array`` in the dtype of ``tensor``; integers and float32 alone."""
    return Tensor.of(np.ascontiguousarray(array, dtype=tensor.array.dtype))


def kept(case: Case) -> NDArray[np.bool_] | None:
    """Where tokens are no padding, if the case has any."""
    return case["keep"].array.astype(bool) if "keep" in case.tensors else None


def in_pieces(student: Student, model: Handle, case: Case, cache: Handle) -> list[Result]:
    """The answers to the tokens of the case, piece after piece with one cache."""
    ids = case["ids"]
    found = []
    for first, end in bounds(case["pieces"]):
        given: dict[str, Any] = {"past": cache}
        if "keep" in case.tensors:
            given["attention_mask"] = like(case["keep"], case["keep"].array[:, :end])
        if "positions" in case.tensors:
            at = case["positions"]
            given["position_ids"] = like(at, at.array[..., first:end])
        found.append(model(like(ids, ids.array[:, first:end]), **given))
    return found


def joined(results: Sequence[Result], case: Case, width: int, rows: int) -> Tensor:
    """Answers to pieces as one tensor ``[B, T, width]``.

    Raises:
        CheckFailed: a piece has another shape.
    """
    pieces = case["pieces"]
    parts = [
        expect_shape(result, (rows, count, width), case).array
        for result, count in zip(results, pieces, strict=True)
    ]
    return Tensor.of(np.concatenate([part.astype(np.float32) for part in parts], axis=1))


def expect_pieces(student: Student, model: Handle, case: Case) -> None:
    """In pieces with a cache near the reference of all at once; layer 0 holds every token."""
    rows, tokens, width = case["y"].shape
    cache = student.new(CACHE)
    results = in_pieces(student, model, case, cache)
    held = student.call(cache, 0, method="length")
    got = joined(results, case, width, rows)
    held.value  # noqa: B018  (asked before anything fails: it tells mistakes apart)
    expect_close(got, case["y"], case, keep=kept(case))
    expect_value(
        held, tokens, case, Text("tokens in the cache of layer 0", "第 0 层缓存的 token 数")
    )


def expect_shares(student: Student, path: str, given: Sequence[Any], case: Case) -> None:
    """Tokens that are drawn come as often as the case says, by whatever use of chance.

    Of 8000 draws the shares lie within 2 % of the truth, as a rule; another rule is off by far
    more. Of the rows of a text the last token counts.
    """
    rows, shares = case["rows"], case["shares"]
    made = student.new(path, *given, **case["options"])
    drawn = student.call("copy.copy", made)
    # In steps so coarse that chance has no say: what mistakes are recognised by.
    coarse = student.call("labs.given.standin.shares", made, len(shares.array))
    shape = (rows, case["ids"].shape[1] + 1) if "ids" in case.tensors else (rows,)
    tokens = expect_shape(drawn, shape, case).array.reshape(rows, -1)[:, -1]
    found = (tokens[:, None] == np.arange(len(shares.array))).mean(axis=0)
    if tokens.min() == tokens.max() and shares.array.max() < 0.9:
        want = Text("2 or more (every row is drawn by itself)", "2 以上（每行各自抽取）")
        what = Text(
            f"the number of different tokens that {rows} equal rows got",
            f"{rows} 个相同的行抽到的 token 种数",
        )
        raise reject(1, want, case, what)
    what = Text("the share of every token", "每个 token 出现的比例")
    expect_close(Tensor.of(found), shares, case, what, limit=Limit(0.08, 0.08))
    expect_shape(coarse, shares.shape, case, what)
    cut = np.where(shares.array == 0, found, 0.0)  # not even once
    if cut.any():
        token = int(cut.argmax())
        what = Text(
            f"the share of token {token}, which is cut off", f"被截断的 token {token} 的比例"
        )
        raise reject(float(cut[token]), Text("0: it never comes", "0，即从不出现"), case, what)


def without_past(error: StudentError) -> StudentError:
    """The error of a carried file whose ``forward`` has no ``past`` yet: a TODO, no mistake."""
    unknown = error.type == "TypeError" and "unexpected keyword argument 'past'" in error.text
    if unknown or error.todo == "lab4.attention":
        told = {"stage": error.stage, "type": "NotImplementedError", "todo": "lab4.past"}
        return StudentError(told | {"text": "TODO lab4.past: to be written"})
    return error
