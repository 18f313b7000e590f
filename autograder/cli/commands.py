"""Parsers of commands: name, help in the reader's language, ``--lab`` and ``--lang``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.course.messages import language

# ``--help`` in the reader's language: the words stand in English where commands are defined.

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


def chinese(more: Path | None = None) -> dict[str, str]:
    """The words of ``messages/help.toml``, from English to Chinese, and of one ``more`` file."""
    from autograder.course.messages import catalogue, read

    said = [text for key, text in catalogue().items() if key.startswith("help.")]
    said += read(more).values() if more is not None and more.is_file() else ()
    return {text.en: text.zh for text in said}


def asked(arguments: Sequence[str], default: str) -> str:
    """The language of ``--help``: what ``--lang`` says, wherever it stands, else ``default``."""
    for word, after in zip(arguments, [*arguments[1:], ""], strict=False):
        if word in ("--lang=zh", "--lang=en") or (word == "--lang" and after in ("zh", "en")):
            return word.partition("=")[2] or after
    return default


Run = Callable[[argparse.Namespace], int]


class Commands:
    """The commands of one parser, by name, so that another part can add options to one."""

    def __init__(self, parser: Parser, *, inner: bool = False) -> None:
        """``inner``: the commands of a command, one of which has to be given."""
        self._parser = parser
        dest, metavar = ("kind", "KIND") if inner else ("command", "COMMAND")
        self._parsers = parser.add_subparsers(dest=dest, metavar=metavar, required=inner)
        self._made: dict[str, argparse.ArgumentParser] = {}

    def __getitem__(self, name: str) -> argparse.ArgumentParser:
        """A command that was added before."""
        return self._made[name]

    def group(self, name: str, text: str) -> Commands:
        """A command that has commands of its own, as ``export canvas``; add them to the result."""
        told, words = self._parser.in_words(text), self._parser.words
        made = self._parsers.add_parser(name, help=told, description=text, words=words)
        return Commands(made, inner=True)

    def add(
        self, name: str, run: Run, text: str, *, lab: str | None = "2"
    ) -> argparse.ArgumentParser:
        """A command with ``--lang``, and with ``--lab`` unless ``lab`` (its default) is None.

        An empty default means all labs.
        """
        told, words = self._parser.in_words(text), self._parser.words
        made = self._parsers.add_parser(name, help=told, description=text, words=words)
        made.set_defaults(run=run)
        if lab is not None:
            same = "2, lab2 and lab2_qwen3_block mean the same"
            made.add_argument("--lab", default=lab, help=same if lab else f"{same}; default: all")
        made.set_defaults(lang_given=False)
        choices = {"choices": ("en", "zh"), "default": language(), "action": _Language}
        made.add_argument("--lang", help="language", **choices)
        self._made[name] = made
        return made


class _Language(argparse.Action):
    """Remembers that somebody has asked for a language, beside which."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, option: object = None
    ) -> None:
        namespace.lang, namespace.lang_given = values, True
