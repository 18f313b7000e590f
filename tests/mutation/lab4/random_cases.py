"""Random cases of lab 4, from all over what its contract allows.

Small models of all sizes, of stand-ins where the student's parts do not matter; padding, given
positions and caches turn in a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch import nn

from labs.given.cache import KVCache
from labs.given.config import Qwen3Config
from labs.given.standin import StandInAttention, StandInMLP, parameter_count
from tests.mutation.dice import Dice
from tests.mutation.lab4.texts import chosen, continued
from tests.mutation.lab4.weights import loaded
from tests.mutation.models import Weights, load, weights_of

PARTS_GIVEN = StandInAttention, StandInMLP
DTYPES = (torch.float32, torch.float32, torch.bfloat16)
Given = Mapping[str, Any]


def _config(dice: Dice) -> Qwen3Config:
    kv_heads = dice.integer(1, 2)
    return Qwen3Config(
        vocab_size=dice.pick((dice.integer(5, 30), dice.integer(5, 30), 500)),
        hidden_size=dice.integer(3, 16),
        intermediate_size=dice.integer(3, 20),
        num_hidden_layers=dice.integer(1, 3),
        num_attention_heads=kv_heads * dice.integer(1, 3),
        num_key_value_heads=kv_heads,
        head_dim=2 * dice.integer(1, 5),
        rms_norm_eps=dice.pick((1e-6, 1e-4, 0.3)),
        rope_theta=dice.pick((1e4, 1e6, 123.0)),
        tie_word_embeddings=dice.integer(0, 1) == 1,
    )


def _pieces(dice: Dice, tokens: int) -> list[int]:
    """Ends of pieces of any lengths."""
    ends = [0]
    while ends[-1] < tokens:
        ends.append(dice.integer(ends[-1] + 1, tokens))
    return ends[1:]


def _padding(dice: Dice, batch: int, tokens: int) -> torch.Tensor:
    """``[B, T]`` of 1 and 0: padded on the left, on the right, or not at all."""
    places, count = torch.arange(tokens), [dice.integer(0, tokens - 1) for _ in range(batch)]
    keep = places >= torch.tensor(count)[:, None]
    keep = dice.pick((keep, keep, keep.flip(-1), torch.ones_like(keep)))
    return keep.long()


def _mask(dice: Dice, batch: int, tokens: int, dtype: torch.dtype) -> torch.Tensor:
    """Additive ``[B, 1, T, T]`` with holes; a query may always look at itself."""
    hidden = (dice.uniform(batch, 1, tokens, tokens) < 0.4) & ~torch.eye(tokens, dtype=torch.bool)
    return torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, torch.finfo(dtype).min)


def _asked(module: nn.Module, x: torch.Tensor, ends: list[int], given: Given) -> torch.Tensor:
    """The answers to pieces that end here, with one cache; all at once where there are none."""
    if not ends:
        out: torch.Tensor = module(x, **given)
        return out
    found, first, past = [], 0, given.get("past", KVCache())
    for end in ends:
        part: dict[str, Any] = {"past": past}
        mask = given.get("attention_mask")
        if mask is not None:  # [B, K], or [B, 1, T, K]
            part["attention_mask"] = (
                mask[..., :end] if mask.ndim == 2 else mask[..., first:end, :end]
            )
        if "position_ids" in given:
            part["position_ids"] = given["position_ids"][..., first:end]
        found.append(module(x[:, first:end], **part))
        first = end
    return torch.cat(found, dim=1)


def _same(module: nn.Module, x: torch.Tensor, ends: list[int], given: Given) -> dict[str, Any]:
    """What it answers, whether its inputs stay as they are, and what it holds."""
    tensors = [t for t in (x, *given.values()) if isinstance(t, torch.Tensor)]
    kept = [t.clone() for t in tensors]
    answer = _asked(module, x, ends, given)
    return {
        "answer": answer,
        "inputs": all(torch.equal(a, b) for a, b in zip(tensors, kept, strict=True)),
        "weights": {name: tuple(w.shape) for name, w in module.state_dict().items()},
    }


def _attention(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    config, dtype, index = _config(dice), dice.pick(DTYPES), dice.integer(0, 2)
    batch, tokens = dice.integer(1, 3), dice.integer(1, 8)
    weights = weights_of(dice, config, "attention")
    attention = load(module.Qwen3Attention(config, index), weights, dtype)
    x = dice.normal(batch, tokens, config.hidden_size) * dice.pick((1.0, 5.0, 1e-2))
    x, given = x.to(dtype), dict[str, Any]()
    if number % 3 == 1:
        given["attention_mask"] = _mask(dice, batch, tokens, dtype)
    if number % 4 > 1:
        shape = (tokens,) if number % 4 == 2 else (batch, tokens)
        far = 290 * (dtype != torch.float32)  # there float32 angles are rounded themselves
        given["position_ids"] = dice.positions(*shape) % 12 + far
    ends = _pieces(dice, tokens) if number % 2 else []
    if ends:  # beside what another layer has cached
        given["past"] = cache = KVCache()
        other = dice.normal(batch, config.num_key_value_heads, dice.integer(1, 9), config.head_dim)
        cache.update(index + 1 if index < 2 else 0, other, other)
    found = _same(attention, x, ends, given)
    if ends:
        found["cached"] = {n: tuple(k.shape) for n, (k, _) in cache.layers.items()}
    return found


def _mlp(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    config, dtype = _config(dice), dice.pick(DTYPES)
    x = dice.normal(*(4, 3, 2)[: dice.integer(0, 3)], config.hidden_size)
    mlp = load(module.Qwen3MLP(config), weights_of(dice, config, "mlp"), dtype)
    return _same(mlp, (x * dice.pick((1.0, 1e-3, 30.0))).to(dtype), [], {})


def _layer_weights(dice: Dice, config: Qwen3Config) -> Weights:
    found = {f"{name}_layernorm.weight": 0.4 + 1.8 * dice.uniform(config.hidden_size)
             for name in ("input", "post_attention")}  # fmt: skip
    for place, part in (("self_attn", "attention"), ("mlp", "mlp")):
        loud = dice.pick((1.0, 1.0, 8.0))
        for name, weight in weights_of(dice, config, part).items():
            found[f"{place}.{name}"] = weight * (loud if name[:2] in ("o_", "do") else 1.0)
    return found


def _layer(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    config, dtype = _config(dice), dice.pick(DTYPES)
    batch, tokens = dice.integer(1, 3), dice.integer(1, 6)
    layer = module.Qwen3DecoderLayer(config, dice.integer(0, 3), *PARTS_GIVEN)
    layer = load(layer, _layer_weights(dice, config), dtype)
    x = (dice.normal(batch, tokens, config.hidden_size) * dice.pick((1.0, 6.0, 1e-2))).to(dtype)
    given: dict[str, Any] = {}
    if number % 3:
        given["position_ids"] = dice.positions(batch, tokens) % 50
    if number % 2:
        given["attention_mask"] = _mask(dice, batch, tokens, dtype)
    return _same(layer, x, _pieces(dice, tokens) if number % 5 > 2 else [], given)


def _masks(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    batch, keys = dice.integer(1, 4), dice.integer(1, 8)
    keep, queries = _padding(dice, batch, keys), dice.integer(1, keys)
    dtype, kept = dice.pick(DTYPES), keep.clone()
    mask = module.build_attention_mask(keep, queries, dtype)
    places = module.build_position_ids(keep, queries)
    return {
        "mask": mask / torch.finfo(dtype).min, "dtype": mask.dtype,
        "positions": places * keep[:, -queries:],  # those of padding are free
        "negative": bool((places < 0).any()), "keep": torch.equal(keep, kept),
    }  # fmt: skip


def _body(dice: Dice, config: Qwen3Config) -> Weights:
    found = {"embed_tokens.weight": dice.normal(config.vocab_size, config.hidden_size)}
    for number in range(config.num_hidden_layers):
        layer = _layer_weights(dice, config)
        found |= {f"layers.{number}.{name}": weight for name, weight in layer.items()}
    return found | {"norm.weight": 0.4 + 1.8 * dice.uniform(config.hidden_size)}


def _run(model: nn.Module, dice: Dice, number: int, config: Qwen3Config) -> dict[str, Any]:
    """A model on tokens: padded or not, at given positions or not, at once or in pieces."""
    batch, tokens = dice.integer(1, 3), dice.integer(1, 6)
    ids = (dice.uniform(batch, tokens) * config.vocab_size).long()
    given: dict[str, Any] = {}
    if number % 2:
        given["attention_mask"] = _padding(dice, batch, tokens)
    if number % 3 == 2:
        given["position_ids"] = dice.positions(*dice.pick(((tokens,), (batch, tokens)))) % 50
    return _same(model, ids, _pieces(dice, tokens) if number % 5 > 2 else [], given)


def _model(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    config = replace(_config(dice), num_hidden_layers=dice.integer(0, 3))
    model = module.Qwen3Model(config, *PARTS_GIVEN)
    return _run(load(model, _body(dice, config), dice.pick(DTYPES)), dice, number, config)


def _causal_lm(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    config = replace(_config(dice), num_hidden_layers=1)
    model = module.Qwen3ForCausalLM(config, *PARTS_GIVEN)
    weights = {f"model.{name}": weight for name, weight in _body(dice, config).items()}
    head = weights["model.embed_tokens.weight"]
    if not config.tie_word_embeddings:
        head = dice.normal(config.vocab_size, config.hidden_size)
    model = load(model, weights | {"lm_head.weight": head}, dice.pick(DTYPES))
    return _run(model, dice, number, config) | {"parameters": parameter_count(model)}


PARTS: Mapping[str, tuple[Callable[[ModuleType, Dice, int], Mapping[str, Any]], ...]] = {
    "attention": (_attention,),
    "mlp": (_mlp,),
    "model": (_layer, _masks, _model, _causal_lm, loaded, chosen, continued),
}
