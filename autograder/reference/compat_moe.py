"""Proof that the sparse MoE of the float64 reference is Qwen3's, for :mod:`compat`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from autograder.reference import oracle_moe


@dataclass(frozen=True)
class Block:
    """Sizes of a block, and whether the weights of a token are made to sum to one."""

    norm: bool
    experts: int = 7
    top_k: int = 3
    hidden: int = 20
    inner: int = 12
    batch: int = 3
    seq: int = 5


BLOCKS = {
    "MoE": Block(norm=False),
    "MoE, norm_topk_prob": Block(norm=True),
    "MoE, one expert per token": Block(norm=False, top_k=1),
    "MoE, all experts": Block(norm=True, top_k=7),
    "MoE, most experts unused": Block(norm=True, experts=64, top_k=2),
}


def draw(block: Block) -> tuple[dict[str, Tensor], Tensor]:
    """Weights under the names of transformers 5, and tokens ``[B, T, hidden]``."""
    random = torch.Generator().manual_seed(4)
    shapes = {
        "gate.weight": (block.experts, block.hidden),
        "experts.gate_up_proj": (block.experts, 2 * block.inner, block.hidden),
        "experts.down_proj": (block.experts, block.hidden, block.inner),
    }
    weights = {
        name: torch.randn(shape, generator=random) * shape[-1] ** -0.5
        for name, shape in shapes.items()
    }
    return weights, torch.randn(block.batch, block.seq, block.hidden, generator=random)


def compare(block: Block) -> Iterator[tuple[str, Tensor, Tensor]]:
    """What is compared, and each result by transformers and by the reference."""
    from autograder.reference import hf_moe

    weights, x = draw(block)
    ours, logits = oracle_moe.sparse_moe(weights, x, block.top_k, norm=block.norm)
    theirs, their_logits = hf_moe.hf_sparse_moe(weights, x, block.top_k, norm=block.norm)
    yield "block", theirs, ours
    if their_logits is not None:
        yield "router logits", their_logits, logits
    random = torch.Generator().manual_seed(5)
    layers = [torch.randn(logits.shape, generator=random) for _ in range(3)]
    mask = torch.ones(block.batch, block.seq)
    mask[0, :2] = 0
    for name, given in (("loss", None), ("loss with padding", mask)):
        their_loss = hf_moe.hf_load_balancing_loss(layers, block.top_k, given)
        yield name, their_loss, oracle_moe.load_balancing_loss(layers, block.top_k, given)
