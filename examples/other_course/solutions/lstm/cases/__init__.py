"""Cases: inputs drawn from a seed, and what torch says to them in float64."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe

SIZES = ((2, 3, 5), (3, 4, 7), (4, 6, 5))  # batch, inputs and size of the state


@recipe(hidden=2)
def pairs(draw: Draw) -> Draft:
    """Targets 0 … N-1, so that an order can be seen."""
    count = draw.pick((11, 13, 17))
    x, y = draw.normal(count, 3), torch.arange(count)
    return draft(Text(f"{count} pairs"), {"x": x, "y": y}, seed=draw.integer(5, 99))


def _loss(draw: Draw, padding: int) -> Draft:
    batch, tokens, classes = draw.pick(SIZES)
    logits = draw.normal(batch, tokens, classes, scale=3.0)
    targets = draw.permutation(batch * tokens).view(batch, tokens) % classes
    targets[0, tokens - padding :] = -1
    every = torch.nn.functional.cross_entropy(
        logits.double().flatten(0, 1), targets.flatten(), ignore_index=-1
    )
    tensors = {"logits": logits, "targets": targets, "y": every}
    return draft(Text(f"logits {list(logits.shape)}, {padding} tokens of padding"), tensors)


@recipe(hidden=2)
def tokens(draw: Draw) -> Draft:
    return _loss(draw, 0)


@recipe(hidden=2)
def padded(draw: Draw) -> Draft:
    return _loss(draw, 2)


def _step(draw: Draw, forget: float, about: str) -> Draft:
    batch, inputs, size = draw.pick(SIZES)
    weight = draw.normal(4 * size, inputs + size, scale=0.7)
    bias = draw.normal(4 * size)
    bias[size : 2 * size] += forget
    x, h, c = draw.normal(batch, inputs), draw.normal(batch, size), draw.normal(batch, size)
    truth = torch.nn.LSTMCell(inputs, size).double()
    for name, value in (("weight_ih", weight[:, :inputs]), ("weight_hh", weight[:, inputs:])):
        getattr(truth, name).data = value.double()
    truth.bias_ih.data, truth.bias_hh.data = bias.double(), torch.zeros(4 * size).double()
    with torch.no_grad():
        next_h, next_c = truth(x.double(), (h.double(), c.double()))
    tensors = {"x": x, "h": h, "c": c, "next_h": next_h, "next_c": next_c}
    tensors |= {"w.gates.weight": weight, "w.gates.bias": bias}
    return draft(Text(f"{about}: x {list(x.shape)}"), tensors, inputs=inputs, size=size)


@recipe(hidden=2)
def cell(draw: Draw) -> Draft:
    return _step(draw, 0.0, "any gates")


@recipe()
def open(draw: Draw) -> Draft:
    return _step(draw, 12.0, "the forget gate is open")


@recipe()
def shut(draw: Draw) -> Draft:
    return _step(draw, -12.0, "the forget gate is shut")
