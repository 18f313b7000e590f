"""Several ranks in this process, one after the other.

A rank runs until it comes to a collective of which nobody knows the others' part yet. When all
have come to the same one, they begin anew, and get what all gave there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autograder.worker import collective


class _Waits(BaseException):
    """What a rank calls, and what it gives; no code of a mutant catches it."""


def on_rank(rank: int, world: int, run: Callable[[], Any]) -> Any:
    """What a rank gives by itself. Raises RuntimeError: it calls the others."""

    def ask(call: str, about: str, data: bytes) -> Sequence[bytes]:
        raise RuntimeError(f"{call} {about}")

    collective.join(rank, world, ask)
    try:
        return run()
    finally:
        collective.leave()


def on_ranks(world: int, run: Callable[[int], Any]) -> tuple[list[Any], int]:
    """What ``run`` gives on every rank, and how many collectives that takes.

    Args:
        world: number of ranks.
        run: called with the rank, several times, and has to do the same each time.

    Raises:
        RuntimeError: the calls of the ranks do not fit together.
    """
    met: list[list[bytes]] = []
    try:
        while True:
            found, waiting = [], []
            for rank in range(world):
                collective.join(rank, world, _ask(met))
                try:
                    found.append(run(rank))
                except _Waits as one:
                    waiting.append(one.args)
            if not waiting:
                return found, len(met)
            if found or len({words for words, _ in waiting}) > 1:
                raise RuntimeError("ranks out of step")
            met.append([data for _, data in waiting])
    finally:
        collective.leave()


def _ask(met: Sequence[Sequence[bytes]]) -> collective.Ask:
    known = iter(met)

    def ask(call: str, about: str, data: bytes) -> Sequence[bytes]:
        for parts in known:
            return parts
        raise _Waits(f"{call} {about}", data)

    return ask
