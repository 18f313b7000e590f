"""Cases of tokens.py: pieces, training and encoding.

Vocabularies have their ids in an order of their own, so that no id can be guessed. What a check
asks, the case decides: where it is about the order of merges nothing is special, where it is
about special tokens no merge matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import combinations, count, pairwise
from typing import Any

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.tokenizer import PATTERN
from solutions.reference import oracle_tokens as oracle
from solutions.reference.oracle_tokens import Pair

from .texts import (
    SPECIAL,
    chosen,
    draw_word,
    learned,
    pairs_of,
    prose,
    text_of,
    until,
    vocabulary,
    wide,
)

SHORT = ("the", "sea", "he", "a", "of", "men")
LINES = re.compile(r"[^\n]+|\n")  # a pattern that lets merges reach across spaces


def _letters(draw: Draw, letters: Sequence[str], count: int) -> list[bytes]:
    return [letters[draw.integer(0, len(letters) - 1)].encode() for _ in range(count)]


def _merging(draw: Draw, tokens: list[bytes], pair: Pair, en: str, zh: str) -> Draft:
    about = Text(
        f"{en}the pair {pair} in {len(tokens)} tokens",
        f"{zh}在 {len(tokens)} 个 token 中合并 {pair}",
    )
    values: dict[str, Any] = {"tokens": text_of(tokens), "pair": text_of(pair)}
    return draft(about, **values, merged=text_of(oracle.merged(tokens, pair)))


@recipe()
def merge_plain(draw: Draw) -> Draft:
    """Tokens of several bytes; the bytes of the pair stand in others, too, cut elsewhere."""
    pair = draw.pick(((b"ab", b"c"), (b"b", b"ca"), (b"ca", b"b"), (b"a", b"bc")))
    tokens = _letters(draw, ["a", "b", "c", "ab", "bc", "ca"], 9)
    whole = b"".join(pair)
    cuts = [(whole[:n], whole[n:]) for n in range(1, len(whole))]
    elsewhere = [token for cut in cuts if cut != pair for token in cut]
    return _merging(draw, [*pair, *tokens, *pair, *elsewhere, b"c", *pair], pair, "", "")


@recipe()
def merge_overlap(draw: Draw) -> Draft:
    """Runs of the same token, of odd and of even length."""
    runs = chosen(draw, (2, 3, 4, 5, 7), 4)
    tokens = [token for n in runs for token in (*[b"o"] * n, b"x")]
    return _merging(draw, tokens, (b"o", b"o"), "runs of one token, ", "同一 token 连续出现，")


def _cut(
    text: str, special: Sequence[str], en: str, zh: str, pattern: re.Pattern[str] = PATTERN
) -> Draft:
    pieces = [piece for piece, _ in oracle.pieces(text, special, pattern)]
    values: dict[str, Any] = {"text": text, "special": list(special), "pieces": pieces}
    return draft(Text(en, zh), **values, **_named(pattern))


def _named(pattern: re.Pattern[str]) -> dict[str, Any]:
    return {} if pattern is PATTERN else {"pattern": pattern.pattern}


def _lines(draw: Draw) -> str:
    return "\n".join(prose(draw, 4) for _ in range(4))


@recipe()
def cut_plain(draw: Draw) -> Draft:
    word = draw_word(draw)
    text = f"{prose(draw, 6)}  {word}'s  {draw.integer(1000, 9999)}"
    text += f"\n\n\t{word.title()}_{word}!? \n{word} "
    return _cut(text, (), "words, numbers, spaces", "单词、数字与空格")


@recipe()
def cut_wide(draw: Draw) -> Draft:
    return _cut(f" {wide(draw)}e\u0301\r\n ", (), "many scripts", "多种文字")


@recipe()
def cut_lines(draw: Draw) -> Draft:
    return _cut(_lines(draw), (), "a pattern that cuts at lines", "按行切分的 pattern", LINES)


def _with_special(draw: Draw) -> tuple[str, list[str]]:
    """A text that holds every special token, side by side, inside of words and in spaces."""
    special = list(SPECIAL)
    parts = [f"{draw_word(draw)}{token}{' ' * draw.integer(0, 1)}" for token in special]
    first, second = chosen(draw, special, 2)
    text = "".join(chosen(draw, parts, len(parts)))
    return f"{text}{first}{second} |<|im_start{draw_word(draw)}", special


@recipe()
def cut_special(draw: Draw) -> Draft:
    text, special = _with_special(draw)
    return _cut(text, special, f"{len(special)} special tokens", f"{len(special)} 个特殊 token")


@recipe()
def cut_special_lines(draw: Draw) -> Draft:
    """Between special tokens, the pattern that is given cuts."""
    text, special = _with_special(draw)
    words = "special tokens, and a pattern that cuts at lines", "特殊 token 与按行切分的 pattern"
    return _cut(f"{prose(draw, 4)}\n{text}", special, *words, LINES)


def _trained(
    text: str,
    size: int,
    special: Sequence[str],
    en: str,
    zh: str,
    pattern: re.Pattern[str] = PATTERN,
) -> Draft:
    vocab, merges = oracle.train(text, size, special, pattern)
    about = Text(f"{en}, vocabulary of {size}", f"{zh}，词表大小 {size}")
    values: dict[str, Any] = {"text": text, "size": size, "special": list(special)}
    values |= _named(pattern)
    return draft(about, **values, merges=pairs_of(merges), vocab=text_of(list(vocab)))


def _is_clear(text: str, size: int, pattern: re.Pattern[str] = PATTERN) -> bool:
    """Whether no two pairs are ever as frequent as the one that is merged."""
    low = _merges(text, size, lambda pair, ids: (ids[pair[0]], ids[pair[1]]), pattern)
    return low == _merges(text, size, lambda pair, ids: (-ids[pair[0]], -ids[pair[1]]), pattern)


def _merges(
    text: str,
    size: int,
    rank: Callable[[Pair, dict[bytes, int]], Any],
    pattern: re.Pattern[str] = PATTERN,
) -> list[Pair]:
    """Merges of a text where ties go by ``rank``, the lowest first."""
    pieces = oracle.pieces(text, (), pattern)
    words = {tuple(bytes([b]) for b in p.encode()): 0 for p, _ in pieces}
    for piece, _ in pieces:
        words[tuple(bytes([b]) for b in piece.encode())] += 1
    ids = {token: number for number, token in enumerate(oracle.BASE)}
    merges: list[Pair] = []
    while len(ids) < size and (pairs := oracle.counted(words)):
        best = min(pairs, key=lambda pair: (-pairs[pair], rank(pair, ids)))
        merges.append(best)
        ids[b"".join(best)] = len(ids)
        words = {tuple(oracle.merged(word, best)): n for word, n in words.items()}
    return merges


@recipe()
def train_counts(draw: Draw) -> Draft:
    """Words, some of them often: what is counted decides, and no tie."""
    size = draw.pick((262, 263, 264, 261))
    text = until(lambda: prose(draw, 60), lambda text: _is_clear(text, size))
    return _trained(text, size, (), "no ties", "没有并列")


@recipe()
def train_overlap(draw: Draw) -> Draft:
    """Runs of a letter: overlapping pairs count, and one piece is not like the next."""

    def made() -> str:
        runs = [f"{'o' * draw.integer(2, 7)}{'h' * draw.integer(0, 3)}" for _ in range(14)]
        return " ".join(runs)

    def good(text: str) -> bool:
        return _is_clear(text, 260) and any(a == b for a, b in oracle.train(text, 260)[1])

    return _trained(until(made, good), 260, (), "runs of letters", "连续的字母")


@recipe()
def train_wide(draw: Draw) -> Draft:
    """Characters of several bytes that share their first ones."""

    def made() -> str:
        words = [wide(draw, 2) for _ in range(3)]
        return "".join(words[n] for n in (0, 1, 0, 2, 1, 0, 0)) + "鲸鲸鱼"

    text = until(made, lambda text: _is_clear(text, 260))
    return _trained(text, 260, (), "characters of several bytes", "多字节字符")


@recipe()
def train_lines(draw: Draw) -> Draft:
    """What is merged first reaches across a space, as this pattern cuts at lines only."""
    size = draw.pick((262, 263, 264))

    def made() -> str:
        # Short words, one of them half of the time: pairs across a space are as frequent as any.
        words = chosen(draw, SHORT, 4)
        odds = draw.uniform(4, 12, low=0, high=1) ** 2 * len(words)
        return "\n".join(" ".join(words[int(n)] for n in line) for line in odds.tolist())

    def good(text: str) -> bool:
        merges = oracle.train(text, size, (), LINES)[1]
        return _is_clear(text, size, LINES) and merges != oracle.train(text, size)[1]

    text = until(made, good)
    return _trained(text, size, (), "a pattern that cuts at lines", "按行切分的 pattern", LINES)


@recipe()
def train_ties(draw: Draw) -> Draft:
    """Pairs that are as frequent: every other rule gives other merges."""
    others: tuple[Callable[[Pair, dict[bytes, int]], Any], ...] = (
        lambda pair, ids: 0,  # the first that is met
        lambda pair, ids: pair,  # by bytes
        lambda pair, ids: (ids[pair[1]], ids[pair[0]]),  # right ids first
        lambda pair, ids: [-ids[token] for token in pair],
        lambda pair, ids: [tuple(-byte for byte in token) for token in pair],
        lambda pair, ids: ids[pair[0]] + ids[pair[1]],
    )

    def made() -> str:
        return " ".join(chosen(draw, ("ba", "dc", "cab", "bd", "ad", "cc", "éb", "da"), 6))

    def good(text: str) -> bool:
        right = oracle.train(text, 262)[1]
        return all(_merges(text, 262, other) != right for other in others)

    return _trained(until(made, good), 262, (), "ties", "有并列")


@recipe()
def train_special(draw: Draw) -> Draft:
    """Special tokens whose letters would be the most frequent, were they counted.

    They part what is around them: without them, or with spaces in their place, merges differ.
    """
    special, tries = chosen(draw, SPECIAL[:4], 3), count()

    def made() -> str:  # longer ones are good more often
        words = prose(draw, 40 + next(tries) // 25 * 20).split(" ")
        return "".join(word + (special[n % 3] if n % 2 else " ") for n, word in enumerate(words))

    def good(text: str) -> bool:
        pieces = oracle.pieces(text, special)
        parts = [piece for piece, is_special in pieces if not is_special]
        if not _is_clear("\n\n".join(parts), 262):  # no piece goes on behind a line break
            return False
        right = oracle.train(text, 262 + 3, special)[1]
        gaps = ("".join(gap if is_special else p for p, is_special in pieces) for gap in ("", " "))
        return all(oracle.train(other, 262)[1] != right for other in gaps)

    return _trained(until(made, good), 262 + 3, special, "3 special tokens", "3 个特殊 token")


@recipe()
def train_end(draw: Draw) -> Draft:
    """So few words that there is nothing left to merge before the vocabulary is full."""
    word, end = draw.pick(("of", "in", "at", "by")), draw.pick(("x", "s", "e", "a"))
    text = f"{word} {word} {word}{end}"  # no ties, and pairs that stand there only once
    vocab, merges = oracle.train(text, 400, ["<|end|>"])
    assert len(vocab) < 300 and merges
    return _trained(text, 400, ["<|end|>"], "few words", "单词很少")


@recipe()
def train_none(draw: Draw) -> Draft:
    """Room for bytes and special tokens only."""
    special = chosen(draw, SPECIAL, draw.pick((2, 1, 3)))
    return _trained(prose(draw, 5), 256 + len(special), special, "no room", "没有空间")


@recipe()
def train_little(draw: Draw) -> Draft:
    """Less room than bytes and special tokens take; all of them are there anyway."""
    size = draw.pick((257, 200, 256))
    return _trained(prose(draw, 5), size, chosen(draw, SPECIAL, 3), "too little room", "空间不足")


def _encoded(
    text: str,
    vocab: list[bytes],
    merges: list[Pair],
    special: Sequence[str],
    en: str,
    zh: str,
    pattern: re.Pattern[str] = PATTERN,
) -> Draft:
    ids = oracle.encode(text, {t: n for n, t in enumerate(vocab)}, merges, special, pattern)
    about = Text(f"{en}, {len(text)} characters", f"{zh}，{len(text)} 个字符")
    values: dict[str, Any] = {
        "vocab": text_of(vocab),
        "merges": pairs_of(merges),
        "special": list(special),
    }
    return draft(about, **values, **_named(pattern), text=text, ids=ids)


def _greedy(text: str, vocab: list[bytes]) -> list[int]:
    """Ids by the longest token that fits at each place: what BPE is often taken for."""
    ids = {token: number for number, token in enumerate(vocab)}
    found = []
    for piece, _ in oracle.pieces(text):
        rest = piece.encode()
        while rest:
            end = next(n for n in range(len(rest), 0, -1) if rest[:n] in ids)
            found.append(ids[rest[:end]])
            rest = rest[end:]
    return found


def _leftmost(text: str, vocab: list[bytes], pairs: Collection[Pair]) -> list[int]:
    """Ids by the leftmost pair that is any merge."""
    ids = {token: number for number, token in enumerate(vocab)}
    found = []
    for piece, _ in oracle.pieces(text):
        tokens = [bytes([byte]) for byte in piece.encode()]
        while known := [pair for pair in pairwise(tokens) if pair in pairs]:
            tokens = oracle.merged(tokens, known[0])
        found += [ids[token] for token in tokens]
    return found


@recipe()
def encode_ranks(draw: Draw) -> Draft:
    """The order of merges matters: neither the longest token nor the leftmost pair is right."""

    def made() -> Draft:
        merges = learned(draw, merges=60)
        return _encoded(prose(draw, 14), vocabulary(draw, merges), merges, (), "words", "单词")

    def good(made: Draft) -> bool:
        vocab = [token.encode("latin-1") for token in made.values["vocab"]]
        pairs = {(a.encode("latin-1"), b.encode("latin-1")) for a, b in made.values["merges"]}
        text = made.values["text"]
        found = (made.values["ids"], _greedy(text, vocab), _leftmost(text, vocab, pairs))
        return all(a != b for a, b in combinations(found, 2))

    return until(made, good)


@recipe()
def encode_runs(draw: Draw) -> Draft:
    """Runs of one letter, with merges of two and of four of them.

    The last merges are never made: before o and oo could meet, o and o have; so ooo is a token
    that no piece becomes, not even that of its own letters.
    """
    merges = [(b"o", b"o"), (b"oo", b"oo"), (b"h", b"o"), (b"o", b"h"), (b" ", b"oo")]
    merges = [merges[0], *(merges[n + 1] for n in draw.permutation(4).tolist())]
    merges += [(b"o", b"oo"), (b" ", b"ooo")]
    words = [f"{'h' * draw.integer(0, 2)}{'o' * draw.integer(3, 9)}" for _ in range(7)] + ["ooo"]
    vocab = vocabulary(draw, merges)
    return _encoded(" ".join(words), vocab, merges, (), "runs of one letter", "同一字母连续出现")


@recipe()
def encode_pieces(draw: Draw) -> Draft:
    """Merges that reach across pieces are there, and never to be made."""
    across = [(b"e", b" "), (b"s", b" "), (b",", b" "), (b"1", b"2"), (b"d", b" "), (b"\n", b"t")]
    merges = [*across, *learned(draw)]
    text = f"{prose(draw, 8)}\nthe 12{draw.integer(1, 9)}12 {draw_word(draw)}s {draw_word(draw)}"
    vocab = vocabulary(draw, merges)
    return _encoded(text, vocab, merges, (), "merges across pieces", "跨越片段的合并")


@recipe()
def encode_lines(draw: Draw) -> Draft:
    """The same merges, to be made where a line is a piece."""
    merges = [(b"e", b" "), (b"s", b" "), (b",", b" "), (b".", b"\n"), *learned(draw)]
    vocab = vocabulary(draw, merges)
    text = f"{_lines(draw)} the {draw_word(draw)}s {draw_word(draw)}"
    about = "a pattern that cuts at lines", "按行切分的 pattern"
    return _encoded(text, vocab, merges, (), *about, LINES)


@recipe()
def encode_special(draw: Draw) -> Draft:
    text, special = _with_special(draw)
    vocab = vocabulary(draw, merges := learned(draw), special)
    return _encoded(text, vocab, merges, special, "special tokens", "特殊 token")


@recipe()
def encode_unseen(draw: Draw) -> Draft:
    """What no training text held: all of it falls apart into bytes."""
    vocab = vocabulary(draw, merges := learned(draw))
    text = f"  {wide(draw)}e\u0301\t{draw_word(draw).upper()}\r\n "
    return _encoded(text, vocab, merges, (), "unseen characters", "没见过的字符")


@recipe()
def encode_empty(draw: Draw) -> Draft:
    vocab = vocabulary(draw, merges := learned(draw, merges=4))
    return _encoded("", vocab, merges, (), "an empty text", "空文本")
