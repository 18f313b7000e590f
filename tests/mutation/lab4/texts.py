"""Tokens that are chosen, and texts that are continued.

Of what chance decides, it counts which tokens come at all, and which often; and in eighths how
often, where all may come: of many draws, with shares that lie in the middle of such a step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import nn

from labs.given.standin import StandInModel, shares
from tests.mutation.dice import Dice

ROWS = 300
EIGHTHS = ((4, 2, 1, 1), (5, 1, 1, 1), (2, 2, 2, 2), (2, 2, 1, 1, 1, 1))
VOCAB = 6  # the most of them
MUCH = 0.42  # no share lies near it, whatever is cut off
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"top_k": 1}, {"top_k": 2}, {"top_k": 9}, {"top_p": 0.55}, {"top_p": 0.8}, {"top_p": 0.0},
    {"top_k": 3, "top_p": 0.6},
)  # fmt: skip
HALF = {"top_p": 0.5}  # what the first eighths have together, to the last bit


def _model(table: torch.Tensor) -> StandInModel:
    """The table, for whole numbers below its size alone, as an embedding takes them."""
    model = StandInModel(table)

    def looked_up(_: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        nn.functional.embedding(given[0], table)

    model.register_forward_pre_hook(looked_up)
    return model


def _logits(dice: Dice, temperature: float, *, exact: bool = False) -> torch.Tensor:
    """``[4]`` or ``[6]`` in any order, whose shares at this temperature are eighths."""
    logits = (torch.tensor(dice.pick(EIGHTHS)) / 8).log() * temperature
    far = (0.0,) if exact else (0.7, -30.7, 9.3)  # what rounds them a little
    return logits[torch.argsort(dice.uniform(len(logits)))] + dice.pick(far)


def _near(dice: Dice, rows: int, vocab: int) -> torch.Tensor:
    """Scores near each other, all of a row different."""
    return torch.argsort(dice.uniform(rows, vocab)) * 0.01 + dice.pick((4.5, -5.0, 0.0))


def _drawn(draw: Callable[..., torch.Tensor], options: dict[str, Any], seed: int) -> dict[str, Any]:
    """What comes in several calls, with a generator that goes on and with torch's own."""
    chance = torch.Generator().manual_seed(seed)
    first, second = (draw(generator=chance, **options) for _ in range(2))
    torch.manual_seed(seed)
    own, later = (draw(**options) for _ in range(2))
    share = torch.bincount(first.reshape(ROWS, -1)[:, -1], minlength=VOCAB) / ROWS
    return {
        "comes": share > 0, "comes often": share > MUCH,
        "shares": None if options else shares(first, VOCAB), "kind": (first.dtype, first.shape),
        "alike": [torch.equal(first, t) for t in (second, own)] + [torch.equal(own, later)],
    }  # fmt: skip


def chosen(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """The likeliest tokens, and drawn ones."""
    near = _near(dice, dice.integer(1, 5), dice.integer(2, 12))
    found = {"likeliest": module.sample(near), "cold": module.sample(near, 0.0, 2)}
    temperature, several = dice.pick((1.0, 0.5, 2.0)), (*OPTIONS, HALF)
    options = several[number % len(several)]
    logits = _logits(dice, temperature, exact=options is HALF).repeat(ROWS, 1)
    kept = logits.clone()
    drawn = _drawn(partial(module.sample, logits, temperature), options, number)
    return found | drawn | {"logits": torch.equal(logits, kept)}


def continued(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Texts of a table that counts its calls: padded or not, that end or not, and drawn ones."""
    vocab, batch, tokens = dice.integer(4, 12), dice.integer(1, 4), dice.integer(1, 5)
    large = number % 8 == 7  # ids that 16 bits of floating point would round, and one that ends
    vocab = 300 if large else vocab
    table = _near(dice, vocab, vocab)
    ids = (dice.uniform(batch, tokens) * vocab).long()
    given: dict[str, Any] = {"eos": dice.pick((None, 0, dice.integer(0, vocab - 1)))}
    if large:
        table[::3, -1] += 4
        given["eos"] = vocab - 1
    model = _model(table)
    first = torch.tensor([dice.integer(0, tokens - 1) for _ in ids])
    keep = (torch.arange(tokens) >= first[:, None]).long()
    heard: list[torch.Tensor] = []
    if number % 2:
        given["attention_mask"] = keep
    if number % 3:
        given["on_token"] = heard.append
    kept = ids.clone(), keep.clone()
    text = module.generate(model, ids, dice.integer(1, 6), **given)
    found = {
        "text": text, "calls": model.calls, "heard": [token.tolist() for token in heard],
        "inputs": torch.equal(ids, kept[0]) and torch.equal(keep, kept[1]),
    }  # fmt: skip
    if number % 4:
        return found
    temperature, options = dice.pick((0.5, 2.0)), OPTIONS[number // 4 % len(OPTIONS)]
    logits = _logits(dice, temperature)
    table = _model(logits.repeat(len(logits), 1))
    many = torch.zeros(ROWS, 1, dtype=torch.int64)
    draw = partial(module.generate, table, many, 2, temperature=temperature)
    return found | _drawn(draw, options, number)
