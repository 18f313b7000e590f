"""Random cases of lab 2, from all over what its contract allows.

Sizes, weights, positions, masks and models are drawn anew for every case; the kind of the case
turns in a circle, so that every probe of the checks comes with many different sizes.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from tests.mutation.dice import Dice
from tests.mutation.lab2.kinds import KINDS
from tests.mutation.models import config_of, load, weights_of

DTYPES = ("float32", "float16", "bfloat16")


def _attention(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    call = KINDS[number % len(KINDS)](dice, config_of(dice))
    attention = load(module.Qwen3Attention(call.config), call.weights, call.x.dtype)
    x, keywords = call.x, dict(call.keywords)
    kept = x.clone(), {name: value.clone() for name, value in keywords.items()}
    found = {"attention": attention(x, **keywords), "attention again": attention(x, **keywords)}
    found["x"], found["other inputs"] = (
        torch.equal(x, kept[0]),
        all(torch.equal(value, kept[1][name]) for name, value in keywords.items()),
    )
    state = attention.state_dict()
    return found | {"weights": {name: tuple(w.shape) for name, w in state.items()}}


def _pieces(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """The functions that attention is built from."""
    config = config_of(dice)
    batch, tokens, times = dice.integer(1, 4), dice.integer(1, 9), dice.integer(1, 5)
    heads, kv_heads, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    dtype = dice.pick((torch.float32, torch.float32, torch.float16, torch.bfloat16))
    shape = (batch, tokens) if dice.integer(0, 1) else (tokens,)
    cos, sin = module.RotaryEmbedding(config)(dice.positions(*shape))
    q = dice.normal(batch, heads, tokens, size).to(dtype)
    k = dice.normal(batch, kv_heads, tokens, size).to(dtype)
    turned_q, turned_k = module.apply_rotary_pos_emb(q, k, cos, sin)
    flat = dice.normal(*(5, 3, 2)[: dice.integer(0, 3)], size)
    return {
        "cos": cos, "sin": sin, "turned q": turned_q, "turned k": turned_k,
        "rotate_half": module.rotate_half(flat), "repeat_kv": module.repeat_kv(k, times),
    }  # fmt: skip


def _mlp(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    config = config_of(dice)
    dtype = dice.pick((torch.float32, torch.float32, torch.float16, torch.bfloat16))
    weights = weights_of(dice, config, "mlp")
    if number % 3 == 0:  # gate and up the other way round
        up, gate = "up_proj.weight", "gate_proj.weight"
        weights |= {up: weights[gate], gate: weights[up]}
    x = dice.normal(*(4, 3, 2)[: dice.integer(0, 3)], config.hidden_size)
    x = x * dice.pick((1.0, 1.0, 1e-3, 30.0))
    mlp = load(module.Qwen3MLP(config), weights, dtype)
    shapes = {name: tuple(w.shape) for name, w in mlp.state_dict().items()}
    return {"mlp": mlp(x.to(dtype)), "weights of the MLP": shapes}


def _counts(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    config = config_of(dice)
    tied = replace(config, tie_word_embeddings=not config.tie_word_embeddings)
    tokens, batch = dice.integer(1, 5000), dice.integer(1, 9)
    found: dict[str, Any] = {
        "counts": module.count_parameters(config),
        "counts, tied otherwise": module.count_parameters(tied),
    }
    for dtype in DTYPES:
        found[f"bytes in {dtype}"] = module.weight_bytes(config, dtype)
        found[f"cache in {dtype}"] = module.kv_cache_bytes(config, tokens, batch, dtype)
    return found


PARTS = {"attention": (_attention, _pieces), "mlp": (_mlp, _counts)}
