"""Chat through a hand-in that has a model of its own: its loader, its ``generate``, its cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from autograder.course.text import Text, ToldError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import nn

MODEL = "model.py"


class Streamed:
    """Text as tokens bring it: what is new after each, once its characters are whole."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._tokens = list(prompt)
        self._text = tokenizer.decode(self._tokens)
        self._shown = len(self._text)

    def add(self, token: int) -> str:
        """Take a token; the new text, empty while a character of several tokens is open."""
        self._tokens.append(token)
        self._text = self._tokenizer.decode(self._tokens)
        return "" if self._text.endswith("\ufffd") else self.rest()

    def rest(self) -> str:
        """What was held back."""
        piece, self._shown = self._text[self._shown :], max(self._shown, len(self._text))
        return piece


def talk(
    load: Callable[..., Any],
    generate: Callable[..., Any],
    parts: Sequence[Any],
    checkpoint: Path,
    streamed: Streamed,
    prompt: str,
    tokens: Sequence[int],
    max_new_tokens: int,
) -> Text:
    """Continue a prompt greedily and print the text as it comes.

    Args:
        load: the student's ``load_hf_checkpoint``.
        generate: the student's ``generate``.
        parts: attention and MLP class.
        checkpoint: folder in Hugging Face format.
        streamed: made of the same tokens.
        prompt: as text.
        tokens: as tokens.
        max_new_tokens: how many to add.

    Returns:
        A line about speed: prefill is up to the first token, decode what follows.
    """
    import torch

    model = load(checkpoint, *parts)
    if isinstance(model, torch.nn.Module):
        model.register_forward_hook(_expect_finite)
    times = [perf_counter()]

    def heard(new: torch.Tensor) -> None:
        times.append(perf_counter())
        # The prompt waits for the first token: before that, an error may be all there is to say.
        head = prompt if len(times) == 2 else ""
        print(head + streamed.add(int(new.reshape(-1)[0])), end="", flush=True)

    try:
        with torch.no_grad():
            generate(
                model,
                torch.tensor([list(tokens)]),
                max_new_tokens,
                eos=_eos(checkpoint),
                on_token=heard,
            )
    finally:
        if len(times) > 1:
            print(streamed.rest())
    return _speed(len(tokens), times)


def _expect_finite(model: nn.Module, args: tuple[Any, ...], logits: Any) -> None:
    """Stop where the next token would be chosen among NaN, which no sampler complains about."""
    import torch

    if torch.is_tensor(logits) and not torch.isfinite(logits[:, -1]).all():
        raise ToldError(
            "The logits of your model hold NaN or infinity; does a mask block whole rows, or does "
            "a softmax overflow?",
            "你的模型的 logits 含有 NaN 或无穷大；是不是掩码屏蔽了整行，或 softmax 溢出？",
        )


def _eos(checkpoint: Path) -> int | None:
    """The token that ends a text, where ``config.json`` names one."""
    named = json.loads((checkpoint / "config.json").read_text(encoding="utf-8")).get("eos_token_id")
    return named if isinstance(named, int) else None


def _speed(prompt: int, times: Sequence[float]) -> Text:
    if len(times) < 2:
        return Text("generate never called on_token", "generate 没有调用 on_token")
    rate = prompt / (times[1] - times[0])
    en = f"prefill {prompt} tokens, {rate:.1f} tokens/s"
    zh = f"预填充 {prompt} 个 token，每秒 {rate:.1f} 个"
    decoded = len(times) - 2
    if decoded:
        rate = decoded / (times[-1] - times[1])
        en += f"; decode {decoded} tokens, {rate:.1f} tokens/s"
        zh += f"；解码 {decoded} 个 token，每秒 {rate:.1f} 个"
    return Text(f"[{en}]", f"[{zh}]")
