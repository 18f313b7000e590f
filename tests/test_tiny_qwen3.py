"""The script that trains the tiny Qwen3."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from tools import tiny_qwen3
from tools.tiny_qwen3 import bits_per_byte

TEXT = "CHAPTER 1. A.\n\nCall me\nIshmael—\nor so.\n\n     O verse,\n     stay.\n\n\n"
TEXT += "CHAPTER 2. B.\n\nx\n"


def test_wrapped_lines_are_joined_and_verse_stays() -> None:
    wanted = "CHAPTER 1. A.\n\nCall me Ishmael—or so.\n\nO verse,\nstay.\n\nCHAPTER 2. B.\n\nx\n"
    assert tiny_qwen3.normalise(TEXT) == wanted
    assert tiny_qwen3.normalise(TEXT.replace("\n", "\r\n")) == wanted


def test_the_last_chapters_are_held_out() -> None:
    text = "".join(f"CHAPTER {n}. T.\n\nSaid CHAPTER 9. of it.\n\n" for n in range(1, 6))
    training, held_out = tiny_qwen3.split(text)
    assert training + held_out == text
    assert held_out.startswith("CHAPTER 3. T.")
    with pytest.raises(SystemExit, match="has 2 lines"):
        tiny_qwen3.split(text[: text.index("CHAPTER 3.")])


@pytest.mark.parametrize("length", [2, 8, 9, 10, 12, 13, 16, 17, 31])
def test_every_token_but_the_first_is_predicted_once(length: int) -> None:
    class Uniform(nn.Module):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.zeros(*ids.shape, 32)

    bits = bits_per_byte(Uniform(), torch.zeros(length, dtype=torch.long), 4, window=8)
    assert bits == pytest.approx(math.log2(32) * (length - 1) / 4)


def test_learning_rate_rises_and_falls() -> None:
    rates = [tiny_qwen3.learning_rate(step, 1000) for step in range(1000)]
    top = rates.index(max(rates))
    assert abs(top - tiny_qwen3.WARM_UP) <= 1 and max(rates) == tiny_qwen3.PEAK_LR
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(tiny_qwen3.PEAK_LR / 100, rel=0.01)


@pytest.mark.slow
def test_one_step_of_training_leaves_a_checkpoint_and_its_card(tmp_path: Path) -> None:
    lines = [f"The {n * 7919 % 1000} whales swam past {n}.\n" for n in range(120)]
    # The last three are held out, and read a dozen times: two windows of them are enough.
    chapters = [
        f"CHAPTER {n}. T.\n\n" + "".join(lines[: 120 if n < 4 else 20]) for n in range(1, 7)
    ]
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(chapters), encoding="utf-8")
    out = tmp_path / "out"
    tiny_qwen3.train(text, out, steps=1)
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(out, torch_dtype=torch.float32)
    parameters = json.loads((out / "training.json").read_text(encoding="utf-8"))["parameters"]
    assert sum(p.numel() for p in theirs.parameters()) == parameters
    card = tiny_qwen3.card(out)
    rows = [line for line in card.split("\n") if line.startswith("| ") and line.count("|") == 4]
    assert [row.split(" | ")[0][2:] for row in rows[1:]] == list(tiny_qwen3.VARIANTS)
    assert "(CC0-1.0)" in card.replace("（", "(").replace("）", ")")


def test_a_patch_that_no_longer_fits_is_named() -> None:
    with pytest.raises(ValueError, match=r"mlp\.py: expected 'no such text' exactly once"):
        tiny_qwen3.patched((("mlp", "no such text", ""),))
