"""Cases of one decoder layer, built from stand-ins."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.config import Qwen3Config
from solutions.reference import oracle_model

from .sizes import Weights, about_sizes, layer_weights, left_padded, pieces_of, prefixed, sizes

LAYER = 2  # its number: another one than 0, so that a number that is lost shows


def _drafted(
    config: Qwen3Config,
    weights: Weights,
    x: torch.Tensor,
    en: str = "",
    zh: str = "",
    *,
    mask: torch.Tensor | None = None,
    positions: torch.Tensor | None = None,
    **values: Any,
) -> Draft:
    batch, tokens, _ = x.shape
    places = torch.arange(tokens) if positions is None else positions
    parts = oracle_model.STAND_IN
    y = oracle_model.layer(config, weights, x, mask, places, LAYER, parts)
    tensors = {"x": x, "y": y, "positions": places, **prefixed(weights)}
    if mask is not None:
        tensors["mask"] = mask
    about = about_sizes(config, tokens, batch, en, zh)
    return draft(about, tensors, asdict(config), layer=LAYER, **values)


def _one(draw: Draw) -> tuple[Qwen3Config, Weights, torch.Tensor]:
    config, tokens, batch = sizes(draw)
    return config, layer_weights(draw, config), draw.normal(batch, tokens, config.hidden_size)


@recipe()
def layer_core(draw: Draw) -> Draft:
    config, weights, x = _one(draw)
    return _drafted(config, weights, x, pieces=pieces_of(draw, x.shape[1]))


@recipe()
def layer_silent(draw: Draw) -> Draft:
    """o_proj and down_proj of zeros: only what is added to remains."""
    config, weights, x = _one(draw)
    for name in ("self_attn.o_proj.weight", "mlp.down_proj.weight"):
        weights[name] = torch.zeros_like(weights[name])
    return _drafted(config, weights, x, "both parts silent: ", "两个部分输出均为零：")


@recipe()
def layer_attention(draw: Draw) -> Draft:
    """down_proj of zeros: attention's branch alone, several times as large as the input."""
    config, weights, x = _one(draw)
    weights["self_attn.o_proj.weight"] *= 6
    weights["mlp.down_proj.weight"] = torch.zeros_like(weights["mlp.down_proj.weight"])
    return _drafted(config, weights, x, "a silent MLP: ", "MLP 输出为零：")


@recipe()
def layer_mlp(draw: Draw) -> Draft:
    """o_proj of zeros: the MLP's branch alone."""
    config, weights, x = _one(draw)
    weights["self_attn.o_proj.weight"] = torch.zeros_like(weights["self_attn.o_proj.weight"])
    return _drafted(config, weights, x, "a silent attention: ", "注意力输出为零：")


@recipe()
def layer_eps(draw: Draw) -> Draft:
    """Inputs of 1e-2 and an eps of 3e-4: eps decides the size of what is normed."""
    config, tokens, batch = sizes(draw, rms_norm_eps=3e-4)
    weights = layer_weights(draw, config)
    x = draw.normal(batch, tokens, config.hidden_size, scale=1e-2)
    return _drafted(config, weights, x, "tiny inputs, eps 3e-4: ", "输入很小，eps 3e-4：")


@recipe()
def layer_masked(draw: Draw) -> Draft:
    """A given mask with holes, causal nowhere."""
    config, weights, x = _one(draw)
    batch, tokens, _ = x.shape
    holes = draw.uniform(batch, 1, tokens, tokens, low=0, high=1) < 0.4
    holes[..., torch.arange(tokens), torch.arange(tokens)] = False
    mask = holes.float() * oracle_model.NARROWEST
    return _drafted(config, weights, x, "a given mask: ", "给定掩码：", mask=mask)


@recipe()
def layer_positions(draw: Draw) -> Draft:
    """Positions of their own for every row."""
    config, weights, x = _one(draw)
    positions = oracle_model.positions_of(left_padded(draw, *x.shape[:2])) + 2
    en, zh = "given positions: ", "给定位置："
    return _drafted(config, weights, x, en, zh, positions=positions)


@recipe()
def layer_bfloat16(draw: Draw) -> Draft:
    config, weights, x = _one(draw)
    narrow = {name: weight.bfloat16() for name, weight in weights.items()}
    made = _drafted(config, {n: w.float() for n, w in narrow.items()}, x.bfloat16().float())
    tensors = dict(made.tensors) | prefixed(narrow) | {"x": x.bfloat16()}
    about = about_sizes(config, x.shape[1], x.shape[0], "bfloat16: ", "bfloat16：")
    return draft(about, tensors, made.config, **made.values, dtype="bfloat16")
