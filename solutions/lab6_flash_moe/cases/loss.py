"""Cases of the loss that keeps experts in balance."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_moe

from .router import SIZES


def _logits(draw: Draw, rows: int, experts: int) -> torch.Tensor:
    """No two logits of a token are nearer than 0.05, so that no choice is in doubt."""
    steps = torch.stack([draw.permutation(experts) for _ in range(rows)]).float()
    tilt = draw.normal(experts, scale=0.6)  # some experts are liked by all tokens
    made = steps * 0.7 + 0.3 * draw.uniform(rows, experts, low=-1, high=1) + tilt
    ordered = made.sort(-1).values.diff(dim=-1).amin(-1)
    return torch.where((ordered > 0.05)[:, None], made, steps)


def _drafted(
    draw: Draw, en: str, zh: str, *, layers: int = 1, masked: bool = False, unused: bool = False
) -> Draft:
    _, _, experts, top_k, batch, tokens = draw.pick(SIZES)
    top_k = 1 if unused else top_k
    about = Text(
        f"{en}{layers} x {batch * tokens} tokens, {top_k} of {experts} experts",
        f"{zh}{layers} x {batch * tokens} 个 token，{experts} 个专家中选 {top_k} 个",
    )
    found = [_logits(draw, batch * tokens, experts) for _ in range(layers)]
    if unused:
        for logits in found:
            logits[:, -1] -= 9
    tensors = {f"b.{number:03}": logits for number, logits in enumerate(found)}
    mask = None
    if masked:
        mask = torch.ones(batch, tokens, dtype=torch.int64)
        mask[0, : tokens - 2], mask[1, :1] = 0, 0  # padding on the left
        tensors["mask"] = mask
    with torch.enable_grad():
        leaves = [logits.clone().requires_grad_() for logits in found]
        loss = oracle_moe.load_balancing_loss(leaves, top_k, mask)
        (tensors["slope"], *_) = torch.autograd.grad(loss, leaves)
    tensors["loss"] = loss.detach()
    return draft(about, tensors, size=[experts, top_k])


@recipe()
def loss_balanced(draw: Draw) -> Draft:
    """Every expert is liked by as many tokens as every other: the loss is top_k."""
    _, _, experts, top_k, *_ = draw.pick(SIZES)
    row = draw.permutation(experts).float()
    logits = torch.stack([row.roll(shift) for shift in range(experts)])
    loss = oracle_moe.load_balancing_loss([logits], top_k)
    about = Text(
        f"{experts} tokens, {top_k} of {experts} experts, in balance",
        f"{experts} 个 token，{experts} 个专家中选 {top_k} 个，负载均衡",
    )
    return draft(about, {"b.000": logits, "loss": loss}, size=[experts, top_k])


@recipe()
def loss_one_layer(draw: Draw) -> Draft:
    return _drafted(draw, "", "")


@recipe()
def loss_unused(draw: Draw) -> Draft:
    """One expert per token: an axis of length one."""
    en, zh = "nobody has the last expert: ", "没有 token 选最后一个专家："
    return _drafted(draw, en, zh, unused=True)


@recipe()
def loss_layers(draw: Draw) -> Draft:
    return _drafted(draw, "several layers: ", "多层：", layers=draw.pick((3, 2, 4)))


@recipe()
def loss_masked(draw: Draw) -> Draft:
    return _drafted(draw, "left padding: ", "左侧填充：", layers=2, masked=True)


@recipe()
def loss_masked_alone(draw: Draw) -> Draft:
    return _drafted(draw, "left padding: ", "左侧填充：", masked=True)
