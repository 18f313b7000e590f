"""Tokens sorted by expert and cut into one piece for each."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    def __init__(self, hidden_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_experts, hidden_size))
        self.top_k, self.norm = top_k, norm_topk_prob

    def forward(self, x):
        logits = x @ self.weight.T
        p = torch.softmax(logits.float(), -1)
        chosen = p.argsort(dim=-1, descending=True)[:, : self.top_k]
        weights = p.gather(1, chosen)
        if self.norm:
            weights = weights / weights.sum(1, keepdim=True)
        return logits, weights.type_as(x), chosen


class Experts(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts):
        super().__init__()
        self.gate_up_proj = nn.Parameter(
            torch.empty(num_experts, 2 * intermediate_size, hidden_size)
        )
        self.down_proj = nn.Parameter(torch.empty(num_experts, hidden_size, intermediate_size))

    def forward(self, x, chosen, weights):
        top_k = chosen.shape[1]
        order = chosen.flatten().argsort()
        counts = torch.bincount(chosen.flatten(), minlength=len(self.down_proj)).tolist()
        pieces = []
        for e, piece in enumerate((x[order // top_k]).split(counts)):
            if len(piece):
                gate, up = (piece @ self.gate_up_proj[e].T).tensor_split(2, dim=-1)
                pieces.append((F.silu(gate) * up) @ self.down_proj[e].T)
        made = torch.cat(pieces) * weights.flatten()[order].unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return made[back].view(len(x), top_k, -1).sum(1)


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)
        self.experts = Experts(hidden_size, intermediate_size, num_experts)

    def forward(self, x):
        tokens = x.flatten(0, -2)
        logits, weights, chosen = self.gate(tokens)
        return self.experts(tokens, chosen, weights).reshape_as(x), logits


def load_balancing_loss(router_logits, num_experts, top_k, attention_mask=None):
    used, mean, rows = 0, 0, 0
    for logits in router_logits:
        keep = torch.ones(len(logits)) if attention_mask is None else attention_mask.flatten()
        p = torch.softmax(logits.float(), -1)[keep.bool()]
        used = used + torch.bincount(p.topk(top_k).indices.flatten(), minlength=num_experts)
        mean, rows = mean + p.sum(0), rows + len(p)
    return num_experts * torch.dot(used / rows, mean / rows)
