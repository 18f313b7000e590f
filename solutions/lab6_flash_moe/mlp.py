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
        # BEGIN SOLUTION lab6.router
        self.top_k, self.norm_topk_prob = top_k, norm_topk_prob
        self.weight = nn.Parameter(torch.zeros(num_experts, hidden_size))
        # END SOLUTION

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
        # BEGIN SOLUTION lab6.router
        logits = F.linear(x, self.weight)  # [tokens, experts]
        probabilities = logits.softmax(dim=-1, dtype=torch.float32)
        weights, chosen = probabilities.topk(self.top_k, dim=-1)  # [tokens, top_k]
        if self.norm_topk_prob:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return logits, weights.to(x.dtype), chosen
        # END SOLUTION


class Experts(nn.Module):
    """All experts of a layer; each is a gated MLP, ``down(silu(gate(x)) * up(x))``.

    Parameters: ``gate_up_proj`` ``[experts, 2 * intermediate, hidden]``, the rows of the gate
    first, and ``down_proj`` ``[experts, hidden, intermediate]``.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, num_experts: int) -> None:
        """Make both parameters; their values are loaded later."""
        super().__init__()
        # BEGIN SOLUTION lab6.experts
        self.gate_up_proj = nn.Parameter(
            torch.zeros(num_experts, 2 * intermediate_size, hidden_size)
        )
        self.down_proj = nn.Parameter(torch.zeros(num_experts, hidden_size, intermediate_size))
        # END SOLUTION

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
        # BEGIN SOLUTION lab6.experts
        out = torch.zeros_like(x)
        for expert in sorted(set(chosen.flatten().tolist())):
            token, place = torch.where(chosen == expert)  # who chose it, and as their how-manieth
            gate, up = F.linear(x[token], self.gate_up_proj[expert]).chunk(2, dim=-1)
            made = F.linear(F.silu(gate) * up, self.down_proj[expert])  # [its tokens, hidden]
            out.index_add_(0, token, made * weights[token, place, None])
        return out
        # END SOLUTION


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
        # BEGIN SOLUTION lab6.sparse_moe
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)
        self.experts = Experts(hidden_size, intermediate_size, num_experts)
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Route every token and add up its experts.

        Args:
            x: ``[B, T, hidden]``.

        Returns:
            ``(y [B, T, hidden], router_logits [B * T, experts])``, both in the dtype of ``x``;
            the gate can be trained through either.
        """
        # BEGIN SOLUTION lab6.sparse_moe
        flat = x.reshape(-1, x.shape[-1])  # [B * T, hidden]: routing knows no sequences
        logits, weights, chosen = self.gate(flat)
        return self.experts(flat, chosen, weights).view(x.shape), logits
        # END SOLUTION


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
    # BEGIN SOLUTION lab6.load_balancing
    logits = torch.cat(tuple(router_logits))  # [layers * B * T, experts]
    probabilities = logits.softmax(dim=-1, dtype=torch.float32)
    chosen = probabilities.topk(top_k, dim=-1).indices
    picked = F.one_hot(chosen, num_experts).sum(dim=1).float()  # 1 where a token has the expert
    counts = torch.ones(len(logits))
    if attention_mask is not None:
        counts = attention_mask.reshape(-1).repeat(len(router_logits)).float()
    share = counts @ picked / counts.sum()  # [experts]
    mean = counts @ probabilities / counts.sum()  # [experts]
    return num_experts * (share * mean).sum()
    # END SOLUTION
