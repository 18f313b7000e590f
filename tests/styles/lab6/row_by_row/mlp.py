"""One token after the other, one expert of it after the other."""

from __future__ import annotations

import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, hidden_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(num_experts, hidden_size))
        self.top_k, self.norm_topk_prob = top_k, norm_topk_prob

    def forward(self, x):
        logits = torch.einsum("td,ed->te", x, self.weight)
        wide = logits.float()
        chosen = wide.topk(self.top_k, sorted=False).indices
        kept = wide.gather(-1, chosen)
        if self.norm_topk_prob:
            weights = kept.softmax(-1)
        else:
            weights = (kept - wide.logsumexp(-1, keepdim=True)).exp()
        return logits, weights.to(x.dtype), chosen


class Experts(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts):
        super().__init__()
        self.gate_up_proj = nn.Parameter(
            torch.rand(num_experts, 2 * intermediate_size, hidden_size)
        )
        self.down_proj = nn.Parameter(torch.rand(num_experts, hidden_size, intermediate_size))

    def forward(self, x, chosen, weights):
        half = self.down_proj.shape[2]
        rows = []
        for token, experts, shares in zip(x, chosen.tolist(), weights, strict=True):
            row = torch.zeros_like(token)
            for e, share in zip(experts, shares, strict=True):
                gate = self.gate_up_proj[e, :half].mv(token)
                up = self.gate_up_proj[e, half:].mv(token)
                row += share * self.down_proj[e].mv(gate * torch.sigmoid(gate) * up)
            rows.append(row)
        return torch.stack(rows)


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)
        self.experts = Experts(hidden_size, intermediate_size, num_experts)

    def forward(self, x):
        rows, logits = [], []
        for sequence in x:
            made, weights, chosen = self.gate(sequence)
            rows.append(self.experts(sequence, chosen, weights))
            logits.append(made)
        return torch.stack(rows), torch.cat(logits)


def load_balancing_loss(router_logits, num_experts, top_k, attention_mask=None):
    p = torch.cat([layer.float().softmax(-1) for layer in router_logits])
    if attention_mask is not None:
        p = p[attention_mask.bool().flatten().repeat(len(router_logits))]
    threshold = p.topk(top_k).values[:, -1:]
    return num_experts * ((p >= threshold).float().mean(0) * p.mean(0)).sum()
