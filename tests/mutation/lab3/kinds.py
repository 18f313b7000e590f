"""The kinds of random cases of attention: an ordinary one, and every probe of the checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from labs.given.config import Qwen3Config
from tests.mutation.dice import Dice
from tests.mutation.models import Weights, weights_of


@dataclass(frozen=True)
class Call:
    """The tokens of one call of attention, or of several with a cache.

    Args:
        config: sizes of the model, theta of its rotation.
        weights: under the names of the lab.
        x: ``[B, T, dim]``.
        start: position of the first token.
        mask: None, or additive and as wide as ``[…, T, T]``.
        pieces: numbers of tokens handed over at a time, T in all; empty means without a cache.
    """

    config: Qwen3Config
    weights: Weights
    x: torch.Tensor
    start: int = 0
    mask: torch.Tensor | None = None
    pieces: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, int]:
        """Batch and tokens."""
        return self.x.shape[0], self.x.shape[1]


Kind = Callable[[Dice, Qwen3Config], Call]


def plain(dice: Dice, config: Qwen3Config) -> Call:
    """All at once, without a cache."""
    x = dice.normal(dice.integer(1, 4), dice.integer(2, 12), config.hidden_size)
    weights = weights_of(dice, config, "attention")
    return Call(config, {_renamed(name): weight for name, weight in weights.items()}, x)


def _renamed(name: str) -> str:
    return f"w{name[0]}.weight" if "proj" in name else name


def large_tokens(dice: Dice, config: Qwen3Config) -> Call:
    """Tokens several times as large."""
    call = plain(dice, config)
    return replace(call, x=call.x * dice.pick((3.0, 10.0)))


def later(dice: Dice, config: Qwen3Config) -> Call:
    """From another position on, without a cache."""
    return replace(plain(dice, config), start=dice.integer(1, 200))


def in_pieces(dice: Dice, config: Qwen3Config) -> Call:
    """With a cache, in pieces of any lengths."""
    call = plain(dice, config)
    pieces, left = [], call.sizes[1]
    while left:
        pieces.append(dice.integer(1, left))
        left -= pieces[-1]
    return replace(call, pieces=tuple(pieces))


def by_steps(dice: Dice, config: Qwen3Config) -> Call:
    """With a cache, token by token."""
    call = plain(dice, config)
    return replace(call, pieces=(1,) * call.sizes[1])


def single_token(dice: Dice, config: Qwen3Config) -> Call:
    """One token."""
    call = plain(dice, config)
    return replace(call, x=call.x[:, :1], pieces=dice.pick(((), (1,))))


def scaled_projection(dice: Dice, config: Qwen3Config) -> Call:
    """wq or wk many times as large or as small."""
    call, name = plain(dice, config), dice.pick(("wq.weight", "wk.weight"))
    factor = dice.pick((7.0, 100.0, 0.01))
    return replace(call, weights=call.weights | {name: call.weights[name] * factor})


def zeroed_heads(dice: Dice, config: Qwen3Config) -> Call:
    """Keys or values of one kv head are zero; or all keys are."""
    call, name = in_pieces(dice, config), dice.pick(("wk.weight", "wv.weight"))
    weight, size = call.weights[name].clone(), config.head_dim
    head = dice.integer(0, config.num_key_value_heads - 1)
    weight[head * size : (head + 1) * size] = 0
    if name == "wk.weight" and dice.integer(0, 1):
        weight = torch.zeros_like(weight)
    return replace(call, weights=call.weights | {name: weight})


def tiny_inputs(dice: Dice, config: Qwen3Config) -> Call:
    """Inputs so small that eps decides the size of q and k."""
    call = plain(dice, config)
    return replace(call, x=call.x * dice.pick((1e-1, 1e-2, 1e-3, 1e-4)))


def large_logits(dice: Dice, config: Qwen3Config) -> Call:
    """Norm weights so large that logits go far beyond 88."""
    call = plain(dice, config)
    factor = dice.pick((3.0, 4.0))
    grown = {n: w * factor for n, w in call.weights.items() if "norm" in n}
    return replace(call, weights=call.weights | grown)


def given_mask(dice: Dice, config: Qwen3Config) -> Call:
    """A mask with holes, of any shape that broadcasts; a query may always look at itself."""
    call: Call = dice.pick((plain, later, in_pieces))(dice, config)
    batch, tokens = call.sizes
    lead = dice.pick(((), (1, 1), (batch, 1), (batch, config.num_attention_heads)))
    return _masked(call, dice.uniform(*lead, tokens, tokens) < dice.pick((0.1, 0.5, 0.9)))


def padded(dice: Dice, config: Qwen3Config) -> Call:
    """The first row is padded on the left."""
    call: Call = dice.pick((plain, in_pieces, by_steps))(dice, config)
    batch, tokens = call.sizes
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1).repeat(batch, 1, 1, 1)
    hidden[0, ..., : dice.integer(1, tokens - 1)] = True
    return _masked(call, hidden)


def narrow(dice: Dice, config: Qwen3Config) -> Call:
    """bfloat16 or float16, mask given or not."""
    call: Call = dice.pick((plain, in_pieces, by_steps, given_mask, padded))(dice, config)
    call = replace(call, x=call.x.to(dice.pick((torch.bfloat16, torch.float16))))
    return call if call.mask is None else _masked(call, call.mask < 0)


def _masked(call: Call, hidden: torch.Tensor) -> Call:
    """The call with a mask of ``hidden [..., T, T]``; nobody is hidden from himself."""
    itself = torch.eye(call.sizes[1], dtype=torch.bool)
    mask = torch.zeros(hidden.shape, dtype=call.x.dtype)
    mask = mask.masked_fill(hidden & ~itself, torch.finfo(call.x.dtype).min)
    return replace(call, mask=mask)


KINDS: tuple[Kind, ...] = (
    plain, in_pieces, narrow, later, by_steps, given_mask, single_token, scaled_projection,
    zeroed_heads, padded, tiny_inputs, large_logits, large_tokens,
)  # fmt: skip
