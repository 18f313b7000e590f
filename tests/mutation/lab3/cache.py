"""A random life of a KV cache: pieces in order, steps back, resets, and what it has to refuse."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from tests.mutation.dice import Dice

STEPS = 8


def life(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """What ``KVCache`` gives back, step by step."""
    batch, heads, size = dice.integer(1, 4), dice.integer(1, 4), 2 * dice.integer(1, 5)
    max_len = dice.integer(2, 12)
    dtype = dice.pick((torch.float32, torch.float32, torch.float16, torch.bfloat16))
    cache, other = (module.KVCache(batch, max_len, heads, size, dtype) for _ in range(2))
    found: dict[str, Any] = {}
    held = 0
    for step in range(STEPS):
        kind = dice.pick(("on", "on", "on", "back", "full", "gap", "reset", "other"))
        if kind == "reset":
            cache.reset()
            held = 0
            continue
        start = {"back": dice.integer(0, held), "gap": held + 1}.get(kind, held)
        count = dice.integer(1, max(1, max_len - start))
        if kind == "full":
            count = max_len - held + dice.integer(1, 3)
        k, v = dice.normal(batch, count, heads, size), dice.normal(batch, count, heads, size)
        if kind == "other":
            count = min(count, max_len)
            other.update(k[:, :count], v[:, :count], 0)
            continue
        if kind == "gap" and start + count > max_len:
            continue
        kept = k.clone(), v.clone()
        try:
            keys, values = cache.update(k, v, start)
        except ValueError as error:
            found[f"step {step} raises"] = str(max_len) in str(error) or kind == "gap"
            continue
        held = start + count
        found |= {f"step {step} keys": keys.clone(), f"step {step} values": values.clone()}
        found[f"step {step} input"] = torch.equal(k, kept[0]) and torch.equal(v, kept[1])
    return found
