"""Lets an engine talk: several prompts at once, side by side in one terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from autograder.course.records import Text
from autograder.report.escape import folded, width
from labs.commands.engine_parts import ByteText, EngineParts, Sizes
from labs.commands.own_code import ChatError

# Who gives one prompt hears another one beside it; both of these begin alike.
PROMPTS = (
    "The whale rose from the sea, and the captain",
    "The whale rose from the sea, and the men",
)
SIZES = Sizes(num_blocks=512, block_size=4, token_budget=64, max_running=8)
BETWEEN = " | "
NARROWEST = 24  # columns of a text that stands beside another


def prompts(given: Sequence[str]) -> list[str]:
    """At least two: those given, and ours."""
    return [*given, *PROMPTS[: max(0, 2 - len(given))]]


class Column:
    """One text, row by row; ``rows`` are those that no longer change."""

    def __init__(self, columns: int) -> None:
        self._columns, self._rest = columns, ""
        self.rows: list[str] = []

    def add(self, text: str) -> None:
        """More of the text."""
        *whole, self._rest = (self._rest + text).split("\n")
        for paragraph in whole:
            self.rows += self._folded(paragraph) or [""]
        lines = self._folded(self._rest)
        if len(lines) > 1:
            space = " " if self._rest[-1].isspace() else ""
            self.rows += lines[:-1]
            self._rest = lines[-1] + space

    def end(self) -> None:
        """Nothing comes any more."""
        self.rows += self._folded(self._rest)
        self._rest = ""

    def _folded(self, text: str) -> list[str]:
        found = []
        for row in folded(text, self._columns):
            while width(row) > self._columns:  # a word that is longer than a row
                most = self._columns
                while width(row[:most]) > self._columns:
                    most -= 1
                found.append(row[:most])
                row = row[most:]
            found.append(row)
        return found


class Terminal:
    """Texts side by side; one below the other, each row with its number, where it is narrow.

    A row is printed once no text that still grows can change it: no cursor has to go back.
    """

    def __init__(self, count: int, columns: int) -> None:
        each = (columns - len(BETWEEN) * (count - 1)) // count
        self._beside = each >= NARROWEST
        self._each = each if self._beside else max(8, columns - len(f"{count}{BETWEEN}"))
        self._columns = [Column(self._each) for _ in range(count)]
        self._open, self._printed = set(range(count)), 0

    def add(self, number: int, text: str) -> None:
        """More of one text; not printed before the next :meth:`show`."""
        self._columns[number].add(text)

    def end(self, number: int) -> None:
        """A text is over."""
        if number in self._open:
            self._open.remove(number)
            self._columns[number].end()

    def show(self) -> None:
        """Print the rows that are whole."""
        made = [len(column.rows) for column in self._columns]
        ready = min((made[number] for number in self._open), default=max(made))
        for at in range(self._printed, ready):
            rows = [column.rows[at] if at < len(column.rows) else "" for column in self._columns]
            if self._beside:
                padded = (row + " " * (self._each - width(row)) for row in rows)
                print(BETWEEN.join(padded).rstrip(), flush=True)
                continue
            for number, row in enumerate(rows, 1):
                if at < made[number - 1]:
                    print(f"{number}{BETWEEN}{row}".rstrip(), flush=True)
        self._printed = max(self._printed, ready)


def talk(
    parts: EngineParts,
    given: Sequence[str],
    tokens: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
) -> Text:
    """Continue several prompts in one engine, and print the texts as they come.

    Each prompt arrives a step later than the one before it, which may thus find its blocks.

    Args:
        parts: of the engine.
        given: the prompts as text.
        tokens: the same as tokens.
        max_new_tokens: how many to add to each.
        temperature: 0 takes the likeliest token.
        seed: of chance; every prompt has a generator of its own that begins at it.

    Returns:
        What was counted.

    Raises:
        ChatError: a text would be too long; or see :class:`CountedScheduler`.
    """
    from labs.given.serving import Request

    most = max(map(len, tokens)) + max_new_tokens
    if most > parts.longest:
        raise ChatError(
            f"Prompt and new tokens are {most} in all; the model can do {parts.longest}.",
            f"提示和新 token 一共 {most} 个；模型最多能处理 {parts.longest} 个。",
        )
    requests = [
        Request(at, tuple(ids), max_new_tokens, at, parts.end, temperature, seed)
        for at, ids in enumerate(tokens)
    ]
    terminal = Terminal(len(given), shutil.get_terminal_size().columns - 1)
    texts = [ByteText() for _ in given]
    for number, prompt in enumerate(given):
        terminal.add(number, prompt)  # shown with the first piece: before it, an error may be all
    heard = False
    try:
        engine = parts.engine(parts.model, parts.scheduler, parts.words)
        for number, piece in engine.stream(requests):
            heard = True
            for ended in parts.scheduler.ended:
                terminal.end(ended)
            terminal.add(number, texts[number].add(piece))
            terminal.show()
        heard = True
    finally:
        if heard:
            for number, text in enumerate(texts):
                terminal.add(number, text.rest())
                terminal.end(number)
            terminal.show()
    return parts.scheduler.counts()
