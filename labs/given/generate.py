"""Greedy text generation, one token at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn


class GenerationError(ValueError):
    """No next token can be named; says why in English and in Chinese."""


def generate(model: nn.Module, tokens: Sequence[int], max_new_tokens: int) -> Iterator[int]:
    """Yield the likeliest next token again and again, each as soon as it is known.

    Nothing is cached: every step reads the whole text anew, so a token costs more the later
    it comes. Lab 3 mends that.

    Args:
        model: maps ids ``[1, T]`` to logits ``[1, T, vocab]``.
        tokens: the prompt, at least one token id.
        max_new_tokens: how many to yield.

    Raises:
        GenerationError: the prompt is empty, or the logits are not finite.
    """
    if not tokens:
        raise GenerationError(
            "generate: the prompt holds no token; give at least one.\n"
            "generate：提示为空；请至少给出一个 token。"
        )
    text = list(tokens)
    for step in range(max_new_tokens):
        with torch.no_grad():
            scores = model(torch.tensor([text]))[0, -1]  # [vocab]
        if not torch.isfinite(scores).all():
            raise GenerationError(
                f"generate: at step {step} the logits hold NaN or infinity; does a mask block "
                "whole rows, or does a softmax overflow?\n"
                f"generate：第 {step} 步的 logits 含有 NaN 或无穷大；"
                "是不是掩码屏蔽了整行，或 softmax 溢出？"
            )
        text.append(int(scores.argmax()))
        yield text[-1]
