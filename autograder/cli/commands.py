"""What every command of the command line shares: its name, its help, ``--lab`` and ``--lang``."""

from __future__ import annotations

import argparse
import locale
import os
from collections.abc import Callable

from autograder.cli.help_words import Parser

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


def language() -> str:
    """``zh`` or ``en``: what ``LAB_LANG`` asks for, or what this machine speaks."""
    variables = ("LAB_LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    asked = next(filter(None, map(os.environ.get, variables)), "")
    if not asked:
        asked = locale.getlocale()[0] or ""
    return "zh" if asked.lower().startswith(("zh", "chinese")) else "en"
