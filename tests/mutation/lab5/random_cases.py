"""Random cases of lab 5, from all over what its contract allows, on 1, 2 and 4 ranks.

Whatever the ranks tell each other, and how often, is an answer, too. The order in which a rotation
returns its numbers is free, and so is which of a layer's two tensors holds what: products and sums
are asked for. Positions of float32 tokens are small, since a float32 angle is as coarse as it is
large; narrow tokens go far.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import nn

from labs.given import flat
from tests.mutation.dice import Dice
from tests.mutation.lab5.engine import causal_lm, refusals, whole_model
from tests.mutation.lab5.ranks import on_rank, on_ranks
from tests.mutation.lab5.sizes import (
    NARROW,
    at_positions,
    attention_of,
    cut,
    flat_tokens,
    scaling_of,
    scores_of,
    world_of,
)
from tests.mutation.models import load

Answers = dict[str, Any]


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in module.state_dict().items()}


def _same(given: list[torch.Tensor], kept: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(given, kept, strict=True))


# ---- attention.py


def _qkv(module: ModuleType, dice: Dice, number: int) -> Answers:
    world = world_of(dice)
    sizes = attention_of(dice, world)
    hidden, heads, kv_heads, size = sizes
    rows = {"q": heads * size, "k": kv_heads * size, "v": kv_heads * size}
    whole = {name: dice.normal(count, hidden) * 4 for name, count in rows.items()}
    x = dice.normal(dice.integer(1, 5), hidden) * 3
    order = dice.pick(("qkv", "vqk", "kvq"))

    def run() -> Answers:
        linear = module.QKVParallelLinear(hidden, size, heads, kv_heads)
        for name in order:
            linear.weight.weight_loader(linear.weight, whole[name], name)
        return {
            "packed shapes": _shapes(linear), "packed": linear.weight, "projected": linear(x),
            "packed heads": (linear.num_heads, linear.num_kv_heads),
        }  # fmt: skip

    return dict(on_rank(dice.integer(0, world - 1), world, run))


def _row(module: ModuleType, dice: Dice, number: int) -> Answers:
    world, dtype = world_of(dice), dice.pick(NARROW)
    inner, outer = world * dice.integer(1, 5), dice.integer(1, 9)
    weight = dice.normal(outer, inner) * 4
    x = (dice.normal(dice.integer(1, 5), inner) * 3).to(dtype)

    def run(rank: int) -> Answers:
        linear = module.RowParallelLinear(inner, outer)
        linear.weight.weight_loader(linear.weight, weight)
        held = linear.weight.clone()
        linear = linear.to(dtype)
        own = cut(x, rank, world)
        kept = [own.clone(), linear.weight.clone()]
        y = linear(own)
        return {"shapes": _shapes(linear), "held": held, "y": y} | {
            "same": _same([own, linear.weight], kept)
        }

    return _by_rank("row", *on_ranks(world, run))


def _by_rank(name: str, found: list[Answers], calls: int) -> Answers:
    told = {
        f"{name}: {key} of rank {rank}": value
        for rank, one in enumerate(found)
        for key, value in one.items()
    }
    return told | {f"{name}: collectives": calls}


def _spread(dice: Dice, *shape: int) -> torch.Tensor:
    """Large or small numbers; one of them may be all that counts."""
    x = dice.normal(*shape) * dice.pick((1.0, 1e-2, 100.0))
    x[..., 0] *= dice.pick((1.0, 1.0, 30.0))
    return x


def _head_norm(module: ModuleType, dice: Dice, number: int) -> Answers:
    size, dtype, eps = dice.integer(1, 40), dice.pick(NARROW), dice.pick((1e-6, 1e-5, 3e-4))
    x = _spread(dice, dice.integer(1, 5), dice.integer(1, 4), size).to(dtype)
    norm = load(module.HeadNorm(size, eps), {"weight": 0.4 + 1.8 * dice.uniform(size)}, dtype)
    kept = x.clone()
    return {"head norm": norm(x), "head norm input": torch.equal(x, kept)}


def _rotate(module: ModuleType, dice: Dice, number: int) -> Answers:
    dtype, theta = dice.pick(NARROW), dice.pick((1e4, 1e6, 50.0, 123.0))
    tokens, size = dice.integer(1, 6), 2 * dice.integer(1, 8)
    positions = at_positions(dice, tokens, dtype)
    given = [(dice.normal(tokens, dice.integer(1, 4), size) * 3).to(dtype) for _ in "qk"]
    kept = [t.clone() for t in (*given, positions)]
    q, k = (module.rotate(t, positions, theta) for t in given)
    return {
        "rotated": (q.dtype, k.dtype, q.shape, k.shape),
        "products": scores_of(q, k),
        "rotation's inputs": _same([*given, positions], kept),
    }


def _flat(module: ModuleType, dice: Dice, number: int) -> Answers:
    dtype, scale = dice.pick(NARROW), dice.pick((1.0, 3.0, 9.0))
    tokens, cu = flat_tokens(dice)
    kv_heads, size = dice.integer(1, 3), dice.integer(1, 8)
    heads = kv_heads * dice.integer(1, 3)
    q, k = (dice.normal(tokens, count, size) * scale for count in (heads, kv_heads))
    given = [t.to(dtype) for t in (q, k, dice.normal(tokens, kv_heads, size) * 3)]
    kept = [t.clone() for t in (*given, cu)]
    found = module.flat_attention(*given, cu)
    return {"flat attention": found, "flat inputs": _same([*given, cu], kept)}


def _attention(module: ModuleType, dice: Dice, number: int) -> Answers:
    world, dtype = world_of(dice), dice.pick(NARROW)
    sizes = attention_of(dice, world)
    hidden, heads, kv_heads, size = sizes[0], sizes[1], sizes[2], 2 * sizes[3]
    eps, theta = dice.pick((1e-6, 3e-4)), dice.pick((1e4, 1e6, 50.0))
    fan_in, query, kv = hidden**-0.5, heads * size, kv_heads * size
    rows = {"q": query, "k": kv, "v": kv}
    whole = {name: dice.normal(count, hidden) * fan_in for name, count in rows.items()}
    out = dice.normal(hidden, query) * query**-0.5
    norms = [0.4 + 1.8 * dice.uniform(size) for _ in "qk"]
    tokens, cu = flat_tokens(dice)
    positions = at_positions(dice, tokens, dtype)
    x = (dice.normal(tokens, hidden) * dice.pick((3.0, 1e-2))).to(dtype)
    rotary: Any = None
    if number % 3 == 2:

        def rotary(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            return x + 0.3 * positions[:, None, None].to(x.dtype).sin()

    def run(rank: int) -> Answers:
        attention = module.Qwen3Attention(hidden, heads, kv_heads, size, eps, theta, rotary)
        for name, weight in whole.items():
            packed = attention.qkv_proj.weight
            packed.weight_loader(packed, weight, name)
        attention.o_proj.weight.weight_loader(attention.o_proj.weight, out)
        for norm, weight in zip((attention.q_norm, attention.k_norm), norms, strict=True):
            norm.weight.data.copy_(weight)
        attention = attention.to(dtype)
        given = [positions, x, cu]
        kept = [t.clone() for t in given]
        found = {"shapes": _shapes(attention), "y": attention(*given)}
        return found | {"same": _same(given, kept)}

    return _by_rank("attention", *on_ranks(world, run))


# ---- mlp.py


def _merged(module: ModuleType, dice: Dice, number: int) -> Answers:
    world = world_of(dice)
    hidden, inner = dice.integer(1, 9), world * dice.integer(1, 5)
    parts = [dice.normal(inner, hidden) * 4 for _ in range(2)]
    x = dice.normal(dice.integer(1, 5), hidden) * 3
    order = dice.pick(((0, 1), (1, 0)))

    def run() -> Answers:
        linear = module.MergedColumnParallelLinear(hidden, inner)
        for part in order:
            linear.weight.weight_loader(linear.weight, parts[part], part)
        return {"merged shapes": _shapes(linear), "merged": linear.weight, "gate, up": linear(x)}

    return dict(on_rank(dice.integer(0, world - 1), world, run))


def _silu(module: ModuleType, dice: Dice, number: int) -> Answers:
    tokens, inner, dtype = dice.integer(1, 5), dice.integer(1, 9), dice.pick(NARROW)
    x = (dice.normal(tokens, 2 * inner) * dice.pick((1.0, 8.0))).to(dtype)
    kept = x.clone()
    return {"activation": module.SiluAndMul()(x), "activation's input": torch.equal(x, kept)}


def _mlp(module: ModuleType, dice: Dice, number: int) -> Answers:
    world = world_of(dice)
    hidden, inner = dice.integer(1, 9), world * dice.integer(1, 5)
    weights = [dice.normal(inner, hidden) for _ in range(2)]
    down, x = dice.normal(hidden, inner // world), dice.normal(dice.integer(1, 5), hidden) * 3

    def run() -> Answers:
        mlp = module.Qwen3MLP(hidden, inner, flat.StandInDown(hidden, inner))
        packed = mlp.gate_up_proj.weight
        for part, weight in enumerate(weights):
            packed.weight_loader(packed, weight, part)
        mlp.down_proj.weight.data.copy_(down)
        return {"MLP's shapes": _shapes(mlp), "MLP": mlp(x)}

    return dict(on_rank(dice.integer(0, world - 1), world, run))


def _norm(module: ModuleType, dice: Dice, number: int) -> Answers:
    size, dtype, eps = dice.integer(1, 40), dice.pick(NARROW), dice.pick((1e-6, 1e-5, 3e-4))
    given = [_spread(dice, 3, size).to(dtype) for _ in range(2)]
    norm = load(module.RMSNorm(size, eps), {"weight": 0.4 + 1.8 * dice.uniform(size)}, dtype)
    kept = [t.clone() for t in given]
    first, both = norm(given[0]), norm(*given)
    return {
        "normed": both[0], "sum": both[1], "normed alone": first[0], "handed on": first[1],
        "norm's inputs": _same(given, kept), "norm's results": (len(first), len(both)),
    }  # fmt: skip


def _layers(module: ModuleType, dice: Dice, number: int) -> Answers:
    """Two layers, one behind the other."""
    hidden, dtype, eps = dice.integer(4, 12), dice.pick(NARROW), dice.pick((1e-6, 1e-5))
    tokens, cu = flat_tokens(dice)
    positions = dice.positions(tokens)
    x, residual, shapes = dice.normal(tokens, hidden).to(dtype), None, []
    for _ in range(2):
        parts = flat.StandInAttention(hidden), flat.StandInMLP(hidden)
        layer = module.Qwen3DecoderLayer(hidden, eps, *parts)
        square = {f"{name}.weight": dice.normal(hidden, hidden) for name in ("self_attn", "mlp")}
        norms = {
            f"{name}_layernorm.weight": 0.4 + 1.8 * dice.uniform(hidden)
            for name in ("input", "post_attention")
        }
        layer = load(layer, square | norms, dtype)
        x, residual = layer(positions, x, residual, cu)
        shapes += [_shapes(layer), (x.dtype, residual.dtype)]
    return {"layers": x + residual, "layers' shapes": shapes}


# Hugging Face's name, and what holds it; what is copied has no entry of its own.
_HELD = {
    "self_attn.q_proj": "self_attn.qkv_proj", "self_attn.k_proj": "self_attn.qkv_proj",
    "self_attn.v_proj": "self_attn.qkv_proj", "mlp.gate_proj": "mlp.gate_up_proj",
    "mlp.up_proj": "mlp.gate_up_proj", "self_attn.o_proj": "self_attn.o_proj",
    "self_attn.q_norm": "", "input_layernorm": "", "up_projector": "",
}  # fmt: skip


def _load(module: ModuleType, dice: Dice, number: int) -> Answers:
    prefixes = dice.pick((("",), ("layers.3.",), ("layers.0.", "layers.1.")))
    shapes, packed, tensors = {}, [], {}
    for prefix in prefixes:
        for name, own in _HELD.items():
            if dice.integer(0, 2):
                shape = [dice.integer(1, 4), 2]
                shapes[f"{prefix}{own or name}.weight"] = shape
                packed += [f"{prefix}{own}.weight"] if own else []
                tensors[f"{prefix}{name}.weight"] = dice.normal(*shape) * 4
    model = flat.StandInModel(shapes, packed)
    for name in list(tensors):  # what is copied has to fit
        if name in shapes and name not in packed:
            tensors[name] = dice.normal(*shapes[name]) * 4
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    module.load_weights(model, tensors)
    same = list(tensors) == list(kept) and _same([*tensors.values()], [*kept.values()])
    for tensor in tensors.values():
        tensor.zero_()
    found: Answers = {f"loaded {name}": value for name, value in model().items()}
    unknown = dice.pick(("layers.9.mlp.scale_proj", "layers.9.self_attn.q_proj", "other"))
    raised = "nothing"
    try:
        module.load_weights(model, {f"{unknown}.weight": dice.normal(2, 2)})
    except KeyError as error:
        raised = f"KeyError {unknown in str(error)}"
    return found | {"loaded": sorted(found), "checkpoint": same, "unknown tensor": raised}


# ---- model.py


def _embedding(module: ModuleType, dice: Dice, number: int) -> Answers:
    world, dtype = world_of(dice), dice.pick(NARROW)
    count, width = dice.integer(1, 14), dice.integer(1, 5)
    if world == 4 and dice.integer(0, 1):
        count = 600  # beyond what bfloat16 tells apart; what a rank holds is not
    whole = dice.normal(count, width) * 4
    ids = torch.tensor([dice.integer(0, count - 1) for _ in range(dice.integer(1, 9))])

    def run(rank: int) -> Answers:
        embedding = module.VocabParallelEmbedding(count, width)
        embedding.weight.weight_loader(embedding.weight, whole)
        held, kept = embedding.weight.clone(), ids.clone()
        found = {"held": held, "y": embedding.to(dtype)(ids), "shapes": _shapes(embedding)}
        same = _same([ids, embedding.weight], [kept, held.to(dtype)])
        return found | {"same": same}

    return _by_rank("embedding", *on_ranks(world, run))


def _lm_head(module: ModuleType, dice: Dice, number: int) -> Answers:
    world, dtype = world_of(dice), dice.pick(NARROW)
    count, width = dice.integer(1, 14), dice.integer(1, 5)
    whole = dice.normal(count, width) * 4
    tokens, cu = flat_tokens(dice)
    x = (dice.normal(tokens, width) * 2).to(dtype)

    def run(rank: int) -> Answers:
        head = module.ParallelLMHead(count, width)
        head.weight.weight_loader(head.weight, whole)
        kept, given = [x.clone(), cu.clone()], [x, cu]
        found = {"y": head.to(dtype)(x, cu), "shapes": _shapes(head)}
        return found | {"same": _same(given, kept)}

    return _by_rank("head", *on_ranks(world, run))


def _yarn(module: ModuleType, dice: Dice, number: int) -> Answers:
    size, theta = 2 * dice.integer(1, 24), dice.pick((1e6, 5e5, 1e3, 20.0))
    scaling = scaling_of(dice, size, theta)
    kept = dict(scaling)
    found = module.yarn_frequencies(size, theta, scaling)
    plain = theta ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
    shares = (found / plain).float()  # the slow ones are a millionth of the first
    return {"frequencies": shares, "kind": (found.dtype, found.shape), "scaling": scaling == kept}


def _rotary(module: ModuleType, dice: Dice, number: int) -> Answers:
    dtype, theta = dice.pick(NARROW), dice.pick((1e6, 5e5, 123.0))
    tokens, size = dice.integer(1, 6), 2 * dice.integer(1, 8)
    scaling = scaling_of(dice, size, theta) if number % 4 else None
    positions = at_positions(dice, tokens, dtype)
    given = [(dice.normal(tokens, dice.integer(1, 4), size) * 3).to(dtype) for _ in "qk"]
    kept = [t.clone() for t in (*given, positions)]
    rotary = module.RotaryEmbedding(size, theta, scaling)
    q, k = (rotary(t, positions) for t in given)
    found = {
        "turned": (q.dtype, k.dtype, q.shape, k.shape), "scores": scores_of(q, k),
        "lengths": q.float().norm(dim=-1).to(dtype), "rotary's state": _shapes(rotary),
        "rotary's inputs": _same([*given, positions], kept),
    }  # fmt: skip
    if scaling is not None:
        found["turned heads"] = q
        name = "rope_type" if "rope_type" in scaling else "type"
        kind = dice.pick(("linear", "longrope"))
        try:
            module.RotaryEmbedding(size, theta, scaling | {name: kind})
        except ValueError as error:
            found["another type"] = f"ValueError {kind in str(error)}"
        else:
            found["another type"] = "nothing"
    return found


PARTS = {
    "attention": (_qkv, _row, _head_norm, _rotate, _flat, _attention),
    "mlp": (_merged, _silu, _mlp, _norm, _layers, _load),
    "model": (_embedding, _lm_head, _yarn, _rotary, whole_model, causal_lm, refusals),
}
