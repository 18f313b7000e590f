"""Random texts, vocabularies, streams and tables: what tokens.py answers to one random case.

Texts and lists are told by their digest.
"""

from __future__ import annotations

import hashlib
from types import ModuleType
from typing import Any

import torch

from labs.given.tokenizer import GPT2_PATTERN, PATTERN
from solutions.reference import oracle_tokens as oracle
from tests.mutation.dice import Dice

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|im_end|>!", "<+.*>")
PIECES = (
    "a", "b", "ab", " ", " ab", "o", "oo", "1", "22", "'s", "\n", "\r\n", "\t", "_", "é", "e\u0301",
    "鲸", "鱼", "🐋", "½", "!", "ߊ", "！", "न", "<|im", "A", *SPECIAL,
)  # fmt: skip


def _text(dice: Dice) -> str:
    return "".join(dice.pick(PIECES) for _ in range(dice.integer(0, 60)))


def _pieces(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    special, pattern = SPECIAL[: dice.integer(0, 4)], dice.pick((PATTERN, GPT2_PATTERN))
    return _told(pieces=module.pre_tokenize(_text(dice), list(special), pattern))


def _merged(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    given = [b"o" if dice.integer(0, 2) else b"oo" for _ in range(dice.integer(0, 9))]
    merged = module.merge_pair(given, (b"o", dice.pick((b"o", b"oo"))))
    return _told(merged=[merged, given])


def _trained(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    special, pattern = SPECIAL[: dice.integer(0, 4)], dice.pick((PATTERN, GPT2_PATTERN))
    size = 256 + len(special) + dice.integer(0, 40)
    return _told(trained=module.train(_text(dice), size, list(special), pattern))


def _tokenized(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    special, pattern = SPECIAL[: dice.integer(0, 4)], dice.pick((PATTERN, GPT2_PATTERN))
    size = 256 + len(special) + dice.integer(0, 40)
    vocab, merges = oracle.train(_text(dice) * 2, size, special)
    made = module.Tokenizer(vocab, merges, list(special), pattern)
    ids = [dice.integer(0, len(vocab) - 1) for _ in range(dice.integer(0, 20))]
    stream = module.StreamDecoder(made)
    return _told(
        encoded=made.encode(_text(dice)),
        decoded=made.decode(ids),
        # When bytes come that are no UTF-8 is free; what comes is not.
        broken=["".join([*map(stream.push, ids), stream.finish()]), stream.finish()],
    )


def _streamed(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    parts = _cut(_text(dice).encode(), dice)
    numbers = {part: number for number, part in enumerate(dict.fromkeys(parts))}
    stream = module.StreamDecoder(module.Tokenizer(numbers, []))
    pushed = [stream.push(numbers[part]) for part in parts]
    return _told(streamed=[*pushed, stream.finish(), stream.finish()])


def _cut(data: bytes, dice: Dice) -> list[bytes]:
    """Bytes in parts of one to four, which end wherever they like."""
    parts = []
    while data:
        count = dice.integer(1, 4)
        parts.append(data[:count])
        data = data[count:]
    return parts


def _chats(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
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
    ends = [apply(messages, True), apply(messages, add_generation_prompt=False)]
    return _told(chats=[apply(messages), *ends])


def _table(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
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
    return {**found, "rows": out.detach(), "slope": slope}


def _places(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    half = 2 * dice.integer(1, 6)
    return {"places": module.sinusoidal_positions(dice.pick((1, 2, 7, 500)), half)}


def _told(**values: Any) -> dict[str, Any]:
    return {
        name: int(hashlib.sha256(repr(value).encode()).hexdigest()[:12], 16)
        for name, value in values.items()
    }


PARTS = (_pieces, _merged, _trained, _tokenized, _streamed, _chats, _table, _places)
