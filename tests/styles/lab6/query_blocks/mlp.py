"""One of the top_k places after the other; within it one expert after the other."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Linear):
    def __init__(self, hidden_size, num_experts, top_k, norm_topk_prob):
        super().__init__(hidden_size, num_experts, bias=False)
        self.top_k, self.norm_topk_prob = top_k, norm_topk_prob

    def forward(self, x):
        logits = super().forward(x)
        values, chosen = logits.float().softmax(-1).sort(dim=-1, descending=True)
        values, chosen = values[..., : self.top_k], chosen[..., : self.top_k]
        return (
            logits,
            (F.normalize(values, p=1, dim=-1) if self.norm_topk_prob else values).to(x.dtype),
            chosen,
        )


class Experts(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts):
        super().__init__()
        self.gate_up_proj = nn.Parameter(
            torch.zeros(num_experts, intermediate_size * 2, hidden_size)
        )
        self.down_proj = nn.Parameter(torch.zeros(num_experts, hidden_size, intermediate_size))

    def forward(self, x, chosen, weights):
        places = []
        for expert, share in zip(chosen.T, weights.T, strict=True):
            made = torch.empty_like(x)
            for e in set(expert.tolist()):
                mine = expert == e
                gate, up = F.linear(x[mine], self.gate_up_proj[e]).split(self.down_proj.size(2), -1)
                made[mine] = F.linear(up * F.silu(gate), self.down_proj[e])
            places.append(made * share[:, None])
        return sum(places)


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)
        self.experts = Experts(hidden_size, intermediate_size, num_experts)

    def forward(self, x):
        logits, weights, chosen = self.gate(torch.cat(list(x)))
        return self.experts(torch.cat(list(x)), chosen, weights).unflatten(0, x.shape[:2]), logits


def load_balancing_loss(router_logits, num_experts, top_k, attention_mask=None):
    rows = torch.cat([layer.float() for layer in router_logits])
    kept = torch.arange(len(rows))
    if attention_mask is not None:
        kept = torch.cat([attention_mask.flatten()] * len(router_logits)).nonzero()[:, 0]
    p = rows[kept].softmax(-1)
    used = torch.histc(p.topk(top_k, -1).indices.float(), num_experts, 0, num_experts) / len(kept)
    return (used * p.mean(0)).sum().mul(num_experts)
