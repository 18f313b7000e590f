"""Cases of the student's own attention and MLP: what lab 2 promised, and the cache."""

from __future__ import annotations

from dataclasses import asdict, replace

import torch

from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle, oracle_model

from .sizes import (
    about_sizes,
    attention_weights,
    left_padded,
    mlp_weights,
    pieces_of,
    prefixed,
    sizes,
)

LAYER = 1  # its number: another one than 0, so that a number that is lost shows


@recipe()
def own_attention(draw: Draw) -> Draft:
    """Causal attention over several pieces; the mask is given too, for those who want it."""
    config, tokens, batch = sizes(draw)
    weights = attention_weights(draw, config)
    x, pieces = draw.normal(batch, tokens, config.hidden_size), pieces_of(draw, tokens)
    joined = " + ".join(map(str, pieces))
    en, zh = f"in pieces of {joined}: ", f"按 {joined} 分段输入："
    about = about_sizes(config, tokens, batch, en, zh)
    mask = torch.full((1, 1, tokens, tokens), oracle_model.NARROWEST).triu(1)
    tensors = {"x": x, "mask": mask, "y": oracle.attention(config, weights, x)}
    tensors["positions"] = torch.arange(tokens)
    return draft(about, tensors | prefixed(weights), asdict(config), pieces=pieces, layer=LAYER)


@recipe()
def own_attention_rows(draw: Draw) -> Draft:
    """Every row strides on in its own steps, far from 0, under a mask that is causal nowhere.

    Pairs turn by 1, 1/1000, … per token: so far out, float32 rounds other angles too much.
    """
    config, tokens, batch = sizes(draw, rms_norm_eps=0.3)
    config = replace(config, rope_theta=1000.0 ** (config.head_dim / 2))
    weights, x = attention_weights(draw, config), draw.normal(batch, tokens, config.hidden_size)
    rows = 20_000 + torch.arange(tokens) * (1 + torch.arange(batch)[:, None])
    holes = draw.uniform(batch, 1, tokens, tokens, low=0, high=1) < 0.4
    mask = (holes & ~torch.eye(tokens, dtype=torch.bool)).float() * oracle_model.NARROWEST
    en, zh = "positions by row, a given mask: ", "各行的位置不同，给定掩码："
    y = oracle.attention(config, weights, x, mask, rows)
    tensors = {"x": x, "rows": rows, "mask": mask, "y": y, **prefixed(weights)}
    return draft(about_sizes(config, tokens, batch, en, zh), tensors, asdict(config), layer=LAYER)


@recipe()
def own_attention_bfloat16(draw: Draw) -> Draft:
    config, tokens, batch = sizes(draw)
    weights = {name: w.bfloat16() for name, w in attention_weights(draw, config).items()}
    x = draw.normal(batch, tokens, config.hidden_size).bfloat16()
    y = oracle.attention(config, {name: w.float() for name, w in weights.items()}, x.float())
    about = about_sizes(config, tokens, batch, "bfloat16: ", "bfloat16：")
    tensors = {"x": x, "y": y, **prefixed(weights)}
    return draft(about, tensors, asdict(config), layer=LAYER, dtype="bfloat16")


@recipe()
def own_attention_uniform(draw: Draw) -> Draft:
    """Keys of zero, no mask given: every token averages all tokens before it, cached or not."""
    config, tokens, batch = sizes(draw)
    weights = attention_weights(draw, config)
    weights["k_proj.weight"] = torch.zeros_like(weights["k_proj.weight"])
    value = weights["v_proj.weight"][: config.head_dim]
    weights["v_proj.weight"] = value.repeat(config.num_key_value_heads, 1)
    x, pieces = draw.normal(batch, tokens, config.hidden_size), pieces_of(draw, tokens)
    about = about_sizes(config, tokens, batch, "k_proj of zeros: ", "k_proj 全为零：")
    tensors = {"x": x, "y": oracle.attention(config, weights, x)}
    return draft(about, tensors | prefixed(weights), asdict(config), pieces=pieces, layer=LAYER)


@recipe()
def own_attention_padded(draw: Draw) -> Draft:
    """Positions go on by 2, which nobody gets by counting what the cache holds."""
    config, tokens, batch = sizes(draw)
    weights, keep = attention_weights(draw, config), left_padded(draw, batch, tokens)
    x = draw.normal(batch, tokens, config.hidden_size)
    mask, positions = oracle_model.mask_of(keep), 2 * oracle_model.positions_of(keep)
    en, zh = "left-padded rows, given positions 0, 2, 4, …: ", "左侧填充，给定位置 0、2、4……："
    about = about_sizes(config, tokens, batch, en, zh)
    y = oracle.attention(config, weights, x, mask, positions)
    tensors = {"x": x, "y": y, "mask": mask, "positions": positions, "keep": keep.bool()}
    pieces = [tokens - 3, 1, 1, 1]
    return draft(about, tensors | prefixed(weights), asdict(config), pieces=pieces, layer=LAYER)


@recipe()
def own_mlp(draw: Draw) -> Draft:
    config, tokens, batch = sizes(draw)
    weights = mlp_weights(draw, config)
    x = draw.normal(batch, tokens, config.hidden_size)
    about = about_sizes(config, tokens, batch)
    tensors = {"x": x, "y": oracle.mlp(weights, x), **prefixed(weights)}
    return draft(about, tensors, asdict(config))
