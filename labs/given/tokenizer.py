"""Qwen3's way to cut a text before it is tokenized, and tokenizers out of their files.

``PATTERN`` is Qwen's own expression, written so that the standard library can run it: ``re``
knows neither ``\\p{L}`` nor ``\\p{N}``, and its ``\\s`` holds four control characters more, so
letters, numbers and spaces stand here as explicit classes. A test cuts every character of Unicode
with both. They differ only in letters that are younger than the Unicode of this Python (3.11 knows
Unicode 14), which hardly any text holds.
Source: ``tokenizer.json`` of Qwen3; Radford et al. 2019 (bytes as printable characters).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

# Numbers that are no decimal digits: ², ½, Ⅷ, ㊂ … (`\d` holds the digits of all scripts).
_OTHER_NUMBERS = (
    r"\xb2\xb3\xb9\xbc-\xbe\u09f4-\u09f9\u0b72-\u0b77\u0bf0-\u0bf2\u0c78-\u0c7e\u0d58-\u0d5e"
    r"\u0d70-\u0d78\u0f2a-\u0f33\u1369-\u137c\u16ee-\u16f0\u17f0-\u17f9\u19da\u2070"
    r"\u2074-\u2079\u2080-\u2089\u2150-\u2182\u2185-\u2189\u2460-\u249b\u24ea-\u24ff"
    r"\u2776-\u2793\u2cfd\u3007\u3021-\u3029\u3038-\u303a\u3192-\u3195\u3220-\u3229"
    r"\u3248-\u324f\u3251-\u325f\u3280-\u3289\u32b1-\u32bf\ua6e6-\ua6ef\ua830-\ua835"
    r"\U00010107-\U00010133\U00010140-\U00010178\U0001018a\U0001018b\U000102e1-\U000102fb"
    r"\U00010320-\U00010323\U00010341\U0001034a\U000103d1-\U000103d5\U00010858-\U0001085f"
    r"\U00010879-\U0001087f\U000108a7-\U000108af\U000108fb-\U000108ff\U00010916-\U0001091b"
    r"\U000109bc\U000109bd\U000109c0-\U000109cf\U000109d2-\U000109ff\U00010a40-\U00010a48"
    r"\U00010a7d\U00010a7e\U00010a9d-\U00010a9f\U00010aeb-\U00010aef\U00010b58-\U00010b5f"
    r"\U00010b78-\U00010b7f\U00010ba9-\U00010baf\U00010cfa-\U00010cff\U00010d40-\U00010d49"
    r"\U00010e60-\U00010e7e\U00010f1d-\U00010f26\U00010f51-\U00010f54\U00010fc5-\U00010fcb"
    r"\U00011052-\U00011065\U000111e1-\U000111f4\U000116d0-\U000116e3\U0001173a\U0001173b"
    r"\U000118ea-\U000118f2\U00011bf0-\U00011bf9\U00011c5a-\U00011c6c\U00011f50-\U00011f59"
    r"\U00011fc0-\U00011fd4\U00012400-\U0001246e\U00016130-\U00016139\U00016b5b-\U00016b61"
    r"\U00016d70-\U00016d79\U00016e80-\U00016e96\U0001ccf0-\U0001ccf9\U0001d2c0-\U0001d2d3"
    r"\U0001d2e0-\U0001d2f3\U0001d360-\U0001d378\U0001e4f0-\U0001e4f9\U0001e5f1-\U0001e5fa"
    r"\U0001e8c7-\U0001e8cf\U0001ec71-\U0001ecab\U0001ecad-\U0001ecaf\U0001ecb1-\U0001ecb4"
    r"\U0001ed01-\U0001ed2d\U0001ed2f-\U0001ed3d\U0001f100-\U0001f10c"
)
_NUMBER = rf"\d{_OTHER_NUMBERS}"  # \p{N}, for the inside of brackets, as the next two
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # \s
_ALNUM = rf"\w{_OTHER_NUMBERS}"  # \p{L}\p{N}, and the underscore, which is neither
_LETTER = rf"[^\W_{_NUMBER}]"  # \p{L}

# Qwen3's own: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}
#              | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
PATTERN = re.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    rf"|(?:_|[^\r\n{_ALNUM}])?{_LETTER}+"
    rf"|[{_NUMBER}]"
    rf"| ?(?:_|[^{_SPACE}{_ALNUM}])+[\r\n]*"
    rf"|[{_SPACE}]*[\r\n]+"
    rf"|[{_SPACE}]+(?![^{_SPACE}])"
    rf"|[{_SPACE}]+"
)
# GPT-2's, which the tiny checkpoint was trained with: only a space may stand before a word.
GPT2_PATTERN = re.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d"
    rf"| ?{_LETTER}+"
    rf"| ?[{_NUMBER}]+"
    rf"| ?(?:_|[^{_SPACE}{_ALNUM}])+"
    rf"|[{_SPACE}]+(?![^{_SPACE}])"
    rf"|[{_SPACE}]+"
)

# All 256 bytes in the order of their ids: those that print come first, as in Qwen's vocabulary.
_PRINTED = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
BYTES = bytes((*_PRINTED, *(byte for byte in range(256) if byte not in _PRINTED)))

# In a file every byte is a character: itself where it prints, else one from U+0100 on ("Ġ": space).
_BYTE_OF = {chr(byte): byte for byte in _PRINTED}
_BYTE_OF |= {chr(0x100 + n): byte for n, byte in enumerate(BYTES[len(_PRINTED) :])}


class Vocabulary(NamedTuple):
    """A byte-level BPE tokenizer as tables, in the order of ``tokens.Tokenizer``'s arguments."""

    vocab: dict[bytes, int]  # the id of every token; special ones are among them, as UTF-8
    merges: list[tuple[bytes, bytes]]  # the earlier, the sooner
    special_tokens: list[str]
    pattern: re.Pattern[str]


def load_vocabulary(folder: str | Path) -> Vocabulary:
    """Read ``tokenizer.json`` of a folder: one of Qwen's kind, or of GPT-2's.

    Raises:
        ValueError: it holds another kind of model than byte-level BPE.
    """
    raw = json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))
    model, cutter = raw["model"], json.dumps(raw["pre_tokenizer"])
    if model["type"] != "BPE" or "ByteLevel" not in cutter:
        raise ValueError(f"{folder}: no byte-level BPE, but {model['type']}")
    special = {added["content"]: added["id"] for added in raw["added_tokens"]}
    vocab = {_bytes(text): number for text, number in model["vocab"].items() if text not in special}
    vocab |= {text.encode(): number for text, number in special.items()}
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
    merges = [(_bytes(left), _bytes(right)) for left, right in pairs]
    return Vocabulary(vocab, merges, list(special), PATTERN if "Regex" in cutter else GPT2_PATTERN)


def _bytes(text: str) -> bytes:
    return bytes(_BYTE_OF[character] for character in text)
