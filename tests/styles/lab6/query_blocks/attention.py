"""Some queries at a time against all keys that any of them sees: linear as well."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def online_softmax(blocks):
    log = peak = None
    for block in blocks:
        wide = block.float()
        here, top = torch.logsumexp(wide, -1), torch.amax(wide, -1)
        log = here if log is None else torch.logaddexp(log, here)
        peak = top if peak is None else torch.maximum(peak, top)
    # exp of a difference of equal infinities would be NaN; nothing was seen there.
    return peak, torch.where(peak == -torch.inf, 0.0, torch.exp(log - peak))


def flash_attention(q, k, v, causal, block_q, block_k):
    group, gap = q.size(1) // k.size(1), k.size(2) - q.size(2)
    found = []
    for lo in range(0, q.size(2), block_q):
        rows = q.narrow(2, lo, min(block_q, q.size(2) - lo)).float()
        seen = lo + rows.size(2) + gap if causal else k.size(2)
        keys = k.narrow(2, 0, seen).float().repeat_interleave(group, 1)
        scores = rows.mul(q.size(3) ** -0.5).matmul(keys.mT)
        if causal:
            scores += torch.full(scores.shape[-2:], -torch.inf).triu(lo + gap + 1)
        values = v.narrow(2, 0, seen).float().repeat_interleave(group, 1)
        found.append(F.softmax(scores, -1).matmul(values).to(q.dtype))
    return torch.cat(found, 2)
