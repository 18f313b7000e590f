"""The whole model in float64 is Qwen3: every layer agrees with transformers, padded or not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from labs.given.config import Qwen3Config
from solutions.reference import hf, oracle_model
from tools import compat
from tools.compat import BASE

ODD = replace(BASE, num_hidden_layers=3, hidden_size=72, tie_word_embeddings=False)
CONFIGS = {"tied": replace(BASE, num_hidden_layers=2), "untied, odd sizes": ODD}
LIMIT = 2e-6


def error(got: Tensor, want: Tensor, keep: Tensor) -> float:
    got, want = got.detach().double()[keep], want.detach().double()[keep]
    return float((got - want).norm() / want.norm())


def drawn(config: Qwen3Config) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Weights, tokens, and a mask whose rows are padded on the left."""
    random = torch.Generator().manual_seed(4)
    tokens = torch.randint(config.vocab_size, (3, 9), generator=random)
    keep = torch.ones_like(tokens)
    keep[1, :3], keep[2, :5] = 0, 0
    return dict(compat.draw_weights(config)), tokens, keep


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
def test_every_layer_agrees_with_transformers(config: Qwen3Config) -> None:
    weights, tokens, keep = drawn(config)
    positions = oracle_model.positions_of(keep)
    theirs, logits = hf.hf_hidden_states(config, weights, tokens, keep, positions)
    ours = oracle_model.hidden_states(config, weights, tokens, keep)
    assert len(ours) == len(theirs) == config.num_hidden_layers + 1
    ours[-1] = oracle_model.normed(config, weights, ours[-1])  # theirs are normed already
    real = keep.bool()
    for number, (mine, their) in enumerate(zip(ours, theirs, strict=True)):
        assert error(mine, their, real) <= LIMIT, f"layer {number}"
    assert error(oracle_model.logits(config, weights, tokens, keep), logits, real) <= LIMIT
    # Padding that is not told would be seen.
    assert error(oracle_model.logits(config, weights, tokens), logits, real) > 1e-2


def test_stand_ins_compute_something_else() -> None:
    weights, tokens, keep = drawn(ODD)
    real, other = (
        oracle_model.logits(ODD, weights, tokens, keep, parts=parts)
        for parts in (oracle_model.REAL, oracle_model.STAND_IN)
    )
    assert error(other, real, keep.bool()) > 0.1


def test_a_stand_in_shows_mask_positions_layer_and_cache() -> None:
    """What a right model hands on can be seen in the result, or a check would be blind."""
    from labs.given.cache import KVCache
    from labs.given.standin import StandInAttention

    config = CONFIGS["tied"]
    random = torch.Generator().manual_seed(5)
    attention = StandInAttention(config, 1)
    x = torch.randn(2, 5, config.hidden_size, generator=random)
    mask = oracle_model.mask_of(torch.tensor([[1] * 5, [0, 0, 1, 1, 1]]))
    with torch.no_grad():
        plain = attention(x)
        assert not torch.allclose(attention(x, mask)[1], plain[1])
        assert not torch.allclose(attention(x, None, torch.arange(5) + 1), plain)
        cache = KVCache()
        parts = [attention(x[:, :3], past=cache), attention(x[:, 3:], past=cache)]
        assert torch.allclose(torch.cat(parts, dim=1), plain, atol=1e-6)
        assert (cache.length(1), cache.length(0)) == (5, 0)
