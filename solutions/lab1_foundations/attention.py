"""Lab 1, part 1: attention from first principles.

Fill in every TODO. Shapes are written as ``[batch, heads, seq, head_dim]``.
Source: Vaswani et al. 2017, sections 3.2.1 and 3.2.2.
"""

from __future__ import annotations

import torch
from torch import nn


def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Turn logits into weights that are positive and add up to 1 along ``dim``.

    Args:
        x: any shape; float32, float16 or bfloat16. Logits of ±10,000 are fine; so is ``-inf``,
            whose weight is 0, as long as something along ``dim`` is finite.
        dim: the axis that adds up to 1, counted from either end.

    Returns:
        The shape and dtype of ``x``; computed in float32.
    """
    # BEGIN SOLUTION lab1.softmax
    wide = x.float()
    # The largest exponent becomes 0: nothing overflows, and the factor cancels in the quotient.
    exponentials = (wide - wide.amax(dim=dim, keepdim=True)).exp()
    weights = exponentials / exponentials.sum(dim=dim, keepdim=True)
    return weights.to(x.dtype)
    # END SOLUTION


def causal_mask(q_len: int, kv_len: int) -> torch.Tensor:
    """Say which key each query may look at: itself and everything before it.

    The queries are the *last* ``q_len`` of ``kv_len`` tokens, so the last query sees the last
    key: earlier tokens may be in a cache already.

    Args:
        q_len: how many queries, at least 1.
        kv_len: how many keys, at least ``q_len``.

    Returns:
        bool ``[q_len, kv_len]``, True where a query may look.
    """
    # BEGIN SOLUTION lab1.causal_mask
    allowed = torch.ones(q_len, kv_len, dtype=torch.bool)
    return allowed.tril(diagonal=kv_len - q_len)
    # END SOLUTION


def scaled_dot_product_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Let every query average the values, weighted by how well their keys match it.

    Args:
        q: ``[..., q_len, d]``; any number of leading dimensions, none included.
        k: ``[..., kv_len, d]``.
        v: ``[..., kv_len, d_v]``; ``d_v`` need not be ``d``.
        mask: None lets every query see every key. Otherwise broadcastable to
            ``[..., q_len, kv_len]``: bool, True where a query may look, or additive in the
            dtype of ``q``, where ``-inf`` hides a key and finite values are added.

    Returns:
        ``[..., q_len, d_v]`` in the dtype of ``q``; zeros for a query that may see nothing.
    """
    # BEGIN SOLUTION lab1.attention
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # [..., q_len, kv_len]
    if mask is None:
        return softmax(scores, dim=-1) @ v

    if mask.dtype == torch.bool:
        hidden = ~mask
    else:
        hidden = mask == float("-inf")
        scores = scores + mask
    # The least finite number, not -inf: a row with nothing to see must not become NaN.
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = softmax(scores, dim=-1).masked_fill(hidden, 0.0)
    return weights @ v  # [..., q_len, d_v]
    # END SOLUTION


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in a subspace of ``head_dim`` features.

    Parameters, named as in Hugging Face, without biases: ``q_proj k_proj v_proj o_proj``
    (``nn.Linear``). ``num_heads * head_dim`` need not be ``hidden_size``.
    """

    def __init__(self, hidden_size: int, num_heads: int, head_dim: int) -> None:
        """Make the four projections: three to ``num_heads * head_dim``, one back."""
        super().__init__()
        # BEGIN SOLUTION lab1.multi_head
        self.head_dim = head_dim
        self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * head_dim, hidden_size, bias=False)
        # END SOLUTION

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Let the tokens of each sequence look at each other.

        Args:
            x: ``[B, T, hidden_size]``.
            mask: as in ``scaled_dot_product_attention``, broadcastable to
                ``[B, num_heads, T, T]``, so three axes are ``[num_heads, T, T]``; None lets
                every token see every token.

        Returns:
            ``[B, T, hidden_size]`` in the dtype of ``x``.
        """
        # BEGIN SOLUTION lab1.multi_head
        batch, seq, _ = x.shape
        heads = (batch, seq, -1, self.head_dim)

        # [B, T, heads, head_dim] -> [B, heads, T, head_dim]
        q = self.q_proj(x).view(heads).transpose(1, 2)
        k = self.k_proj(x).view(heads).transpose(1, 2)
        v = self.v_proj(x).view(heads).transpose(1, 2)

        mixed = scaled_dot_product_attention(q, k, v, mask)  # [B, heads, T, head_dim]
        joined = mixed.transpose(1, 2).reshape(batch, seq, -1)  # [B, T, heads*head_dim]
        return self.o_proj(joined)
        # END SOLUTION
