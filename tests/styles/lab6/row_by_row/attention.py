"""One query after the other against all keys that it sees."""

from __future__ import annotations

import math

import torch


def online_softmax(blocks):
    best = total = None
    for block in blocks:
        for column in block.float().unbind(-1):
            if best is None:
                best, total = column, torch.where(column == -torch.inf, 0.0, 1.0)
                continue
            new = torch.maximum(best, column)
            # exp(nan) only where both are -inf, and there nothing is summed up.
            total = total * (best - new).exp().nan_to_num(0.0) + (column - new).exp().nan_to_num(
                0.0
            )
            best = new
    return best, total


def flash_attention(q, k, v, causal, block_q, block_k):
    batch, heads, q_len, head_dim = q.shape
    kv_heads, kv_len = k.shape[1], k.shape[2]
    out = torch.zeros_like(q)
    grouped = q.view(batch, kv_heads, heads // kv_heads, q_len, head_dim)
    target = out.view(batch, kv_heads, heads // kv_heads, q_len, head_dim)
    for i in range(q_len):
        seen = kv_len - q_len + i + 1 if causal else kv_len
        row = grouped[:, :, :, i].float() / math.sqrt(head_dim)  # [B, kv_heads, group, head_dim]
        scores = row @ k[:, :, :seen].float().transpose(2, 3)
        target[:, :, :, i] = (scores.softmax(-1) @ v[:, :, :seen].float()).to(q.dtype)
    return out
