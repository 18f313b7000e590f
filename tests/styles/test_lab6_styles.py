"""The right solutions of lab 6 are really different, and each is far from every limit.

That each scores 100 is proved elsewhere; here is measured how clearly.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from autograder.worker import costs
from solutions.reference import oracle_moe
from tests.styles import solutions
from tests.styles.solutions import OperatorCounter, Student, error, load, numbers

STYLES = solutions.STYLES / "lab6"
REFERENCE = solutions.SOLUTIONS / "lab6_flash_moe"
FOLDERS = [STYLES / name for name in solutions.styles("lab6")]
ALL = [REFERENCE, *FOLDERS]
CHECKS = "labs.lab6_flash_moe.checks"
EXPERTS, HIDDEN, INNER, TOKENS, TOP_K = 16, 48, 40, 96, 2

Q, K, V = (
    numbers(2, 6, 13, 10, seed=1),
    numbers(2, 2, 21, 10, seed=2),
    numbers(2, 2, 21, 10, seed=3),
)
LOGITS = numbers(TOKENS, EXPERTS, seed=4) - 50 * (torch.arange(EXPERTS) < 5)
SHARES, CHOSEN = oracle_moe.route(LOGITS, TOP_K, norm=True)
X = numbers(TOKENS, HIDDEN, seed=5)
WEIGHTS = {
    "gate_up_proj": numbers(EXPERTS, 2 * INNER, HIDDEN, seed=6) * HIDDEN**-0.5,
    "down_proj": numbers(EXPERTS, HIDDEN, INNER, seed=7) * INNER**-0.5,
}


def limits(module: str) -> Any:
    """The limits of a file of checks."""
    return importlib.import_module(f"{CHECKS}.{module}")


def experts_of(student: Student) -> Any:
    made = student.mlp.Experts(HIDDEN, INNER, EXPERTS)
    made.load_state_dict(WEIGHTS)
    return made


def answers(student: Student) -> dict[str, Tensor]:
    """What everything answers to a fixed programme."""
    attention, mlp = student.attention, student.mlp
    router = mlp.Router(HIDDEN, EXPERTS, TOP_K, False)
    router.load_state_dict({"weight": numbers(EXPERTS, HIDDEN, seed=8) * HIDDEN**-0.5})
    block = mlp.SparseMoeBlock(HIDDEN, INNER, EXPERTS, TOP_K, True)
    own = {f"experts.{name}": weight for name, weight in WEIGHTS.items()}
    block.load_state_dict(own | {"gate.weight": router.weight})
    mask = torch.ones(4, TOKENS // 4)
    mask[0, :5] = 0
    with torch.no_grad():
        maximum, total = attention.online_softmax([Q[..., :3], Q[..., 3:4], Q[..., 4:] * 3])
        found = {"maximum": maximum, "total": total}
        for causal in (False, True):
            found[f"attention {causal}"] = attention.flash_attention(Q, K, V, causal, 4, 5)
        _, weights, chosen = router(X)
        found["router"] = torch.zeros(TOKENS, EXPERTS).scatter(1, chosen, weights)
        found["experts"] = experts_of(student)(X, CHOSEN, SHARES.float())
        found["block"], found["logits"] = block(X.view(4, -1, HIDDEN))
        found["loss"] = mlp.load_balancing_loss([LOGITS, LOGITS.flip(0)], EXPERTS, TOP_K, mask)
    return found


@cache
def right() -> dict[str, Tensor]:
    """What the reference answers to the programme."""
    return answers(load(REFERENCE))


@cache
def operators(folder: Path) -> Counter[str]:
    """The multiset of operators of the programme."""
    counter = OperatorCounter()
    with counter:
        answers(load(folder))
    return counter.seen


def measured(function: Callable[..., Any], *args: Any) -> SimpleNamespace:
    return SimpleNamespace(**costs.measure(function, args, {}, {})[1])


@pytest.fixture(params=ALL, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_there_are_enough_styles() -> None:
    assert len(FOLDERS) >= 8


def test_operators_differ_from_every_other_style(folder: Path) -> None:
    assert operators(folder), "no operator was seen"
    twins = [p.name for p in ALL if p != folder and operators(p) == operators(folder)]
    assert not twins, f"{folder.name} dispatches the same operators as {', '.join(twins)}"


def test_float32_agrees_with_the_reference(folder: Path) -> None:
    actual = answers(load(folder))
    for name, expected in right().items():
        assert error(actual[name], expected) <= 2e-6, name
    for causal in (False, True):
        expected = oracle_moe.attention(Q, K, V, causal=causal)
        assert error(actual[f"attention {causal}"], expected) <= 2e-6


@pytest.mark.slow
def test_growth_is_far_from_its_limit(folder: Path) -> None:
    flash = load(folder).attention.flash_attention
    q, k = numbers(1, 1, 192, 8, seed=9), numbers(1, 1, 320, 8, seed=10)
    short = measured(flash, q, k, k, True, 64, 64)
    long = measured(flash, q.repeat(1, 1, 4, 1), *[k.repeat(1, 1, 4, 1)] * 2, True, 64, 64)
    assert long.peak <= 0.85 * limits("test_flash_costs").MOST_GROWTH * short.peak


@pytest.mark.slow
def test_skipped_tiles_are_far_from_their_limit(folder: Path) -> None:
    q, k = numbers(1, 2, 96, 8, seed=11), numbers(1, 1, 112, 8, seed=12)
    found = measured(load(folder).attention.flash_attention, q, k, k, True, 16, 16)
    share = found.flops / (4 * 8 * 2 * 96 * 112)
    assert 0.57 < share <= limits("test_flash_costs").MOST_FLOPS - 0.05


@pytest.mark.slow
def test_a_long_call_is_far_from_its_cap(folder: Path) -> None:
    q, k = numbers(1, 1, 1024, 8, seed=13), numbers(1, 1, 16384, 8, seed=14)
    found = measured(load(folder).attention.flash_attention, q, k, k, False, 64, 512)
    assert 4 * found.peak <= limits("test_flash_costs").CAP


@pytest.mark.slow
def test_blocks_that_were_seen_are_let_go(folder: Path) -> None:
    online = load(folder).attention.online_softmax
    blocks = list(numbers(8, 8 * 256, seed=15).split(256, dim=-1))
    short, long = measured(online, blocks), measured(online, blocks * 4)
    assert long.peak <= 0.7 * limits("test_online_softmax").MOST_GROWTH * short.peak


@pytest.mark.slow
def test_experts_are_far_from_their_limits(folder: Path) -> None:
    found = measured(experts_of(load(folder)), X, CHOSEN, SHARES.float())
    ideal = 6 * TOKENS * TOP_K * HIDDEN * INNER
    assert ideal <= found.flops <= 1.02 * ideal
    assert limits("test_experts").MOST_FLOPS >= 1.1
    bytes_of_pairs = 4 * TOKENS * TOP_K * (HIDDEN + 2 * INNER)
    assert found.peak <= 0.5 * limits("test_experts").MOST_BYTES * bytes_of_pairs
