"""Lab 5's model equals Hugging Face: its float64 reference, and the solution on ranks."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from autograder.course import labfile
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.student import GivenConfig, Named, Student
from autograder.sandbox.transport import Sources
from autograder.worker.loader import read_sources
from autograder.worker.values import from_torch
from labs.given import parallel
from labs.given.config import Qwen3Config
from solutions.reference import hf, oracle_engine, oracle_parallel
from tools import compat
from tools.compat import BASE

CHECKPOINT = labfile.ROOT / "labs" / "given" / "tiny_qwen3"
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
SCALINGS: dict[str, dict[str, Any]] = {
    "factor 4": YARN,
    "short context": YARN | {"original_max_position_embeddings": 64},
    "betas": YARN | {"beta_fast": 8.0, "beta_slow": 2.0},
    "attention factor": YARN | {"attention_factor": 1.3},
    "Qwen3's own": YARN | {"original_max_position_embeddings": 32_768},
}
CONFIGS = {
    "untied, groups of 3": replace(
        BASE, num_attention_heads=12, num_key_value_heads=4, tie_word_embeddings=False,
        vocab_size=97, intermediate_size=56,
    ),
    "tied, 2 kv heads": replace(
        BASE, num_attention_heads=8, num_key_value_heads=2, hidden_size=44, vocab_size=51,
        tie_word_embeddings=True, intermediate_size=60,
    ),
}  # fmt: skip
LENGTHS = (3, 7, 1)
LIMIT = 2e-6


def error(got: Tensor, want: Tensor) -> float:
    got, want = got.detach().double(), want.detach().double()
    return float((got - want).norm() / want.norm())


def hf_model(config: Qwen3Config, weights: Mapping[str, Tensor], scaling: Any = None) -> Any:
    """Hugging Face's own model with these weights; ``scaling`` as in ``config.json``."""
    from transformers import Qwen3ForCausalLM

    made = hf.hf_config(config)
    if scaling is not None:  # 4.x reads rope_scaling, 5.x puts it into rope_parameters
        made.rope_scaling = {**scaling, "rope_theta": config.rope_theta}
    model = Qwen3ForCausalLM(made).float().eval()
    lacking, unknown = model.load_state_dict(dict(weights), strict=False)
    assert not unknown and set(lacking) <= {"lm_head.weight"}
    model.tie_weights()
    return model


def flat_tokens(config: Qwen3Config, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, positions and borders of three texts."""
    random = torch.Generator().manual_seed(11)
    ids = torch.randint(config.vocab_size, (sum(LENGTHS),), generator=random)
    positions = torch.cat([torch.arange(n) + first for n in LENGTHS])
    return ids, positions, torch.tensor([0, 3, 10, 11])


def of_hf(model: Any, ids: Tensor, positions: Tensor, cu: Tensor) -> tuple[Tensor, Tensor]:
    """Normed hidden states of all tokens, and logits after every text."""
    states, logits = [], []
    with torch.no_grad():
        for own in oracle_parallel.sequences(cu):
            given = {"input_ids": ids[own][None], "position_ids": positions[own][None]}
            out = model.model(**given, use_cache=False).last_hidden_state
            states.append(out[0])
            logits.append(model.lm_head(out[0, -1:]))
    return torch.cat(states), torch.cat(logits)


def checkpoint() -> tuple[Qwen3Config, dict[str, Tensor]]:
    return parallel.read_checkpoint(CHECKPOINT)


def drawn(name: str) -> tuple[Qwen3Config, dict[str, Tensor]]:
    """A config with its weights: on board, or random."""
    if name == "on board":
        return checkpoint()
    config = replace(CONFIGS[name], num_hidden_layers=2)
    return config, dict(compat.draw_weights(config))


@pytest.mark.parametrize("scaling", SCALINGS.values(), ids=list(SCALINGS))
@pytest.mark.parametrize(("size", "theta"), [(128, 1e6), (32, 1e6), (48, 5e5), (16, 1e4)])
def test_frequencies_are_those_of_transformers(
    size: int, theta: float, scaling: dict[str, Any]
) -> None:
    config = replace(BASE, head_dim=size, rope_theta=theta)
    made = hf.hf_config(config)
    made.rope_scaling = {**scaling, "rope_theta": theta}
    rotary = hf.modeling().Qwen3RotaryEmbedding(made)
    assert error(oracle_engine.frequencies(size, theta, scaling), rotary.inv_freq) <= 1e-6
    assert math.isclose(oracle_engine.attention_factor(scaling), rotary.attention_scaling)


@pytest.mark.parametrize("name", ["on board", *CONFIGS])
@pytest.mark.parametrize("scaling", [None, YARN], ids=["plain", "yarn"])
def test_the_reference_equals_transformers(name: str, scaling: Any) -> None:
    config, weights = drawn(name)
    at = flat_tokens(config, 300 if scaling else 0)
    states, logits = of_hf(hf_model(config, weights, scaling), *at)
    mine = oracle_engine.hidden_states(config, weights, *at, scaling)
    head = oracle_engine.head_of(config, weights)
    # In float32 angles near 300 are themselves good to about 1e-5.
    limit = 2e-5 if scaling else LIMIT
    assert error(states, mine) <= limit
    assert error(logits, oracle_engine.logits(head, mine, at[2])) <= limit


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("name", ["on board", *CONFIGS])
@pytest.mark.parametrize("scaling", [None, YARN], ids=["plain", "yarn"])
def test_the_solution_on_ranks_equals_transformers(name: str, scaling: Any, world: int) -> None:
    config, weights = drawn(name)
    ids, positions, cu = flat_tokens(config, 300 if scaling else 0)
    states, logits = of_hf(hf_model(config, weights, scaling), ids, positions, cu)
    lab = labfile.load(labfile.find_lab("lab5"))
    transport = LocalTransport(Sources(read_sources(labfile.SOLUTIONS / lab.name, lab.files)[0]))
    try:
        group = Student(transport).ranks(world)
        made, grown = parallel.with_heads_for(world, config, weights)
        own = ("attention.Qwen3Attention", "attention.RowParallelLinear",
               "mlp.Qwen3MLP", "mlp.Qwen3DecoderLayer", "mlp.RMSNorm")  # fmt: skip
        parts = group.new("labs.given.parallel.Parts", *map(Named, own))
        given = GivenConfig({f: getattr(made, f) for f in made.__dataclass_fields__})
        model = group.new("model.Qwen3ForCausalLM", given, parts, scaling)
        tensors = {name: from_torch(tensor) for name, tensor in grown.items()}
        group.call(model, tensors, method="load_weights")
        at = from_torch(ids), from_torch(positions), from_torch(cu)
        found = group.call(model, *at, counted=True)
        scores = group.call(model, from_torch(states), at[2], method="compute_logits", counted=True)
        for rank in range(world):
            got = torch.from_numpy(found[rank].value.array.copy())
            assert error(got, states) <= (3e-5 if scaling else 5e-6)
            got = torch.from_numpy(scores[rank].value.array.copy())
            assert got.shape == logits.shape and error(got, logits) <= 5e-6
        assert len(found.calls) == 1 + 2 * config.num_hidden_layers
        assert len(scores.calls) == 1
    finally:
        transport.close()


def test_shards_of_a_vocabulary_hold_every_row_once() -> None:
    weight = torch.randn(97, 6, generator=torch.Generator().manual_seed(3))
    for world in (1, 2, 3, 4, 8):
        shards = [oracle_engine.vocabulary_shard(weight, rank, world) for rank in range(world)]
        assert len({shard.shape for shard in shards}) == 1
        joined = torch.cat(shards)
        assert torch.equal(joined[:97], weight) and not joined[97:].any()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_heads_of_zeros_change_nothing(ranks: int) -> None:
    config, weights = checkpoint()
    made, grown = parallel.with_heads_for(ranks, config, weights)
    heads, kv_heads = made.num_attention_heads, made.num_key_value_heads
    assert heads % ranks == 0 and (kv_heads % ranks == 0 or ranks % kv_heads == 0)
    at = flat_tokens(config)
    want = oracle_engine.hidden_states(config, weights, *at)
    assert error(oracle_engine.hidden_states(made, grown, *at), want) <= 1e-12


def test_stand_ins_show_what_they_are_handed() -> None:
    """Positions, borders, rotation, theta, eps and weights all change what comes out."""
    config = replace(BASE, num_hidden_layers=2, hidden_size=20, rms_norm_eps=3e-4)
    weights = dict(compat.draw_weights(config))
    state = oracle_engine.standing_state(config, weights)
    ids, positions, cu = flat_tokens(config)

    def run(
        made: Qwen3Config = config, positions: Tensor = positions, cu: Tensor = cu, **more: Any
    ) -> Tensor:
        return oracle_engine.standing_states(made, state, ids, positions, cu, **more)[-1]

    before = run()
    others = {
        "positions": run(positions=positions + 3),
        "borders": run(cu=torch.tensor([0, 4, 10, 11])),
        "theta": run(replace(config, rope_theta=1e4)),
        "eps": run(replace(config, rms_norm_eps=1e-6)),
        "scaling": run(scaling=YARN),
    }
    for name, other in others.items():
        assert error(other, before) > 1e-3, name
    for name in state:
        if name != "lm_head.weight":
            turned = {**state, name: -state[name]}
            other = oracle_engine.standing_states(config, turned, ids, positions, cu)[-1]
            assert error(other, before) > 1e-3, name
