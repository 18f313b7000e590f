"""Cases of the model and its head, built from stand-ins."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import torch

from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle, oracle_model

from .sizes import (
    Weights,
    about_sizes,
    left_padded,
    model_weights,
    pieces_of,
    prefixed,
    sizes,
    tokens_of,
)

PARTS = oracle_model.STAND_IN


def _body(weights: Weights) -> Weights:
    """The weights of Qwen3Model alone, under its own names."""
    return prefixed(oracle_model.under(weights, "model."))


def _drafted(
    draw: Draw,
    en: str = "",
    zh: str = "",
    *,
    keep: torch.Tensor | None = None,
    start: int | None = None,
    other: dict[str, Any] | None = None,
    **values: Any,
) -> Draft:
    config, tokens, batch = sizes(draw, **(other or {}))
    weights = model_weights(draw, config, with_head=False)
    ids = tokens_of(draw, config, batch, tokens)
    if "left" in values:
        keep = left_padded(draw, batch, tokens)
    positions = None
    if start is not None:
        positions = torch.arange(start, start + tokens)
        if "rows" in values:  # each begins two further on
            positions = positions + 2 * torch.arange(batch)[:, None]
    stream = oracle_model.hidden_states(config, weights, ids, keep, positions, PARTS)
    tensors = {"ids": ids, "y": oracle_model.normed(config, weights, stream[-1]), **_body(weights)}
    if keep is not None:
        tensors["keep"] = keep
    if positions is not None:
        tensors["positions"] = positions
    values.pop("rows", None)
    if values.pop("left", None) and start is None:
        values["pieces"] = [tokens - 4, 2, 1, 1]
    if values.pop("depths", None):
        for depth, x in enumerate(stream):
            tensors[f"y{depth}"] = oracle_model.normed(config, weights, x)
    if values.pop("chunks", None):
        values["pieces"] = pieces_of(draw, tokens)
    about = about_sizes(config, tokens, batch, en, zh)
    return draft(about, tensors, asdict(config), **values)


@recipe()
def model_core(draw: Draw) -> Draft:
    return _drafted(draw, depths=True)


@recipe()
def model_empty(draw: Draw) -> Draft:
    """No layers at all: embedding and last norm."""
    return _drafted(draw, "no layers: ", "没有层：", other={"num_hidden_layers": 0})


@recipe()
def model_eps(draw: Draw) -> Draft:
    """A large eps: that of the config reaches every norm."""
    return _drafted(draw, "eps 0.3: ", "eps 0.3：", other={"rms_norm_eps": 0.3})


@recipe()
def model_padded(draw: Draw) -> Draft:
    return _drafted(draw, "left-padded rows: ", "左侧填充的各行：", left=True)


@recipe()
def model_positions(draw: Draw) -> Draft:
    """One layer: in pieces, too, nothing but the positions matters."""
    start = draw.integer(5, 9)
    en, zh = f"positions from {start} on, row by row: ", f"每行各自的位置，从 {start} 起："
    one = {"num_hidden_layers": 1}
    return _drafted(draw, en, zh, start=start, rows=True, chunks=True, other=one)


@recipe()
def model_positions_padded(draw: Draw) -> Draft:
    """A mask, and positions that are not those of the mask."""
    start = draw.integer(5, 9)
    en, zh = f"left-padded rows, positions from {start}: ", f"左侧填充的各行，位置从 {start} 起："
    return _drafted(draw, en, zh, left=True, start=start)


@recipe()
def model_pieces(draw: Draw) -> Draft:
    return _drafted(draw, "in pieces: ", "分段输入：", chunks=True)


def _causal_lm(draw: Draw, en: str, zh: str, **other: Any) -> Draft:
    config, tokens, batch = sizes(draw, **other)
    weights = model_weights(draw, config)
    ids = tokens_of(draw, config, batch, tokens)
    y = oracle_model.logits(config, weights, ids, parts=PARTS)
    about = about_sizes(config, tokens, batch, en, zh)
    counts = oracle.count_parameters(config)
    tensors = {"ids": ids, "y": y, **prefixed(weights)}
    return draft(
        about, tensors, asdict(config), parameters=counts["total"], pieces=pieces_of(draw, tokens)
    )


@recipe()
def lm_untied(draw: Draw) -> Draft:
    return _causal_lm(draw, "a head of its own: ", "独立的输出头：")


@recipe()
def lm_tied(draw: Draw) -> Draft:
    return _causal_lm(draw, "a tied head: ", "共享的输出头：", tie_word_embeddings=True)


@recipe()
def lm_padded(draw: Draw) -> Draft:
    config, tokens, batch = sizes(draw, tie_word_embeddings=True)
    weights, keep = model_weights(draw, config), left_padded(draw, batch, tokens)
    ids = tokens_of(draw, config, batch, tokens)
    y = oracle_model.logits(config, weights, ids, keep, parts=PARTS)
    about = about_sizes(config, tokens, batch, "left-padded rows: ", "左侧填充的各行：")
    tensors = {"ids": ids, "keep": keep, "y": y, **prefixed(weights)}
    return draft(about, tensors, asdict(config), pieces=[tokens - 2, 1, 1])


@recipe()
def lm_positions(draw: Draw) -> Draft:
    config, tokens, batch = sizes(draw)
    weights, ids = model_weights(draw, config), tokens_of(draw, config, batch, tokens)
    start = draw.integer(5, 9)
    positions = torch.arange(start, start + tokens)
    y = oracle_model.logits(config, weights, ids, positions=positions, parts=PARTS)
    en, zh = f"positions from {start}: ", f"位置从 {start} 起："
    tensors = {"ids": ids, "positions": positions, "y": y, **prefixed(weights)}
    return draft(about_sizes(config, tokens, batch, en, zh), tensors, asdict(config))


@recipe()
def lm_bfloat16(draw: Draw) -> Draft:
    config, tokens, batch = sizes(draw)
    config = replace(config, num_hidden_layers=1)
    weights = {n: w.bfloat16() for n, w in model_weights(draw, config).items()}
    ids, keep = tokens_of(draw, config, batch, tokens), left_padded(draw, batch, tokens)
    wide = {name: weight.float() for name, weight in weights.items()}
    y = oracle_model.logits(config, wide, ids, keep, parts=PARTS)
    about = about_sizes(config, tokens, batch, "bfloat16, padded: ", "bfloat16，有填充：")
    tensors = {"ids": ids, "keep": keep, "y": y, **prefixed(weights)}
    return draft(about, tensors, asdict(config), dtype="bfloat16")
