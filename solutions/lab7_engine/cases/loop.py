"""Cases of the engine: a model that is a table behind blocks, and batches that stand written.

What a text should be comes from its request by itself. Batches come from a scheduler with few
blocks, so that texts are computed in chunks, beside others, and some of them twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.serving import Request
from solutions.reference.oracle_serving import Speaker, alone, schedule

WORDS = ("a", "b", "ab", "ba", " c", "d ", "ca", "dab", "e", " ", "bad", "ac", "f", "ede")
ROWS = 89


def _played(
    draw: Draw,
    requests: Sequence[Request],
    *,
    num_blocks: int = 8,
    budget: int = 9,
    at_once: int = 4,
) -> Draft:
    size = 3
    table = draw.normal(ROWS, len(WORDS), scale=2.0)
    speakers = {r.id: Speaker(r, table, WORDS) for r in requests}
    steps = schedule(
        requests,
        lambda request, text: speakers[request.id].next(text),
        num_blocks=num_blocks,
        block_size=size,
        budget=budget,
        max_running=at_once,
    )
    shown: dict[str, list[list[int]]] = {str(r.id): [] for r in requests}
    told, script, calls = [], [], 0
    tokens = {r.id: list(r.prompt) for r in requests}
    fresh = {r.id: Speaker(r, table, WORDS) for r in requests}
    for step in steps:
        if not step.works:
            continue
        calls += 1
        sampled, stopped = [], []
        for number, _, _, _, last in step.works:
            if last:
                token, ends = fresh[number].next(tokens[number])
                tokens[number].append(token)
                sampled.append([number, token])
                stopped += [[number]] if ends else []
                shown[str(number)].append([calls, fresh[number].shown[-1]])
        told += [sorted(sampled), sorted(stopped)]
        script.append([step.now, [list(work) for work in step.works], step.finished])
    texts = {str(r.id): alone(r, table, WORDS).text for r in requests}
    about = Text(
        f"{len(requests)} requests in {calls} batches of at most {budget} tokens",
        f"{len(requests)} 个请求，{calls} 个批次，每批至多 {budget} 个 token",
    )
    return draft(
        about,
        {"table": table},
        sizes=[num_blocks, size, budget, at_once],
        words=list(WORDS),
        requests=[[list(p) if isinstance(p, tuple) else p for p in astuple(r)] for r in requests],
        script=script,
        texts=texts,
        shown=shown,
        told=told,
        tokens=[sum(len(work[2]) for work in step.works) for step in steps if step.works],
    )


def _prompt(draw: Draw, length: int) -> tuple[int, ...]:
    return tuple(draw.integer(0, len(WORDS) - 1) for _ in range(length))


def _requests(draw: Draw, *plan: tuple[int, int, int], temperature: float = 0.0) -> list[Request]:
    ids = [3 + 2 * int(place) for place in draw.permutation(len(plan))]
    return [
        Request(i, _prompt(draw, n), new, arrival, (), temperature, 40 + i if temperature else 0)
        for i, (n, new, arrival) in zip(ids, plan, strict=True)
    ]


@recipe()
def engine_runs(draw: Draw) -> Draft:
    """One request, its whole prompt at once."""
    return _played(draw, _requests(draw, (draw.pick((5, 7, 4)), 4, 0)), budget=20)


@recipe()
def engine_flat(draw: Draw) -> Draft:
    """Several prompts in one batch, of lengths that differ, then all of them token by token."""
    lengths = draw.pick(((7, 4, 9), (3, 8, 5), (6, 10, 4)))
    return _played(draw, _requests(draw, *((n, 5, 0) for n in lengths)), num_blocks=30, budget=30)


@recipe()
def engine_chunks(draw: Draw) -> Draft:
    """Prompts in chunks beside tokens of others; some texts go back to the line."""
    new = draw.pick((9, 8, 10))
    return _played(draw, _requests(draw, (6, new, 0), (7, new, 0), (5, new, 1), (11, 4, 1)))


@recipe()
def engine_sampled(draw: Draw) -> Draft:
    """A generator for each request; one text is sent back and computed again."""
    new = draw.pick((9, 8, 10))
    plan = (6, new, 0), (7, new, 0), (5, new, 1), (6, 4, 1)
    return _played(draw, _requests(draw, *plan, temperature=0.8))


@recipe()
def engine_late(draw: Draw) -> Draft:
    """Nothing to do at first, and between two requests."""
    first, gap = draw.pick(((2, 9), (3, 8), (4, 11)))
    return _played(draw, _requests(draw, (4, 2, first), (6, 3, first + gap)))


@recipe()
def engine_told(draw: Draw) -> Draft:
    one, other, third = _requests(draw, (5, 6, 0), (14, 4, 0), (3, 5, 1))
    return _played(draw, _stopping(draw, [one, other, third], 12, 1, 2))


def _ahead(draw: Draw) -> torch.Tensor:
    """The table that _played draws next: on a copy of the generator."""
    state = draw._generator.get_state()
    table = draw.normal(ROWS, len(WORDS), scale=2.0)
    draw._generator.set_state(state)
    return table


def _inside(draw: Draw, request: Request) -> Request | None:
    """The request with a stop word that stands within a token, behind its first letter."""
    speaker, tokens = Speaker(request, _ahead(draw), WORDS), list(request.prompt)
    for _ in range(request.max_new_tokens):
        tokens.append(speaker.next(tokens)[0])
        word = WORDS[tokens[-1]]
        start = len(speaker.text) - len(word)
        for at in range(1, len(word)):
            if start and speaker.text.find(word[at:]) == start + at:
                return replace(request, stop=("never", word[at:]))
    return None


def _twice(draw: Draw, request: Request) -> Request | None:
    """The request with a letter as a stop word that first stands in a token that has two.

    The other stop word, named first, stands between the two.
    """
    speaker, tokens = Speaker(request, _ahead(draw), WORDS), list(request.prompt)
    for _ in range(request.max_new_tokens):
        before = speaker.text
        tokens.append(speaker.next(tokens)[0])
        word = WORDS[tokens[-1]]
        twice = [letter for letter in word if word.count(letter) > 1 and letter not in before]
        if before and twice:
            first = word.index(twice[0])  # a longer stop word ends at the second place
            longer = word[first + 1 : word.index(twice[0], first + 1) + 1]
            if longer not in before + word[: first + 1]:
                return replace(request, stop=(longer, twice[0]))
    return None


def _stopping(
    draw: Draw, requests: Sequence[Request], new: int, first: int, length: int
) -> list[Request]:
    """Requests with stop words that would stand in their texts; the table is the next one drawn."""
    table, made = _ahead(draw), []
    for place, request in enumerate(requests):
        longer = replace(request, max_new_tokens=new)
        text = alone(longer, table, WORDS).text
        at = first + place + 2
        made.append(replace(longer, stop=(text[at : at + length + place], "never")))
    return made


@recipe(hidden=2)
def engine_stops(draw: Draw) -> Draft:
    """Stop words at the beginning, in a token, twice in one, over two or three, in the prompt."""
    while True:
        requests = _requests(draw, (4, 9, 0), (5, 9, 0), (6, 9, 1), (3, 9, 1))
        inside, twice = _inside(draw, requests[2]), _twice(draw, requests[3])
        if inside and twice:
            break
    requests = [*_stopping(draw, requests[:2], 14, 1, 2), inside, twice]
    requests.append(replace(twice, id=2, stop=twice.stop[1:]))
    # A stop word that stands in the prompt ends nothing.
    said = "".join(WORDS[token] for token in requests[0].prompt)
    requests.append(replace(requests[0], id=1, stop=(f"{said[-2:]}zz", "zz")))
    # One that the text begins with leaves nothing of it.
    begun = alone(replace(twice, stop=()), _ahead(draw), WORDS).text[:2]
    requests.append(replace(twice, id=0, stop=(begun,)))
    return _played(draw, requests, num_blocks=30, budget=20)


@recipe(hidden=2)
def engine_held(draw: Draw) -> Draft:
    """Texts that end in the middle of what might have been a stop word, or go on otherwise."""
    requests = _requests(draw, (4, 7, 0), (6, 8, 0), (5, 9, 0))
    table, made = _ahead(draw), []
    for place, request in enumerate(requests):
        text = alone(request, table, WORDS).text
        middle = len(text) // 2 - place
        stops = (f"{text[-2 - place :]}!", f"{text[middle : middle + 2]}?", f"{text[1]}#")
        made.append(replace(request, stop=stops))
    return _played(draw, made, num_blocks=30, budget=20)


@recipe()
def engine_streams(draw: Draw) -> Draft:
    return _played(draw, _requests(draw, (4, 5, 0), (8, 3, 0)), num_blocks=20, budget=10)


@recipe()
def engine_generates(draw: Draw) -> Draft:
    """Of the last text, which begins with a stop word, nothing is left."""
    requests = _requests(draw, (5, 4, 0), (3, 6, 0))
    begun = alone(requests[0], _ahead(draw), WORDS).text[:1]
    requests.append(replace(requests[0], id=2, stop=(begun,)))
    return _played(draw, requests, num_blocks=20, budget=20)


@recipe(hidden=2)
def engine_whole(draw: Draw) -> Draft:
    """Prompts that begin alike, sampled and greedy, with stop words, and few blocks."""
    shared = _prompt(draw, 7)
    plan = [(n, 4 + n % 5, n // 2) for n in range(draw.pick((6, 7, 5)))]
    requests = [
        Request(n + 2, (*shared[: 7 - n % 2], *_prompt(draw, 1 + n)), new, at, (), 0.7 * (n % 2), n)
        for n, new, at in plan
    ]
    requests[1] = _stopping(draw, requests[1:2], 9, 1, 2)[0]
    return _played(draw, requests)
