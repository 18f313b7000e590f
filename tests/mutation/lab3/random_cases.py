"""Random cases of lab 3, from all over what its contract allows.

Sizes, weights, positions, masks and pieces are drawn anew for every case; the kind of the case
turns in a circle, so that every probe of the checks comes with many different sizes.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from tests.mutation.dice import Dice
from tests.mutation.lab3.cache import life
from tests.mutation.lab3.kinds import KINDS, Call
from tests.mutation.models import config_of, load

NARROW = (torch.float32, torch.float32, torch.float16, torch.bfloat16)


def _table(head_dim: int, end: int, theta: float) -> torch.Tensor:
    """complex64 ``[end, head_dim/2]``."""
    steps = theta ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(end).float(), steps)
    return torch.polar(torch.ones_like(angles), angles)


def _attention(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    call = KINDS[number % len(KINDS)](dice, config_of(dice))
    c, (batch, tokens) = call.config, call.sizes
    sizes = c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.rms_norm_eps
    cache = None
    if call.pieces:
        held = c.num_key_value_heads, c.head_dim, call.x.dtype
        cache = module.KVCache(batch, tokens + 2, *held)
    attention = module.GroupedQueryAttention(*sizes, cache)
    attention = load(attention, call.weights, call.x.dtype)
    table = _table(c.head_dim, call.start + tokens + 3, c.rope_theta)
    given = [t for t in (call.x, table, call.mask) if t is not None]
    kept = [t.clone() for t in given]
    found: dict[str, Any] = {
        "weights": {name: tuple(w.shape) for name, w in attention.state_dict().items()}
    }
    for turn in ("attention", "attention again"):
        if cache is not None:
            cache.reset()
        found[turn] = torch.cat(list(_pieces(attention, call, table)), dim=1)
    same = all(torch.equal(one, other) for one, other in zip(given, kept, strict=True))
    return found | {"attention inputs": same}


def _pieces(attention: torch.nn.Module, call: Call, table: torch.Tensor) -> list[torch.Tensor]:
    found, first = [], 0
    for count in call.pieces or (call.sizes[1],):
        end = first + count
        mask = None if call.mask is None else call.mask[..., first:end, :end]
        found.append(attention(call.x[:, first:end], call.start + first, table, mask))
        first = end
    return found


def _rotation(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    batch, tokens, heads, kv_heads = (dice.integer(1, 6) for _ in range(4))
    size, theta = 2 * dice.integer(1, 10), dice.pick((1e4, 1e6, 5e6, 123.0))
    end = dice.pick((dice.integer(1, 20), dice.integer(1000, 4000)))
    dtypes = dice.pick(NARROW), dice.pick(NARROW)
    q = dice.normal(batch, tokens, heads, size).to(dtypes[0]) * dice.pick((1, 9))
    k = dice.normal(batch, tokens, kv_heads, size).to(dtypes[1]) * dice.pick((1, 9))
    start = dice.integer(0, 100)
    turned = module.apply_rotary_emb(q, k, _table(size, start + tokens, theta)[start:])
    table = module.precompute_freqs_cis(size, end, theta)
    return {"table": table, "turned q": turned[0], "turned k": turned[1]}


def _permuted(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    heads, size = dice.integer(1, 6), 2 * dice.integer(1, 8)
    weight = dice.normal(heads * size, dice.integer(1, 20)).to(dice.pick(NARROW)) * 4
    kept, norm = weight.clone(), dice.normal(size)
    return {
        "permuted": module.permute_for_complex(weight, heads, size),
        "permuted norm": module.permute_for_complex(norm, 1, size),
        "permuted input": torch.equal(weight, kept),
    }


def _width(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    dim, of = dice.integer(1, 5000), dice.integer(1, 300)
    times = dice.pick((1.0, 1.3, 1.5, 0.8, 0.37, 2.0))
    return {
        "width": module.feed_forward_size(dim, of, None),
        "width, multiplied": module.feed_forward_size(dim, of, times),
        "width, exact": module.feed_forward_size(dim, 1, dice.pick((None, times))),
    }


def _mlp(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    dim, inner, dtype = dice.integer(1, 30), dice.integer(1, 40), dice.pick(NARROW)
    shapes = {"w1": (inner, dim), "w2": (dim, inner), "w3": (inner, dim)}
    weights = {
        f"{name}.weight": dice.normal(*shape) * shape[1] ** -0.5 for name, shape in shapes.items()
    }
    x = dice.normal(*(4, 3, 2)[: dice.integer(0, 3)], dim) * dice.pick((1.0, 6.0, 30.0))
    x = x.to(dtype)
    kept, mlp = x.clone(), load(module.FeedForward(dim, inner), weights, dtype)
    return {"mlp": mlp(x), "mlp input": torch.equal(x, kept)}


def _converted(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    prefix = dice.pick(("", "mlp.", f"model.layers.{dice.integer(0, 30)}.mlp."))
    names = [f"{prefix}{name}_proj.weight" for name in ("gate", "up", "down")]
    names += [
        "model.norm.weight",
        "aggregate_proj.weight",
        f"{prefix}gate_proj.weight_scale",
        "model.layers.0.self_attn.q_proj.weight",
    ]
    weights = {name: dice.normal(2, 3) for name in names}
    kept = dict(weights)
    found = module.convert_hf_mlp(weights)
    whose = {id(weight): name for name, weight in kept.items()}
    return {
        "converted": {name: whose.get(id(weight)) for name, weight in found.items()},
        "converted input": list(weights) == list(kept) and found is not weights,
    }


def _flops(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    config, tokens, past = config_of(dice), dice.integer(1, 50), dice.integer(0, 60)
    counts = module.layer_flops(config, tokens, past)
    return {"operations": counts, "prefill": module.prefill_flops(config, tokens)}


PARTS = {
    "attention": (_attention, _rotation, _permuted, life),
    "mlp": (_width, _mlp, _converted, _flops),
}
