"""Qwen3 in Meta's convention: the same numbers as transformers, with a cache and without."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.reference.compare import LIMITS, difference
from solutions.reference import hf, interleaved, oracle
from tools import compat
from tools.compat import BASE, Case

LIMIT = LIMITS["float32"]
CASES = {
    "base": Case(BASE),
    "one kv head": Case(replace(BASE, num_key_value_heads=1), batch=2),
    "from position 300": Case(BASE, first=300),
    "eps 3e-4, theta 1e4": Case(replace(BASE, rms_norm_eps=3e-4, rope_theta=1e4)),
    "left padding": Case(BASE, padded=4, per_row=True),
}
PIECES = ([11], [5, 3, 3], [1] * 11)


def expect_near(actual: Tensor, expected: Tensor) -> None:
    gap = difference(actual.detach().double().numpy(), expected.detach().double().numpy())
    assert gap.tensor <= LIMIT.tensor
    assert gap.token <= LIMIT.token


def weights_of(case: Case) -> dict[str, Tensor]:
    prefix, weights = "model.layers.0.self_attn.", compat.draw_weights(case.config)
    return {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}


@pytest.mark.parametrize("pieces", PIECES, ids=["at once", "5 + 3 + 3", "one by one"])
@pytest.mark.parametrize("name", CASES)
def test_attention_is_that_of_transformers_with_and_without_a_cache(
    name: str, pieces: list[int]
) -> None:
    case = CASES[name]
    (hidden, mask, positions), weights = compat.draw_inputs(case), weights_of(case)
    carried = interleaved.of_hugging_face(weights, case.config.head_dim)
    ours = interleaved.attention(case.config, carried, hidden, mask, positions)
    plain = hf.hf_attention(case.config, weights, hidden, mask, positions)
    cached = hf.hf_attention_in_pieces(case.config, weights, hidden, mask, positions, pieces)
    # A padded query sees itself and, cached or not, whatever stands there: it is not compared.
    rows = slice(None) if not case.padded else slice(1, None)
    for theirs in (plain, cached):
        expect_near(theirs[rows], ours[rows])
        expect_near(theirs[:, case.padded :], ours[:, case.padded :])


def test_carried_weights_are_other_weights() -> None:
    """The permutation is no formality: without it the numbers are others."""
    case = CASES["base"]
    (hidden, mask, positions), weights = compat.draw_inputs(case), weights_of(case)
    carried = interleaved.of_hugging_face(weights, case.config.head_dim)
    assert not torch.equal(carried["wq.weight"], weights["q_proj.weight"])
    right = interleaved.attention(case.config, carried, hidden, mask, positions)
    unpermuted = {
        "wq.weight": weights["q_proj.weight"],
        "wk.weight": weights["k_proj.weight"],
        "q_norm.weight": weights["q_norm.weight"],
        "k_norm.weight": weights["k_norm.weight"],
    }
    wrong = interleaved.attention(case.config, carried | unpermuted, hidden, mask, positions)
    gap = difference(wrong.numpy(), right.numpy())
    assert gap.tensor > 0.1


def test_a_complex_product_on_carried_rows_is_the_rotation_of_halves() -> None:
    head_dim, positions = 10, torch.tensor([0, 1, 7, 300])
    x = torch.randn(2, 4, 3, head_dim, generator=torch.Generator().manual_seed(0))
    order = interleaved.rows(torch.arange(head_dim), head_dim)
    table = interleaved.freqs_cis(positions, head_dim, 1e6)
    turned = interleaved.rotate(x[..., order], table)
    cos, sin = oracle.rope_tables(positions, head_dim, 1e6)
    halves = oracle.rotate(x.transpose(1, 2), cos, sin).transpose(1, 2)
    torch.testing.assert_close(turned, halves[..., order], rtol=0, atol=1e-12)


def test_rows_of_two_heads_by_hand() -> None:
    assert interleaved.rows(torch.arange(8), 4).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert interleaved.rows(torch.arange(6), 6).tolist() == [0, 3, 1, 4, 2, 5]
    matrix = torch.arange(24).view(12, 2)
    assert torch.equal(interleaved.rows_back(interleaved.rows(matrix, 6), 6), matrix)


def test_the_mlp_is_that_of_transformers() -> None:
    case = CASES["base"]
    prefix, drawn = "model.layers.0.mlp.", compat.draw_weights(case.config)
    weights = {n.removeprefix(prefix): w for n, w in drawn.items() if n.startswith(prefix)}
    hidden = compat.draw_inputs(case)[0]
    ours = interleaved.feed_forward(interleaved.of_hugging_face(weights, 2), hidden)
    expect_near(hf.hf_mlp(case.config, weights, hidden), ours)
    gate = F.silu(hidden.double() @ weights["gate_proj.weight"].double().T)
    up = hidden.double() @ weights["up_proj.weight"].double().T
    expect_near((gate * up) @ weights["down_proj.weight"].double().T, ours)


# dim, multiple_of, multiplier, and the width of the weights that were published.
PUBLISHED = {
    "Llama-2-7B": (4096, 256, None, 11_008),
    "Llama-2-13B": (5120, 256, None, 13_824),
    "Llama-2-70B": (8192, 4096, 1.3, 28_672),
    "Llama-3-8B": (4096, 1024, 1.3, 14_336),
    "Llama-3.2-1B": (2048, 256, 1.5, 8192),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_widths_of_published_models(name: str) -> None:
    *asked, width = PUBLISHED[name]
    assert interleaved.feed_forward_size(*asked) == width  # type: ignore[arg-type]
