"""Cases of the decoder layer: built from stand-ins, and whole."""

from __future__ import annotations

from dataclasses import asdict

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle, oracle_parallel

from .sizes import RANK_SIZES, Weights, about_sizes, config_of, flat, layer_weights, prefixed


def _layers_drafted(draw: Draw, dtype: torch.dtype, en: str, zh: str) -> Draft:
    hidden, lengths = draw.pick(((14, (3, 5, 1)), (10, (4, 2)), (22, (1, 6, 2))))
    config = config_of(hidden, 4, 2, 6, num_hidden_layers=2, rms_norm_eps=3e-4)
    tokens = flat(lengths, tuple(3 * n for n in range(len(lengths))))
    weights: Weights = {"norm.weight": draw.uniform(hidden, low=0.4, high=2.2)}
    for index in range(2):
        weights |= {
            f"layers.{index}.self_attn.weight": draw.normal(hidden, hidden, scale=1e-2),
            f"layers.{index}.mlp.weight": draw.normal(hidden, hidden, scale=hidden**-0.5),
        }
        for name in ("input", "post_attention"):
            weight = draw.uniform(hidden, low=0.4, high=2.2)
            weights[f"layers.{index}.{name}_layernorm.weight"] = weight
    weights = {name: weight.to(dtype) for name, weight in weights.items()}
    x = draw.normal(sum(lengths), hidden, scale=0.03).to(dtype)  # so small that eps counts
    stream = oracle_parallel.layers(
        config, weights, x, tokens["positions"], tokens["cu"], real=False
    )
    normed = oracle.rms_norm(stream[-1], weights["norm.weight"], config.rms_norm_eps)
    tensors = {"x": x, "first": stream[1], "last": stream[2], "y": normed, **tokens, **weights}
    name = str(dtype).removeprefix("torch.")
    about = Text(f"{en}hidden {hidden}, stand-ins", f"{zh}hidden {hidden}，使用替身")
    return draft(about, tensors, asdict(config), dtype=name)


@recipe()
def layers(draw: Draw) -> Draft:
    """Two layers of stand-ins and a last norm."""
    return _layers_drafted(draw, torch.float32, "", "")


@recipe()
def layers_bfloat16(draw: Draw) -> Draft:
    return _layers_drafted(draw, torch.bfloat16, "bfloat16: ", "bfloat16：")


@recipe()
def whole(draw: Draw) -> Draft:
    """Two layers of the student's own parts and a last norm, weights as Hugging Face has them."""
    hidden, heads, kv_heads, head_dim, lengths = draw.pick(RANK_SIZES)
    config = config_of(hidden, heads, kv_heads, head_dim, num_hidden_layers=2, intermediate_size=20)
    tokens = flat(lengths)
    weights: Weights = {"norm.weight": draw.uniform(hidden, low=0.4, high=2.2)}
    tensors: Weights = {}
    for index in range(2):
        own = layer_weights(draw, config)
        weights |= prefixed(own, f"layers.{index}.")
        tensors |= prefixed(own, f"hf{index}.")
        for rank in range(4):
            shard = oracle_parallel.layer_shard(config, own, rank, 4)
            tensors |= prefixed(shard, f"shard{index}.{rank}.")
    x = draw.normal(sum(lengths), hidden)
    stream = oracle_parallel.layers(config, weights, x, tokens["positions"], tokens["cu"])
    normed = oracle.rms_norm(stream[-1], weights["norm.weight"], config.rms_norm_eps)
    tensors |= {"x": x, "y": normed, "norm.weight": weights["norm.weight"], **tokens}
    return draft(about_sizes(config, lengths, "two layers: ", "两层："), tensors, asdict(config))
