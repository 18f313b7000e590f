"""Cases of the prefix cache: scripts of calls, and how many blocks each finds.

Texts are blocks of tokens from a small vocabulary; sizes of blocks are odd, so that no half fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference.oracle_serving import Blocks

SIZES = (3, 5, 4)
TWIN = 2**61 - 1  # Python's hash of it is that of 0


class _Script:
    """Lines of :func:`labs.given.serving.play`, and a number that is right for each."""

    def __init__(self, draw: Draw, num_blocks: int, size: int = 0) -> None:
        self.num_blocks, self.size = num_blocks, size or draw.pick(SIZES)
        self.draw, self._cache = draw, Blocks(num_blocks, self.size)
        self._lists: dict[str, list[Any]] = {}
        self._new: dict[str, list[int]] = {}
        self.lines: list[list[Any]] = []
        self.want: list[int] = []

    def text(self, blocks: int, extra: int = 0) -> list[int]:
        """So many full blocks of tokens, and some."""
        return [self.draw.integer(1, 9) for _ in range(blocks * self.size + extra)]

    def _line(self, word: str, name: str, what: Any, want: int) -> None:
        self.lines.append([word, name, what])
        self.want.append(want)

    def match(self, name: str, text: Sequence[int]) -> None:
        self._lists[name], self._new[name] = list(self._cache.match(text)), []
        self._line("match", name, list(text), len(self._lists[name]))

    def allocate(self, name: str, count: int) -> None:
        made = self._cache.allocate(count)
        blocks = self._lists.setdefault(name, [])
        if made is not None:
            places = range(len(blocks), len(blocks) + count)
            self._new.setdefault(name, []).extend(places)
            blocks.extend(made)
        self._line("allocate", name, count, -1 if made is None else count)

    def fill(self, name: str, text: Sequence[int]) -> None:
        for place in self._new[name]:
            if (end := (place + 1) * self.size) <= len(text):
                self._cache.fill(self._lists[name][place], text[:end])
        self._line("fill", name, list(text), 0)

    def release(self, name: str) -> None:
        self._cache.release(self._lists.pop(name))
        self._line("release", name, None, 0)

    def available(self) -> None:
        self._line("available", "", None, self._cache.available)

    def serve(self, name: str, text: Sequence[int], *, keep: bool = False) -> None:
        """Find, allocate and fill what a text needs, and give it back."""
        self.match(name, text)
        self.allocate(name, -(-len(text) // self.size) - len(self._lists[name]))
        self.fill(name, text)
        if not keep:
            self.release(name)

    def found(self, text: Sequence[int]) -> None:
        """How much is found, and nothing else."""
        self.match("found", text)
        self.release("found")

    def draft(self) -> Draft:
        about = Text(
            f"{self.num_blocks} blocks of {self.size} tokens, {len(self.lines)} calls",
            f"{self.num_blocks} 个块，每块 {self.size} 个 token，{len(self.lines)} 次调用",
        )
        sizes = [self.num_blocks, self.size]
        return draft(about, sizes=sizes, lines=self.lines, want=self.want)


@recipe()
def cache_runs(draw: Draw) -> Draft:
    script = _Script(draw, 7)
    script.match("a", script.text(2, 1))
    script.allocate("a", 3)
    script.release("a")
    return script.draft()


@recipe()
def cache_counts(draw: Draw) -> Draft:
    """Blocks are counted, known or not, found or not; also when too many are wanted."""
    script = _Script(draw, 8)
    text, other = script.text(3, 2), script.text(2, 1)
    script.available()
    script.serve("a", text, keep=True)
    script.available()
    script.serve("b", other)
    script.available()
    script.allocate("c", 5)
    script.available()
    script.found(other)
    script.allocate("c", 4)
    script.available()
    script.allocate("c", 1)
    script.release("a")
    script.available()
    script.release("c")
    script.available()
    # Nobody owned these until they were found: they cannot be had any more.
    script.match("d", text)
    script.available()
    script.allocate("e", 5)
    script.allocate("e", 1)
    script.release("d")
    script.available()
    return script.draft()


@recipe()
def cache_finds(draw: Draw) -> Draft:
    """Texts that go on from full blocks, or part ways in the middle of one."""
    script = _Script(draw, 17)
    text = script.text(3, 2)
    script.serve("a", text)
    script.found(text)
    script.found([*text, *script.text(2)])
    script.found([*text[: 2 * script.size + 1], 77, *script.text(2)])
    script.found([77, *text[1:]])
    # A turn later: what was generated was filled, too.
    longer = [*text, *script.text(2, 1)]
    script.serve("b", longer)
    script.found([*longer, 5])
    return script.draft()


@recipe()
def cache_last(draw: Draw) -> Draft:
    """Texts that end with a full block, one token before, and one after."""
    script = _Script(draw, 11)
    text = script.text(4)
    script.serve("a", text)
    script.found(text)
    script.found([*text, 3])
    script.found(text[:-1])
    script.found(text[: script.size])
    script.found(text[: script.size + 1])
    script.found(text[:1])
    return script.draft()


@recipe()
def cache_single(draw: Draw) -> Draft:
    """Blocks of a single token: all but the last of a text are found."""
    script = _Script(draw, 7, 1)
    text = [*range(50, 54)]
    script.serve("a", text)
    script.found(text)
    script.found([*text, 3])
    script.found(text[:1])
    script.found(text[:2])
    return script.draft()


@recipe()
def cache_before(draw: Draw) -> Draft:
    """The same block after other blocks, tokens in another order, blocks in another order."""
    script = _Script(draw, 19)
    size = script.size
    one, other, third = ([*script.text(1)[:-1], number] for number in (50, 60, 70))
    script.serve("a", [*one, *other, *third, 1])
    script.found([*other, *third, 1])
    script.found([*other, *one, *third, 1])
    script.found([*one, *third, *other, 1])
    script.found([*one, *[61] * size, *third, 1])
    script.found([*one[::-1], *other, 1])
    glued = [*one[:-2], 10 * one[-2] + one[-1] // 10, one[-1] % 10]  # the same digits in a row
    script.found([*glued, *other, 1])
    script.serve("b", [*third, *other, 1])
    script.found([*third, *other, *third, 1])
    script.found([*one, *other, *third, 1])
    return script.draft()


@recipe()
def cache_hashes(draw: Draw) -> Draft:
    """Texts with the same hash in Python: -1 has that of -2."""
    script = _Script(draw, 13)
    text = script.text(2, 1)
    place = draw.integer(0, script.size - 1)
    twin = [TWIN if at == place else token for at, token in enumerate(text)]
    zero = [0 if at == place else token for at, token in enumerate(text)]
    script.serve("a", twin)
    script.found(zero)
    script.serve("b", zero)
    script.found(zero)
    script.found(twin)
    below = [
        [number if at == place else token for at, token in enumerate(text)] for number in (-1, -2)
    ]
    script.serve("c", below[0])
    script.found(below[1])
    script.found(below[0])
    return script.draft()


@recipe()
def cache_shares(draw: Draw) -> Draft:
    """A block with two owners loses one: it is nobody else's yet."""
    script = _Script(draw, 7)
    text = script.text(2, 1)
    script.serve("a", text, keep=True)
    script.match("b", text)
    script.allocate("b", 1)
    script.match("c", text)
    script.release("a")
    script.available()
    script.allocate("d", 4)
    script.allocate("d", 1)
    script.release("b")
    script.available()
    script.allocate("d", 1)
    script.allocate("d", 1)
    script.found(text)
    script.release("c")
    script.available()
    script.allocate("d", 3)
    script.release("d")
    script.available()
    return script.draft()


@recipe()
def cache_oldest(draw: Draw) -> Draft:
    """Which texts are forgotten when blocks run out."""
    script = _Script(draw, 6)
    one, other, third = (
        [number, *script.text(1)] for number in (50, 60, 70)
    )  # a full block and a token each
    for name, text in zip("abc", (one, other, third), strict=True):
        script.serve(name, text)
    script.found(one)  # now other is the one that nobody used for the longest time
    script.allocate("x", 3)  # the unknown ones
    script.allocate("x", 1)
    script.found(one)
    script.found(third)
    script.found(other)
    script.allocate("x", 1)  # one's, which was looked for before third's
    script.found(third)
    script.found(one)
    return script.draft()


@recipe()
def cache_unknown(draw: Draw) -> Draft:
    """Unknown blocks that were given back after known ones are taken before them all the same."""
    blocks = draw.pick((5, 6, 7))
    script = _Script(draw, blocks)
    one, other = ([number, *script.text(1)] for number in (50, 60))  # a full block and a token each
    script.serve("a", one)
    script.serve("b", other)
    script.allocate("x", blocks - 2)  # the unknown ones
    script.release("x")
    script.allocate("y", blocks - 2)  # the same
    script.found(one)
    script.found(other)
    script.release("y")
    script.allocate("z", blocks - 1)  # one's, too
    script.found(other)
    script.found(one)
    return script.draft()


@recipe()
def cache_ends_first(draw: Draw) -> Draft:
    """Of one text the end goes first, whatever its blocks' numbers; a short older text before."""
    script = _Script(draw, 6)
    for name, count in (("p", 2), ("q", 4)):
        script.allocate(name, count)
    for name in "qp":  # afterwards the unknown blocks stand in another order
        script.release(name)
    short, text = [50, *script.text(1)], [60, *script.text(4)]
    script.serve("a", short)
    script.serve("b", text)
    script.allocate("x", 2)  # the unknown one, and the short text's
    script.found(text)
    script.found(short)
    for count in (1, 2):
        script.allocate("x", count)
        script.found(text)
    return script.draft()


@recipe()
def cache_forgets(draw: Draw) -> Draft:
    """Blocks that are written anew hold nothing of the old text, and can be known again."""
    script = _Script(draw, 4)
    one, other = [50, *script.text(3)[1:], 1], [60, *script.text(3)[1:], 1]
    script.serve("a", one)
    script.serve("b", other)
    script.found(one)
    script.found(other)
    script.allocate("x", 4)  # all of them: whichever comes first
    script.release("x")
    script.found(other)
    script.allocate("c", 4)
    script.fill("c", one)
    script.release("c")
    script.found(one)
    return script.draft()


@recipe()
def cache_twice(draw: Draw) -> Draft:
    """Two requests compute the same text at the same time; one block stays known."""
    script = _Script(draw, 6)
    text = script.text(2, 1)
    script.match("a", text)
    script.allocate("a", 3)
    script.match("b", text)
    script.allocate("b", 3)
    for name in "aba":  # told once more, the first one's block is still the one that is known
        script.fill(name, text)
    script.release("b")
    script.found(text)
    script.allocate("x", 3)
    script.found(text)
    script.release("a")
    script.found(text)
    script.allocate("x", 2)
    script.found(text)
    return script.draft()


@recipe()
def cache_copies(draw: Draw) -> Draft:
    """Of two blocks with the same text, the unknown one is taken before another text is lost."""
    script = _Script(draw, 3)
    text, other = script.text(1, 1), script.text(1, 1)
    for name, wanted in (("a", text), ("b", text), ("d", other)):
        script.match(name, wanted)
        script.allocate(name, 1)
    for name, wanted in (("a", text), ("b", text), ("d", other)):
        script.fill(name, wanted)
    for name in ("d", "a", "b"):
        script.release(name)
    script.allocate("x", 1)
    script.found(other)
    script.found(text)
    return script.draft()


@recipe()
def cache_refuses(draw: Draw) -> Draft:
    """A block is given back once too often."""
    script = _Script(draw, 5)
    script.serve("a", script.text(1, 1), keep=True)
    script.available()
    return script.draft()
