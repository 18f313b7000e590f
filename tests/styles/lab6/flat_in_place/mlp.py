"""Two weights taken apart once per expert, results written where they belong by addcmul."""

from __future__ import annotations

import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, hidden_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.top_k, self.norm_topk_prob = top_k, norm_topk_prob
        self.weight = nn.Parameter(torch.zeros(num_experts, hidden_size))

    def forward(self, x):
        logits = torch.addmm(x.new_zeros(1), x, self.weight.t())
        probability = torch.exp(logits.float() - logits.float().logsumexp(1, True))
        least = probability.kthvalue(probability.shape[1] - self.top_k + 1, dim=1, keepdim=True)[0]
        chosen = (probability >= least).nonzero()[:, 1].view(-1, self.top_k)
        weights = probability.take_along_dim(chosen, 1)
        if self.norm_topk_prob:
            weights.div_(weights.sum(1, True))
        return logits, weights.to(x.dtype), chosen


class Experts(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts):
        super().__init__()
        self.gate_up_proj = nn.Parameter(
            torch.zeros(num_experts, 2 * intermediate_size, hidden_size)
        )
        self.down_proj = nn.Parameter(torch.zeros(num_experts, hidden_size, intermediate_size))

    def forward(self, x, chosen, weights):
        out, inner = x.new_zeros(x.shape), self.down_proj.shape[-1]
        dense = x.new_zeros(len(x), len(self.down_proj)).scatter_(1, chosen, weights)
        used = torch.zeros(len(self.down_proj), dtype=torch.bool).index_fill_(
            0, chosen.flatten(), True
        )
        taken = torch.zeros(dense.shape, dtype=torch.bool).scatter_(1, chosen, True)
        for e in used.nonzero().flatten().tolist():
            mine = taken[:, e].nonzero().flatten()
            rows = x[mine]
            gate = rows.mm(self.gate_up_proj[e, :inner].t())
            gate.mul_(torch.sigmoid(gate)).mul_(rows.mm(self.gate_up_proj[e, inner:].t()))
            made = gate.mm(self.down_proj[e].t())
            out[mine] = torch.addcmul(out[mine], made, dense[mine, e, None])
        return out


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)
        self.experts = Experts(hidden_size, intermediate_size, num_experts)

    def forward(self, x):
        flat = x.contiguous().view(x.shape[0] * x.shape[1], -1)
        logits, weights, chosen = self.gate(flat)
        y = torch.empty_like(flat).copy_(self.experts(flat, chosen, weights))
        return y.view(x.shape), logits


def load_balancing_loss(router_logits, num_experts, top_k, attention_mask=None):
    logits = torch.vstack(list(router_logits)).double()
    kept = torch.ones(len(logits), 1, dtype=torch.float64)
    if attention_mask is not None:
        kept = attention_mask.double().reshape(-1, 1).tile(len(router_logits), 1)
    p = torch.softmax(logits, 1)
    used = torch.zeros_like(p).scatter_(1, logits.topk(top_k)[1], 1.0)
    return (kept.T @ used @ (kept.T @ p).T / kept.sum() ** 2).squeeze().float() * num_experts
