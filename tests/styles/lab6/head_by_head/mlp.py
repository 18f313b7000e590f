"""Experts that are used, found by a mask of one_hot, as transformers finds them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    def __init__(self, hidden_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros((num_experts, hidden_size)))
        self.top_k, self.norm_topk_prob = top_k, norm_topk_prob

    def forward(self, x):
        logits = nn.functional.linear(x, self.weight)
        top, index = torch.topk(F.softmax(logits, dim=1, dtype=torch.float), self.top_k, dim=-1)
        if self.norm_topk_prob:
            top /= top.sum(dim=-1, keepdim=True)
        return logits, top.to(logits.dtype), index


class Experts(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts):
        super().__init__()
        self.num_experts = num_experts
        self.gate_up_proj = nn.Parameter(
            torch.zeros(num_experts, 2 * intermediate_size, hidden_size)
        )
        self.down_proj = nn.Parameter(torch.zeros(num_experts, hidden_size, intermediate_size))

    def forward(self, x, chosen, weights):
        final = torch.zeros_like(x)
        mask = F.one_hot(chosen, num_classes=self.num_experts).permute(2, 1, 0)
        for hit in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            position, token = torch.where(mask[hit[0]])
            gate, up = F.linear(x[token], self.gate_up_proj[hit[0]]).chunk(2, dim=-1)
            state = F.linear(F.silu(gate) * up, self.down_proj[hit[0]])
            final.index_add_(0, token, state * weights[token, position, None])
        return final


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.experts = Experts(hidden_size, intermediate_size, num_experts)
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)

    def forward(self, x):
        batch, length, hidden = x.shape
        flat = x.view(-1, hidden) if x.is_contiguous() else x.reshape(-1, hidden)
        logits, weights, chosen = self.gate(flat)
        return self.experts(flat, chosen, weights).reshape(batch, length, hidden), logits


def load_balancing_loss(router_logits, num_experts, top_k, attention_mask=None):
    probabilities = F.softmax(torch.cat(list(router_logits), dim=0), dim=-1)
    _, selected = torch.topk(probabilities, top_k, dim=-1)
    mask = F.one_hot(selected, num_experts).float()  # [rows, top_k, experts]
    if attention_mask is None:
        used, mean = mask.mean(dim=0), probabilities.mean(dim=0)
    else:
        keep = attention_mask.flatten().float().repeat(len(router_logits))
        used = (mask * keep[:, None, None]).sum(0) / keep.sum()
        mean = (probabilities * keep[:, None]).sum(0) / keep.sum()
    return (used * mean[None]).sum() * num_experts
