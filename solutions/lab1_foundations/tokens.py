"""Lab 1, part 3: from text to vectors. Byte-level BPE as Qwen3 uses it, chat, embedding, positions.

Fill in every TODO. A *token* is a run of bytes with a number, its *id*; a *merge* is a pair of
tokens that become one. Texts are ``str``, tokens ``bytes``.
Source: Sennrich et al. 2016 (BPE), Radford et al. 2019 (on bytes); ``tokenizer.json`` and the chat
template of Qwen3; Vaswani et al. 2017, section 3.5 (positions).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import nn

from labs.given.tokenizer import BYTES, PATTERN

Pair = tuple[bytes, bytes]


def pre_tokenize(
    text: str, special_tokens: Sequence[str] = (), pattern: re.Pattern[str] = PATTERN
) -> list[str]:
    """Cut a text into the pieces that no merge will ever reach across.

    Special tokens are found first, and each is a piece of its own; where one begins with another,
    the longer one wins. What lies between them is cut by ``pattern``.

    Args:
        text: any text; joined, the pieces give it back.
        special_tokens: as they appear in a text, e.g. ``"<|im_end|>"``.
        pattern: what ``pattern.findall`` finds are the pieces; it leaves nothing out.

    Returns:
        The pieces in their order, none of them empty.
    """
    # BEGIN SOLUTION lab1.pieces
    longest_first = sorted(special_tokens, key=len, reverse=True)
    special = "|".join(re.escape(token) for token in longest_first)
    parts = re.split(f"({special})", text) if special else [text]
    pieces: list[str] = []
    for part in parts:
        pieces += [part] if part in special_tokens else pattern.findall(part)
    return pieces
    # END SOLUTION


def merge_pair(tokens: Sequence[bytes], pair: Pair) -> list[bytes]:
    """Merge a pair wherever it occurs, from left to right.

    Args:
        tokens: not changed.
        pair: what becomes one token, left and right.

    Returns:
        A new list. ``[a, a, a]`` with the pair ``(a, a)`` gives ``[aa, a]``.
    """
    # BEGIN SOLUTION lab1.pieces
    merged: list[bytes] = []
    at = 0
    while at < len(tokens):
        if tuple(tokens[at : at + 2]) == pair:
            merged.append(pair[0] + pair[1])
            at += 2
        else:
            merged.append(tokens[at])
            at += 1
    return merged
    # END SOLUTION


def train(
    text: str,
    vocab_size: int,
    special_tokens: Sequence[str] = (),
    pattern: re.Pattern[str] = PATTERN,
) -> tuple[dict[bytes, int], list[Pair]]:
    """Learn a vocabulary: merge the most frequent pair of the text, again and again.

    Every piece of the text begins as its single bytes (UTF-8). A pair counts wherever its two
    tokens are neighbours within a piece, overlapping ones too: ``a a a`` has ``(a, a)`` twice. Of
    equally frequent pairs, the one with the lowest ids is merged: compare the left ids, then the
    right ones. Training ends when the vocabulary is full, or when no piece has two tokens.

    Args:
        text: special tokens in it are left out, and separate what is around them.
        vocab_size: the number of all tokens: 256 bytes, the merged ones, the special ones. Where
            it is too small for bytes and special tokens, all of them are kept, and nothing is
            merged.
        special_tokens: in the order of their ids.
        pattern: how pieces are cut, see :func:`pre_tokenize`.

    Returns:
        The vocabulary and the merges in their order. Ids count from 0: the bytes in the order of
        ``BYTES``, then what each merge makes, and last the special tokens, as UTF-8.
    """
    # BEGIN SOLUTION lab1.train
    vocab = {bytes([byte]): number for number, byte in enumerate(BYTES)}
    merges: list[Pair] = []
    pieces = Counter(pre_tokenize(text, special_tokens, pattern))
    # Equal pieces are cut alike: each is merged once and counts as often as it stands in the text.
    words = [
        ([bytes([byte]) for byte in piece.encode()], count)
        for piece, count in pieces.items()
        if piece not in special_tokens
    ]
    while len(vocab) + len(special_tokens) < vocab_size:
        pairs: Counter[Pair] = Counter()
        for tokens, count in words:
            for pair in pairwise(tokens):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], vocab[pair[0]], vocab[pair[1]]))
        merges.append(best)
        vocab[best[0] + best[1]] = len(vocab)
        words = [(merge_pair(tokens, best), count) for tokens, count in words]
    for token in special_tokens:
        vocab[token.encode()] = len(vocab)
    return vocab, merges
    # END SOLUTION


class Tokenizer:
    """Turn text into ids and back.

    Args:
        vocab: the id of every token; special tokens are among them, as UTF-8.
        merges: pairs; the earlier in the list, the sooner a pair is merged.
        special_tokens: as they appear in a text.
        pattern: how pieces are cut, see :func:`pre_tokenize`.
    """

    def __init__(
        self,
        vocab: Mapping[bytes, int],
        merges: Sequence[Pair],
        special_tokens: Sequence[str] = (),
        pattern: re.Pattern[str] = PATTERN,
    ) -> None:
        # GIVEN
        self.vocab = vocab
        self.tokens = {number: token for token, number in vocab.items()}
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}  # the lowest is made first
        self.special_tokens = list(special_tokens)
        self.pattern = pattern

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text.

        Every piece begins as its single bytes. Of all pairs in it, the one with the lowest rank
        is merged everywhere, until no pair has a rank. Special tokens are looked up whole. The
        text is taken as it is: nothing is normalised, stripped, or unknown.
        """
        # BEGIN SOLUTION lab1.encode
        ids: list[int] = []
        for piece in pre_tokenize(text, self.special_tokens, self.pattern):
            tokens = [bytes([byte]) for byte in piece.encode()]
            if piece in self.special_tokens:
                tokens = [piece.encode()]
            while pairs := [p for p in pairwise(tokens) if p in self.ranks]:
                tokens = merge_pair(tokens, min(pairs, key=self.ranks.__getitem__))
            ids += [self.vocab[token] for token in tokens]
        return ids
        # END SOLUTION

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included.

        The bytes of all tokens are joined first, then read as UTF-8: a character may be spread
        over several tokens. What is not UTF-8 becomes U+FFFD, as with ``errors="replace"``.
        """
        # BEGIN SOLUTION lab1.decode
        return b"".join(self.tokens[number] for number in ids).decode("utf-8", errors="replace")
        # END SOLUTION


class StreamDecoder:
    """Turns ids into text one at a time, as a chat shows it: never half a character.

    All its output, joined, is what ``Tokenizer.decode`` returns for all ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        # GIVEN
        self.tokenizer = tokenizer
        self.held = b""  # bytes of a character that is not whole yet

    def push(self, number: int) -> str:
        """Take an id and return every character that is complete now; hold back the rest."""
        # BEGIN SOLUTION lab1.stream
        data = self.held + self.tokenizer.tokens[number]
        end = len(data)
        for back in range(1, min(3, len(data)) + 1):
            byte = data[-back]
            if byte >= 0b11000000:  # the first byte of a character says how many it has
                length = 4 if byte >= 0b11110000 else 3 if byte >= 0b11100000 else 2
                if length > back:
                    end = len(data) - back
                break
        self.held = data[end:]
        return data[:end].decode("utf-8", errors="replace")
        # END SOLUTION

    def finish(self) -> str:
        """Return what is left at the end of the ids: an incomplete character becomes U+FFFD."""
        # BEGIN SOLUTION lab1.stream
        text = self.held.decode("utf-8", errors="replace")
        self.held = b""
        return text
        # END SOLUTION


def apply_chat_template(
    messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = False
) -> str:
    """Write a conversation as the one text that Qwen3 was trained on.

    A message becomes ``<|im_start|>``, its role, a line break, its content, ``<|im_end|>`` and a
    line break. The thinking is left out of the assistant's messages: everything up to the last
    ``</think>``, and the line breaks after it. Nothing is added, not even a system message.

    Args:
        messages: each has a ``"role"`` (``"system"``, ``"user"``, ``"assistant"``) and a
            ``"content"``; the last one is the user's. Not changed.
        add_generation_prompt: end with the line that begins an assistant's message.
    """
    # BEGIN SOLUTION lab1.chat_template
    text = ""
    for message in messages:
        content = message["content"]
        if message["role"] == "assistant" and "</think>" in content:
            content = content.split("</think>")[-1].lstrip("\n")
        text += f"<|im_start|>{message['role']}\n{content}<|im_end|>\n"
    if add_generation_prompt:
        text += "<|im_start|>assistant\n"
    return text
    # END SOLUTION


class Embedding(nn.Module):
    """A table with a row for every token; to embed is to look up. Parameter: ``weight``."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None
    ) -> None:
        """Make ``weight``, ``[num_embeddings, embedding_dim]``, of N(0, 1); padding is zeros."""
        super().__init__()
        # BEGIN SOLUTION lab1.embedding
        table = torch.randn(num_embeddings, embedding_dim)
        if padding_idx is not None:
            table[padding_idx] = 0
        self.weight = nn.Parameter(table)
        self.padding_idx = padding_idx
        # END SOLUTION

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Take rows of the table.

        The row of ``padding_idx`` is taken like any other, but gets no gradient.

        Args:
            ids: int64, any shape.

        Returns:
            ``[*ids.shape, embedding_dim]``, in the dtype of the table.
        """
        # BEGIN SOLUTION lab1.embedding
        rows = self.weight[ids]  # [*ids.shape, embedding_dim]
        if self.padding_idx is None:
            return rows
        padding = (ids == self.padding_idx).unsqueeze(-1)  # [*ids.shape, 1]
        return torch.where(padding, rows.detach(), rows)
        # END SOLUTION


def sinusoidal_positions(length: int, dim: int) -> torch.Tensor:
    """Give every position in a text a vector, as the first Transformer did.

    Features 2i and 2i + 1 of position p are sine and cosine of ``p / 10000 ** (2i / dim)``.

    Args:
        length: how many positions, counted from 0.
        dim: how many features; even.

    Returns:
        float32 ``[length, dim]``.
    """
    # BEGIN SOLUTION lab1.positions
    frequencies = 10_000.0 ** (-torch.arange(0, dim, 2) / dim)  # [dim / 2]
    angles = torch.arange(length)[:, None] * frequencies  # [length, dim / 2]
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)
    # END SOLUTION
