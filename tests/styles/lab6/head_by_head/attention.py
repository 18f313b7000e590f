"""Every sequence and head by itself, in matrices of two axes."""

from __future__ import annotations

import torch


class Running:
    """Maximum and sum so far."""

    def __init__(self):
        self.maximum, self.total = None, None

    def take(self, scores):
        top = scores.max(-1, keepdim=True)[0]
        if self.maximum is not None:
            top = torch.max(top, self.maximum)
        safe = torch.nan_to_num(top, neginf=0.0)
        weights = torch.exp(scores - safe)
        fade = torch.zeros_like(top) if self.maximum is None else torch.exp(self.maximum - safe)
        added = weights.sum(-1, keepdim=True)
        self.total = added if self.total is None else torch.addcmul(added, self.total, fade)
        self.maximum = top
        return weights, fade


def online_softmax(blocks):
    running = Running()
    for block in blocks:
        running.take(block.to(torch.float32))
    return running.maximum.squeeze(-1), running.total.squeeze(-1)


def flash_attention(q, k, v, causal, block_q, block_k):
    heads, q_len, size = q.shape[1:]
    kv_len = k.shape[2]
    share = heads // k.shape[1]
    out = q.new_empty(q.shape)
    for b in range(len(q)):
        for h in range(heads):
            for lo in range(0, q_len, block_q):
                rows = q[b, h, lo : lo + block_q].float()
                limits = torch.arange(lo, lo + len(rows)) + kv_len - q_len
                running, acc = Running(), torch.zeros(len(rows), size)
                for start in range(0, kv_len, block_k):
                    if causal and start > int(limits[-1]):
                        continue
                    keys = k[b, h // share, start : start + block_k].float()
                    scores = torch.mm(rows, keys.t()).div_(size**0.5)
                    if causal:
                        columns = torch.arange(start, start + len(keys))
                        scores[columns[None] > limits[:, None]] = -torch.inf
                    weights, fade = running.take(scores)
                    values = v[b, h // share, start : start + block_k].float()
                    acc = torch.addmm(acc * fade, weights, values)
                out[b, h, lo : lo + block_q] = acc / running.total
    return out
