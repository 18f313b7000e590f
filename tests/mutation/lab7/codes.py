"""Random weights in eight and in four bits, and layers that compute with them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import nn

from tests.mutation.costs import over
from tests.mutation.dice import Dice
from tests.mutation.lab7.pages import NARROW, tried
from tests.mutation.models import config_of

Buffers = dict[str, torch.Tensor]


def _weight(dice: Dice, out: int, width: int) -> torch.Tensor:
    """Rows of any size and of either sign; some parts are zeros."""
    weight = dice.normal(out, width) + dice.pick((0.0, 0.0, 2.0, -2.0)) * dice.normal(out, 1).abs()
    weight = weight * 10 ** (6 * dice.uniform(out, 1) - 2)
    weight = weight.masked_fill(dice.uniform(out, 1) < dice.pick((0.0, 0.3)), 0.0)
    first = dice.integer(0, width - 1)
    weight[dice.integer(0, out - 1), first:] = 0
    return weight.to(dice.pick(NARROW))


def _channel(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    weight = _weight(dice, dice.integer(1, 6), dice.integer(1, 12))
    kept = weight.clone()
    codes, scales = module.quantize_per_channel(weight)
    return {"codes": codes, "scales": scales, "weight": torch.equal(weight, kept)}


def _groups(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    size = 2 * dice.integer(1, 4)
    weight = _weight(dice, dice.integer(1, 5), size * dice.integer(1, 4))
    kept = weight.clone()
    packed, scales, zeros = module.quantize_groups(weight, size)
    uneven = weight.repeat(1, 2)[:, : size + 2]
    refused = size == 2 or tried(partial(module.quantize_groups, uneven, size), "group_size")
    return {
        "packed": packed, "scales": scales, "zeros": zeros, "weight": torch.equal(weight, kept),
        "uneven": refused,
    }  # fmt: skip


def _packed(dice: Dice, out: int, width: int, group: int) -> Buffers:
    shape = out, width // group
    return {
        "packed": (dice.uniform(out, width // 2) * 256).to(torch.uint8),
        "scales": dice.uniform(*shape) + 0.1,
        "zeros": (dice.uniform(*shape) * 16).to(torch.uint8),
    }


def _coded(dice: Dice, out: int, width: int) -> Buffers:
    codes = (dice.uniform(out, width) * 255 - 127.5).round().to(torch.int8)
    return {"weight": codes, "scales": dice.uniform(out) + 0.1}


def _widened(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    group = 2 * dice.integer(1, 4)
    buffers = _packed(dice, dice.integer(1, 5), group * dice.integer(1, 4), group)
    kept = {name: part.clone() for name, part in buffers.items()}
    wide = module.dequantize_groups(*buffers.values(), group)
    same = all(torch.equal(part, kept[name]) for name, part in buffers.items())
    return {"wide": wide, "widened": same}


def _asked(layer: nn.Module, x: torch.Tensor) -> dict[str, Any]:
    """What a layer gives, and how its buffers come out of it."""
    kept, before = x.clone(), {name: part.clone() for name, part in layer.state_dict().items()}
    found: dict[str, Any] = {"output": layer(x), "input": torch.equal(x, kept)}
    after = layer.state_dict()
    found["names"] = [(name, part.dtype, part.shape) for name, part in after.items()]
    return found | {"buffers": all(torch.equal(part, before[name]) for name, part in after.items())}


def _named(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    return {f"{kind} {name}": value for name, value in found.items()}


def _linear(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Loaded, and made from a weight; in eight bits, and in four."""
    group = 2 * dice.integer(1, 3)
    out, width, rows = dice.integer(1, 9), group * dice.integer(1, 3), dice.integer(1, 11)
    x = dice.normal(*(3, 2)[: dice.integer(0, 2)], width).to(dice.pick(NARROW))
    given = (rows,) if number % 4 else ()
    eight = module.QuantizedLinear(width, out, *given)
    new = {name: part.clone() for name, part in eight.state_dict().items()}
    eight.load_state_dict(_coded(dice, out, width))
    four = module.GroupQuantizedLinear(width, out, group, *given)
    new |= {f"four {name}": part.clone() for name, part in four.state_dict().items()}
    four.load_state_dict(_packed(dice, out, width, group))
    weight = _weight(dice, out, width)
    made = {
        "eight": eight,
        "four": four,
        "made eight": module.QuantizedLinear.from_float(weight, *given),
        "made four": module.GroupQuantizedLinear.from_float(weight, group, *given),
    }
    found = {"new": [(name, part.dtype, part.shape) for name, part in new.items()]}
    for kind, layer in made.items():
        found |= _named(kind, _asked(layer, x))
    return found


def _costs(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """A weight of many rows is made wide few rows at a time, and each of them once."""
    if number % 40:
        return {}
    out, width, rows, group, tokens = 240, 24, 6, 8, 2
    x, weight = dice.normal(tokens, width), dice.normal(out, width)
    loaded = module.QuantizedLinear(width, out, rows)
    loaded.load_state_dict(_coded(dice, out, width))
    packed = module.GroupQuantizedLinear(width, out, group, rows)
    packed.load_state_dict(_packed(dice, out, width, group))
    made = {
        "eight": loaded, "four": packed,
        "made eight": module.QuantizedLinear.from_float(weight, rows),
        "made four": module.GroupQuantizedLinear.from_float(weight, group, rows),
    }  # fmt: skip
    found: dict[str, Any] = {}
    for kind, layer in made.items():
        size = sum(part.nbytes for part in layer.state_dict().values())
        size += 4 * (4 * tokens * (width + out) + 6 * width * rows)
        flops = 8 * 2 * tokens * width * out
        found |= _named(kind, over(layer, (x,), flops=flops, size=size))
    return found


def _mlp(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Loaded, and made from weights; in four bits where a group size is given."""
    group, hidden, inner = dice.pick((None, 2, 4)), 4 * dice.integer(1, 4), 4 * dice.integer(1, 5)
    given = (group, dice.integer(1, 9)) if number % 4 else (group,)
    weights, buffers = {}, {}
    for name in ("gate_proj", "up_proj", "down_proj"):
        out, width = (hidden, inner) if name == "down_proj" else (inner, hidden)
        weights[f"{name}.weight"] = dice.normal(out, width) * width**-0.5 * dice.pick((1.0, 6.0))
        parts = _packed(dice, out, width, group) if group else _coded(dice, out, width)
        parts["scales"] /= 5 if group else 50
        buffers |= {f"{name}.{part}": value for part, value in parts.items()}
    x = dice.normal(*(3, 2)[: dice.integer(0, 2)], hidden) * dice.pick((1.0, 6.0))
    x = x.to(dice.pick(NARROW))
    loaded = module.Qwen3MLP(hidden, inner, *given)
    loaded.load_state_dict(buffers)
    made = module.Qwen3MLP.from_float(weights, *given)
    module.Qwen3MLP.from_float({name: 2 * weight for name, weight in weights.items()}, *given)
    return _named("loaded", _asked(loaded, x)) | _named("made", _asked(made, x))


def _mlp_costs(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Its layers make few rows wide at a time, too."""
    if number % 40:
        return {}
    hidden, inner, rows, group = 32, 64, 2, None if number % 80 else 8
    weights = {
        f"{name}_proj.weight": dice.normal(
            *((hidden, inner) if name == "down" else (inner, hidden))
        )
        for name in ("gate", "up", "down")
    }
    x, found = dice.normal(1, hidden), {}
    made = module.Qwen3MLP.from_float(weights, group, rows)
    loaded = module.Qwen3MLP(hidden, inner, group, rows)
    loaded.load_state_dict(made.state_dict())
    for kind, mlp in (("made", made), ("loaded", loaded)):
        size = sum(part.nbytes for part in mlp.state_dict().values())
        size += 4 * (4 * (hidden + 3 * inner) + 6 * inner * rows)
        found |= _named(kind, over(mlp, (x,), size=size))
    return found


def _bytes(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Any model whose columns groups divide, in any bits."""
    group = 2 * dice.integer(1, 4)
    sizes = {name: group * dice.integer(1, 9) for name in ("hidden_size", "intermediate_size")}
    config = replace(config_of(dice), **sizes, head_dim=2 * group)
    found: dict[str, Any] = {}
    for bits in (16, 8, 4, dice.pick((5, 2, 32, 3))):
        given = (group,) if bits == 4 or dice.integer(0, 1) else ()
        said = tried(partial(module.weight_bytes, config, bits, *given), "bits")
        found[f"{bits} bits"] = said if isinstance(said, tuple) else float(said)
    return found


PARTS = (_channel, _groups, _widened, _linear, _costs, _mlp, _mlp_costs, _bytes)
