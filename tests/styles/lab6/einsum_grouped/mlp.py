"""A mask per expert, products by einsum, sums by index_put."""

from __future__ import annotations

import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, hidden_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(num_experts, hidden_size))
        self.k, self.norm = top_k, norm_topk_prob

    def forward(self, x):
        logits = torch.einsum("nh,eh->ne", x, self.weight)
        raised = torch.exp(logits.float() - logits.float().amax(-1, keepdim=True))
        values, chosen = torch.topk(raised, self.k)
        whole = values if self.norm else raised
        return logits, (values / whole.sum(-1, keepdim=True)).to(x.dtype), chosen


class Experts(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts):
        super().__init__()
        self.gate_up_proj = nn.Parameter(
            torch.ones(num_experts, 2 * intermediate_size, hidden_size)
        )
        self.down_proj = nn.Parameter(torch.ones(num_experts, hidden_size, intermediate_size))

    def forward(self, x, chosen, weights):
        out = torch.zeros(x.shape, dtype=torch.float32)
        for e, (into, back) in enumerate(zip(self.gate_up_proj, self.down_proj, strict=True)):
            mine = (chosen == e).any(dim=1).nonzero().squeeze(1)
            share = (weights * (chosen == e)).sum(1)[mine]
            both = torch.einsum("nh,gih->gni", x[mine], into.unflatten(0, (2, -1)))
            inner = nn.functional.silu(both[0]) * both[1]
            made = torch.einsum("ni,hi->nh", inner, back) * share[:, None]
            out.index_put_((mine,), made.float(), accumulate=True)
        return out.to(x.dtype)


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.experts = Experts(hidden_size, intermediate_size, num_experts)
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)

    def forward(self, x):
        logits, shares, chosen = self.gate(x.reshape(-1, x.size(-1)))
        return self.experts(x.reshape(-1, x.size(-1)), chosen, shares).view_as(x), logits


def load_balancing_loss(router_logits, num_experts, top_k, attention_mask=None):
    logits = torch.stack(list(router_logits)).float()  # [layers, tokens, experts]
    p = logits.softmax(-1)
    kept = torch.ones(logits.shape[1])
    if attention_mask is not None:
        kept = attention_mask.flatten().float()
    used = torch.zeros_like(p).scatter(-1, p.topk(top_k, dim=-1).indices, 1.0)
    rows = kept.sum() * len(logits)
    f, m = (torch.einsum("lte,t->e", t, kept) / rows for t in (used, p))
    return num_experts * torch.einsum("e,e->", f, m)
