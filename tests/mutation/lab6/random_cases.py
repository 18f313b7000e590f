"""Random cases of lab 6, from all over what its contract allows.

Lengths, blocks, heads, experts and dtypes are drawn anew for every case. Whether a call costs
more than it has to is an answer, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from tests.mutation.costs import over
from tests.mutation.dice import Dice
from tests.mutation.models import load

NARROW = (torch.float32, torch.float32, torch.float16, torch.bfloat16)
INFINITE = float("inf")


def _online(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Blocks of any widths; far scores of either sign; rows and blocks that are hidden."""
    rows = tuple(dice.integer(1, 4) for _ in range(dice.integer(0, 3)))
    dtype, scale = dice.pick(NARROW), dice.pick((1.0, 1.0, 30.0, 3000.0))
    shift = dice.pick((0.0, -500.0, 500.0))
    blocks = []
    for _ in range(dice.integer(1, 6)):
        block = dice.normal(*rows, dice.integer(1, 7)) * scale + shift
        if number % 3 == 1:
            block = block.masked_fill(dice.uniform(*block.shape) < 0.4, -INFINITE)
        if number % 6 == 1:
            block = block.masked_fill(dice.uniform(*rows, 1) < 0.4, -INFINITE)
        blocks.append(block.to(dtype))
    kept = [block.clone() for block in blocks]
    found = module.online_softmax(iter(blocks) if number % 2 else blocks)
    same = all(torch.equal(one, other) for one, other in zip(blocks, kept, strict=True))
    hidden = found[0] == -INFINITE
    return {
        "maximum": found[0].masked_fill(hidden, 0.0), "nothing seen": hidden, "total": found[1],
        "blocks": same,
    }  # fmt: skip


def _online_costs(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Many blocks at once in memory would be seen."""
    if number % 8:
        return {}
    blocks = [dice.normal(40, 50) for _ in range(30)]

    def coming() -> Iterator[torch.Tensor]:
        return (block + 0 for block in blocks)

    size = (len(blocks) + 6) * 4 * blocks[0].numel()  # they are there before, and count
    return over(lambda: module.online_softmax(coming()), (), flops=0, size=size)


def _qkv(dice: Dice, number: int) -> tuple[torch.Tensor, ...]:
    batch, kv_heads, group = dice.integer(1, 2), dice.integer(1, 3), dice.integer(1, 3)
    q_len, size = dice.integer(1, 12), dice.integer(1, 9)
    kv_len = q_len + dice.pick((0, 0, dice.integer(0, 12)))
    dtype, scale = dice.pick(NARROW), dice.pick((1.0, 1.0, 6.0, 40.0))
    shift = dice.pick((0.0, 0.0, 5.0))  # all scores of a row far below zero, or above
    q = dice.normal(batch, kv_heads * group, q_len, size) * scale - shift
    k = dice.normal(batch, kv_heads, kv_len, size) + shift
    v = dice.normal(batch, kv_heads, kv_len, size) * dice.pick((1.0, 5.0))
    if number % 4 == 3:  # heads beside each other in memory
        q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    return q.to(dtype), k.to(dtype), v.to(dtype)


def _flash(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    q, k, v = _qkv(dice, number)
    blocks = dice.integer(1, q.shape[2] + 2), dice.integer(1, k.shape[2] + 2)
    if number % 50 == 7:  # many steps, scores of about 430: what each step changes adds up
        q, k, v = (dice.normal(1, 1, length, 9) / 9 + 12 for length in (2, 250, 250))
        blocks = 2, 1
    # Places that bfloat16 does not hold, scores that float16 does not, and a tile with one key.
    if number % 50 == 8:
        q, k, v = (dice.normal(1, 1, length, 4) for length in (2, 300, 300))
        q[:], k[:], blocks = 300, -150, (2, 299)
    if number % 50 == 9:
        q, k, v = q.double(), k.double(), v.double()
    kept = [t.clone() for t in (q, k, v)]
    found = {
        "attention": module.flash_attention(q, k, v, False, *blocks),
        "causal attention": module.flash_attention(q, k, v, True, *blocks),
    }
    same = all(torch.equal(one, other) for one, other in zip((q, k, v), kept, strict=True))
    return found | {"attention inputs": same}


def _flash_costs(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    if number % 32:
        return {}
    rows, block_q, block_k = 50 + dice.integer(0, 20), dice.integer(5, 9), dice.integer(5, 9)
    q, k, v = (dice.normal(1, 2, rows, 4) for _ in range(3))
    causal = number % 64 > 0
    ends = [min(first + block_q, rows) for first in range(0, rows, block_q)]
    seen = [-(-end // block_k) * block_k if causal else rows for end in ends]  # keys, by tile
    flops = 4 * 2 * 4 * sum(min(block_q, rows) * min(keys, rows) for keys in seen)
    args = q, k, v, causal, block_q, block_k
    found = over(module.flash_attention, args, flops=flops, size=4 * 2 * rows**2)
    if number:
        return found
    q, many = dice.normal(1, 2, 3, 4), dice.normal(1, 1, 30_000, 4)
    few = module.flash_attention(q, many, many, causal, 1, 30_000)  # no step for each
    return found | {"few queries": bool(torch.isfinite(few).all())}


def _sizes(dice: Dice) -> tuple[int, int, int]:
    """Hidden size, number of experts, how many a token has."""
    experts = dice.integer(1, 9)
    return dice.integer(1, 12), experts, dice.integer(1, experts)


def _dense(weights: torch.Tensor, chosen: torch.Tensor, experts: int) -> torch.Tensor:
    """``[tokens, experts]``: the order of a token's experts is free."""
    return torch.zeros(len(chosen), experts, dtype=weights.dtype).scatter_(1, chosen, weights)


def _router(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    hidden, experts, top_k = _sizes(dice)
    dtype = dice.pick(NARROW)
    weight, x = dice.normal(experts, hidden), dice.normal(dice.integer(1, 9), hidden)
    x = x * dice.pick((1.0, 4.0))
    if number % 5 == 4:  # exact logits, so near that their probabilities are equal in 16 bits
        orders = torch.stack([torch.argsort(dice.uniform(experts)) for _ in range(hidden)], dim=1)
        weight, x, dtype = (205 + 2 * orders) * 2.0**-14, 8 * torch.eye(hidden), torch.bfloat16
    x = x.to(dtype)
    router = module.Router(hidden, experts, top_k, dice.integer(0, 1) == 1)
    router, kept = load(router, {"weight": weight}, dtype), x.clone()
    logits, weights, chosen = router(x)
    return {
        "logits": logits, "routing weights": _dense(weights, chosen, experts),
        "kinds": (weights.dtype, chosen.dtype, chosen.shape), "router input": torch.equal(x, kept),
    }  # fmt: skip


def _loaded(module: ModuleType, dice: Dice, sizes: tuple[int, int, int]) -> torch.nn.Module:
    hidden, inner, experts = sizes
    weights = {
        "gate_up_proj": dice.normal(experts, 2 * inner, hidden) * hidden**-0.5,
        "down_proj": dice.normal(experts, hidden, inner) * inner**-0.5,
    }
    return load(module.Experts(*sizes), weights, torch.float32)


def _experts(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    hidden, experts, top_k = _sizes(dice)
    dtype, tokens = dice.pick(NARROW), dice.integer(1, 9)
    mixed = _loaded(module, dice, (hidden, dice.integer(1, 9), experts)).to(dtype)
    chosen = torch.stack([torch.argsort(dice.uniform(experts))[:top_k] for _ in range(tokens)])
    x = (dice.normal(tokens, hidden) * dice.pick((1.0, 4.0))).to(dtype)
    weights = dice.uniform(tokens, top_k).to(dtype)
    kept = [t.clone() for t in (x, chosen, weights)]
    found = mixed(x, chosen, weights)
    same = all(torch.equal(a, b) for a, b in zip((x, chosen, weights), kept, strict=True))
    names = {name: tuple(w.shape) for name, w in mixed.state_dict().items()}
    return {"experts": found, "experts' inputs": same, "experts' weights": names}


def _experts_costs(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Six experts of forty are used; their weights are not copied for every token."""
    if number % 8:
        return {}
    hidden, inner, tokens = 8, 6, 30
    mixed = _loaded(module, dice, (hidden, inner, 40))
    x, weights = dice.normal(tokens, hidden), dice.uniform(tokens, 2)
    chosen = torch.stack([torch.argsort(dice.uniform(6))[:2] for _ in range(tokens)])
    pairs = 2 * tokens
    size = 8 * 4 * pairs * (hidden + 2 * inner)
    flops = 6 * pairs * hidden * inner
    return over(mixed, (x, chosen, weights), flops=flops, size=size)


def _block(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    hidden, experts, top_k = _sizes(dice)
    inner, norm, dtype = dice.integer(1, 9), dice.integer(0, 1) == 1, dice.pick(NARROW)
    block = module.SparseMoeBlock(hidden, inner, experts, top_k, norm)
    weights = {
        "gate.weight": dice.normal(experts, hidden),
        "experts.gate_up_proj": dice.normal(experts, 2 * inner, hidden) * hidden**-0.5,
        "experts.down_proj": dice.normal(experts, hidden, inner) * inner**-0.5,
    }
    x = dice.normal(dice.integer(1, 4), dice.integer(1, 6), hidden) * dice.pick((1.0, 4.0))
    x = x.to(dtype)
    if number % 4 == 3:  # tokens beside each other in memory, batch by batch
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    y, logits = load(block, weights, dtype)(x)
    return {"block": y, "block's logits": logits}


def _loss(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    experts = dice.integer(2, 9)
    top_k = dice.integer(1, experts - 1)  # with all of them, nothing has a slope
    batch, tokens, layers = dice.integer(1, 3), dice.integer(1, 6), dice.integer(1, 4)
    shape = batch * tokens, experts
    # No two logits of a token are so near that rounding decides which is chosen.
    orders = [torch.argsort(dice.uniform(*shape)) * 0.5 for _ in range(layers)]
    logits = [(order + 0.3 * dice.uniform(*shape)).requires_grad_() for order in orders]
    given = logits if number % 2 else tuple(logits)
    found: dict[str, Any] = {}
    mask = torch.ones(batch, tokens, dtype=torch.int64)
    for name in ("loss", "masked loss"):
        with torch.enable_grad():
            asked = () if name == "loss" else (mask,)
            loss = module.load_balancing_loss(given, experts, top_k, *asked)
            slopes = torch.autograd.grad(loss, logits)
        # Beside the loss, since they are what is left of larger numbers.
        found[name] = torch.cat([loss.detach()[None], *(slope.flatten() for slope in slopes)])
        mask = (dice.uniform(tokens, batch) < 0.6).long().t()
        mask[0, 0] = 1
    return found


PARTS = {
    "attention": (_online, _online_costs, _flash, _flash_costs),
    "mlp": (_router, _experts, _experts_costs, _block, _loss),
}
