"""``--help`` in the reader's language: the words stand in English where commands are defined."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

# What argparse itself says.
_ARGPARSE = {
    "usage: ": "用法：",
    "positional arguments:": "参数：",
    "options:": "选项：",
    "show this help message and exit": "显示本帮助并退出",
}


class Parser(argparse.ArgumentParser):
    """A parser that says its help in the words of another language, as far as it knows them.

    Args:
        words: from English to the other language; empty for English.
    """

    def __init__(self, *args: Any, words: Mapping[str, str], **options: Any) -> None:
        self.words = words
        super().__init__(*args, **options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """As argparse's, with the help in the reader's language."""
        if "help" in options:
            options["help"] = self.in_words(options["help"])
        return super().add_argument(*names, **options)

    def in_words(self, text: str) -> str:
        """A text in the reader's language; as it is if that has no words for it."""
        return self.words.get(text, text)

    def format_help(self) -> str:
        """argparse's own text, with its own words translated, too."""
        english = self.description
        try:
            self.description = self.in_words(english or "")
            text = super().format_help()
        finally:
            self.description = english
        for theirs, ours in _ARGPARSE.items() if self.words else ():
            text = text.replace(theirs, ours)
        return text


def chinese() -> dict[str, str]:
    """The words of ``messages/help.toml``, from English to Chinese."""
    from autograder.course.messages import catalogue

    said = (text for key, text in catalogue().items() if key.startswith("help."))
    return {text.en: text.zh for text in said}


def asked(arguments: Sequence[str], default: str) -> str:
    """The language of ``--help``: what ``--lang`` says, wherever it stands, else ``default``."""
    for word, after in zip(arguments, [*arguments[1:], ""], strict=False):
        if word in ("--lang=zh", "--lang=en") or (word == "--lang" and after in ("zh", "en")):
            return word.partition("=")[2] or after
    return default
