"""Cases of the scheduler: requests, and who computes what in every step.

Each scenario leaves out what the others are about: blocks enough, budget enough, all there at the
beginning, prompts that no other one begins with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.serving import Request, token_of
from solutions.reference.oracle_serving import schedule

Row = list[Any]  # id, prompt, max_new_tokens, arrival, after how many new tokens it stops


def _prompt(draw: Draw, number: int, length: int) -> list[int]:
    return [100 + number, *(draw.integer(1, 9) for _ in range(length - 1))]


def _rows(draw: Draw, plan: Sequence[tuple[int, int, int, int]]) -> list[Row]:
    """Requests of so many tokens, new tokens, an arrival and a stop; ids are not their places."""
    ids = [2 + 3 * int(place) for place in draw.permutation(len(plan))]
    return [
        [number, _prompt(draw, number, length), new, arrival, stop]
        for number, (length, new, arrival, stop) in zip(ids, plan, strict=True)
    ]


def _all_blocks(rows: list[Row], blocks: int, size: int) -> list[Row]:
    """Afterwards somebody comes who needs every block there is: none may be lost by then."""
    number = max(row[0] for row in rows) + 2
    return [*rows, [number, [100 + number, *[3] * (blocks * size - 1)], 1, 80, 0]]


def _drafted(
    rows: list[Row],
    num_blocks: int,
    size: int,
    budget: int,
    most: int,
    about: Text | None = None,
    **values: Any,
) -> Draft:
    """The steps that are right; ``found`` are tokens that the cache holds, by request."""
    stops = {row[0]: row[4] for row in rows}

    def reply(request: Request, text: list[int]) -> tuple[int, bool]:
        made = len(text) + 1 - len(request.prompt)
        return token_of(request.id, len(text)), made == stops[request.id]

    requests = [Request(i, tuple(p), new, arrival) for i, p, new, arrival, _ in rows]
    held = sum(len(text) // size for text in values.get("known", ()))
    steps = schedule(
        requests,
        reply,
        num_blocks=num_blocks - held,
        block_size=size,
        budget=budget,
        max_running=most,
        found=dict(values.get("found", ())),
    )
    works = [
        [step.now, number, start, len(tokens), int(last)]
        for step in steps
        for number, start, tokens, _, last in step.works
    ]
    about = about or Text(
        f"{len(rows)} request{'s' * (len(rows) > 1)}, {num_blocks} blocks of {size}, a budget of "
        f"{budget} tokens, at most {most} at a time",
        f"{len(rows)} 个请求，{num_blocks} 个块，每块 {size} 个 token，每步至多 {budget} 个 token，"
        f"同时至多 {most} 个请求",
    )
    return draft(
        about,
        {"works": torch.tensor(works)},
        sizes=[num_blocks, size, budget, most],
        requests=rows,
        ends=[[step.now, number] for step in steps for number in step.finished],
        left=[[step.now, step.available] for step in steps if step.works],
        preempted=sum(len(step.preempted) for step in steps),
        **values,
    )


@recipe()
def schedule_one(draw: Draw) -> Draft:
    """One request by itself: its prompt, then token by token."""
    return _drafted(_rows(draw, [(draw.pick((5, 8, 7)), 4, 0, 0)]), 9, 3, 20, 2)


@recipe()
def schedule_chunks(draw: Draw) -> Draft:
    """Prompts longer than the budget."""
    lengths = draw.pick(((17, 20, 3), (23, 11, 5), (25, 6, 13)))
    return _drafted(_rows(draw, [(n, 3, 0, 0) for n in lengths]), 40, 4, 7, 5)


@recipe()
def schedule_decodes(draw: Draw) -> Draft:
    """Long prompts come while others write; the budget holds just a token for each.

    Whoever is about to come in, and lacks two tokens, gets one.
    """
    first, late = draw.pick(((4, 15), (3, 13), (5, 18)))
    plan = [(first, 22, 0, 0), (6, 21, 0, 0), (5, 19, 0, 0), (late, 3, 3, 0), (2 * late, 2, 4, 0)]
    return _drafted(_rows(draw, plan), 60, 4, 4, 4)


@recipe()
def schedule_crowd(draw: Draw) -> Draft:
    """More requests than may run at a time; some stop before their end."""
    plan = [(3 + n % 4, 3 + n % 3, 0, 2 * (n % 3 == 1)) for n in range(draw.pick((7, 9, 8)))]
    return _drafted(_all_blocks(_rows(draw, plan), 14, 3), 14, 3, 16, 3)


@recipe()
def schedule_arrivals(draw: Draw) -> Draft:
    """Requests that are added long before they arrive, and not in that order."""
    late = draw.pick((6, 8, 7))
    plan = [(5, 3, late, 0), (4, 6, 2, 0), (7, 2, 0, 0), (3, 2, 2, 0), (4, 2, late + 9, 0)]
    return _drafted(_rows(draw, plan), 60, 4, 20, 4)


@recipe()
def schedule_room(draw: Draw) -> Draft:
    """Blocks for the first in line are missing, and those behind it would fit."""
    big = draw.pick((17, 18, 19))
    plan = [(11, 2, 0, 0), (big, 2, 0, 0), (3, 2, 0, 0), (2, 3, 1, 0)]
    return _drafted(_rows(draw, plan), 7, 4, 40, 4)


def _tight(draw: Draw) -> list[Row]:
    new = draw.pick((9, 8, 10))
    rows = _rows(draw, [(6, new, 0, 0), (7, new, 0, 0), (5, new, 1, 0), (6, 4, 1, 0)])
    return _all_blocks(rows, 8, 3)


@recipe()
def schedule_tight(draw: Draw) -> Draft:
    """Texts grow until there are no blocks left."""
    return _drafted(_tight(draw), 8, 3, 12, 4)


@recipe()
def schedule_back(draw: Draw) -> Draft:
    """Whoever comes back has more to compute than the budget leaves."""
    return _drafted(_tight(draw), 8, 3, draw.pick((5, 6, 4)), 4)


@recipe()
def schedule_tables(draw: Draw) -> Draft:
    return _drafted(_tight(draw), 8, 3, 9, 4)


@recipe()
def schedule_alone(draw: Draw) -> Draft:
    """The youngest needs a block itself, and texts end exactly with all blocks."""
    new = draw.pick((7, 9, 8))
    return _drafted(_rows(draw, [(10 - new + 9, new, 0, 0), (5, 5, 0, 0)]), 6, 3, 11, 3)


def _mixed(draw: Draw) -> list[Row]:
    lengths = [1 + int(n) for n in draw.permutation(11)][:9]
    return _rows(
        draw,
        [(n, 2 + (3 * n) % 7, draw.integer(0, 12), draw.integer(0, 1) * 2) for n in lengths],
    )


@recipe(hidden=2)
def schedule_mixed(draw: Draw) -> Draft:
    """A trace of arrivals, with everything at once."""
    return _drafted(_mixed(draw), draw.pick((8, 9, 7)), 3, 8, 5)


@recipe()
def schedule_fills(draw: Draw) -> Draft:
    return _drafted(_mixed(draw), 9, 3, 7, 4)


@recipe(hidden=2)
def schedule_waits(draw: Draw) -> Draft:
    """Many short ones arrive behind a long one, again and again."""
    plan = [(4, 8, 0, 0), (13, 3, 1, 0), *((2, 3, 1 + n, 0) for n in range(draw.pick((9, 11, 12))))]
    return _drafted(_rows(draw, plan), 6, 3, 14, 4)


@recipe()
def schedule_known(draw: Draw) -> Draft:
    """Beginnings that the cache holds: of three blocks, one, and none."""
    size, late = 4, draw.pick((2, 3, 1))
    known = [[100, *(draw.integer(1, 9) for _ in range(size * n - 1))] for n in (3, 1)]
    known[1][0] = 101
    rows: list[Row] = [
        [5, [*known[0], 3, 4, 5], 4, 0, 0],
        [3, list(known[0]), 3, late, 0],
        [8, [*known[1], *known[0]], 2, late, 0],
        [4, [102, *known[0]], 2, late + 1, 0],
    ]
    found = {5: 3 * size, 3: 2 * size, 8: size, 4: 0}
    about = Text(
        f"4 requests, texts of 3 blocks and of 1 block are known, blocks of {size}",
        f"4 个请求，已有 3 个块与 1 个块的文本，每块 {size} 个 token",
    )
    listed = [[i, n] for i, n in found.items()]
    return _drafted(rows, 30, size, 10, 4, about, known=known, found=listed)


@recipe()
def schedule_turns(draw: Draw) -> Draft:
    """Conversations: each turn begins with all that was said, new tokens included."""
    size = draw.pick((3, 5, 4))
    rows: list[Row] = []
    found = []
    for number in (6, 2):
        text = _prompt(draw, number, 2 * size + 1 + number % 3)
        computed = 0  # tokens of the turns before that stand in blocks
        for turn in range(3):
            this, new = 10 * number + turn, 4 + turn
            rows.append([this, list(text), new, 30 * turn, 0])
            found.append([this, computed // size * size])
            computed = len(text) + new - 1  # the last new token was never computed
            text += [token_of(this, len(text) + n) for n in range(new)] + [7, 7 + turn]
    rows = _all_blocks(rows, 40, size)
    about = Text(
        f"2 conversations of 3 turns, then a text for all blocks, of {size} tokens each",
        f"2 段对话，各 3 轮；最后一个文本用到所有块，每块 {size} 个 token",
    )
    return draft(about, None, None, requests=rows, found=found, sizes=[40, size, 16, 4])


@recipe(hidden=2)
def schedule_pressed(draw: Draw) -> Draft:
    """Texts that begin alike, and too few blocks for all."""
    size = 3
    shared = _prompt(draw, 0, 2 * size + 1)
    rows: list[Row] = [
        [n, [*shared[: 7 - n % 3], 50 + n % 4, *range(n)], 5 + n % 4, n // 2, 0]
        for n in (int(one) + 1 for one in draw.permutation(draw.pick((7, 8, 6))))
    ]
    rows = _all_blocks(rows, 8, size)
    about = Text(
        f"{len(rows)} requests, of which most begin alike, 8 blocks of {size} tokens",
        f"{len(rows)} 个请求，大多开头相同，8 个块，每块 {size} 个 token",
    )
    return draft(about, None, None, requests=rows, sizes=[8, size, 9, 4])


@recipe()
def schedule_again(draw: Draw) -> Draft:
    """Prompts that begin alike, side by side; who goes back finds the other's and would fit.

    It goes back with a block that is not full: if it came in at once, it would begin anew there.
    """
    size = draw.pick((3, 4, 5))
    shared = _prompt(draw, 0, 2 * size)
    rows: list[Row] = [[4, [*shared, 21, 22], size + 3, 0, 0], [9, [*shared, 31], size + 2, 0, 0]]
    rows = _all_blocks(rows, 6, size)
    about = Text(
        f"2 requests that begin alike, then a text for all 6 blocks, of {size} tokens each",
        f"2 个请求开头相同，之后一个文本用到全部 6 个块，每块 {size} 个 token",
    )
    return draft(about, None, None, requests=rows, sizes=[6, size, 8 * size, 4])


@recipe()
def schedule_refuses(draw: Draw) -> Draft:
    """What fits exactly, and what never does."""
    size, blocks = draw.pick(((3, 5), (4, 6), (5, 4)))
    about = Text(f"{blocks} blocks of {size} tokens", f"{blocks} 个块，每块 {size} 个 token")
    return draft(about, None, None, sizes=[blocks, size, 9, 3])
