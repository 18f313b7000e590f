"""All queries at once, one block of keys after the other; causal queries join as they see it."""

from __future__ import annotations

import torch


def online_softmax(blocks):
    maximum, total = torch.full((), -torch.inf), torch.zeros(())
    for block in blocks:
        top = block.to(torch.float32).max(dim=-1).values
        new = torch.where(top > maximum, top, maximum)
        base = torch.where(torch.isinf(new), torch.zeros_like(new), new)
        kept = total * torch.exp(maximum - base)
        total = kept + torch.exp(block.float() - base.unsqueeze(-1)).sum(-1)
        maximum = new
    return maximum, total


def flash_attention(q, k, v, causal, block_q, block_k):
    b, h, m, d = q.shape
    n = k.size(2)
    each = h // k.size(1)
    state = torch.full((b, h, m), -1e30), torch.zeros(b, h, m), torch.zeros(b, h, m, d)
    top, total, acc = state
    for lo in range(0, n, block_k):
        hi = min(lo + block_k, n)
        first = max(0, lo - (n - m)) if causal else 0  # queries before see none of this block
        ks = k[:, :, lo:hi].to(torch.float32).unsqueeze(2).expand(-1, -1, each, -1, -1)
        vs = v[:, :, lo:hi].to(torch.float32).unsqueeze(2).expand(-1, -1, each, -1, -1)
        ks, vs = ks.reshape(b, h, hi - lo, d), vs.reshape(b, h, hi - lo, d)
        s = torch.matmul(q[:, :, first:].float(), ks.mT) / d**0.5
        if causal:
            query = torch.arange(first, m).view(-1, 1) + n - m
            s = torch.where(torch.arange(lo, hi) <= query, s, torch.tensor(-1e30))
        new = torch.maximum(top[:, :, first:], s.max(-1).values)
        p = torch.exp(s - new.unsqueeze(-1))
        fade = torch.exp(top[:, :, first:] - new)
        top[:, :, first:] = new
        total[:, :, first:] = total[:, :, first:] * fade + p.sum(-1)
        acc[:, :, first:] = acc[:, :, first:] * fade.unsqueeze(-1) + torch.matmul(p, vs)
    return (acc / total.unsqueeze(-1)).to(q.dtype)
