"""Texts, vocabularies and byte strings that the cases of tokens.py are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from autograder.reference.recipes import Draw
from solutions.reference.oracle_tokens import BASE, Pair, train

T = TypeVar("T")
_WORDS = """
the whale sea and of old ship men captain a in they white see his with boat said water
head sailor harpoon there line night three whales sailing seas heads lines nights boats
"""
WORDS = _WORDS.split()
# Characters of two, three and four bytes, combining marks, joined emoji, right to left.
WIDE = (
    "鲸鱼与老人在海上",
    "海鸥飞过，船在远方。",
    "naïve café Ærø",
    "e\u0301a\u0308o\u0302n\u0303",
    "🐋🌊⚓",
    "👩\u200d👧 🏳\ufe0f\u200d🌈",
    "नमस्ते",
    "שלום",
    "½ ² Ⅷ",
    "👍🏽",
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|>!", "<+.*>")


def chosen(draw: Draw, options: Sequence[T], count: int) -> list[T]:
    """So many of them, each at most once."""
    return [options[n] for n in draw.permutation(len(options)).tolist()[:count]]


def prose(draw: Draw, count: int) -> str:
    """So many words, few of them often and most of them seldom, with commas and full stops."""
    found = []
    for _ in range(count):
        word = WORDS[int(draw.uniform(1, low=0, high=1).item() ** 2 * len(WORDS))]
        found.append(word + ("," if draw.integer(0, 7) == 0 else ""))
    return " ".join(found) + "."


def wide(draw: Draw, count: int = 5) -> str:
    """Characters of all kinds, a word between them now and then."""
    parts = [text + (f" {draw_word(draw)} " * draw.integer(0, 1)) for text in WIDE]
    return "".join(chosen(draw, parts, count))


def draw_word(draw: Draw) -> str:
    """Any of the words."""
    return WORDS[draw.integer(0, len(WORDS) - 1)]


def until(make: Callable[[], T], good: Callable[[T], bool], tries: int = 2000) -> T:
    """The first one that is good.

    Raises:
        ValueError: none is.
    """
    for _ in range(tries):
        if good(made := make()):
            return made
    raise ValueError("none of the draws is good: make it likelier")


def text_of(tokens: Sequence[bytes]) -> list[str]:
    """Tokens as a case keeps them: a character for every byte."""
    return [token.decode("latin-1") for token in tokens]


def pairs_of(merges: Sequence[Pair]) -> list[list[str]]:
    """Merges as a case keeps them."""
    return [text_of(pair) for pair in merges]


def vocabulary(draw: Draw, merges: Sequence[Pair], special: Sequence[str] = ()) -> list[bytes]:
    """All tokens, in the order of ids that no other vocabulary has."""
    tokens = list(
        dict.fromkeys([*BASE, *(a + b for a, b in merges), *(t.encode() for t in special)])
    )
    return [tokens[n] for n in draw.permutation(len(tokens)).tolist()]


def learned(draw: Draw, extra: str = "", merges: int = 40) -> list[Pair]:
    """Merges of a text of words, and of ``extra``."""
    return train(prose(draw, 150) + extra, 256 + merges)[1]
