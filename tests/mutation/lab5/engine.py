"""Random cases of lab 5's whole model, made of stand-ins, and of its loading."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from labs.given.config import Qwen3Config
from labs.given.parallel import STAND_INS, parameters_of
from tests.mutation.dice import Dice
from tests.mutation.lab5.ranks import on_ranks
from tests.mutation.lab5.sizes import NARROW, flat_tokens, scaling_of
from tests.mutation.models import Weights, config_of, load, weights_of

Answers = dict[str, Any]


def _config(dice: Dice) -> Qwen3Config:
    """A small one; all its numbers count for stand-ins."""
    c = config_of(dice)
    kv_heads, inner = dice.integer(1, 2), dice.integer(1, 6)
    return replace(
        c, vocab_size=dice.integer(1, 12), hidden_size=dice.integer(1, 6), intermediate_size=inner,
        num_hidden_layers=dice.integer(0, 2), num_attention_heads=kv_heads * dice.integer(1, 3),
        num_key_value_heads=kv_heads, head_dim=2 * dice.integer(1, 3),
    )  # fmt: skip


def _tokens(
    dice: Dice, c: Qwen3Config, far: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids, positions and borders; not ``far`` for a rotation in float32."""
    count, cu = flat_tokens(dice)
    ids = torch.tensor([dice.integer(0, c.vocab_size - 1) for _ in range(count)])
    start = dice.integer(0, 400) * far
    return ids, start + torch.arange(count) * dice.integer(1, 3), cu


def whole_model(module: ModuleType, dice: Dice, number: int) -> Answers:
    """``Qwen3Model`` on one rank, with any weights."""
    c, dtype = _config(dice), dice.pick(NARROW)
    scaling = dice.pick((None, scaling_of(dice, c.head_dim, c.rope_theta)))
    given = _tokens(dice, c, scaling is None)
    seed = dice.integer(0, 1000)

    def run(rank: int) -> Answers:
        drawn, model = Dice(seed), module.Qwen3Model(c, STAND_INS, scaling)
        shapes = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
        weights = {name: drawn.normal(*shapes[name]) for name in sorted(shapes)}
        y = load(model, weights, dtype)(*given)
        return {"names": sorted(shapes), "states": y}

    found, calls = on_ranks(1, run)
    return found[0] | {"calls": calls}


def _checkpoint(dice: Dice, c: Qwen3Config) -> Weights:
    """Whole tensors by Hugging Face's names, in any order."""
    weights = {"model.embed_tokens.weight": dice.normal(c.vocab_size, c.hidden_size) * 4}
    for index in range(c.num_hidden_layers):
        layer = f"model.layers.{index}."
        for name in ("input", "post_attention"):
            weights[f"{layer}{name}_layernorm.weight"] = dice.normal(c.hidden_size)
        for part, where in (("attention", "self_attn."), ("mlp", "mlp.")):
            for name, weight in weights_of(dice, c, part).items():
                weights[f"{layer}{where}{name}"] = weight
    weights["model.norm.weight"] = dice.normal(c.hidden_size)
    if not c.tie_word_embeddings or dice.integer(0, 1):  # stored, though it is tied
        weights["lm_head.weight"] = dice.normal(c.vocab_size, c.hidden_size)
    names = list(weights)
    order = torch.argsort(dice.uniform(len(names))).tolist()
    return {names[place]: weights[names[place]] for place in order}


def causal_lm(module: ModuleType, dice: Dice, number: int) -> Answers:
    """A checkpoint is loaded; states and logits on 1 or 2 ranks."""
    c, world = _config(dice), dice.pick((1, 1, 2))
    if number % 16 == 0:  # ids beyond what bfloat16 tells apart
        c, world = replace(c, vocab_size=600), 4
    scaling = dice.pick((None, scaling_of(dice, c.head_dim, c.rope_theta)))
    weights, given = _checkpoint(dice, c), _tokens(dice, c, scaling is None)
    hidden = dice.normal(len(given[0]), c.hidden_size) * 3
    dtype = dice.pick(NARROW)

    def run(rank: int) -> Answers:
        model = module.Qwen3ForCausalLM(c, STAND_INS, scaling)
        model.load_weights(weights)
        held = {f"holds {n}": w.clone() for n, w in parameters_of(model).items()}
        model = model.to(dtype)
        found = {"parameters": sorted(parameters_of(model)), "states": model(*given)}
        return held | found | {"logits": model.compute_logits(hidden.to(dtype), given[2])}

    found, calls = on_ranks(world, run)
    told = {f"{name}, rank {r}": v for r, one in enumerate(found) for name, v in one.items()}
    return told | {"causal LM: collectives": calls}


def refusals(module: ModuleType, dice: Dice, number: int) -> Answers:
    """A checkpoint with a tensor too much, or one too few."""
    c = replace(_config(dice), num_hidden_layers=dice.integer(1, 2))
    weights = _checkpoint(dice, c)
    gone = dice.pick(sorted(weights)) if number % 2 else ""
    unknown = dice.pick(
        ("model.layers.0.mlp.scale_proj.weight", "model.layers.7.self_attn.q_proj.weight", "x.y")
    )
    if gone:
        weights.pop(gone)
    else:
        weights[unknown] = dice.normal(2, 2)

    def run(rank: int) -> str:
        model = module.Qwen3ForCausalLM(c, STAND_INS)
        try:
            model.load_weights(weights)
        except KeyError as error:
            return f"KeyError {unknown in str(error)}"
        except ValueError as error:
            names = [name for name in sorted(parameters_of(model)) if name in str(error)]
            return f"ValueError {names}"
        return "nothing"

    return {"refused": on_ranks(1, run)[0][0]}


__all__ = ["causal_lm", "refusals", "whole_model"]
