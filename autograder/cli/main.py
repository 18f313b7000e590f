"""``python -m autograder COMMAND``: parses the command line, then imports what is needed.

Only the standard library is imported before a command runs, so that ``--help`` and the
instructor's side never wait for torch.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path

from autograder.cli import commands as cli_commands
from autograder.cli import student_commands
from autograder.cli.commands import Commands, Parser
from autograder.course import suggestions
from autograder.course.messages import language

# A student's copy is without the first; a course may bring the second along.
INSTRUCTORS = "autograder.cli.instructor_commands"
COURSES = "labs.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status (0 good, 1 something failed, 2 cannot start)."""
    given = sys.argv[1:] if argv is None else argv
    _find_course(given)
    parser = _parser(chinese() if cli_commands.asked(given, language()) == "zh" else {})
    arguments = parser.parse_args(given)
    if arguments.command is None:
        parser.print_help()
        return 0
    if arguments.root:
        os.environ["AUTOGRADER_COURSE"] = arguments.root  # read where paths of the course are
    for stream in (sys.stdout, sys.stderr):
        # A Chinese Windows terminal is GBK: what it cannot show must not end the program.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    remembered = suggestions.ASKED.set(_asked(arguments))
    try:
        status: int = arguments.run(arguments)
        return status
    except ValueError as error:  # our own errors: LabError, SecretError, SourceError, …
        print(f"autograder: {_told(error, arguments.lang)}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `… | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a full disk, a folder that may not be read
        where = f"{error.filename}: " if error.filename else ""
        print(f"autograder: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("autograder: interrupted", file=sys.stderr)
        return 130
    finally:
        suggestions.ASKED.reset(remembered)


def _asked(arguments: argparse.Namespace) -> suggestions.SuggestedOptions:
    """Return what commands that are suggested have to say again."""
    carried = arguments.command == "carry"
    holds_files = carried or arguments.command in suggestions.WITH_FOLDER
    folder = arguments.folder if holds_files else None
    lab = arguments.to if carried else getattr(arguments, "lab", "")
    return suggestions.SuggestedOptions(
        lab=suggestions.number(lab or ""),
        folder=str(folder) if folder else "",
        language=arguments.lang if arguments.lang != language() else "",
    )


def _told(error: ValueError, language: str) -> str:
    """Return what an error says, in ``language`` where it knows more than English."""
    from autograder.course.messages import render
    from autograder.course.records import Message, ToldError
    from autograder.report.terminal import readable

    language = readable(language)
    if isinstance(error, ToldError):
        return error.said.in_(language)
    reason = getattr(error, "reason", None)
    return render(reason, language) if isinstance(reason, Message) else str(error)


def _find_course(words: Sequence[str]) -> None:
    """Let commands of the course be found that ``--course`` in front names, or else its variable.

    The parser that reads the option has to know them already.
    """
    first, second = (*words, "", "")[:2]
    named = second if first == "--course" else first.partition("--course=")[2]
    if root := named or os.environ.get("AUTOGRADER_COURSE"):
        sys.path.insert(0, root)


def chinese() -> dict[str, str]:
    """The words of all commands, from English to Chinese, those of the course among them."""
    brought = _spec(COURSES)
    origin = brought and brought.origin
    return cli_commands.chinese(Path(origin).with_name("help.toml") if origin else None)


def _spec(module: str) -> ModuleSpec | None:
    with suppress(ModuleNotFoundError):  # the package that it would be in
        return importlib.util.find_spec(module)
    return None


def _parser(words: Mapping[str, str]) -> argparse.ArgumentParser:
    """The parser of all commands; its help is in these words (see :class:`Parser`)."""
    text = "Checks and grades the labs of qwen3-labs."
    parser = Parser(prog="autograder", description=text, words=words)
    text = "folder of the course, which holds labs (default: the one that this is called in)"
    parser.add_argument("--course", dest="root", metavar="DIR", help=text)
    commands = Commands(parser)
    student_commands.add(commands)
    for module in (INSTRUCTORS, COURSES):
        if _spec(module) is not None:
            importlib.import_module(module).add(commands)
    return parser
