"""Cases of generation, on a stand-in model whose scores are a table."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe

from .sampling import ROWS, chances
from .sizes import left_padded

# vocabulary, tokens, batch, new tokens
SIZES = ((31, 7, 3, 6), (29, 9, 4, 5), (37, 5, 2, 8))


def _table(draw: Draw, vocab: int) -> torch.Tensor:
    """Scores ``[vocab, vocab]``, all of a row different, and near each other."""
    return torch.stack([draw.permutation(vocab).float() for _ in range(vocab)]) * 0.01 + 4.5


def _ids(draw: Draw, vocab: int, batch: int, tokens: int) -> torch.Tensor:
    return torch.stack([draw.permutation(vocab)[:tokens] for _ in range(batch)])


def continued(
    table: torch.Tensor, ids: torch.Tensor, keep: torch.Tensor, new: int, eos: int | None
) -> torch.Tensor:
    """The prompt and the likeliest tokens after it, row by row; ``[B, T + n]``."""
    rows = []
    for row, real in zip(ids.tolist(), keep.tolist(), strict=True):
        total = sum(token + 1 for token, one in zip(row, real, strict=True) if one)
        added: list[int] = []
        for _ in range(new):
            if eos is not None and eos in added:
                added.append(eos)
                continue
            added.append(int(table[total % len(table)].argmax()))
            total += added[-1] + 1
        rows.append(row + added)
    longest = new
    if eos is not None:
        ends = [row[ids.shape[1] :] for row in rows]
        longest = max(e.index(eos) + 1 if eos in e else new for e in ends)
    return torch.tensor(rows)[:, : ids.shape[1] + longest]


def _drafted(
    draw: Draw, en: str = "", zh: str = "", *, padded: bool = False, ends: bool = False
) -> Draft:
    vocab, tokens, batch, new = draw.pick(SIZES)
    while True:  # until rows end where they should
        table, ids = _table(draw, vocab), _ids(draw, vocab, batch, tokens)
        keep = left_padded(draw, batch, tokens) if padded else torch.ones_like(ids)
        plain = continued(table, ids, keep, new, None)
        eos: int | None = None
        if not ends:
            y = plain
            unmasked = continued(table, ids, torch.ones_like(ids), new, None)
            if padded and bool((unmasked[1] == y[1]).all()):
                continue  # by chance the padding makes no difference
            break
        eos = int(plain[0, tokens + 1])
        ids[1, -1] = eos
        y = continued(table, ids, keep, new, eos)
        first, second, *_ = (row.tolist() for row in y[:, tokens:])
        # One row ends early. Another, whose prompt ends with that token, is not done by that.
        if first.index(eos) == 1 and eos not in second[:2]:
            break
    tensors: dict[str, Any] = {"table": table, "ids": ids, "y": y}
    if padded:
        tensors["keep"] = keep
    about = Text(
        f"{en}{batch} x {tokens} tokens, at most {new} more",
        f"{zh}{batch} x {tokens} 个 token，最多再生成 {new} 个",
    )
    return draft(about, tensors, new=new, eos=eos)


@recipe()
def generate_greedy(draw: Draw) -> Draft:
    return _drafted(draw)


@recipe()
def generate_padded(draw: Draw) -> Draft:
    return _drafted(draw, "left-padded rows: ", "左侧填充的各行：", padded=True)


@recipe()
def generate_eos(draw: Draw) -> Draft:
    return _drafted(draw, "rows that end: ", "会结束的各行：", ends=True)


@recipe()
def generate_large(draw: Draw) -> Draft:
    """A row ends with an odd id above 256, which 16 bits of floating point would round."""
    vocab, tokens, new = 262, 4, 5
    keep = torch.ones(2, tokens, dtype=torch.int64)
    while True:
        table, ids = _table(draw, vocab), _ids(draw, vocab, 2, tokens)
        eos = int(continued(table, ids, keep, new, None)[0, tokens + 1])
        y = continued(table, ids, keep, new, eos)
        if eos > 256 and eos % 2 and y.shape[1] == tokens + new:  # the other row goes on
            break
    about = Text(
        f"2 x {tokens} tokens of {vocab}, at most {new} more",
        f"2 x {tokens} 个 token，词表大小 {vocab}，最多再生成 {new} 个",
    )
    return draft(about, {"table": table, "ids": ids, "y": y}, new=new, eos=eos)


@recipe()
def generate_all_end(draw: Draw) -> Draft:
    """Every row ends at its second token, which is 0: there is nothing left to do."""
    vocab, tokens, _, new = draw.pick(SIZES)
    eos = 0
    while True:
        table = _table(draw, vocab)
        ids = _ids(draw, vocab, 1, tokens).repeat(2, 1)
        keep = torch.ones_like(ids)
        y = continued(table, ids, keep, new, eos)
        if y.shape[1] == tokens + 2:
            break
    about = Text(f"2 x {tokens} tokens that end soon", f"2 x {tokens} 个 token，很快结束")
    return draft(about, {"table": table, "ids": ids, "y": y}, new=new, eos=eos)


def _sampled(draw: Draw, settings: dict[str, Any]) -> Draft:
    """One prompt, many times over: how often each next token has to come."""
    vocab, tokens = draw.pick(((7, 4), (6, 5), (8, 3)))
    table = draw.normal(vocab, vocab)
    ids = _ids(draw, vocab, 1, tokens)
    shares = chances(table[int((ids + 1).sum()) % vocab], **settings)
    said = ", ".join(f"{key} {value}" for key, value in settings.items())
    about = Text(f"{said}, one more token", f"{said}，再生成一个 token")
    tensors = {"table": table, "ids": ids, "shares": shares}
    return draft(about, tensors, rows=ROWS, options=settings)


@recipe()
def generate_sampled(draw: Draw) -> Draft:
    warm = draw.pick((0.7, 1.4, 0.8))
    return _sampled(draw, {"temperature": warm, "top_k": draw.pick((4, 3, 2))})


@recipe()
def generate_sampled_top_p(draw: Draw) -> Draft:
    return _sampled(draw, {"temperature": draw.pick((1.4, 0.7)), "top_p": draw.pick((0.8, 0.7))})
