"""The oracle of lab 7's engine holds what its words promise."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch

from labs.given.serving import PagedModel, Request, TextModel, choose, probabilities, token_of
from solutions.reference import oracle_serving
from solutions.reference.oracle_serving import Blocks, alone, schedule, speculate

WORDS = ("a", "b", "ab", " c", "d", "e")
SIZES = {"num_blocks": 7, "block_size": 3, "budget": 8, "max_running": 4}


def _requests(seed: int) -> list[Request]:
    draw = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=draw))

    return [
        Request(i, tuple(number(0, 5) for _ in range(number(1, 9))), number(1, 8), number(0, 9))
        for i in range(8)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_a_schedule_keeps_to_its_limits_and_serves_all(seed: int) -> None:
    """Budget, blocks and places are never exceeded; every token comes once, every text ends."""
    requests = _requests(seed)
    steps = schedule(requests, lambda r, text: (token_of(r.id, len(text)), False), **SIZES)
    ends = Counter(number for step in steps for number in step.finished)
    assert ends == Counter(request.id for request in requests)
    sampled: Counter[int] = Counter()
    running: set[int] = set()
    for step in steps:
        assert sum(len(work[2]) for work in step.works) <= SIZES["budget"]
        running -= {*step.preempted}
        running |= {number for number, *_ in step.works}
        assert len(running) <= SIZES["max_running"]
        tables = [block for *_, blocks, _ in step.works for block in blocks]
        assert len(tables) == len({*tables}) <= SIZES["num_blocks"]
        left = SIZES["num_blocks"] - len(tables)
        idle = len(running) > len(step.works)  # who runs and computes nothing owns blocks, too
        assert step.available < left if idle else step.available == left
        sampled.update(number for number, *_, last in step.works if last)
        running -= {*step.finished}
    assert sampled == {request.id: request.max_new_tokens for request in requests}


def test_texts_through_blocks_are_those_of_the_whole_text() -> None:
    """The model behind blocks scores a schedule's batches as the one that sees whole texts."""
    table = torch.randn(53, len(WORDS), generator=torch.Generator().manual_seed(1))
    whole, paged = TextModel(table), PagedModel(table, 7, 3)
    texts = {r.id: list(r.prompt) for r in _requests(3)}

    def reply(request: Request, text: list[int]) -> tuple[int, bool]:
        token = int(whole(torch.tensor(text))[-1].argmax())
        texts[request.id].append(token)
        return token, False

    for step in schedule(_requests(3), reply, **SIZES):
        for number, start, tokens, blocks, last in step.works:
            places = torch.arange(start, start + len(tokens))
            end = start + len(tokens)
            given = torch.tensor([0, len(tokens)]), torch.tensor([blocks]), torch.tensor([end])
            scores = paged(torch.tensor(tokens), places, *given)
            if last:
                assert int(scores[-1].argmax()) == texts[number][end]


def test_a_text_ends_before_its_stop_word() -> None:
    """And what may be shown never goes back."""
    table = torch.randn(53, len(WORDS), generator=torch.Generator().manual_seed(2))
    free = alone(Request(0, (1, 2), 12), table, WORDS).text
    for at, length in itertools.product(range(1, len(free) - 3), (1, 2, 3)):
        stop = free[at : at + length]
        spoken = alone(Request(0, (1, 2), 12, stop=(stop,)), table, WORDS)
        assert spoken.stopped and spoken.text == free[: free.find(stop)]
        assert spoken.shown == sorted(spoken.shown) and spoken.shown[-1] == len(spoken.text)


def test_a_cache_finds_what_it_was_told() -> None:
    """Whole blocks only, never the last token, and unknown blocks are taken first."""
    cache, text = Blocks(4, 2), [1, 2, 3, 4, 5]
    blocks = cache.allocate(2)
    assert blocks is not None
    for place, block in enumerate(blocks):
        cache.fill(block, text[: 2 * place + 2])
    cache.release(blocks)
    assert cache.match(text) == blocks and cache.available == 2
    cache.release(blocks)
    assert cache.match(text[:4]) == blocks[:1]
    cache.release(blocks[:1])
    assert cache.allocate(5) is None and cache.allocate(2) is not None
    assert len(cache.match(text)) == 2


def test_a_speculative_step_has_the_distribution_of_the_target() -> None:
    """Over a fine grid of uniforms the first token comes as often as the target says."""
    vocab, grid = 3, [(n + 0.5) / 24 for n in range(24)]
    draw = torch.Generator().manual_seed(5)
    small, large = (torch.randn(31, vocab, generator=draw) for _ in range(2))
    made: Counter[int] = Counter()
    for uniforms in itertools.product(grid, repeat=3):
        tokens, _ = speculate(small, large, [1, 0], 1, 1.0, uniforms)
        made[tokens[0]] += 1
    row = oracle_serving.row_of([1, 0], 31)
    want = probabilities(large[row], 1.0)
    got = torch.tensor([made[token] / 24**3 for token in range(vocab)])
    assert torch.allclose(got.double(), want, atol=0.03)
    assert choose(want, 0.0) == int((want.cumsum(0) <= 0).sum())
