"""Cases of the router, and tokens whose experts leave no doubt."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_moe

# hidden, intermediate, experts, top_k, batch, tokens: all distinct, top_k above 2; widths are
# multiples of 16 bytes, without which torch's grouped products refuse to work
SIZES = (
    (24, 16, 7, 3, 4, 5),
    (32, 8, 9, 4, 2, 7),
    (16, 24, 8, 3, 5, 4),
    (40, 16, 10, 4, 3, 5),
)
FAR = 3.0  # tokens reach far beyond 4, and logits do not
LEAD = 0.02  # between the logits of the last expert chosen and the first that is not
TRIES = 200


def routed(
    draw: Draw, weight: torch.Tensor, top_k: int, rows: int, *, lead: float = LEAD
) -> torch.Tensor:
    """Tokens ``[rows, hidden]`` in the dtype of ``weight``, none with a tie at any place up to
    the ``top_k``-th."""
    hidden = weight.shape[1]
    x = draw.normal(rows, hidden, scale=FAR).to(weight.dtype)
    for _ in range(TRIES):
        ordered = (x.double() @ weight.double().T).sort(-1, descending=True).values
        unsure = (ordered[:, :top_k] - ordered[:, 1 : top_k + 1]).amin(-1) < lead
        if not unsure.any():
            return x
        x[unsure] = draw.normal(int(unsure.sum()), hidden, scale=FAR).to(weight.dtype)
    raise ValueError("no tokens without ties were found; lower the lead")


def gate_of(draw: Draw, experts: int, hidden: int, spread: float = 1.3) -> torch.Tensor:
    """A router's weight whose probabilities are neither flat nor all in one place."""
    return draw.normal(experts, hidden, scale=spread / FAR * hidden**-0.5)


def described(
    draw: Draw, en: str = "", zh: str = "", all_but: int = 0
) -> tuple[tuple[int, ...], Text]:
    """Sizes, and a case in words; with ``all_but`` a token has all experts but so many."""
    hidden, inner, experts, top_k, *length = draw.pick(SIZES)
    top_k = experts - all_but if all_but else top_k
    sizes = hidden, inner, experts, top_k, *length
    about = Text(
        f"{en}hidden {hidden}, intermediate {inner}, {top_k} of {experts} experts",
        f"{zh}hidden {hidden}，intermediate {inner}，{experts} 个专家中选 {top_k} 个",
    )
    return sizes, about


def _drafted(
    draw: Draw, en: str, zh: str, *, norm: bool, single: bool = False, **options: Any
) -> Draft:
    (hidden, _, experts, top_k, batch, tokens), about = described(draw, en, zh)
    if single:
        top_k, batch, tokens = 1, 1, 1
        about = Text(
            f"{en}hidden {hidden}, 1 of {experts} experts",
            f"{zh}hidden {hidden}，{experts} 个专家中选 1 个",
        )
    dtype = options.get("dtype", "float32")
    weight = gate_of(draw, experts, hidden).to(getattr(torch, dtype))
    lead = 0.15 if dtype == "bfloat16" else LEAD
    x = routed(draw, weight, top_k, batch * tokens, lead=lead)
    return _routed_by(weight, x, top_k, about, norm=norm, **options)


def _routed_by(
    weight: torch.Tensor, x: torch.Tensor, top_k: int, about: Text, *, norm: bool, **options: Any
) -> Draft:
    logits = x.double() @ weight.double().T
    shares, chosen = oracle_moe.route(logits, top_k, norm=norm)
    dense = torch.zeros_like(logits).scatter_(1, chosen, shares)
    tensors = {"x": x, "w.weight": weight, "logits": logits, "dense": dense}
    experts, hidden = weight.shape
    return draft(about, tensors, size=[hidden, experts, top_k], norm=norm, **options)


@recipe()
def router_plain(draw: Draw) -> Draft:
    return _drafted(draw, "norm_topk_prob False: ", "norm_topk_prob 为 False：", norm=False)


@recipe()
def router_normed(draw: Draw) -> Draft:
    return _drafted(draw, "norm_topk_prob True: ", "norm_topk_prob 为 True：", norm=True)


@recipe()
def router_single(draw: Draw) -> Draft:
    """One token and one expert: axes of length one, and a weight that is one."""
    en, zh = "one token, norm_topk_prob True: ", "单个 token，norm_topk_prob 为 True："
    return _drafted(draw, en, zh, norm=True, single=True)


@recipe()
def router_bfloat16(draw: Draw) -> Draft:
    return _drafted(draw, "bfloat16: ", "bfloat16：", norm=False, dtype="bfloat16")


@recipe()
def router_near(draw: Draw) -> Draft:
    """bfloat16 logits, exact, that lie a two-thousandth apart: their probabilities in bfloat16
    would be equal. Every token has one feature, which is 8."""
    en, zh = "bfloat16, logits close together: ", "bfloat16，logits 彼此接近："
    (hidden, _, experts, top_k, *_), about = described(draw, en, zh)
    orders = torch.stack([draw.permutation(experts) for _ in range(hidden)], dim=1)
    weight = ((205 + 2 * orders) * 2.0**-14).bfloat16()
    x = (8 * torch.eye(hidden)).bfloat16()
    return _routed_by(weight, x, top_k, about, norm=False, dtype="bfloat16")
