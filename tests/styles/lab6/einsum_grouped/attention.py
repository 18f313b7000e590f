"""Tiles by einsum over five axes; no key or value is ever repeated."""

from __future__ import annotations

import torch


def online_softmax(blocks):
    first, *rest = blocks
    maximum = first.float().amax(dim=-1)
    total = torch.einsum("...n->...", torch.exp(first.float() - _finite(maximum)[..., None]))
    for block in rest:
        new = torch.maximum(maximum, block.float().amax(dim=-1))
        total = total * torch.exp(maximum - _finite(new))
        total = total + torch.einsum(
            "...n->...", torch.exp(block.float() - _finite(new)[..., None])
        )
        maximum = new
    return maximum, total


def _finite(x):
    return x.clamp(min=torch.finfo(x.dtype).min)


def flash_attention(q, k, v, causal, block_q, block_k):
    b, h, m, d = q.shape
    g, n = k.shape[1], k.shape[2]
    queries = q.unflatten(1, (g, h // g)).split(block_q, dim=3)
    places = (torch.arange(m) + n - m).split(block_q)
    found = []
    for rows, at in zip(queries, places, strict=True):
        rows = rows.float()
        top = torch.full(rows.shape[:-1], -torch.inf)
        total, acc = torch.zeros(rows.shape[:-1]), torch.zeros(rows.shape)
        for start in range(0, n, block_k):
            if causal and start > at[-1]:
                break
            keys, values = (t[:, :, start : start + block_k].float() for t in (k, v))
            s = torch.einsum("bgrqd,bgkd->bgrqk", rows, keys) * d**-0.5
            if causal:
                hidden = torch.arange(start, start + keys.shape[2]) > at[:, None]
                s.masked_fill_(hidden, -torch.inf)
            new = torch.maximum(top, s.amax(-1))
            p = torch.exp(s - new[..., None])
            fade = torch.exp(top - new)
            total = fade * total + p.sum(-1)
            acc = acc * fade[..., None] + torch.einsum("bgrqk,bgkd->bgrqd", p, values)
            top = new
        found.append((acc / total[..., None]).to(q.dtype))
    return torch.cat(found, dim=3).flatten(1, 2)
