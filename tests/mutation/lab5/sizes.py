"""What the random cases of lab 5 are drawn from: ranks, heads, flat tokens, scalings."""

from __future__ import annotations

from math import lcm, log, tau
from typing import Any

import torch

from tests.mutation.dice import Dice

NARROW = (torch.float32, torch.float32, torch.float16, torch.bfloat16)


def world_of(dice: Dice) -> int:
    """Number of ranks."""
    return int(dice.pick((1, 2, 4)))


def attention_of(dice: Dice, world: int) -> tuple[int, int, int, int]:
    """hidden_size, heads, kv heads and size of a head; ranks share kv heads, or have several."""
    kv_heads = dice.pick((1, 2, 4, world, 2 * world))
    heads = lcm(kv_heads, world) * dice.integer(1, 2)
    return dice.integer(1, 9), heads, kv_heads, dice.integer(1, 4)


def cut(x: torch.Tensor, rank: int, world: int) -> torch.Tensor:
    """The features of a rank."""
    return x.chunk(world, dim=-1)[rank].contiguous()


def flat_tokens(dice: Dice) -> tuple[int, torch.Tensor]:
    """The number of tokens, and ``cu_seqlens``."""
    lengths = torch.tensor([dice.integer(1, 6) for _ in range(dice.integer(1, 4))])
    cu = torch.cat((torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)))
    return int(cu[-1]), cu.to(dice.pick((torch.int32, torch.int64)))


def at_positions(dice: Dice, tokens: int, dtype: torch.dtype) -> torch.Tensor:
    """Positions in any order: small ones, or far ones for tokens that are narrow."""
    start = 0 if dtype == torch.float32 else dice.pick((0, 300, 3000))
    return torch.tensor([start + dice.integer(0, 6) for _ in range(tokens)])


def scaling_of(dice: Dice, head_dim: int, theta: float) -> dict[str, Any]:
    """A rope_scaling of YaRN, its type by either name.

    The line begins and ends well between two pairs, and is a pair long at least.
    """
    while True:
        fast, slow = dice.pick((32, 32, 32, 8, 12, 64)), dice.pick((1, 1, 1, 2, 3))
        context = dice.integer(96, 8192)
        begin, end = (
            head_dim * log(context / (turns * tau)) / (2 * log(theta)) for turns in (fast, slow)
        )
        if all(0.005 < place % 1 < 0.995 for place in (begin, end)) and begin < head_dim - 2:
            break
    made = {dice.pick(("rope_type", "type")): "yarn", "factor": dice.pick((4.0, 8.0, 2.5))}
    made["original_max_position_embeddings"] = context
    made |= {"beta_fast": fast} if fast != 32 or dice.integer(0, 1) else {}
    made |= {"beta_slow": slow} if slow != 1 or dice.integer(0, 1) else {}
    if dice.integer(0, 1):
        made["attention_factor"] = dice.pick((1.4, 0.8, 1.25))
    return made


def scores_of(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Products of all heads of queries with all heads of keys, in the dtype of q."""
    return torch.einsum("qhd,kgd->hgqk", q.float(), k.float()).to(q.dtype)
