"""Random cases of lab 1, from all over what its contract allows.

Sizes, dtypes, masks and weights are drawn anew for every case; the kind of the logits and of the
tokens turns in a circle, so that each comes with many different sizes.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from tests.mutation.dice import Dice
from tests.mutation.lab1 import texts
from tests.mutation.lab1.calls import (
    any_dtype,
    any_mask,
    any_shape,
    attention_call,
    logits,
    narrow_tokens,
    tokens,
)
from tests.mutation.models import load


def _softmax(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    axis = dice.integer(0, 3)
    x, dtype = logits(dice, axis, number % 4), any_dtype(dice)
    if number % 8 == 5 and dtype is not torch.float16:  # which ends at 65504
        x = x * 100  # logits around a million of either sign
    x = x.to(dtype)
    kept, dim = x.clone(), dice.pick((axis, axis - x.ndim))
    return {"softmax": module.softmax(x, dim), "softmax input": torch.equal(x, kept)}


def _mask(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    queries = dice.integer(1, 12)
    keys = queries + dice.pick((0, dice.integer(0, 9)))
    return {"causal mask": module.causal_mask(queries, keys)}


def _attention(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    call = attention_call(dice, number % 3)
    given = [t for t in (call.q, call.k, call.v, call.mask) if t is not None]
    kept = [t.clone() for t in given]
    attend = module.scaled_dot_product_attention
    found = {"attention": attend(*given), "attention again": attend(*given)}
    same = all(torch.equal(one, other) for one, other in zip(given, kept, strict=True))
    return found | {"attention inputs": same}


def _multi_head(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    hidden, heads, size = dice.integer(1, 30), dice.integer(1, 6), dice.integer(1, 10)
    batch, seq, dtype = dice.integer(1, 4), dice.integer(1, 9), any_dtype(dice)
    wide = heads * size
    shapes = {"q": (wide, hidden), "k": (wide, hidden), "v": (wide, hidden), "o": (hidden, wide)}
    weights = {
        f"{name}_proj.weight": dice.normal(*shape) * shape[1] ** -0.5
        for name, shape in shapes.items()
    }
    attention = load(module.MultiHeadAttention(hidden, heads, size), weights, dtype)
    x = (dice.normal(batch, seq, hidden) * dice.pick((1.0, 1.0, 6.0))).to(dtype)
    mask = any_mask(dice, (batch, heads), (seq, seq), dtype)
    kept = x.clone()
    found = {"multi head": attention(x, mask), "multi head again": attention(x, mask=mask)}
    return found | {"multi head without": attention(x), "x": torch.equal(x, kept)}


def _silu(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    x = dice.normal(*any_shape(dice, dice.integer(1, 3))) * (3.0, 1.0, 100.0, 1e4)[number % 4]
    x = x.to(any_dtype(dice))
    kept = x.clone()
    return {"silu": module.silu(x), "silu input": torch.equal(x, kept)}


def _layer_norm(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    return _norm(module.LayerNorm, "layer norm", dice, number)


def _rms_norm(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    return _norm(module.RMSNorm, "rms norm", dice, number)


def _norm(kind: type[torch.nn.Module], name: str, dice: Dice, number: int) -> dict[str, Any]:
    shape = (*any_shape(dice, dice.integer(0, 3)), dice.integer(8, 48))
    eps = dice.pick(({}, {"eps": 1e-5}, {"eps": 1e-3}, {"eps": 0.1}))
    new = kind(shape[-1], **eps)
    weights = {key: 0.4 + 1.8 * dice.uniform(shape[-1]) for key in new.state_dict()}
    wide, narrow = tokens(dice, number % 5, *shape), narrow_tokens(dice, *shape)
    kept = wide.clone(), narrow.clone()
    found: dict[str, Any] = {f"new {name}": new(wide)}
    found |= {f"new {name} {key}": value.detach() for key, value in new.state_dict().items()}
    found |= {name: load(kind(shape[-1], **eps), weights, torch.float32)(wide)}
    found |= {f"narrow {name}": load(kind(shape[-1], **eps), weights, narrow.dtype)(narrow)}
    return found | {f"{name} input": torch.equal(wide, kept[0]) and torch.equal(narrow, kept[1])}


def _feed_forward(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    hidden, inner, dtype = dice.integer(1, 30), dice.integer(1, 40), any_dtype(dice)
    shapes = {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    weights = {
        f"{name}_proj.weight": dice.normal(*shape) * shape[1] ** -0.5
        for name, shape in shapes.items()
    }
    x = dice.normal(*any_shape(dice, dice.integer(0, 3)), hidden) * dice.pick((1.0, 5.0, 30.0))
    x = x.to(dtype)
    kept, mlp = x.clone(), load(module.FeedForward(hidden, inner), weights, dtype)
    return {"feed forward": mlp(x), "feed forward input": torch.equal(x, kept)}


PARTS = {
    "attention": (_softmax, _mask, _attention, _multi_head),
    "mlp": (_silu, _layer_norm, _rms_norm, _feed_forward),
    "tokens": texts.PARTS,
}
