"""Random texts, vocabularies, streams and tables: what tokens.py answers to one random case."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

from labs.given.tokenizer import GPT2_PATTERN, PATTERN
from solutions.reference import oracle_tokens as oracle
from tests.mutation.dice import Dice

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|im_end|>!", "<+.*>")
PARTS = (
    "a", "b", "ab", " ", " ab", "o", "oo", "1", "22", "'s", "\n", "\r\n", "\t", "_", "é", "e\u0301",
    "鲸", "鱼", "🐋", "½", "!", "ߊ", "！", "न", "<|im", "A", *SPECIAL,
)  # fmt: skip


def answers(module: ModuleType, number: int) -> dict[str, Any]:
    """Everything, as numbers: texts and lists by their digest."""
    dice = Dice(number)
    special, pattern = SPECIAL[: dice.integer(0, 4)], dice.pick((PATTERN, GPT2_PATTERN))
    texts = ["".join(dice.pick(PARTS) for _ in range(dice.integer(0, 60))) for _ in range(2)]
    size = 256 + len(special) + dice.integer(0, 40)
    vocab, merges = oracle.train(texts[0] * 2, size, special)
    made = module.Tokenizer(vocab, merges, list(special), pattern)
    ids = [dice.integer(0, len(vocab) - 1) for _ in range(dice.integer(0, 20))]
    given = [b"o" if dice.integer(0, 2) else b"oo" for _ in range(dice.integer(0, 9))]
    merged = module.merge_pair(given, (b"o", dice.pick((b"o", b"oo"))))
    parts = _cut(texts[1].encode(), dice)
    numbers = {part: number for number, part in enumerate(dict.fromkeys(parts))}
    stream = module.StreamDecoder(module.Tokenizer(numbers, []))
    broken = module.StreamDecoder(made)
    told = {
        "pieces": module.pre_tokenize(texts[1], list(special), pattern),
        "merged": [merged, given],
        "trained": module.train(texts[0], size, list(special), pattern),
        "encoded": made.encode(texts[1]),
        "decoded": made.decode(ids),
        "streamed": [*(stream.push(numbers[p]) for p in parts), stream.finish(), stream.finish()],
        # When bytes come that are no UTF-8 is free; what comes is not.
        "broken": ["".join([*map(broken.push, ids), broken.finish()]), broken.finish()],
        "chats": _chats(module, dice),
    }
    found: dict[str, Any] = {name: _number(value) for name, value in told.items()}
    return found | _vectors(module, dice)


def _cut(data: bytes, dice: Dice) -> list[bytes]:
    """Bytes in parts of one to four, which end wherever they like."""
    parts = []
    while data:
        count = dice.integer(1, 4)
        parts.append(data[:count])
        data = data[count:]
    return parts


def _chats(module: ModuleType, dice: Dice) -> Sequence[str]:
    said = (
        "Hi",
        "\n a \n",
        "<think>\nhm\n</think>\n\nyes",
        "x</think>y</think>\nz",
        "</think>\n w",
        "</think>X",
    )
    roles = ("system", "user", "assistant")
    messages = [{"role": dice.pick(roles), "content": dice.pick(said)} for _ in range(3)]
    messages.append({"role": "user", "content": dice.pick(said)})
    apply = module.apply_chat_template
    return [apply(messages), apply(messages, True), apply(messages, add_generation_prompt=False)]


def _vectors(module: ModuleType, dice: Dice) -> dict[str, Any]:
    rows, dim = dice.pick((3, 300, 401)), dice.integer(1, 7)
    ids = (dice.uniform(2, 5) * rows).long()
    padding = dice.pick((None, dice.integer(0, rows - 1)))
    ids[0, 0] = padding or 0
    table = module.Embedding(rows, dim, padding)
    found = {"new table": float((table.weight == 0).all(dim=1).sum())}
    table.weight.data.copy_(3 * dice.normal(rows, dim))
    with torch.enable_grad():
        out = table(ids)
        (slope,) = torch.autograd.grad(out.sum(), [table.weight])
    half = 2 * dice.integer(1, 6)
    places = module.sinusoidal_positions(dice.pick((1, 2, 7, 500)), half)
    return {**found, "rows": out.detach(), "slope": slope, "places": places}


def _number(value: Any) -> int:
    return int(hashlib.sha256(repr(value).encode()).hexdigest()[:12], 16)
