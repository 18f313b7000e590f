"""Trains the tiny Qwen3 that the labs ship, and writes its model card.

    python -m autograder.authoring.tiny_qwen3 train --text FILE --out DIR
    python -m autograder.authoring.tiny_qwen3 card DIR

The model is trained as Hugging Face's own ``Qwen3ForCausalLM``, so that the checkpoint is
right by construction. One CPU thread is enough: about 10 minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from autograder.authoring import tiny_qwen3_card
from autograder.authoring.bits_per_byte import CONTEXT, bits_per_byte

if TYPE_CHECKING:  # two seconds of import: where a model is made
    from transformers import Qwen3ForCausalLM

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
        text = tiny_qwen3_card.card(arguments.folder)
        (arguments.folder / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
