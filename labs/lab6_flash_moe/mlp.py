# Generated from the course's sources (stub a225cfa498d1): fill in the TODOs.
"""Lab 6, part 2: a sparse mixture of experts, of which every token uses only a few.

Fill in every TODO. Parameters have the names of transformers 5 and later, so its weights load
as they are: ``gate.weight``, ``experts.gate_up_proj``, ``experts.down_proj``. In checkpoints
every expert stands by itself; ``gate_up_proj[e]`` is ``experts.e.gate_proj.weight`` above
``experts.e.up_proj.weight``, and ``down_proj[e]`` is ``experts.e.down_proj.weight``.
Source: ``transformers/models/qwen3_moe/modeling_qwen3_moe.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    """Chooses ``top_k`` experts for every token. Parameter: ``weight`` ``[experts, hidden]``."""

    def __init__(
        self, hidden_size: int, num_experts: int, top_k: int, norm_topk_prob: bool
    ) -> None:
        """Make ``weight``; its values are loaded later."""
        super().__init__()
        # TODO lab6.router: The router
        raise NotImplementedError("TODO lab6.router: to be written")

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Route tokens.

        The weights are probabilities of a float32 softmax over *all* experts, those of the
        ``top_k`` largest; with ``norm_topk_prob`` they are then made to sum to one per token.

        Args:
            x: ``[tokens, hidden]``.

        Returns:
            ``(logits [tokens, experts], weights [tokens, top_k], chosen int64 [tokens, top_k])``.
            Logits and weights have the dtype of ``x``; the order within a token is free.
        """
        # TODO lab6.router: The router
        raise NotImplementedError("TODO lab6.router: to be written")


class Experts(nn.Module):
    """All experts of a layer; each is a gated MLP, ``down(silu(gate(x)) * up(x))``.

    Parameters: ``gate_up_proj`` ``[experts, 2 * intermediate, hidden]``, the rows of the gate
    first, and ``down_proj`` ``[experts, hidden, intermediate]``.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, num_experts: int) -> None:
        """Make both parameters; their values are loaded later."""
        super().__init__()
        # TODO lab6.experts: The experts
        raise NotImplementedError("TODO lab6.experts: to be written")

    def forward(self, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Add up, for every token, the outputs of its experts, each times its weight.

        An expert sees the tokens that chose it and no other, and one that nobody chose costs
        nothing; no weights are copied for every token.

        Args:
            x: ``[tokens, hidden]``.
            chosen: int64 ``[tokens, top_k]``, all different for a token.
            weights: ``[tokens, top_k]``.

        Returns:
            ``[tokens, hidden]`` in the dtype of ``x``.
        """
        # TODO lab6.experts: The experts
        raise NotImplementedError("TODO lab6.experts: to be written")


class SparseMoeBlock(nn.Module):
    """What takes the place of the MLP: ``gate`` (:class:`Router`) and ``experts``."""

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        num_experts: int,
        top_k: int,
        norm_topk_prob: bool,
    ) -> None:
        """Make ``gate`` and ``experts``."""
        super().__init__()
        # TODO lab6.sparse_moe: The sparse block
        raise NotImplementedError("TODO lab6.sparse_moe: to be written")

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Route every token and add up its experts.

        Args:
            x: ``[B, T, hidden]``.

        Returns:
            ``(y [B, T, hidden], router_logits [B * T, experts])``, both in the dtype of ``x``;
            the gate can be trained through either.
        """
        # TODO lab6.sparse_moe: The sparse block
        raise NotImplementedError("TODO lab6.sparse_moe: to be written")


def load_balancing_loss(
    router_logits: Sequence[torch.Tensor],
    num_experts: int,
    top_k: int,
    attention_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Loss that pulls towards equal use of all experts (Fedus et al. 2021, eq. 4 to 6).

    ``num_experts`` times the sum over experts of the product of two means: the share of tokens
    that have the expert among their ``top_k``, and the probability that the router gives to it.
    Both are means over all tokens of all layers at once; for balanced experts the loss is
    ``top_k``.

    Args:
        router_logits: per layer ``[B * T, num_experts]``.
        num_experts: experts per layer.
        top_k: experts per token.
        attention_mask: int64 ``[B, T]``, 1 for tokens and 0 for padding, which does not count.

    Returns:
        A scalar to train with: its gradient goes through the probabilities.
    """
    # TODO lab6.load_balancing: Balanced experts
    raise NotImplementedError("TODO lab6.load_balancing: to be written")
