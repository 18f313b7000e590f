"""Every tile is an attention of its own; two of them are merged by their log-sum-exp."""

from __future__ import annotations

import torch


def online_softmax(blocks):
    parts = None
    for block in blocks:
        wide = block.float()
        top = wide.amax(-1)
        base = torch.where(top.isneginf(), 0.0, top)
        part = top, torch.sum(torch.exp(wide - base[..., None]), -1)
        parts = part if parts is None else _merged(parts, part)
    return parts


def _merged(one, other):
    top = torch.maximum(one[0], other[0])
    base = torch.where(top.isneginf(), 0.0, top)
    return top, sum(total * torch.exp(largest - base) for largest, total in (one, other))


def _tile(q, k, v, row, column, causal):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    if causal:
        low = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(column[None, :] > row[:, None], low)
    log = scores.logsumexp(-1, keepdim=True)
    return torch.exp(scores - log) @ v, log


def flash_attention(q, k, v, causal, block_q, block_k):
    times = q.shape[1] // k.shape[1]
    rows = torch.arange(q.shape[2]) + k.shape[2] - q.shape[2]
    columns = torch.arange(k.shape[2])
    done = []
    for mine, row in zip(q.split(block_q, 2), rows.split(block_q), strict=True):
        mine = mine.float() / q.shape[3] ** 0.5
        out = log = None
        pieces = zip(k.split(block_k, 2), v.split(block_k, 2), columns.split(block_k), strict=True)
        for keys, values, column in pieces:
            if causal and column[0] > row[-1]:
                break
            keys, values = (
                torch.stack([t.float()] * times, dim=2).flatten(1, 2) for t in (keys, values)
            )
            made, own = _tile(mine, keys, values, row, column, causal)
            if out is None:
                out, log = made, own
                continue
            both = torch.logaddexp(log, own)
            out = out * torch.exp(log - both) + made * torch.exp(own - both)
            log = both
        done.append(out)
    return torch.cat(done, dim=2).to(q.dtype)
