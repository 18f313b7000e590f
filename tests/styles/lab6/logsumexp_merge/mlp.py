"""Rows of tokens gathered by argsort and offsets, scattered back by scatter_add."""

from __future__ import annotations

import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, hidden_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.zeros(num_experts, hidden_size)))
        self.options = top_k, norm_topk_prob

    def forward(self, x):
        top_k, norm = self.options
        logits = torch.matmul(x, self.weight.transpose(0, 1))
        log = torch.log_softmax(logits, -1, dtype=torch.float32)
        best, chosen = log.topk(top_k)
        if norm:
            best = best - best.logsumexp(-1, keepdim=True)
        return logits, best.exp().to(x.dtype), chosen


class Experts(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts):
        super().__init__()
        sizes = num_experts, hidden_size, intermediate_size
        self.down_proj = nn.Parameter(torch.zeros(*sizes))
        self.gate_up_proj = nn.Parameter(torch.zeros(sizes[0], 2 * sizes[2], sizes[1]))

    def forward(self, x, chosen, weights):
        flat, order = chosen.reshape(-1).sort(stable=True)
        ends = torch.searchsorted(flat, torch.arange(len(self.down_proj) + 1)).tolist()
        out = torch.zeros_like(x)
        for e, (start, end) in enumerate(zip(ends, ends[1:], strict=False)):
            if start == end:
                continue
            which = order[start:end]
            token = torch.div(which, chosen.shape[1], rounding_mode="floor")
            both = self.gate_up_proj[e] @ x.index_select(0, token).T  # [2 * inner, its tokens]
            gate, up = both.chunk(2)
            made = (self.down_proj[e] @ (gate.sigmoid() * gate * up)).T
            made = made * weights.reshape(-1, 1)[which]
            out.scatter_add_(0, token[:, None].expand_as(made), made)
        return out


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)
        self.experts = Experts(hidden_size, intermediate_size, num_experts)

    def forward(self, x):
        rows = x.flatten(end_dim=1)
        logits, shares, chosen = self.gate(rows)
        out = self.experts(rows, chosen, shares)
        return out.unflatten(0, (x.size(0), x.size(1))), logits


def load_balancing_loss(router_logits, num_experts, top_k, attention_mask=None):
    total = torch.zeros(2, num_experts)
    rows = torch.zeros(())
    for layer in router_logits:
        p = layer.float().softmax(1)
        keep = p.new_ones(len(p)) if attention_mask is None else attention_mask.reshape(-1).float()
        ones = keep.repeat_interleave(top_k)
        total[0].scatter_add_(0, p.topk(top_k).indices.flatten(), ones)
        total[1] += keep @ p
        rows += keep.sum()
    return num_experts * torch.prod(total / rows, dim=0).sum()
