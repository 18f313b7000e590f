"""Attention, LayerNorm and their parts in float64: what the expected values of lab 1 are made of.

Every function widens its inputs to float64 (exactly, also from float16 and bfloat16). RMSNorm and
the gated MLP are those of :mod:`solutions.reference.oracle`. The tests beside ``oracle.py``'s
prove that these agree with torch, and those with Hugging Face.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = Mapping[str, Tensor]


def softmax(x: Tensor, dim: int) -> Tensor:
    """Weights along ``dim``; float64, the shape of ``x``. Nothing finite along it gives NaN."""
    return F.softmax(x.double(), dim=dim)


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    """bool ``[q_len, kv_len]``: query i of the last ``q_len`` tokens sees keys up to itself."""
    queries, keys = torch.arange(kv_len - q_len, kv_len), torch.arange(kv_len)
    return keys[None, :] <= queries[:, None]


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, equation 1).

    Args:
        q: ``[..., q_len, d]``.
        k: ``[..., kv_len, d]``.
        v: ``[..., kv_len, d_v]``.
        mask: None, or broadcastable to ``[..., q_len, kv_len]``: bool (True = may look) or
            additive (``-inf`` = may not).

    Returns:
        float64 ``[..., q_len, d_v]``; zeros where a query may see nothing.
    """
    q, k, v = q.double(), k.double(), v.double()
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is None:
        return softmax(scores, -1) @ v
    bias = torch.zeros(mask.shape, dtype=torch.float64)
    bias = bias.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else mask.double()
    # softmax of a row of -inf is NaN, and so nothing; finite rows have no NaN to lose.
    return softmax(scores + bias, -1).nan_to_num(0.0) @ v


def multi_head(weights: Weights, x: Tensor, num_heads: int, mask: Tensor | None = None) -> Tensor:
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), without biases.

    Args:
        weights: ``q_proj.weight k_proj.weight v_proj.weight``, each ``[heads*head_dim,
            hidden]``, and ``o_proj.weight`` ``[hidden, heads*head_dim]``.
        x: ``[B, T, hidden]``.
        num_heads: how many heads.
        mask: as in :func:`sdpa`, broadcastable to ``[B, heads, T, T]``.

    Returns:
        float64 ``[B, T, hidden]``.
    """

    batch, seq, _ = x.shape

    def heads(name: str) -> Tensor:  # [B, T, hidden] -> [B, heads, T, head_dim]
        return _linear(x, weights[name]).view(batch, seq, num_heads, -1).transpose(1, 2)

    q, k, v = heads("q_proj.weight"), heads("k_proj.weight"), heads("v_proj.weight")
    mixed = sdpa(q, k, v, mask).transpose(1, 2).flatten(-2)  # [B, T, heads*head_dim]
    return _linear(mixed, weights["o_proj.weight"])


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Normalise over the last dimension, scale and shift (Ba et al. 2016).

    Args:
        x: ``[..., size]``.
        weight: ``[size]``.
        bias: ``[size]``.
        eps: added to the (biased) variance.

    Returns:
        float64 ``[..., size]``.
    """
    return F.layer_norm(x.double(), weight.shape, weight.double(), bias.double(), eps)


def _linear(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` in float64: ``[..., in]`` and ``[out, in]`` give ``[..., out]``."""
    return F.linear(x.double(), weight.double())
