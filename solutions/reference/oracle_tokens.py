"""Byte-level BPE, chat template and positions: what the expected values of tokens.py are made of.

Written in another way than the solution: merges are made one at a time, where ``tokenizers``
makes them, and pairs are counted on ids. A test proves that it equals that library, and the chat
template that of Hugging Face.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from labs.given.tokenizer import BYTES, PATTERN

Pair = tuple[bytes, bytes]
Ranks = Mapping[Pair, int]
BASE = [bytes([byte]) for byte in BYTES]  # the tokens of one byte, by id


def pieces(
    text: str, special: Sequence[str] = (), pattern: re.Pattern[str] = PATTERN
) -> list[tuple[str, bool]]:
    """The pieces of a text, and which of them are special tokens."""
    return list(_pieces(text, sorted(special, key=len)[::-1], pattern))


def _pieces(
    text: str, special: Sequence[str], pattern: re.Pattern[str]
) -> Iterator[tuple[str, bool]]:
    begin = at = 0
    while at < len(text):
        found = next((token for token in special if text.startswith(token, at)), "")
        if found:
            yield from ((match[0], False) for match in pattern.finditer(text[begin:at]))
            yield found, True
            begin = at = at + len(found)
        else:
            at += 1
    yield from ((match[0], False) for match in pattern.finditer(text[begin:]))


def merged(tokens: Sequence[bytes], pair: Pair) -> list[bytes]:
    """A pair put together wherever it stands, from left to right."""
    found = list(tokens)
    at = 0
    while at + 1 < len(found):
        if (found[at], found[at + 1]) == pair:
            found[at : at + 2] = [found[at] + found[at + 1]]
        at += 1
    return found


def counted(words: Mapping[tuple[bytes, ...], int]) -> dict[Pair, int]:
    """How often each pair stands in words that come so often."""
    found: defaultdict[Pair, int] = defaultdict(int)
    for word, count in words.items():
        for at in range(len(word) - 1):
            found[word[at], word[at + 1]] += count
    return found


def train(
    text: str, vocab_size: int, special: Sequence[str] = (), pattern: re.Pattern[str] = PATTERN
) -> tuple[dict[bytes, int], list[Pair]]:
    """Vocabulary and merges of a text; ties go to the lowest ids."""
    words: dict[tuple[bytes, ...], int] = {}
    for piece, is_special in pieces(text, special, pattern):
        if not is_special:
            word = tuple(bytes([byte]) for byte in piece.encode())
            words[word] = words.get(word, 0) + 1
    ids, merges = {token: number for number, token in enumerate(BASE)}, []
    while len(ids) + len(special) < vocab_size and (pairs := counted(words)):
        most = max(pairs.values())
        best = min(
            (p for p, count in pairs.items() if count == most), key=lambda p: (ids[p[0]], ids[p[1]])
        )
        merges.append(best)
        ids[b"".join(best)] = len(ids)
        again: dict[tuple[bytes, ...], int] = {}
        for word, count in words.items():
            new = tuple(merged(word, best))
            again[new] = again.get(new, 0) + count
        words = again
    return ids | {token.encode(): len(ids) + n for n, token in enumerate(special)}, merges


def encode(
    text: str,
    vocab: Mapping[bytes, int],
    merges: Sequence[Pair],
    special: Sequence[str] = (),
    pattern: re.Pattern[str] = PATTERN,
) -> list[int]:
    """Ids of a text: of all merges that can be made, the earliest, and of that the leftmost."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    ids: list[int] = []
    for piece, is_special in pieces(text, special, pattern):
        tokens = [piece.encode()] if is_special else [bytes([b]) for b in piece.encode()]
        while not is_special and (found := _first(tokens, ranks)) is not None:
            tokens[found : found + 2] = [tokens[found] + tokens[found + 1]]
        ids += [vocab[token] for token in tokens]
    return ids


def _first(tokens: Sequence[bytes], ranks: Ranks) -> int | None:
    places = [at for at in range(len(tokens) - 1) if (tokens[at], tokens[at + 1]) in ranks]
    return min(places, key=lambda at: (ranks[tokens[at], tokens[at + 1]], at), default=None)


def decode(ids: Sequence[int], vocab: Mapping[bytes, int]) -> str:
    """Text of ids; what is no UTF-8 becomes U+FFFD."""
    tokens = {number: token for token, number in vocab.items()}
    return b"".join(map(tokens.__getitem__, ids)).decode("utf-8", "replace")


def streamed(parts: Sequence[bytes]) -> list[str]:
    """What is whole after each part of a text in UTF-8."""
    shown, found = "", []
    for count in range(1, len(parts) + 1):
        whole = b"".join(parts[:count]).decode("utf-8", "ignore")
        found.append(whole[len(shown) :])
        shown = whole
    return found


def chat(messages: Sequence[Mapping[str, str]], *, prompt: bool) -> str:
    """Qwen3's template for a conversation that ends with the user, without tools."""
    lines = []
    for message in messages:
        content = message["content"]
        if message["role"] == "assistant" and (end := content.rfind("</think>")) >= 0:
            content = content[end + len("</think>") :].lstrip("\n")
        lines += [f"<|im_start|>{message['role']}", f"{content}<|im_end|>"]
    return "\n".join([*lines, *(["<|im_start|>assistant"] if prompt else []), ""])


def positions(length: int, dim: int) -> Tensor:
    """float64 ``[length, dim]``: sine and cosine by turns."""
    place = torch.arange(length, dtype=torch.float64)[:, None]
    feature = torch.arange(dim)[None]
    angle = place / 10_000.0 ** ((feature - feature % 2).double() / dim)
    return torch.where(feature % 2 == 0, angle.sin(), angle.cos())
