"""Flat tokens and shards in float64 are Qwen3: sequence by sequence, and put together again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from labs.given.config import Qwen3Config
from solutions.reference import hf, oracle, oracle_parallel
from tools import compat
from tools.compat import BASE

CONFIGS = {
    "groups of 3": replace(BASE, num_attention_heads=12, num_key_value_heads=4),
    "2 kv heads": replace(BASE, num_attention_heads=8, num_key_value_heads=2, hidden_size=44),
}
LENGTHS = (3, 7, 1)
LIMIT = 2e-6


def error(got: Tensor, want: Tensor) -> float:
    got, want = got.detach().double(), want.detach().double()
    return float((got - want).norm() / want.norm())


def flat(config: Qwen3Config) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Weights of a model of two layers, cu_seqlens, and tokens of all sequences in a row."""
    config = replace(config, num_hidden_layers=2)
    random = torch.Generator().manual_seed(5)
    tokens = torch.randint(config.vocab_size, (sum(LENGTHS),), generator=random)
    return dict(compat.draw_weights(config)), torch.tensor([0, 3, 10, 11]), tokens


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
def test_layers_on_flat_tokens_agree_with_transformers(config: Qwen3Config) -> None:
    weights, cu, tokens = flat(config)
    config = replace(config, num_hidden_layers=2)
    positions = torch.cat([torch.arange(n) for n in LENGTHS])
    own = {k.removeprefix("model."): w for k, w in weights.items() if k.startswith("model.")}
    stream = oracle_parallel.layers(config, own, own["embed_tokens.weight"][tokens], positions, cu)
    stream[-1] = oracle.rms_norm(stream[-1], own["norm.weight"], config.rms_norm_eps)
    for sequence in oracle_parallel.sequences(cu):
        row = tokens[sequence][None]
        ones = torch.ones_like(row)
        theirs, _ = hf.hf_hidden_states(config, weights, row, ones, positions[sequence][None])
        for mine, their in zip(stream, theirs, strict=True):
            assert error(mine[sequence], their[0]) <= LIMIT


def test_flat_attention_and_rotation_are_those_of_attention() -> None:
    config = CONFIGS["groups of 3"]
    weights = {
        name.removeprefix("model.layers.0.self_attn."): weight
        for name, weight in compat.draw_weights(config).items()
        if name.startswith("model.layers.0.self_attn.")
    }
    _, cu, _ = flat(config)
    positions = torch.cat([torch.arange(n) + 4 for n in LENGTHS])
    x = torch.randn(sum(LENGTHS), config.hidden_size, generator=torch.Generator().manual_seed(1))
    heads = [
        (x.double() @ weights[f"{n}_proj.weight"].double().T).unflatten(-1, (-1, config.head_dim))
        for n in "qkv"
    ]
    for place, name in enumerate("qk"):
        normed = oracle.rms_norm(heads[place], weights[f"{name}_norm.weight"], config.rms_norm_eps)
        heads[place] = oracle_parallel.rotate(normed, positions, config.rope_theta)
    mixed = oracle_parallel.flat_attention(*heads, cu).flatten(1)  # type: ignore[call-arg]
    got = mixed @ weights["o_proj.weight"].double().T
    want = oracle_parallel.attention(config, weights, x, positions, cu)
    assert error(got, want) <= 1e-12


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
@pytest.mark.parametrize("world", [1, 2, 4])
def test_shards_hold_every_row_and_add_up(config: Qwen3Config, world: int) -> None:
    weights = dict(compat.draw_weights(config))
    own = {
        name.removeprefix("model.layers.0."): weight
        for name, weight in weights.items()
        if name.startswith("model.layers.0.")
    }
    shards = [oracle_parallel.layer_shard(config, own, rank, world) for rank in range(world)]
    size, heads = config.head_dim, config.num_attention_heads
    kv_heads, group = config.num_key_value_heads, heads // config.num_key_value_heads
    seen = 0
    for rank, shard in enumerate(shards):
        rows = shard["self_attn.qkv_proj.weight"].unflatten(0, (-1, size))
        kv_own = (len(rows) - heads // world) // 2
        for place in range(heads // world):
            head = rank * heads // world + place
            q = own["self_attn.q_proj.weight"].unflatten(0, (-1, size))[head]
            assert torch.equal(rows[place], q)
            # The kv head that this query head reads lies on the same rank.
            wanted = own["self_attn.k_proj.weight"].unflatten(0, (-1, size))[head // group]
            keys = rows[heads // world : heads // world + kv_own]
            assert any(torch.equal(wanted, key) for key in keys)
            seen += 1
        assert kv_own == max(1, kv_heads // world)
    assert seen == heads
    x = torch.randn(5, config.hidden_size, generator=torch.Generator().manual_seed(2)).double()
    total = torch.zeros_like(x)
    for shard in shards:
        gate, up = (x @ shard["mlp.gate_up_proj.weight"].double().T).chunk(2, dim=-1)
        hidden = torch.nn.functional.silu(gate) * up
        total += hidden @ shard["mlp.down_proj.weight"].double().T
    mlp = {name.removeprefix("mlp."): w for name, w in own.items() if name.startswith("mlp.")}
    assert error(total, oracle.mlp(mlp, x)) <= 1e-12


def test_stand_ins_show_what_they_are_handed() -> None:
    """Positions, borders and input all change the result, or a check would be blind."""
    _, cu, _ = flat(BASE)
    config = replace(BASE, num_hidden_layers=1, hidden_size=12)
    random = torch.Generator().manual_seed(3)
    names = ("self_attn.weight", "mlp.weight")
    weights = {f"layers.0.{name}": torch.randn(12, 12, generator=random) for name in names}
    for name in ("input", "post_attention"):
        weights[f"layers.0.{name}_layernorm.weight"] = torch.rand(12, generator=random) + 0.5
    x = torch.randn(sum(LENGTHS), 12, generator=random)
    positions = torch.arange(sum(LENGTHS))

    def run(positions: Tensor, cu: Tensor) -> Tensor:
        return oracle_parallel.layers(config, weights, x, positions, cu, real=False)[-1]

    before = run(positions, cu)
    assert error(run(positions + 3, cu), before) > 1e-2
    assert error(run(positions, torch.tensor([0, 4, 10, 11])), before) > 1e-2
