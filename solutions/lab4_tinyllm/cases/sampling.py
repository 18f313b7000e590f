"""Cases of choosing one token: what is likeliest, and how often each token has to come."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe

ROWS = 8000  # how often a row is drawn; shares are then good to about 2 %
# Shares of the tokens in falling order. No sum of neighbours lies near a top_p used with them.
SHARES = (
    (0.34, 0.25, 0.17, 0.10, 0.08, 0.04, 0.02),
    (0.41, 0.20, 0.15, 0.12, 0.07, 0.05),
    (0.30, 0.26, 0.18, 0.13, 0.09, 0.03, 0.01),
)


def chances(
    logits: torch.Tensor, temperature: float, top_k: int | None = None, top_p: float = 1.0
) -> torch.Tensor:
    """Probability ``[vocab]`` of every token, float64: temperature, then top_k, then top_p."""
    shares = (logits.double() / temperature).softmax(-1)
    order = shares.argsort(descending=True)
    if top_k is not None:
        shares[order[top_k:]] = 0
        shares = shares / shares.sum()
    kept, total = 0, 0.0
    while kept < len(order) and total < top_p - 1e-9:
        total += float(shares[order[kept]])
        kept += 1
    if top_p < 1:
        shares[order[max(kept, 1) :]] = 0
    return shares / shares.sum()


def _logits(draw: Draw, temperature: float) -> torch.Tensor:
    """Logits ``[vocab]`` in a random order, whose shares at ``temperature`` are those listed.

    Far from 0, so that rounding them to 16 bits, or bounding them, shows.
    """
    shares = torch.tensor(draw.pick(SHARES))
    return (shares.log() * temperature - 30.7)[draw.permutation(len(shares))]


def _drafted(
    logits: torch.Tensor,
    en: str,
    zh: str,
    temperature: float,
    **settings: Any,
) -> Draft:
    known = {key: value for key, value in settings.items() if key in ("top_k", "top_p")}
    tensors = {"logits": logits, "shares": chances(logits, temperature, **known)}
    options = {"temperature": temperature, **known}
    return draft(Text(en, zh), tensors, rows=ROWS, options=options)


@recipe()
def sample_greedy(draw: Draw) -> Draft:
    batch, vocab = draw.pick(((5, 13), (4, 17), (7, 11)))
    logits = torch.stack([draw.permutation(vocab).float() for _ in range(batch)]) * 1e-5 + 4.5
    about = Text(f"logits [{batch}, {vocab}]", f"logits 的形状为 [{batch}, {vocab}]")
    return draft(about, {"logits": logits, "y": logits.argmax(-1)})


@recipe()
def sample_temperature(draw: Draw) -> Draft:
    warm = draw.pick((0.6, 0.5, 1.7))
    logits = _logits(draw, 1.0)
    return _drafted(logits, f"temperature {warm}", f"temperature 为 {warm}", warm)


@recipe()
def sample_cold(draw: Draw) -> Draft:
    """So low a temperature that it nearly takes the likeliest, on logits near each other."""
    return _drafted(_logits(draw, 0.05), "temperature 0.05", "temperature 为 0.05", 0.05)


@recipe()
def sample_plain(draw: Draw) -> Draft:
    return _drafted(_logits(draw, 1.0), "temperature 1", "temperature 为 1", 1.0)


@recipe()
def sample_top_k(draw: Draw) -> Draft:
    k = draw.pick((3, 2, 4))
    return _drafted(_logits(draw, 1.0), f"top_k {k}", f"top_k 为 {k}", 1.0, top_k=k)


@recipe()
def sample_top_k_all(draw: Draw) -> Draft:
    """More than there are: all stay."""
    return _drafted(_logits(draw, 1.0), "top_k 50", "top_k 为 50", 1.0, top_k=50)


@recipe()
def sample_top_p(draw: Draw) -> Draft:
    p = draw.pick((0.7, 0.68, 0.71))
    return _drafted(_logits(draw, 1.0), f"top_p {p}", f"top_p 为 {p}", 1.0, top_p=p)


@recipe()
def sample_top_p_small(draw: Draw) -> Draft:
    """Less than the likeliest alone has: that one stays."""
    p = draw.pick((0.0, 0.05, 0.1))
    return _drafted(_logits(draw, 1.0), f"top_p {p}", f"top_p 为 {p}", 1.0, top_p=p)


@recipe()
def sample_top_p_reached(draw: Draw) -> Draft:
    """The likeliest token has exactly what top_p asks for: one more is one too many.

    Shares are powers of two, which float32 gives back exactly; in float64 the first is larger.
    """
    tail = draw.pick(((0.25, 0.125, 0.0625, 0.0625), (0.25, 0.25), (0.25, 0.125, 0.125)))
    logits = torch.tensor((0.5, *tail)).log()[draw.permutation(len(tail) + 1)]
    en, zh = "top_p 0.5, the share of one token", "top_p 为 0.5，恰好是一个 token 的比例"
    return _drafted(logits, en, zh, 1.0, top_p=0.5)


@recipe()
def sample_warm_top_k(draw: Draw) -> Draft:
    en, zh = "temperature 2, top_k 3", "temperature 为 2，top_k 为 3"
    return _drafted(_logits(draw, 2.0), en, zh, 2.0, top_k=3)


@recipe()
def sample_warm_top_p(draw: Draw) -> Draft:
    """The temperature comes first: it decides which tokens top_p keeps."""
    logits = _logits(draw, 2.0)
    en, zh = "temperature 2, top_p 0.7", "temperature 为 2，top_p 为 0.7"
    return _drafted(logits, en, zh, 2.0, top_p=0.7)


@recipe()
def sample_top_k_top_p(draw: Draw) -> Draft:
    """Among four tokens two have the share that top_p asks for; among all of them three."""
    logits = torch.tensor((0.35, 0.25, 0.20, 0.12, 0.08)).log()[draw.permutation(5)]
    en, zh = "top_k 4, top_p 0.63", "top_k 为 4，top_p 为 0.63"
    return _drafted(logits, en, zh, 1.0, top_k=4, top_p=0.63)


@recipe()
def sample_top_k_all_of_top_p(draw: Draw) -> Draft:
    """All of the three that top_k leaves are needed, once they have been made to sum to 1."""
    logits = torch.tensor((0.35, 0.25, 0.20, 0.12, 0.08)).log()[draw.permutation(5)]
    en, zh = "top_k 3, top_p 0.78", "top_k 为 3，top_p 为 0.78"
    return _drafted(logits, en, zh, 1.0, top_k=3, top_p=0.78)


@recipe()
def sample_rows(draw: Draw) -> Draft:
    """One likeliest token far ahead in every row, another one in each: chance has no say."""
    batch, vocab = draw.pick(((6, 11), (5, 13), (7, 17)))
    logits = draw.normal(batch, vocab)
    best = draw.permutation(vocab)[:batch]
    logits[torch.arange(batch), best] += 60
    about = Text("every row has its own sure token", "每行各有一个几乎确定的 token")
    options = {"temperature": 1.0}
    return draft(about, {"logits": logits, "y": best}, options=options)


def _sure_rows(draw: Draw) -> torch.Tensor:
    """Shares ``[rows, 5]``: one token has most, at another place in every row."""
    sure = torch.tensor((0.62, 0.2, 0.1, 0.05, 0.03))
    return torch.stack([sure[draw.permutation(5)] for _ in range(ROWS // 20)])


@recipe()
def sample_rows_top_k(draw: Draw) -> Draft:
    """Each row has but one choice; what bounds the first row, or the last, bounds no other."""
    logits = _sure_rows(draw).log()
    logits[[0, -1]] -= 9.0
    about = Text("top_k 1, logits far larger in some rows", "top_k 为 1，各行 logits 的量级不同")
    options = {"temperature": 1.0, "top_k": 1}
    return draft(about, {"logits": logits, "y": logits.argmax(-1)}, options=options)


@recipe()
def sample_rows_top_p(draw: Draw) -> Draft:
    """One token is enough in all rows but the first and last, which need several."""
    shares = _sure_rows(draw)
    shares[[0, -1]] = 0.2
    y = shares.argmax(-1)
    y[[0, -1]] = -1  # left to chance
    p = draw.pick((0.55, 0.5, 0.6))
    en, zh = f"top_p {p}, one token is enough in most rows", f"top_p 为 {p}，多数行只剩一个候选"
    about = Text(en, zh)
    return draft(about, {"logits": shares.log(), "y": y}, options={"temperature": 1.0, "top_p": p})
