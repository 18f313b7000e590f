"""Attention is torch's, the sparse MoE that of transformers, and no case is in doubt."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.course.labfile import SOLUTIONS
from autograder.reference import recipes
from autograder.reference.cases import Case
from autograder.reference.compare import LIMITS
from solutions.reference import oracle_moe
from tools import compat
from tools.compat import errors

LIMIT = LIMITS["float32"]
LAB = SOLUTIONS / "lab6_flash_moe"


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("lengths", [(5, 5), (5, 9), (1, 7), (1, 1), (40, 64)])
@pytest.mark.parametrize("heads", [(6, 2), (4, 4), (3, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_torch(
    lengths: tuple[int, int], heads: tuple[int, int], causal: bool
) -> None:
    (rows, columns), (many, few) = lengths, heads
    q = numbers(2, many, rows, 8, seed=1)
    k, v = (numbers(2, few, columns, 8, seed=seed) for seed in (2, 3))
    # torch's own is_causal begins in the corner: the mask is given where lengths differ.
    mask = torch.tensor([[j <= i + columns - rows for j in range(columns)] for i in range(rows)])
    theirs = F.scaled_dot_product_attention(q, k, v, mask if causal else None, enable_gqa=True)
    torch.testing.assert_close(oracle_moe.attention(q, k, v, causal=causal), theirs)
    if causal and rows == columns:
        square = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        torch.testing.assert_close(theirs, square)


def test_maximum_and_sum_make_a_softmax() -> None:
    scores = numbers(3, 4, 9, seed=4)
    scores[0, 0, :5] = -torch.inf
    maximum, total = oracle_moe.max_and_sum(scores)
    made = (scores - maximum[..., None]).exp() / total[..., None]
    torch.testing.assert_close(made, scores.softmax(-1))
    nothing = oracle_moe.max_and_sum(torch.full((2, 3), -torch.inf))
    assert [part.tolist() for part in nothing] == [[-torch.inf] * 2, [0.0] * 2]


@pytest.mark.parametrize("name", compat.BLOCKS)
def test_the_block_and_its_loss_are_those_of_transformers(name: str) -> None:
    for what, theirs, ours in compat.compare_moe(compat.BLOCKS[name]):
        tensor, token = errors(theirs, ours)
        assert tensor <= LIMIT.tensor, what
        assert token <= LIMIT.token, what


def test_blocks_that_differ_are_not_called_equal() -> None:
    weights, x = compat.draw(compat.Block(norm=True))
    plain, normed = (oracle_moe.sparse_moe(weights, x, 3, norm=norm)[0] for norm in (False, True))
    assert errors(plain, normed)[0] > 0.1


def test_balance_and_collapse_by_hand() -> None:
    eye = 100.0 * torch.eye(4)
    assert float(oracle_moe.load_balancing_loss([eye], 1)) == pytest.approx(1.0)
    all_to_one = 100.0 * torch.eye(4)[:1].repeat(9, 1)
    assert float(oracle_moe.load_balancing_loss([all_to_one], 1)) == pytest.approx(4.0)


def cases() -> list[Case]:
    found = recipes.of_lab(LAB)
    secrets = [None, *(b"secret %d" % number for number in range(3))]
    return [case for secret in secrets for case in recipes.build(found, secret)]


def lead(logits: np.ndarray, top_k: int) -> float:  # type: ignore[type-arg]
    """How far the last expert that is chosen is before the first that is not."""
    ordered = np.sort(logits.astype(np.float64), -1)[:, ::-1]
    return float((ordered[:, top_k - 1] - ordered[:, top_k]).min())


def test_no_case_has_a_tie_at_the_last_place() -> None:
    seen = 0
    for case in cases():
        if case.recipe == "router_near":  # near on purpose, and exact in bfloat16 as they are
            logits = case["logits"].array
            assert (logits == torch.from_numpy(logits).bfloat16().float().numpy()).all()
            assert lead(logits, int(case["size"][-1])) > 0
            continue
        layers = case.group("b.") if case.recipe.startswith("loss") else {}
        if "logits" in case.tensors:
            layers = {"logits": case["logits"]}
        for logits in layers.values():
            seen += 1
            # bfloat16 rounds logits of 2 to 4 by up to 0.008, and twice.
            least = 0.1 if case.values.get("dtype") == "bfloat16" else 0.015
            assert lead(logits.array, int(case["size"][-1])) > least, case.name
    assert seen >= 40
