"""The kinds of random cases of attention: an ordinary one, and every probe of the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch

from labs.given.config import Qwen3Config
from tests.mutation.dice import Dice
from tests.mutation.models import Weights, weights_of


@dataclass(frozen=True)
class Call:
    """One call of attention: its model, weights, ``x [B, T, hidden]`` and other arguments."""

    config: Qwen3Config
    weights: Weights
    x: torch.Tensor
    keywords: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, int]:
        """Batch and tokens."""
        return self.x.shape[0], self.x.shape[1]


def plain(dice: Dice, config: Qwen3Config) -> Call:
    """Nothing but x."""
    x = dice.normal(dice.integer(1, 4), dice.integer(2, 14), config.hidden_size)
    return Call(config, weights_of(dice, config, "attention"), x)


def other_future(dice: Dice, config: Qwen3Config) -> Call:
    """Later tokens are other ones, far larger."""
    call = plain(dice, config)
    x, first = call.x.clone(), dice.integer(1, call.sizes[1] - 1)
    x[:, first:] = x[:, first:] * -5 + 0.7
    return replace(call, x=x)


def positions(dice: Dice, config: Qwen3Config) -> Call:
    """Given positions: shifted, stretched, out of order, far away."""
    call = plain(dice, config)
    return replace(call, keywords={"position_ids": dice.positions(call.sizes[1])})


def positions_per_row(dice: Dice, config: Qwen3Config) -> Call:
    """Every row of the batch at positions of its own."""
    call = plain(dice, config)
    return replace(call, keywords={"position_ids": dice.positions(*call.sizes)})


def tokens_permuted(dice: Dice, config: Qwen3Config) -> Call:
    """Tokens in another order, with the positions that they had, all seeing each other."""
    call = plain(dice, config)
    order = torch.argsort(dice.uniform(call.sizes[1]))
    mask = torch.zeros(1, 1, call.sizes[1], call.sizes[1])
    return replace(
        call, x=call.x[:, order], keywords={"position_ids": order, "attention_mask": mask}
    )


def single_token(dice: Dice, config: Qwen3Config) -> Call:
    """One token."""
    call = plain(dice, config)
    return replace(call, x=call.x[:, :1])


def single_row(dice: Dice, config: Qwen3Config) -> Call:
    """One row of a batch, alone."""
    call = plain(dice, config)
    return replace(call, x=call.x[-1:])


def scaled_projection(dice: Dice, config: Qwen3Config) -> Call:
    """q_proj or k_proj many times as large or as small."""
    call, name = plain(dice, config), dice.pick(("q_proj.weight", "k_proj.weight"))
    factor = dice.pick((7.0, 100.0, 0.01))
    return replace(call, weights=call.weights | {name: call.weights[name] * factor})


def zeroed_heads(dice: Dice, config: Qwen3Config) -> Call:
    """Keys or values of one kv head are zero; or all keys are."""
    call, name = plain(dice, config), dice.pick(("k_proj.weight", "v_proj.weight"))
    weight, size = call.weights[name].clone(), config.head_dim
    head = dice.integer(0, config.num_key_value_heads - 1)
    weight[head * size : (head + 1) * size] = 0
    if name == "k_proj.weight" and dice.integer(0, 1):
        weight = torch.zeros_like(weight)
    return replace(call, weights=call.weights | {name: weight})


def tiny_inputs(dice: Dice, config: Qwen3Config) -> Call:
    """Inputs so small that eps decides the size of q and k."""
    call = plain(dice, config)
    return replace(call, x=call.x * dice.pick((1e-1, 1e-2, 1e-3, 1e-4)))


def large_logits(dice: Dice, config: Qwen3Config) -> Call:
    """Norm weights so large that logits go far beyond 88."""
    call = plain(dice, config)
    factor = dice.pick((4.0, 6.0, 8.0))
    grown = {n: w * factor for n, w in call.weights.items() if "norm" in n}
    return replace(call, weights=call.weights | grown)


def given_mask(dice: Dice, config: Qwen3Config) -> Call:
    """A mask with holes, of any shape that broadcasts; a query may always look at itself."""
    call = plain(dice, config)
    batch, tokens = call.sizes
    lead = dice.pick(((), (1, 1), (batch, 1), (batch, config.num_attention_heads)))
    return _masked(call, dice.uniform(*lead, tokens, tokens) < dice.pick((0.1, 0.5, 0.9)))


def padded(dice: Dice, config: Qwen3Config) -> Call:
    """The first row is padded on the left, with positions to match."""
    call = plain(dice, config)
    batch, tokens = call.sizes
    pad = dice.integer(1, tokens - 1)
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1).repeat(batch, 1, 1, 1)
    hidden[0, ..., :pad] = True
    steps = torch.arange(tokens).repeat(batch, 1)
    steps[0] = (steps[0] - pad).clamp(min=0)
    return _masked(call, hidden, {"position_ids": steps})


def narrow(dice: Dice, config: Qwen3Config) -> Call:
    """bfloat16 or float16, mask given or not."""
    call: Call = dice.pick((plain, positions_per_row, given_mask, padded))(dice, config)
    dtype = dice.pick((torch.bfloat16, torch.float16))
    call = replace(call, x=call.x.to(dtype))
    if "attention_mask" not in call.keywords:
        return call
    return _masked(call, call.keywords["attention_mask"] < 0, dict(call.keywords))


def _masked(
    call: Call, hidden: torch.Tensor, others: Mapping[str, torch.Tensor] | None = None
) -> Call:
    """The call with a mask of ``hidden [..., T, T]``; nobody is hidden from himself."""
    itself = torch.eye(call.sizes[1], dtype=torch.bool)
    mask = torch.zeros(hidden.shape, dtype=call.x.dtype)
    mask = mask.masked_fill(hidden & ~itself, torch.finfo(call.x.dtype).min)
    return replace(call, keywords={**(others or {}), "attention_mask": mask})


KINDS: tuple[Callable[[Dice, Qwen3Config], Call], ...] = (
    plain, narrow, other_future, positions, positions_per_row, tokens_permuted, single_token,
    given_mask, single_row, scaled_projection, zeroed_heads, padded, tiny_inputs, large_logits,
)  # fmt: skip
