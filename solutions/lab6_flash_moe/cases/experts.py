"""Cases of the experts by themselves, routed by the case, and of the whole block."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_moe

from .router import described, gate_of, routed


def _weights(
    draw: Draw, hidden: int, inner: int, experts: int, *, alike: bool = False
) -> dict[str, torch.Tensor]:
    """Weights of all experts; with ``alike`` those of the first for each."""
    weights = {
        "gate_up_proj": draw.normal(experts, 2 * inner, hidden, scale=1.5 * hidden**-0.5),
        "down_proj": draw.normal(experts, hidden, inner, scale=inner**-0.5),
    }
    if alike:
        return {name: w[:1].repeat(experts, 1, 1) for name, w in weights.items()}
    return weights


def _chosen(draw: Draw, rows: int, experts: int, top_k: int, used: int) -> torch.Tensor:
    """Different experts for every token, out of ``used`` of them that are drawn."""
    allowed = draw.permutation(experts)[:used]
    return torch.stack([allowed[draw.permutation(used)[:top_k]] for _ in range(rows)])


def _drafted(
    about: Text,
    weights: dict[str, torch.Tensor],
    x: torch.Tensor,
    chosen: torch.Tensor,
    shares: torch.Tensor,
    **values: Any,
) -> Draft:
    count, hidden, inner = weights["down_proj"].shape
    tensors = {
        "x": x,
        "chosen": chosen,
        "shares": shares,
        "y": oracle_moe.experts(weights, x, chosen, shares),
        **{f"w.{name}": weight for name, weight in weights.items()},
    }
    return draft(about, tensors, size=[hidden, inner, count], **values)


@recipe()
def experts_one(draw: Draw) -> Draft:
    """Every token goes to the same expert, which counts fully: a gated MLP."""
    (hidden, inner, experts, _, batch, tokens), about = described(draw)
    expert = draw.integer(1, experts - 1)
    about = Text(
        f"all tokens to expert {expert}, counted from 0: {about.en}",
        f"全部 token 去专家 {expert}（从 0 开始编号）：{about.zh}",
    )
    rows = batch * tokens
    chosen = torch.full((rows, 1), expert)
    weights = _weights(draw, hidden, inner, experts)
    return _drafted(about, weights, draw.normal(rows, hidden), chosen, torch.ones(rows, 1))


@recipe()
def experts_shares(draw: Draw) -> Draft:
    """One expert per token, all alike: only the weights of the tokens differ."""
    en, zh = "one per token, all alike: ", "每个 token 一个专家，专家都相同："
    (hidden, inner, experts, _, batch, tokens), about = described(draw, en, zh)
    rows = batch * tokens
    weights = _weights(draw, hidden, inner, experts, alike=True)
    chosen = _chosen(draw, rows, experts, 1, experts)
    shares = draw.uniform(rows, 1, low=0.2, high=1.0)
    return _drafted(about, weights, draw.normal(rows, hidden), chosen, shares)


@recipe()
def experts_dispatch(draw: Draw) -> Draft:
    """One expert per token, weights of one: who goes where."""
    en, zh = "one per token, weights of one: ", "每个 token 一个专家，权重为一："
    (hidden, inner, experts, _, batch, tokens), about = described(draw, en, zh)
    rows = batch * tokens
    chosen = _chosen(draw, rows, experts, 1, experts)
    weights = _weights(draw, hidden, inner, experts)
    return _drafted(about, weights, draw.normal(rows, hidden), chosen, torch.ones(rows, 1))


@recipe()
def experts_sum(draw: Draw) -> Draft:
    """Several experts per token, all alike, equal weights: everything has to be added up."""
    en, zh = "all alike, equal weights: ", "专家都相同，权重相等："
    (hidden, inner, experts, top_k, batch, tokens), about = described(draw, en, zh)
    rows = batch * tokens
    weights = _weights(draw, hidden, inner, experts, alike=True)
    chosen = _chosen(draw, rows, experts, top_k, experts)
    shares = torch.full((rows, top_k), 0.5)
    return _drafted(about, weights, draw.normal(rows, hidden), chosen, shares)


@recipe(public=2)
def experts_core(draw: Draw) -> Draft:
    """All experts but one for every token, as many as eight."""
    en, zh = "each token leaves one out: ", "每个 token 只有一个专家未选："
    (hidden, inner, experts, top_k, batch, tokens), about = described(draw, en, zh, all_but=1)
    rows = batch * tokens
    chosen = _chosen(draw, rows, experts, top_k, experts)
    shares = draw.uniform(rows, top_k, low=0.1, high=1.0)
    weights = _weights(draw, hidden, inner, experts)
    return _drafted(about, weights, draw.normal(rows, hidden), chosen, shares)


@recipe()
def experts_unused(draw: Draw) -> Draft:
    """Some experts get no token, the first or the last among them."""
    en, zh = "experts without tokens: ", "有的专家没有 token："
    (hidden, inner, experts, top_k, batch, tokens), about = described(draw, en, zh)
    rows = batch * tokens
    chosen = _chosen(draw, rows, experts, top_k, top_k + 1)
    shares = draw.uniform(rows, top_k, low=0.1, high=1.0)
    weights = _weights(draw, hidden, inner, experts)
    return _drafted(about, weights, draw.normal(rows, hidden), chosen, shares)


@recipe()
def experts_bfloat16(draw: Draw) -> Draft:
    (hidden, inner, experts, top_k, batch, tokens), about = described(
        draw, "bfloat16: ", "bfloat16："
    )
    rows = batch * tokens
    weights = {n: w.bfloat16() for n, w in _weights(draw, hidden, inner, experts).items()}
    shares = draw.uniform(rows, top_k, low=0.1, high=1.0).bfloat16()
    chosen = _chosen(draw, rows, experts, top_k, experts)
    x = draw.normal(rows, hidden).bfloat16()
    return _drafted(about, weights, x, chosen, shares, dtype="bfloat16")


@recipe()
def experts_cost(draw: Draw) -> Draft:
    """Large enough that what is spent can be told apart; most experts get no token."""
    hidden, inner, experts, top_k, rows, used = 48, 40, 16, 2, 96, 11
    about = Text(
        f"{rows} tokens, {top_k} of {experts} experts, {used} of them used",
        f"{rows} 个 token，{experts} 个专家中选 {top_k} 个，其中 {used} 个被用到",
    )
    chosen = _chosen(draw, rows, experts, top_k, used)
    shares = draw.uniform(rows, top_k, low=0.1, high=1.0)
    weights = _weights(draw, hidden, inner, experts)
    return _drafted(about, weights, draw.normal(rows, hidden), chosen, shares)


def _block(draw: Draw, en: str, zh: str, *, norm: bool, **options: Any) -> Draft:
    (hidden, inner, experts, top_k, batch, tokens), about = described(draw, en, zh)
    dtype = getattr(torch, options.get("dtype", "float32"))
    weights = {"gate.weight": gate_of(draw, experts, hidden, spread=2.2)}
    own = _weights(draw, hidden, inner, experts)
    weights |= {f"experts.{name}": weight for name, weight in own.items()}
    weights = {name: weight.to(dtype) for name, weight in weights.items()}
    lead = 0.15 if dtype is torch.bfloat16 else 0.02
    x = routed(draw, weights["gate.weight"], top_k, batch * tokens, lead=lead)
    x = x.view(batch, tokens, hidden)
    gate = weights["gate.weight"].double().requires_grad_()
    y, logits = oracle_moe.sparse_moe(weights | {"gate.weight": gate}, x, top_k, norm=norm)
    (slope,) = torch.autograd.grad(y.sum(), [gate])
    tensors = {"x": x, "y": y.detach(), "logits": logits.detach()}
    if dtype is torch.float32:
        tensors["slope"] = slope
    tensors |= {f"w.{name}": weight for name, weight in weights.items()}
    return draft(about, tensors, size=[hidden, inner, experts, top_k], norm=norm, **options)


@recipe()
def moe_normed(draw: Draw) -> Draft:
    return _block(draw, "norm_topk_prob True: ", "norm_topk_prob 为 True：", norm=True)


@recipe()
def moe_plain(draw: Draw) -> Draft:
    return _block(draw, "norm_topk_prob False: ", "norm_topk_prob 为 False：", norm=False)


@recipe()
def moe_bfloat16(draw: Draw) -> Draft:
    return _block(draw, "bfloat16: ", "bfloat16：", norm=True, dtype="bfloat16")
