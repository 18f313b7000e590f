"""Random logits, masks and tokens, of every kind that the contract of lab 1 allows."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tests.mutation.dice import Dice

INFINITE = float("inf")
NARROW = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Call:
    """One call of attention: ``q [..., q_len, d]``, ``k``, ``v`` and a mask, or none."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor | None


def any_dtype(dice: Dice) -> torch.dtype:
    """float32 twice as often as each of the others."""
    drawn: torch.dtype = dice.pick((torch.float32, torch.float32, *NARROW))
    return drawn


def any_shape(dice: Dice, axes: int) -> tuple[int, ...]:
    """So many sizes of 1 to 9."""
    return tuple(dice.integer(1, 9) for _ in range(axes))


def logits(dice: Dice, dim: int, kind: int) -> torch.Tensor:
    """Ordinary ones, far ones of either sign, far apart ones, or some that are -inf."""
    x = dice.normal(*any_shape(dice, max(dim + 1, dice.integer(1, 4)))) * 2
    if kind == 1:
        return x + 1e4 * (1 - 2 * (dice.uniform(*x.shape[:-1], 1) < 0.5).float())
    if kind == 2:
        return (dice.uniform(*x.shape) - 0.5) * 2e4
    if kind == 3:
        blocked = dice.uniform(*x.shape) < 0.5
        blocked.select(dim, dice.integer(0, x.shape[dim] - 1)).fill_(False)
        return x.masked_fill(blocked, -INFINITE)
    return x


def attention_call(dice: Dice, kind: int) -> Call:
    """A call with a mask of any kind, with scores of any size."""
    lead = any_shape(dice, dice.integer(0, 3))
    q_len, kv_len, d = dice.integer(1, 8), dice.integer(1, 9), dice.integer(1, 12)
    q, k = dice.normal(*lead, q_len, d), dice.normal(*lead, kv_len, d)
    v = dice.normal(*lead, kv_len, dice.integer(1, 9)) * dice.pick((1.0, 5.0))
    if kind == 1:  # scores around ±10,000, from whole numbers, so that nothing is rounded
        d = 16
        q, k = dice.normal(*lead, q_len, d).round(), dice.normal(*lead, kv_len, d).round()
        q[..., 0], k[..., 0] = dice.pick((100.0, -100.0)), 400.0
    dtype = torch.float32 if kind == 1 else any_dtype(dice)
    mask = any_mask(dice, lead, (q_len, kv_len), dtype)
    return Call(q.to(dtype), k.to(dtype), v.to(dtype), mask)


def any_mask(
    dice: Dice, lead: tuple[int, ...], sizes: tuple[int, int], dtype: torch.dtype
) -> torch.Tensor | None:
    """None, bool or additive, of any shape that broadcasts; some queries may see nothing."""
    kind = dice.pick(("none", "bool", "bool", "added", "large"))
    if kind == "none":
        return None
    shape = tuple(dice.pick((size, 1)) for size in lead)
    start = dice.integer(0, len(lead))
    shape = (*shape[start:], dice.pick((sizes[0], sizes[0], 1)), sizes[1])
    if start == len(lead) and dice.integer(0, 3) == 0:
        shape = sizes[1:]
    allowed = dice.uniform(*shape) < dice.pick((0.2, 0.5, 0.9))
    if kind == "bool":
        return allowed
    added = dice.normal(*shape) * (8 if kind == "large" else 1)
    return added.masked_fill(~allowed, -INFINITE).to(dtype)


def tokens(dice: Dice, kind: int, *shape: int) -> torch.Tensor:
    """Tokens for a norm: spread, tiny, far from 0, with a feature that stands out, or equal."""
    x = dice.normal(*shape)
    if kind == 1:
        return x * dice.pick((1e-1, 1e-2, 1e-3))
    if kind == 2:
        return x + dice.pick((3.0, -4.0))
    if kind == 3:
        x[..., dice.integer(0, shape[-1] - 1)] *= 40
        return x
    if kind == 4:
        return torch.full(shape, 1.5)
    return (x + 1.5) * (0.5 + 3 * dice.uniform(*shape[:-1], 1))


def narrow_tokens(dice: Dice, *shape: int) -> torch.Tensor:
    """float16 whose squares overflow, or tokens far from 0 for their dtype."""
    x = dice.normal(*shape)
    if dice.integer(0, 1):
        return (x * 300 + dice.pick((0.0, 20_000.0))).half()
    return (x + dice.pick((0.0, 10.0, -300.0))).to(dice.pick(NARROW))
