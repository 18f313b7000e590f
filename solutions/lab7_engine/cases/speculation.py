"""Cases of speculative decoding: distributions in eighths, so that all outcomes can be counted."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference.oracle_serving import speculate


def _parts(draw: Draw, vocab: int, parts: int) -> torch.Tensor:
    """``[vocab]`` whole numbers that sum to ``parts``."""
    picked = torch.tensor([draw.integer(0, vocab - 1) for _ in range(parts)])
    return torch.bincount(picked, minlength=vocab)


def _target(draw: Draw, q: torch.Tensor, parts: int) -> torch.Tensor:
    """Another distribution than ``q``, whose residual sums to a power of two, below ``parts``."""
    while True:
        p = _parts(draw, len(q), parts)
        left = int((p - q).clamp(min=0).sum())
        if left in (2, 4) and left < parts and ((p > 0) & (p < q)).any() and (p - q > 0).sum() > 1:
            return p


def _shuffled(draw: Draw, numbers: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor(numbers)[draw.permutation(len(numbers))]


def _all(counts: tuple[int, ...]) -> torch.Tensor:
    """Every combination of numbers below ``counts``."""
    return torch.cartesian_prod(*(torch.arange(n) for n in counts)).reshape(-1, len(counts))


@recipe(hidden=2)
def accept_shares(draw: Draw) -> Draft:
    """One proposed token: every token of the draft, with uniforms from all parts of the line."""
    q = _shuffled(draw, draw.pick(((4, 2, 1, 1, 0, 0), (2, 2, 2, 1, 1, 0), (4, 1, 1, 1, 1, 0))))
    p, after = _target(draw, q, 8), _parts(draw, 6, 8)
    tokens = q.nonzero()[:, 0]
    grid = _all((len(tokens), 4, 8))
    drafts = tokens[grid[:, :1]]
    uniforms = torch.stack([(grid[:, 1] + 0.5) / 4, (grid[:, 2] + 0.5) / 8], dim=1).double()
    rows = len(drafts)
    tensors = {
        "drafts": drafts,
        "uniforms": uniforms,
        "q": (q / 8).expand(rows, 1, -1).clone(),
        "p": (torch.stack((p, after)) / 8).expand(rows, 2, -1).clone(),
        "weights": (q[drafts[:, 0]] / 8 / 32).double(),
        "first": (p / 8).double(),
        "next": (after / 8).double(),
    }
    about = Text(
        "all outcomes for 1 proposed token, vocabulary of 6",
        "词表 6，提出 1 个 token 的全部结果",
    )
    return draft(about, tensors)


@recipe()
def accept_chain(draw: Draw) -> Draft:
    """Two proposed tokens; what follows depends on the first."""
    vocab, parts = 4, 4
    q = _shuffled(draw, (2, 1, 1, 0))
    p = _target(draw, q, parts)
    q_then = [_shuffled(draw, (2, 1, 1, 0)) for _ in range(vocab)]
    p_then = [_target(draw, row, parts) for row in q_then]
    after = _parts(draw, vocab, parts)
    rows = [
        (int(one), int(two), grid)
        for one in q.nonzero()[:, 0]
        for two in q_then[int(one)].nonzero()[:, 0]
        for grid in _all((2, 2, 4))
    ]
    weights = [q[a] / 4 * q_then[a][b] / 4 / 16 for a, b, _ in rows]
    uniforms = [[(g[0] + 0.5) / 2, (g[1] + 0.5) / 2, (g[2] + 0.5) / 4] for _, _, g in rows]
    tensors = {
        "drafts": torch.tensor([[a, b] for a, b, _ in rows]),
        "weights": torch.tensor(weights).double(),
        "first": (p / 4).double(),
        "then": (torch.stack(p_then) / 4).double(),
        "next": (after / 4).double(),
    }
    tensors["q"] = torch.stack([torch.stack((q, q_then[a])) for a, _, _ in rows]) / 4
    tensors["p"] = torch.stack([torch.stack((p, p_then[a], after)) for a, _, _ in rows]) / 4
    tensors["uniforms"] = torch.tensor(uniforms)
    about = Text(
        "all outcomes for 2 proposed tokens, vocabulary of 4",
        "词表 4，提出 2 个 token 的全部结果",
    )
    return draft(about, tensors)


def _one(draw: Draw, kind: str) -> Draft:
    vocab, count = draw.pick(((5, 3), (7, 4), (6, 2)))
    q, p = (torch.stack([(_parts(draw, vocab, 8) + 1.0) / (8 + vocab) for _ in range(n)]).double()
            for n in (count, count + 1))  # fmt: skip
    tokens = [draw.integer(0, vocab - 1) for _ in range(count)]
    uniforms = [0.03 + 0.05 * n for n in range(count)] + [0.41]
    if kind == "all":
        q[0, tokens[0]] = 2**-20
        p[:count] = q
        p[count] = torch.eye(vocab)[draw.integer(0, vocab - 1)]
        uniforms[:count] = [0.97 - 0.05 * n for n in range(count)]
        want = [*tokens, int(p[count].argmax())]
    elif kind == "greedy":
        tokens = [draw.integer(0, vocab - 2) for _ in range(count)]
        likely = list(tokens)
        likely[count - 1] = vocab - 1
        q = torch.eye(vocab)[tokens]
        p = torch.eye(vocab)[[*likely, 0]]
        want = likely
    elif kind == "dropped":
        p[0, tokens[0]], q[0, tokens[0]], uniforms[0] = 0.125, 0.5, 0.75
        p[0], q[0] = p[0] / p[0].sum(), q[0] / q[0].sum()
        want = []
    elif kind == "nearly":  # the first token is a trace less likely than it was proposed
        tokens[0], other = 0, draw.pick((1, 3))  # p alone would choose 2
        q[0] = p[0] = torch.full((vocab,), 1 / vocab)
        p[0, 0], p[0, other] = p[0, 0] - 2**-24, p[0, other] + 2**-24
        uniforms[0], want = 1 - 2**-30, [other]
    else:  # the second token is one that the target never says
        p[1, tokens[1]] = 0
        p[1] /= p[1].sum()
        p[0, tokens[0]] = q[0, tokens[0]] = 0.5
        q[1, :] = 0
        q[1, tokens[1]] = 1
        uniforms[1] = 0.0
        ends = p[1].cumsum(0)
        want = [tokens[0], int((ends <= uniforms[-1]).sum())]
    about = Text(
        f"{count} proposed tokens, vocabulary of {vocab}", f"词表 {vocab}，提出 {count} 个 token"
    )
    values = {"q": q.tolist(), "p": p.tolist(), "uniforms": uniforms, "want": want}
    return draft(about, {"tokens": torch.tensor(tokens)}, None, **values)


@recipe()
def accept_runs(draw: Draw) -> Draft:
    return _one(draw, "greedy")


@recipe()
def accept_greedy(draw: Draw) -> Draft:
    return _one(draw, "greedy")


@recipe()
def accept_pure(draw: Draw) -> Draft:
    return _one(draw, "dropped")


@recipe()
def accept_all(draw: Draw) -> Draft:
    return _one(draw, "all")


@recipe()
def accept_nearly(draw: Draw) -> Draft:
    """What is left of p without q is next to nothing."""
    return _one(draw, "nearly")


@recipe()
def accept_never(draw: Draw) -> Draft:
    return _one(draw, "never")


def _step(draw: Draw, temperature: float, alike: float) -> Draft:
    vocab, count = draw.pick(((7, 4), (9, 3), (6, 5)))
    while True:
        target = draw.normal(83, vocab, scale=1.5)
        small = alike * target + (1 - alike) * draw.normal(83, vocab, scale=1.5)
        texts, uniforms, wants, others = [], [], [], list[list[list[int]]]()
        for _ in range(4):
            texts.append([draw.integer(0, vocab - 1) for _ in range(draw.integer(1, 6))])
            uniforms.append(draw.uniform(2 * count + 1, low=0, high=1).double().tolist())
            want, near = speculate(small, target, texts[-1], count, temperature, uniforms[-1])
            if near < 1e-3 and temperature:
                break
            wants.append(want)
            # What comes out where one of the two models does without the temperature.
            others.append(
                [
                    speculate(*tables, texts[-1], count, temperature, uniforms[-1])[0]
                    for tables in ((small * temperature, target), (small, target * temperature))
                ]
            )
        spread = {len(want) for want in wants}
        told = not temperature or all(wants != list(o) for o in zip(*others, strict=True))
        if len(wants) == 4 and (alike == 1.0 or (told and len(spread) > 1)):
            break
    lengths = [str(len(text)) for text in texts]
    about = Text(
        f"{count} proposed tokens, vocabulary of {vocab}, texts of {', '.join(lengths[:-1])} and "
        f"{lengths[-1]} tokens, temperature {temperature:g}",
        f"词表 {vocab}，每次提出 {count} 个 token，各段文本长 {'、'.join(lengths)}，"
        f"温度 {temperature:g}",
    )
    values = {"count": count, "temperature": temperature, "texts": texts, "uniforms": uniforms}
    return draft(about, {"draft": small, "target": target}, None, wants=wants, **values)


@recipe()
def speculate_runs(draw: Draw) -> Draft:
    return _step(draw, 0.0, 0.7)


@recipe()
def speculate_greedy(draw: Draw) -> Draft:
    return _step(draw, 0.0, 0.6)


@recipe(hidden=2)
def speculate_sampled(draw: Draw) -> Draft:
    return _step(draw, 0.8, 0.5)


@recipe()
def speculate_twins(draw: Draw) -> Draft:
    """The draft is the target: all tokens stay."""
    return _step(draw, 1.25, 1.0)
