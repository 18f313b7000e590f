"""Batch and heads in one axis, results written into memory that was made before."""

from __future__ import annotations

import torch


def online_softmax(blocks):
    shape = None
    for block in blocks:
        if shape is None:
            shape = block.shape[:-1]
            top = torch.full(shape, -torch.inf)
            total, before = torch.zeros(shape), torch.empty(shape)
        before.copy_(top)
        torch.maximum(top, block.float().amax(-1), out=top)
        base = top.masked_fill(top == -torch.inf, 0)
        total.mul_(before.sub_(base).exp_())
        total.add_(
            block.float().sub_(base[..., None]).exp_().sum(-1)
        ) if block.dtype != torch.float32 else total.add_((block - base[..., None]).exp_().sum(-1))
    return top, total


def flash_attention(q, k, v, causal, block_q, block_k):
    batch, heads, rows, size = q.shape
    columns, gap = k.shape[2], k.shape[2] - q.shape[2]
    head = torch.arange(heads) // (heads // k.shape[1])
    out = torch.empty(batch * heads, rows, size)
    for start in range(0, rows, block_q):
        end = min(start + block_q, rows)
        part = q[:, :, start:end].reshape(-1, end - start, size).float()
        top = part.new_full((len(part), end - start, 1), torch.finfo(torch.float32).min)
        total, mixed = torch.zeros_like(top), out[:, start:end].zero_()
        for low in range(0, min(columns, end + gap) if causal else columns, block_k):
            high = min(low + block_k, columns)
            keys, values = (t[:, head, low:high].flatten(0, 1).float() for t in (k, v))
            scores = torch.baddbmm(
                part.new_zeros(1, 1, 1), part, keys.transpose(1, 2), beta=0, alpha=size**-0.5
            )
            if causal and high > start + gap + 1:
                hidden = torch.ones(end - start, high - low, dtype=torch.bool)
                scores.masked_fill_(hidden.triu(start + gap - low + 1), -torch.inf)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            scores.sub_(new).exp_()
            fade = top.sub_(new).exp_()
            total.mul_(fade).add_(scores.sum(-1, keepdim=True))
            mixed.mul_(fade).baddbmm_(scores, values)
            top = new
        mixed.div_(total)
    return out.view(batch, heads, rows, size).to(q.dtype)
