"""Confirms from outside what the checks of lab 3 count, with inputs larger than theirs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from autograder.checks.expect import cases
from autograder.judge.hand_in import WatchedHandIn, confirms, expect_equal_work
from autograder.reference.cases import Case
from autograder.sandbox.student import Dtype, Handle
from autograder.wire.messages import Tensor

DIM, HEADS, KV_HEADS, HEAD_DIM = 4096, 2, 1, 32
BEFORE = (8, 1024)  # tokens in the cache; to project them again would take most of the time
STEPS = 8
REPEATED = 2


@confirms("test_decoding_rows")
@cases("decoding")
def confirm_decoding_rows(student: WatchedHandIn, case: Case) -> None:
    """Steps after 8 tokens and after 1024 project the same, unless all are projected again."""
    most = max(BEFORE) + STEPS * REPEATED
    heads = {"wq": HEADS, "wk": KV_HEADS, "wv": KV_HEADS}
    shapes: dict[str, tuple[int, ...]] = {name: (n * HEAD_DIM, DIM) for name, n in heads.items()}
    shapes |= {"wo": (DIM, HEADS * HEAD_DIM), "q_norm": (HEAD_DIM,), "k_norm": (HEAD_DIM,)}
    weights = {
        f"{name}.weight": Tensor.of(np.resize(case.weights[f"{name}.weight"].array, shape))
        for name, shape in shapes.items()
    }
    angle = Tensor.of(np.resize(case["cos"].array, (most, HEAD_DIM // 2)))
    table = student.new("torch.complex", angle, angle)
    token = student.new("torch.ones", 1, 1, DIM)  # made there: it need not travel

    seconds = []
    for length in BEFORE:
        cache = student.new("attention.KVCache", 1, most, KV_HEADS, HEAD_DIM, Dtype("float32"))
        sizes = DIM, HEADS, KV_HEADS, HEAD_DIM, 1e-6
        attention = student.new("attention.GroupedQueryAttention", *sizes, cache, weights=weights)
        student.call(attention, student.new("torch.ones", 1, length, DIM), 0, table)
        places = iter(range(length, most))

        def steps(attention: Handle = attention, places: Iterator[int] = places) -> None:
            for place in islice(places, STEPS):
                student.call(attention, token, place, table)

        seconds.append(student.seconds(steps, times=REPEATED))
    expect_equal_work(*seconds)
