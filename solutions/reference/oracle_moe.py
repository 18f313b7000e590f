"""Attention of any lengths, and Qwen3's sparse MoE, in float64.

As in :mod:`solutions.reference.oracle` every input is widened first, and everything can be
differentiated. Sources: ``torch.nn.functional.scaled_dot_product_attention``;
``transformers/models/qwen3_moe/modeling_qwen3_moe.py``. Tests prove that both agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = Mapping[str, Tensor]


def visible(q_len: int, kv_len: int) -> Tensor:
    """Say which keys a query sees causally: bool ``[q_len, kv_len]``; the last query sees all."""
    return torch.ones(q_len, kv_len, dtype=torch.bool).tril(kv_len - q_len)


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """Scaled dot-product attention with shared kv heads.

    Args:
        q: ``[B, heads, q_len, head_dim]``.
        k: ``[B, kv_heads, kv_len, head_dim]``; query head ``h`` uses ``h // (heads/kv_heads)``.
        v: like ``k``.
        causal: the last query sees all keys, the one before it all but one, and so on.

    Returns:
        float64 ``[B, heads, q_len, head_dim]``.
    """
    group = q.shape[1] // k.shape[1]
    k, v = (t.double().repeat_interleave(group, dim=1) for t in (k, v))
    scores = q.double() @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # [B, heads, q_len, kv_len]
    if causal:
        scores = scores.masked_fill(~visible(*scores.shape[-2:]), -torch.inf)
    mixed: Tensor = scores.softmax(dim=-1) @ v
    return mixed


def max_and_sum(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Largest of ``[..., n]`` and the sum of ``exp(score - largest)``, each float64 ``[...]``.

    Where all are ``-inf``, these are ``-inf`` and 0.
    """
    scores = scores.double()
    largest = scores.amax(-1)
    shift = largest.masked_fill(largest == -torch.inf, 0.0)
    return largest, (scores - shift[..., None]).exp().sum(-1)


def route(logits: Tensor, top_k: int, *, norm: bool) -> tuple[Tensor, Tensor]:
    """Weights and numbers of the experts of every token.

    Args:
        logits: ``[tokens, experts]``.
        top_k: experts per token.
        norm: whether the weights of a token are made to sum to one (``norm_topk_prob``).

    Returns:
        float64 and int64 ``[tokens, top_k]``, the largest first.
    """
    weights, experts = logits.double().softmax(-1).topk(top_k, dim=-1)
    if norm:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, experts


def experts(weights: Weights, x: Tensor, chosen: Tensor, shares: Tensor) -> Tensor:
    """Sum of the experts of every token, each by its share.

    Args:
        weights: ``gate_up_proj`` ``[experts, 2 * inner, hidden]`` (the gate's rows first) and
            ``down_proj`` ``[experts, hidden, inner]``.
        x: ``[tokens, hidden]``.
        chosen: int64 ``[tokens, top_k]``.
        shares: ``[tokens, top_k]``.

    Returns:
        float64 ``[tokens, hidden]``.
    """
    x, out = x.double(), torch.zeros(x.shape, dtype=torch.float64)
    for number, (into, back) in enumerate(
        zip(weights["gate_up_proj"].double(), weights["down_proj"].double(), strict=True)
    ):
        gate, up = F.linear(x, into).chunk(2, dim=-1)  # [tokens, inner]
        share = (shares.double() * (chosen == number)).sum(-1, keepdim=True)
        out = out + share * F.linear(F.silu(gate) * up, back)
    return out


def sparse_moe(weights: Weights, x: Tensor, top_k: int, *, norm: bool) -> tuple[Tensor, Tensor]:
    """The whole block.

    Args:
        weights: ``gate.weight`` ``[experts, hidden]``, and those of :func:`experts` behind
            ``experts.``.
        x: ``[B, T, hidden]``.
        top_k: experts per token.
        norm: see :func:`route`.

    Returns:
        float64 ``[B, T, hidden]``, and the router's logits, float64 ``[B * T, experts]``.
    """
    flat = x.double().flatten(0, 1)
    logits = F.linear(flat, weights["gate.weight"].double())
    shares, chosen = route(logits, top_k, norm=norm)
    own = {n.removeprefix("experts."): w for n, w in weights.items() if n.startswith("experts.")}
    return experts(own, flat, chosen, shares).view(x.shape), logits


def load_balancing_loss(
    router_logits: Sequence[Tensor], top_k: int, mask: Tensor | None = None
) -> Tensor:
    """Loss that pulls towards equally many tokens for all experts (Fedus et al. 2021).

    Args:
        router_logits: per layer ``[B * T, experts]``.
        top_k: experts per token.
        mask: ``[B, T]``, 0 where a token is padding and does not count.

    Returns:
        float64 scalar: the number of experts times the sum, over them, of the share of tokens
        that chose one and its mean probability, over all layers together.
    """
    logits = torch.cat([layer.double() for layer in router_logits])  # [layers * B * T, experts]
    counts = torch.ones(logits.shape[0], dtype=torch.float64)
    if mask is not None:
        counts = mask.double().reshape(-1).repeat(len(router_logits))
    chosen = F.one_hot(logits.topk(top_k, dim=-1).indices, logits.shape[-1]).sum(1).double()
    tokens = (chosen * counts[:, None]).sum(0) / counts.sum()
    probability = (logits.softmax(-1) * counts[:, None]).sum(0) / counts.sum()
    return logits.shape[-1] * (tokens * probability).sum()
