"""Every token stands once for each of its experts; the copies are grouped by unique."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    def __init__(self, hidden_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_experts, hidden_size))
        self.top_k, self.norm_topk_prob = top_k, norm_topk_prob

    def forward(self, x):
        logits = (self.weight @ x.T).T
        p = torch.softmax(logits.double(), dim=-1)
        top = torch.topk(p, self.top_k, dim=-1)
        scale = top.values.sum(-1, True) if self.norm_topk_prob else 1.0
        return logits, (top.values / scale).to(x.dtype), top.indices


class Experts(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts):
        super().__init__()
        self.gate_up_proj = nn.Parameter(
            torch.zeros(num_experts, 2 * intermediate_size, hidden_size)
        )
        self.down_proj = nn.Parameter(torch.zeros(num_experts, hidden_size, intermediate_size))

    def forward(self, x, chosen, weights):
        copies = x.repeat_interleave(chosen.shape[1], dim=0)
        used, which = chosen.flatten().unique(return_inverse=True)
        made = torch.zeros_like(copies)
        for number, e in enumerate(used):
            rows = (which == number).nonzero(as_tuple=True)[0]
            gate, up = torch.tensor_split(F.linear(copies[rows], self.gate_up_proj[e]), 2, dim=1)
            made[rows] = F.linear(F.silu(gate).mul(up), self.down_proj[e])
        return torch.bmm(weights[:, None], made.view(len(x), chosen.shape[1], -1)).squeeze(1)


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)
        self.experts = Experts(hidden_size, intermediate_size, num_experts)

    def forward(self, x):
        flat = x.reshape(x.shape[0] * x.shape[1], x.shape[2])
        logits, weights, chosen = self.gate(flat)
        return self.experts(flat, chosen, weights).view(*x.shape), logits


def load_balancing_loss(router_logits, num_experts, top_k, attention_mask=None):
    p = torch.cat(tuple(router_logits), 0).float().softmax(-1)
    chosen = p.topk(top_k, dim=-1).indices
    rows = torch.arange(len(p))[:, None].expand_as(chosen)
    used = torch.zeros_like(p).index_put((rows, chosen), torch.ones(()))
    if attention_mask is not None:
        keep = attention_mask.flatten().bool().repeat(len(router_logits))
        p, used = p[keep], used[keep]
    return num_experts * p.mean(dim=0) @ used.mean(dim=0)
