"""The reference of tokens.py is ``tokenizers`` and Hugging Face, proved on all that they share."""

from __future__ import annotations

import functools
import json
import random
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Split

from labs.given.tokenizer import (
    BYTES,
    GPT2_PATTERN,
    PATTERN,
    Vocabulary,
    load_vocabulary,
)
from solutions.lab1_foundations import tokens as solution
from solutions.reference import oracle_tokens as oracle

TINY = Path(__file__).parents[2] / "labs" / "given" / "tiny_qwen3"
# As they stand in tokenizer.json of Qwen3 and in GPT-2's.
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|>!", "<s>"]
TEXTS = (
    "The whale, the whale! Don't you SEE'Re 1851 whales?  \n\n\tYes: naïve cafés, ½ of ²them_all\n",
    "鲸鱼与老人在海上，海鸥飞过。三只船，12 个人，Ⅷ 章。 ",
    "👩‍👩‍👧 family 🏳️‍🌈 e\u0301 is é; a\u0308o\u0308 🐋🐋🐋 नमस्ते สวัสดี \u200d",
    "def mean(xs):\n    return sum(xs) / len(xs)  # aaaa aaaaa aaa\n\n\n",
)
HELDOUT = (TINY / "heldout.txt").read_text(encoding="utf-8")


def library(vocab: Vocabulary, cut: str = QWEN) -> Tokenizer:
    """The tokenizer of that package with the same tokens, built by it and not by us."""
    alphabet = {byte: letter for letter, byte in _alphabet().items()}

    def named(token: bytes) -> str:
        return "".join(alphabet[byte] for byte in token)

    plain = {k: n for k, n in vocab.vocab.items() if k.decode("utf-8", "replace") not in SPECIAL}
    merges = [(named(left), named(right)) for left, right in vocab.merges]
    made = Tokenizer(models.BPE(vocab={named(k): n for k, n in plain.items()}, merges=merges))
    cutter = Split(Regex(cut), "isolated")
    byte_level = ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([cutter, byte_level])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(t, normalized=False) for t in vocab.special_tokens])
    return made


def _alphabet() -> dict[str, int]:
    """How that package writes bytes, asked of itself."""
    found = {}
    for byte in range(0x80):
        ((letter, _),) = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(
            chr(byte)
        )
        found[letter] = byte
    for byte in range(0xC0, 0x100):  # every other one is in the alphabet, in a known order
        found[chr(byte)] = byte
    rest = sorted(set(ByteLevel.alphabet()) - found.keys())
    missing = [byte for byte in range(0x80, 0xC0) if byte not in found.values()]
    printed = [byte for byte in missing if chr(byte) in rest]
    found |= {chr(byte): byte for byte in printed}
    left = [letter for letter in rest if letter not in found]
    return found | dict(zip(left, [b for b in missing if b not in printed], strict=True))


def trained_by_it(parts: Sequence[str], size: int, cut: str = QWEN) -> list[tuple[str, str]]:
    made = Tokenizer(models.BPE())
    cutter = Split(Regex(cut), "isolated")
    byte_level = ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([cutter, byte_level])
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator(parts, trainer)
    return [tuple(pair) for pair in json.loads(made.to_str())["model"]["merges"]]


def in_bytes(merges: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    byte_of = _alphabet().__getitem__
    return [(bytes(map(byte_of, a)), bytes(map(byte_of, b))) for a, b in merges]


def some_text(seed: int, length: int = 400) -> str:
    """Few letters, so that ties and overlaps are frequent."""
    dice = random.Random(seed)
    return "".join(dice.choice("aaabbcd  é鲸\n1'") for _ in range(length))


def test_bytes_are_in_the_order_of_that_alphabet() -> None:
    ordered = sorted(_alphabet().items())
    assert bytes(byte for _, byte in ordered) == BYTES and set(BYTES) == set(range(256))
    assert {letter for letter, _ in ordered} == set(ByteLevel.alphabet())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "theirs"), [(PATTERN, QWEN), (GPT2_PATTERN, GPT2)], ids=["Qwen3", "GPT-2"]
)
def test_patterns_cut_every_character_alike(ours: re.Pattern[str], theirs: str) -> None:
    known = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs")]
    dice = random.Random(0)
    mixed = [*" \t\n\r_'!12", "  ", "\r\n", "'s", "'RE", "'ſ", "é", "鲸", "\x1c", "\x85", "²", "〇"]
    text = "".join(f"a{c} {c}1" for c in known) + "".join(
        dice.choice(mixed if dice.random() < 0.7 else known) for _ in range(50_000)
    )
    pieces = [piece for piece, _ in Split(Regex(theirs), "isolated").pre_tokenize_str(text)]
    assert ours.findall(text) == pieces and "".join(pieces) == text


@pytest.mark.parametrize("text", [*TEXTS, HELDOUT[:6000], *map(some_text, range(12))])
def test_training_is_that_of_the_package(text: str) -> None:
    for size in (257, 300, 420):
        vocab, merges = oracle.train(text, size)
        theirs = in_bytes(trained_by_it([text], size))
        assert merges == theirs
        assert list(vocab.values()) == list(range(len(vocab))) and len(vocab) <= size
        assert (vocab, merges) == solution.train(text, size)


def test_special_tokens_part_the_text_that_is_learned() -> None:
    text = "ab<|im_end|>ab<|im_end|>!ba <s>b<|im_start|>aab" * 3
    parts = re.split(r"<\|im_end\|>!|<\|im_end\|>|<s>|<\|im_start\|>", text)
    vocab, merges = oracle.train(text, 300, SPECIAL)
    assert merges == in_bytes(trained_by_it(parts, 300 - len(SPECIAL)))
    assert [vocab[token.encode()] for token in SPECIAL] == list(range(len(vocab)))[-len(SPECIAL) :]
    assert (vocab, merges) == solution.train(text, 300, SPECIAL)


@functools.cache
def trained() -> Vocabulary:
    text = HELDOUT[:8000] + "".join(TEXTS)
    return Vocabulary(*oracle.train(text, 600, SPECIAL), SPECIAL, PATTERN)


def random_bytes(count: int) -> list[bytes]:
    """Any bytes, and bytes of which many begin or go on with a character."""
    dice = random.Random(7)
    likely = bytes((0x20, 0x61, 0xC3, 0xA9, 0xE9, 0xB2, 0xB8, 0xF0, 0x9F, 0x90, 0x8B, 0xCC, 0x81))
    return [
        bytes(
            dice.choice(likely) if dice.random() < 0.6 else dice.randrange(256)
            for _ in range(dice.randint(0, 24))
        )
        for _ in range(count)
    ]


def test_ten_thousand_random_byte_strings_there_and_back() -> None:
    vocab = trained()
    package, own = library(vocab), solution.Tokenizer(*vocab)
    for data in random_bytes(10_000):
        ids = [vocab.vocab[bytes([byte])] for byte in data]
        text = data.decode("utf-8", "replace")
        assert package.decode(ids, skip_special_tokens=False) == text == own.decode(ids)
        found = own.encode(text)
        assert found == package.encode(text).ids == oracle.encode(text, *vocab)
        assert own.decode(found) == text == package.decode(found, skip_special_tokens=False)
        stream = solution.StreamDecoder(own)
        assert "".join([*map(stream.push, ids), stream.finish()]) == text


@pytest.mark.parametrize("text", [*TEXTS, HELDOUT[-3000:], f"{SPECIAL[1]}a{SPECIAL[3]}!<|im_end|"])
def test_encoding_is_that_of_the_package(text: str) -> None:
    vocab = trained()
    ids = library(vocab).encode(text).ids
    assert ids == oracle.encode(text, *vocab) == solution.Tokenizer(*vocab).encode(text)
    assert oracle.decode(ids, vocab.vocab) == text


@pytest.mark.parametrize("text", [*TEXTS, HELDOUT[-3000:], "The end.<|endoftext|>"])
def test_the_checkpoint_on_board_is_read_right(text: str) -> None:
    package, vocab = Tokenizer.from_file(str(TINY / "tokenizer.json")), load_vocabulary(TINY)
    own = solution.Tokenizer(*vocab)
    ids = package.encode(text).ids
    assert own.encode(text) == oracle.encode(text, *vocab) == ids
    assert own.decode(ids) == package.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("text", TEXTS)
def test_a_stream_never_shows_half_a_character(text: str) -> None:
    vocab = trained()
    own = solution.Tokenizer(*vocab)
    ids = own.encode(text)
    stream, shown = solution.StreamDecoder(own), ""
    parts = oracle.streamed([own.tokens[number] for number in ids])
    for count, (number, part) in enumerate(zip(ids, parts, strict=True), 1):
        new = stream.push(number)
        assert new == part
        shown += new
        assert shown == oracle.decode(ids[:count], vocab.vocab).rstrip("\ufffd")
    assert shown == text and stream.finish() == ""


# The part of Qwen3's template that concerns conversations without tools (tokenizer_config.json).
TEMPLATE = r"""
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""  # noqa: E501

CHATS = (
    [("user", "Hi!")],
    [("system", "Be brief."), ("user", " two\nlines \n")],
    [("user", "1"), ("assistant", "\nplain\n"), ("user", "2")],
    [("user", "1"), ("assistant", "<think>\nwell\n</think>\n\nyes\n"), ("user", "</think>\n2")],
    [("system", ""), ("user", "a"), ("assistant", "x</think>\ny</think>z"), ("user", "b")],
    [("user", "1"), ("system", "between"), ("assistant", "鲸"), ("user", "<|im_end|>")],
)


@pytest.mark.parametrize("turns", CHATS)
@pytest.mark.parametrize("prompt", [False, True])
def test_conversations_are_written_as_hugging_face_does(
    turns: list[tuple[str, str]], prompt: bool
) -> None:
    from transformers import PreTrainedTokenizerFast  # seconds, for this one test

    messages = [{"role": role, "content": content} for role, content in turns]
    package = PreTrainedTokenizerFast(tokenizer_object=library(trained()))
    text = package.apply_chat_template(
        messages, chat_template=TEMPLATE, tokenize=False, add_generation_prompt=prompt
    )
    assert oracle.chat(messages, prompt=prompt) == text
    assert solution.apply_chat_template(messages, prompt) == text


def test_an_embedding_is_that_of_torch() -> None:
    ids = torch.tensor([[2, 0, 3], [3, 3, 1]])
    for padding in (None, 3):
        own, theirs = solution.Embedding(5, 4, padding), torch.nn.Embedding(5, 4, padding)
        own.load_state_dict(theirs.state_dict())
        own.weight.data += 1
        theirs.weight.data += 1
        assert torch.equal(own(ids), theirs(ids))
        for module in (own, theirs):
            module(ids).square().sum().backward()
        assert torch.equal(own.weight.grad, theirs.weight.grad)
        if padding is not None:
            assert not solution.Embedding(5, 4, padding).weight[padding].any()


def test_places_turn_by_a_fixed_angle_from_one_to_the_next() -> None:
    table = oracle.positions(50, 12)
    turn = torch.complex(table[:, 1::2], table[:, 0::2])
    speed = 10_000.0 ** -(torch.arange(0, 12, 2).double() / 12)
    assert torch.allclose(
        turn, torch.polar(torch.ones(50, 6).double(), torch.arange(50)[:, None] * speed)
    )
    assert (solution.sinusoidal_positions(50, 12) - table).abs().max() < 1e-5
