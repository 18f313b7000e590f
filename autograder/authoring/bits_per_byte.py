"""How well a language model predicts a text, whatever its tokens are."""

from __future__ import annotations

import math

import torch

CONTEXT = 256  # tokens a training window holds


def bits_per_byte(
    model: torch.nn.Module, tokens: torch.Tensor, bytes_: int, window: int = CONTEXT
) -> float:
    """Bits the model needs per byte of the text that ``tokens`` stand for.

    Args:
        model: maps ``[B, T]`` token ids to logits ``[B, T, vocab]`` or to an object with them.
        tokens: ``[N]``; the first is given, the others are predicted once each.
        bytes_: length of the whole text in UTF-8.
        window: tokens seen at once; windows overlap by half, so that every token but the
            first ones is predicted from at least half a window.
    """
    step, total = window // 2, 0.0
    with torch.no_grad():
        for start in range(0, max(len(tokens) - step, 1), step):
            piece = tokens[start : start + window + 1]
            out = model(piece[None, :-1])
            logits = getattr(out, "logits", out)[0].float()
            loss = torch.nn.functional.cross_entropy(logits, piece[1:], reduction="none")
            total += loss[0 if start == 0 else window - step :].sum().item()
    return total / math.log(2) / bytes_
