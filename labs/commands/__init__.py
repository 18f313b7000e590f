"""Commands that this course brings along: ``chat`` and ``serve``, which run a student's model.

``autograder`` finds the package by its name, calls :func:`add`, and reads the words of
``help.toml`` beside it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.cli.commands import Commands

if TYPE_CHECKING:
    from autograder.course.records import Lab

_LIE = "where the files are (default: the lab)"
_WEIGHTS = "another checkpoint folder"


def add(commands: Commands) -> None:
    """Add both."""
    chat = commands.add("chat", _chat, "let the tiny checkpoint write text with your code")
    text = "text to continue; several times where a lab has an engine: all of them at once"
    chat.add_argument("--prompt", action="append", help=text)
    text = "0: always the most likely token; higher: less likely ones too"
    chat.add_argument("--temperature", type=float, default=0.7, help=text)
    text = "random seed: the same seed gives the same text"
    chat.add_argument("--seed", type=int, default=0, help=text)
    chat.add_argument("--tokens", type=int, default=120, help="how many tokens to add")
    chat.add_argument("--folder", type=Path, help=_LIE)
    chat.add_argument("--weights", type=Path, help=_WEIGHTS)
    text = "processes that share the model, in a lab that splits it"
    chat.add_argument("--ranks", type=int, default=1, help=text)
    text = "a file with your own tokenizer, used instead of the checkpoint's"
    chat.add_argument("--tokenizer", type=Path, help=text)

    text = "serve completions over HTTP with your engine, on this machine only"
    serve = commands.add("serve", _serve, text)
    text = "where to listen; 0 takes a free one"
    serve.add_argument("--port", type=int, default=8000, help=text)
    serve.add_argument("--folder", type=Path, help=_LIE)
    serve.add_argument("--weights", type=Path, help=_WEIGHTS)


def _chat(arguments: argparse.Namespace) -> int:
    from autograder.course import labfile
    from labs.commands import chat, engine_chat, own_code, rank_chat

    lab = labfile.load(labfile.find_lab(arguments.lab))
    if not chat.can_talk(lab):
        raise own_code.not_in(lab, "chat", chat.can_talk)
    files, checkpoint = _files(lab, arguments)
    # make hands them on unharmed so
    named = (os.environ.get(name) for name in ("AUTOGRADER_PROMPT", "AUTOGRADER_PROMPT2"))
    given = arguments.prompt or [text for text in named if text]
    prompt, *others = engine_chat.prompts(given) if chat.can_serve(lab) else given or ["Call me"]
    if arguments.tokenizer:
        files[chat.TOKENIZER] = str(arguments.tokenizer)
    if not 0 <= arguments.temperature < 100:
        raise own_code.ChatError(
            f"TEMPERATURE={arguments.temperature:g}: give 0 (no chance) or more, as 0.7",
            f"TEMPERATURE={arguments.temperature:g}：请给 0（不随机）或更大的数，例如 0.7",
        )
    split = chat.is_split(lab)
    if split and arguments.ranks != 1 and not rank_chat.is_rank():
        return rank_chat.start(arguments.ranks, [sys.executable, "-m", "autograder", *sys.argv[1:]])
    status = chat.run(
        files,
        checkpoint,
        prompt,
        arguments.tokens,
        arguments.lang,
        temperature=arguments.temperature,
        seed=arguments.seed,
        split=split,
        others=others,
    )
    if rank_chat.is_rank():
        rank_chat.end(status)
    return status


def _serve(arguments: argparse.Namespace) -> int:
    from autograder.course import labfile
    from labs.commands import chat, own_code, serve

    lab = labfile.load(labfile.find_lab(arguments.lab))
    if not chat.can_serve(lab):
        raise own_code.not_in(lab, "serve", chat.can_serve)
    return serve.run(*_files(lab, arguments), arguments.port, arguments.lang)


def _files(lab: Lab, arguments: argparse.Namespace) -> tuple[dict[str, str], Path]:
    """The student's files, by name in the lab, and the checkpoint."""
    folder = arguments.folder or lab.folder
    checkpoint = arguments.weights or lab.folder.parent / "given" / "tiny_qwen3"
    return {name: str(folder / name) for name in lab.files}, checkpoint
