# Generated from the course's sources (stub 925084a959a5): fill in the TODOs.
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
    # TODO lab1.pieces: Pieces and pairs
    raise NotImplementedError("TODO lab1.pieces: to be written")


def merge_pair(tokens: Sequence[bytes], pair: Pair) -> list[bytes]:
    """Merge a pair wherever it occurs, from left to right.

    Args:
        tokens: not changed.
        pair: what becomes one token, left and right.

    Returns:
        A new list. ``[a, a, a]`` with the pair ``(a, a)`` gives ``[aa, a]``.
    """
    # TODO lab1.pieces: Pieces and pairs
    raise NotImplementedError("TODO lab1.pieces: to be written")


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
    # TODO lab1.train: Training BPE
    raise NotImplementedError("TODO lab1.train: to be written")


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
        # TODO lab1.encode: Encoding
        raise NotImplementedError("TODO lab1.encode: to be written")

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included.

        The bytes of all tokens are joined first, then read as UTF-8: a character may be spread
        over several tokens. What is not UTF-8 becomes U+FFFD, as with ``errors="replace"``.
        """
        # TODO lab1.decode: Decoding
        raise NotImplementedError("TODO lab1.decode: to be written")


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
        # TODO lab1.stream: A stream of text
        raise NotImplementedError("TODO lab1.stream: to be written")

    def finish(self) -> str:
        """Return what is left at the end of the ids: an incomplete character becomes U+FFFD."""
        # TODO lab1.stream: A stream of text
        raise NotImplementedError("TODO lab1.stream: to be written")


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
    # TODO lab1.chat_template: Chat template
    raise NotImplementedError("TODO lab1.chat_template: to be written")


class Embedding(nn.Module):
    """A table with a row for every token; to embed is to look up. Parameter: ``weight``."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None
    ) -> None:
        """Make ``weight``, ``[num_embeddings, embedding_dim]``, of N(0, 1); padding is zeros."""
        super().__init__()
        # TODO lab1.embedding: Embedding
        raise NotImplementedError("TODO lab1.embedding: to be written")

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Take rows of the table.

        The row of ``padding_idx`` is taken like any other, but gets no gradient.

        Args:
            ids: int64, any shape.

        Returns:
            ``[*ids.shape, embedding_dim]``, in the dtype of the table.
        """
        # TODO lab1.embedding: Embedding
        raise NotImplementedError("TODO lab1.embedding: to be written")


def sinusoidal_positions(length: int, dim: int) -> torch.Tensor:
    """Give every position in a text a vector, as the first Transformer did.

    Features 2i and 2i + 1 of position p are sine and cosine of ``p / 10000 ** (2i / dim)``.

    Args:
        length: how many positions, counted from 0.
        dim: how many features; even.

    Returns:
        float32 ``[length, dim]``.
    """
    # TODO lab1.positions: Sinusoidal positions
    raise NotImplementedError("TODO lab1.positions: to be written")
