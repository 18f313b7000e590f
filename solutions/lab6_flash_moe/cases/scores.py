"""Cases of the running softmax: scores in blocks of different widths."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_moe

ROWS = ((3, 5), (2, 7), (4, 3), (5, 2))
WIDTHS = ((7, 4, 9, 1), (3, 8, 1, 5), (6, 1, 2, 10), (2, 9, 4, 3))


def _drafted(en: str, zh: str, scores: torch.Tensor, widths: Sequence[int]) -> Draft:
    joined = " + ".join(map(str, widths)) if len(widths) < 9 else f"{len(widths)} x {widths[0]}"
    shape = list(scores.shape[:-1])
    about = Text(f"{en}scores {shape} in blocks of {joined}", f"{zh}分数 {shape}，分块 {joined}")
    maximum, total = oracle_moe.max_and_sum(scores)
    blocks = {
        f"b.{n:03}": block.clone() for n, block in enumerate(torch.split(scores, list(widths), -1))
    }
    return draft(about, {**blocks, "maximum": maximum, "total": total})


def _drawn(draw: Draw, scale: float = 1.0) -> tuple[torch.Tensor, tuple[int, ...]]:
    widths = draw.pick(WIDTHS)
    return draw.normal(*draw.pick(ROWS), sum(widths), scale=scale), widths


@recipe()
def scores_blocks(draw: Draw) -> Draft:
    scores, widths = _drawn(draw, 2.0)
    return _drafted("", "", scores, widths)


def _level(draw: Draw, maximum: float, en: str, zh: str) -> Draft:
    """The same maximum in every block: nothing that was summed up is ever out of date."""
    scores, widths = _drawn(draw)
    scores, first = maximum - 1.25 - scores.abs(), 0
    for width in widths:
        scores[..., first] = maximum
        first += width
    return _drafted(
        f"an equal maximum in every block, {en}", f"每块最大值相同，{zh}", scores, widths
    )


@recipe()
def scores_level(draw: Draw) -> Draft:
    return _level(draw, 1.25, "", "")


@recipe()
def scores_low(draw: Draw) -> Draft:
    """Far below any number that a maximum may be begun with in place of -inf."""
    return _level(draw, -400.0, "all below -400, ", "都不大于 -400，")


@recipe()
def scores_rising(draw: Draw) -> Draft:
    """Every block exceeds the one before."""
    scores, widths = _drawn(draw)
    steps = torch.repeat_interleave(2.0 * torch.arange(len(widths)), torch.tensor(widths))
    return _drafted("rising blocks, ", "逐块上升，", scores.tanh() + steps, widths)


@recipe()
def scores_falling(draw: Draw) -> Draft:
    """The first block holds the maximum, which is below zero."""
    scores, widths = _drawn(draw)
    steps = torch.repeat_interleave(2.0 * torch.arange(len(widths)), torch.tensor(widths))
    return _drafted("falling blocks, ", "逐块下降，", scores.tanh() - 3.0 - steps, widths)


@recipe()
def scores_hidden(draw: Draw) -> Draft:
    """Rows that see nothing in the first block, or nothing at all."""
    scores, widths = _drawn(draw, 2.0)
    scores[0, :, : widths[0]] = -torch.inf
    scores[1, 0] = -torch.inf
    scores[1, 1, widths[0] :] = -torch.inf
    return _drafted("masked blocks, ", "含被屏蔽的块，", scores, widths)


@recipe()
def scores_large(draw: Draw) -> Draft:
    """Scores of hundreds, in which exp overflows or gives nothing."""
    scores, widths = _drawn(draw, 300.0)
    return _drafted("scores of hundreds, ", "数百大小的分数，", scores, widths)


@recipe()
def scores_bfloat16(draw: Draw) -> Draft:
    """Many narrow blocks: sums in bfloat16 drift away."""
    count, width = draw.pick(((40, 6), (36, 7), (44, 5), (50, 4)))
    scores = draw.normal(*draw.pick(ROWS), count * width).bfloat16()
    return _drafted("bfloat16, ", "bfloat16，", scores, (width,) * count)


@recipe()
def scores_many(draw: Draw) -> Draft:
    """Wide blocks, to be handed over once and four times: what is kept would add up."""
    scores = draw.normal(8, 8 * 256)
    return _drafted("", "", scores, (256,) * 8)
