"""Lab 6's own promises: costs are counted fairly, a cap holds, and what is not seen is no zero."""

from __future__ import annotations

import pytest

from autograder.authoring.styles import texts_of
from autograder.course.messages import render
from autograder.course.records import CheckResult, HandIn, Outcome
from autograder.course.score import points_of
from tests.proof.subject import SUBJECTS

SUBJECT = SUBJECTS["lab6"]
COUNTED = {"test_flash_growth", "test_flash_skips"}
# The same tiles, with every product made by numpy: right, linear, and nothing of it to be seen.
NUMPY_PRODUCT = """

def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(a.numpy() @ b.numpy())


def flash_attention("""
NUMPY_TABLE = """
def flash_attention(q, k, v, causal, block_q, block_k):
    group, size = q.shape[1] // k.shape[1], q.shape[-1]
    q64, k64, v64 = (t.float().numpy().astype("float64") for t in (q, k, v))
    k64, v64 = k64.repeat(group, 1), v64.repeat(group, 1)
    scores = q64 @ k64.swapaxes(-1, -2) / size**0.5
    if causal:
        rows, columns = scores.shape[-2:]
        hidden = torch.ones(rows, columns).triu(columns - rows + 1).bool().numpy()
        scores[..., hidden] = -float("inf")
    scores -= scores.max(-1, keepdims=True)
    weights = __import__("numpy").exp(scores)
    mixed = weights / weights.sum(-1, keepdims=True) @ v64
    return torch.from_numpy(mixed).to(q.dtype)
"""
READY = """
READY = {}


def table(rows, columns):
    if (rows, columns) not in READY:
        READY[rows, columns] = torch.ones(rows, columns, dtype=torch.bool)
    return READY[rows, columns]


def flash_attention("""


FUSED = "F.scaled_dot_product_attention(rows.float(), keys.float(), values.float(), mask)"
KERNELS = {
    "kernel": "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
    "made-up kernel": "getattr(torch.ops.aten, '_scaled_dot' + '_product_fl' "
    "+ 'ash_attention_for_cpu')",
}
KERNEL_ARGUMENTS = (
    "(rows.float(), keys.float(), values.float(), "
    "attn_mask=torch.zeros(mask.shape).masked_fill(~mask, float('-inf')))[0]"
)


def hand_ins() -> dict[str, dict[str, str]]:
    """Solutions that hide their work, or keep it ready, and answers that cost nothing."""
    text = SUBJECT.sources["attention.py"]
    hidden = text.replace("\n\ndef flash_attention(", NUMPY_PRODUCT, 1)
    hidden = hidden.replace("queries @ keys.transpose(-1, -2)", "product(queries, keys.mT)")
    hidden = hidden.replace("weights @ values", "product(weights, values)")
    assert hidden.count("product(") == 3
    ready = text.replace("\ndef flash_attention(", READY, 1)
    mask = "~table(q_len, kv_len)[first:last, start:stop] | (column > row)"
    ready = ready.replace("masked_fill(column > row,", f"masked_fill({mask},")
    assert ready.count("table(") == 2
    begin, end = text.index("def flash_attention("), text.index('    """Scaled dot-product')
    zeros = text[:begin] + text[begin:end] + "    return torch.zeros_like(q)\n"
    changed = {
        "hidden": hidden,
        "ready": ready,
        "numpy table": text[:begin] + NUMPY_TABLE,
        "zeros": zeros,
    }
    return {name: SUBJECT.sources | {"attention.py": own} for name, own in changed.items()}


@pytest.fixture(scope="module")
def graded() -> dict[str, HandIn]:
    sdpa = next(style for style in SUBJECT.styles if style.name == "sdpa")
    fused = texts_of(sdpa, SUBJECT.lab.files)
    text = fused["attention.py"]
    assert text.count(FUSED) == 1
    own = hand_ins() | {"sdpa": fused}
    own |= {
        name: fused | {"attention.py": text.replace(FUSED, f"{kernel}{KERNEL_ARGUMENTS}")}
        for name, kernel in KERNELS.items()
    }
    return SUBJECT.grade(own)


def results(hand_in: HandIn) -> dict[str, CheckResult]:
    return {result.check: result for result in hand_in.results}


def test_work_that_nobody_can_count_is_no_zero(graded: dict[str, HandIn]) -> None:
    found = results(graded["hidden"])
    undecided = {name for name, r in found.items() if r.outcome is Outcome.NOT_GRADED}
    assert undecided == COUNTED
    for name in undecided:
        message = found[name].message
        assert message is not None and message.key == "check.not_counted"
    # The cap is kept by the system as well: it needs no counting.
    score = points_of(SUBJECT.lab, graded["hidden"].results)
    assert (score.earned, score.undecided) == (92, 8)


def test_a_cap_holds_for_what_is_not_seen(graded: dict[str, HandIn]) -> None:
    cap = results(graded["numpy table"])["test_flash_cap"]
    assert cap.outcome is Outcome.FAILED
    assert cap.message is not None and cap.message.key == "check.over_cap"
    assert "64 MiB" in render(cap.message, "en")


def test_what_is_kept_ready_counts(graded: dict[str, HandIn]) -> None:
    growth = results(graded["ready"])["test_flash_growth"]
    assert growth.outcome is Outcome.FAILED
    assert growth.message is not None
    sentence = render(growth.message, "en")
    assert "[768, 1280] bool" in sentence
    assert "attention.py, line " in sentence


def test_an_answer_that_costs_nothing_earns_nothing(graded: dict[str, HandIn]) -> None:
    found = results(graded["zeros"])
    for name in (*COUNTED, "test_flash_cap"):
        message = found[name].message
        assert found[name].outcome is Outcome.FAILED
        assert message is not None and message.key == "check.constant"


def test_a_forbidden_function_is_marked_and_costs_nothing(graded: dict[str, HandIn]) -> None:
    assert [mark.key for mark in graded["sdpa"].marks] == ["check.forbidden"]
    assert [mark.key for mark in graded["kernel"].marks] == ["check.forbidden_kin"]
    assert [mark.key for mark in graded["made-up kernel"].marks] == ["check.forbidden_operator"]
    for name in ("sdpa", *KERNELS):
        assert points_of(SUBJECT.lab, graded[name].results).earned == 100
