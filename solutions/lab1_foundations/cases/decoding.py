"""Cases of tokens.py: decoding and streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_tokens as oracle

from .texts import SPECIAL, chosen, draw_word, prose, text_of, vocabulary, wide


def _decoded(draw: Draw, tokens: Sequence[bytes], vocab: list[bytes], en: str, zh: str) -> Draft:
    numbers = {token: number for number, token in enumerate(vocab)}
    ids = [numbers[token] for token in tokens]
    text = oracle.decode(ids, numbers)
    about = Text(f"{en}, {len(ids)} tokens", f"{zh}，{len(ids)} 个 token")
    values: dict[str, Any] = {"vocab": text_of(vocab), "merges": [], "special": list(SPECIAL)}
    return draft(about, **values, ids=ids, text=text, shown=oracle.streamed(tokens))


def _half_characters(draw: Draw, text: str) -> list[bytes]:
    """A text in tokens of one to four bytes, which end wherever they like."""
    data, found = text.encode(), []
    while data:
        count = draw.integer(1, 4)
        found.append(data[:count])
        data = data[count:]
    return found


def _tokens_and_vocabulary(draw: Draw, tokens: Sequence[bytes]) -> list[bytes]:
    return vocabulary(draw, [(token[:1], token[1:]) for token in tokens if len(token) > 1], SPECIAL)


@recipe()
def decode_plain(draw: Draw) -> Draft:
    """Words and special tokens, spaces at both ends."""
    tokens = [b" "] + [word.encode() for word in prose(draw, 9).split(" ")] + [b"  ", b"\n"]
    at = draw.integer(2, 7)
    tokens = [*tokens[:at], b"<|im_end|>", b"\n", *tokens[at:], b"<|endoftext|>", b" "]
    vocab = _tokens_and_vocabulary(draw, tokens)
    return _decoded(draw, tokens, vocab, "words and special tokens", "单词与特殊 token")


@recipe()
def decode_spread(draw: Draw) -> Draft:
    tokens = _half_characters(draw, wide(draw))
    vocab = _tokens_and_vocabulary(draw, tokens)
    return _decoded(draw, tokens, vocab, "characters over several tokens", "字符跨越多个 token")


BROKEN = (b"\xff", b"\xe9\xb2", b"\x9f\x90", b"\xc3", b"\xf0\x9f\x90", b"\xed\xa0\x80", b"\xc0\xaf")


@recipe()
def decode_invalid(draw: Draw) -> Draft:
    """Bytes that are no UTF-8, between words and at the end."""
    first, second, third = chosen(draw, BROKEN, 3)
    word = draw_word(draw).encode()
    tokens = [word, first, b"a", second, b" ", word, "鲸".encode(), third]
    vocab = _tokens_and_vocabulary(draw, tokens)
    return _decoded(draw, tokens, vocab, "invalid UTF-8", "无效的 UTF-8")


@recipe()
def stream_bytes(draw: Draw) -> Draft:
    """Byte by byte: every kind of character is open for as long as it can be.

    Among them are those whose first byte is the last one of its kind: 0xDF of two, 0xEF of three.
    """
    last = draw.pick(("ߊ", "ߞ", "ߟ")), draw.pick(("！", "，", "？"))
    data = "".join((wide(draw, 3), *last, draw.pick(("🐋", "🌊", "⚓", "👍"))))
    tokens = [bytes([byte]) for byte in data.encode()]
    vocab = _tokens_and_vocabulary(draw, tokens)
    return _decoded(draw, tokens, vocab, "byte by byte", "逐字节")


@recipe()
def stream_spread(draw: Draw) -> Draft:
    """Tokens that end one character and begin the next."""
    tokens = _half_characters(draw, wide(draw, 6) + "鲸鱼🐋e\u0301")
    vocab = _tokens_and_vocabulary(draw, tokens)
    return _decoded(draw, tokens, vocab, "tokens across characters", "token 跨越字符")


@recipe()
def stream_plain(draw: Draw) -> Draft:
    tokens = [word.encode() for word in prose(draw, 6).split(" ")] + [b" ", b"<|im_end|>"]
    vocab = _tokens_and_vocabulary(draw, tokens)
    return _decoded(draw, tokens, vocab, "words", "单词")


@recipe()
def stream_open(draw: Draw) -> Draft:
    """It ends within a character."""
    end = draw.pick((b"\xe9\xb2", b"\xf0\x9f\x90", b"\xf0", b"\xe6"))
    tokens = [*_half_characters(draw, wide(draw, 2)), draw_word(draw).encode()]
    tokens += [bytes([byte]) for byte in end]
    vocab = _tokens_and_vocabulary(draw, tokens)
    return _decoded(draw, tokens, vocab, "ends within a character", "在字符中间结束")


@recipe()
def stream_invalid(draw: Draw) -> Draft:
    """Characters that are never finished, and bytes that begin none."""
    first, second = chosen(draw, BROKEN, 2)
    tokens = [
        b"a",
        *(bytes([b]) for b in first),
        b"b",
        *(bytes([b]) for b in second),
        "鲸".encode(),
    ]
    vocab = _tokens_and_vocabulary(draw, tokens)
    return _decoded(draw, tokens, vocab, "invalid UTF-8", "无效的 UTF-8")
