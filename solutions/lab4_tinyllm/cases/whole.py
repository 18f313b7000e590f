"""Cases of the whole model with the student's own parts: Qwen3 as Hugging Face computes it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from autograder.course.labfile import ROOT
from autograder.reference.recipes import Draft, Draw, draft, recipe
from autograder.worker import real_weights
from labs.given.config import Qwen3Config
from solutions.reference import oracle_model

from .sizes import about_sizes, left_padded, model_weights, pieces_of, prefixed, sizes, tokens_of

CHECKPOINT = "labs/given/tiny_qwen3"
CLEAR = 0.05  # a token is asked for only where its logit leads by this


def _drafted(draw: Draw, en: str, zh: str, *, padded: bool = False, **other: Any) -> Draft:
    config, tokens, batch = sizes(draw, **other)
    weights, ids = model_weights(draw, config), tokens_of(draw, config, batch, tokens)
    keep = left_padded(draw, batch, tokens) if padded else None
    about = about_sizes(config, tokens, batch, en, zh)
    tensors = {"ids": ids, "y": oracle_model.logits(config, weights, ids, keep)}
    if keep is not None:
        tensors["keep"] = keep
    pieces = [tokens - 3, 1, 1, 1] if padded else pieces_of(draw, tokens)
    return draft(about, tensors | prefixed(weights), asdict(config), pieces=pieces)


@recipe()
def whole_untied(draw: Draw) -> Draft:
    return _drafted(draw, "odd sizes: ", "特殊的大小：")


@recipe()
def whole_padded(draw: Draw) -> Draft:
    en, zh = "tied, left-padded rows: ", "共享输出头，左侧填充："
    return _drafted(draw, en, zh, padded=True, tie_word_embeddings=True)


@recipe()
def whole_checkpoint(draw: Draw) -> Draft:
    """The trained checkpoint on board: logits of a prompt, and the tokens that follow it."""
    config = Qwen3Config.from_json(ROOT / CHECKPOINT / "config.json")
    weights = {n: w.float() for n, w in real_weights.read(ROOT / CHECKPOINT, "").items()}
    tokens, batch = draw.pick(((9, 2), (7, 3), (11, 2)))
    while True:
        ids = tokens_of(draw, config, batch, tokens)
        y = oracle_model.logits(config, weights, ids)
        text, leads = ids, []
        for _ in range(4):
            best = oracle_model.logits(config, weights, text)[:, -1].topk(2, dim=-1)
            leads.append(float((best.values[:, 0] - best.values[:, 1]).min()))
            text = torch.cat((text, best.indices[:, :1]), dim=1)
        if min(leads) > CLEAR:
            break
    about = about_sizes(config, tokens, batch, "tiny Qwen3: ", "小型 Qwen3：")
    return draft(about, {"ids": ids, "y": y, "text": text}, folder=CHECKPOINT, new=4)
