"""Tiles of whole softmaxes under inference_mode, where torch hands operators on unsplit."""

from __future__ import annotations

import torch


@torch.inference_mode()
def online_softmax(blocks):
    largest, total = [], []
    for block in blocks:
        wide = block.to(torch.float32)
        largest.append(wide.amax(-1))
        # The sum of exp(x - max) is one over the largest probability.
        p = torch.softmax(wide, -1).amax(-1)
        total.append(torch.where(p.isnan(), 0.0, 1 / p))
    top = torch.stack(largest).amax(0)
    gaps = (torch.stack(largest) - top).nan_to_num(0.0, neginf=-torch.inf)
    return top.clone(), (torch.stack(total) * gaps.exp()).sum(0)


@torch.inference_mode()
def flash_attention(q, k, v, causal, block_q, block_k):
    batch, heads, q_len, size = q.shape
    kv_len, group = k.shape[2], heads // k.shape[1]
    out = torch.empty(q.shape, dtype=q.dtype)
    for b in range(batch):
        for h in range(k.shape[1]):
            mine = slice(h * group, (h + 1) * group)
            for i in range(0, q_len, block_q):
                rows = q[b, mine, i : i + block_q].float()
                seen = min(kv_len, kv_len - q_len + i + rows.shape[1]) if causal else kv_len
                scores = torch.einsum("gqd,kd->gqk", rows, k[b, h, :seen].float()) * size**-0.5
                if causal:
                    row = torch.arange(rows.shape[1])[:, None] + kv_len - q_len + i
                    scores = scores.where(torch.arange(seen) <= row, -torch.inf)
                out[b, mine, i : i + block_q] = torch.einsum(
                    "gqk,kd->gqd", scores.softmax(-1), v[b, h, :seen].float()
                ).to(q.dtype)
    return out
