"""Lists of tokens per expert in plain Python; modules made of linear layers by F.linear."""

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
        logits = F.linear(x, self.weight)
        p = F.softmax(logits.to(torch.float32), dim=-1)
        rest, chosen, weights = p.clone(), [], []
        for _ in range(self.top_k):  # the largest, and then the largest of the others
            value, index = rest.max(-1)
            chosen.append(index)
            weights.append(value)
            rest.scatter_(1, index[:, None], -1.0)
        found = torch.stack(weights, -1)
        whole = found.sum(-1, keepdim=True) if self.norm_topk_prob else torch.ones(())
        return logits, (found / whole).to(x.dtype), torch.stack(chosen, -1)


class Experts(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts):
        super().__init__()
        self.gate_up_proj = nn.Parameter(
            torch.zeros(num_experts, 2 * intermediate_size, hidden_size)
        )
        self.down_proj = nn.Parameter(torch.zeros(num_experts, hidden_size, intermediate_size))

    def forward(self, x, chosen, weights):
        with torch.inference_mode(not torch.is_grad_enabled()):
            return self.mixed(x, chosen, weights)

    def mixed(self, x, chosen, weights):
        queues: dict[int, list[tuple[int, int]]] = {}
        for token, experts in enumerate(chosen.tolist()):
            for place, expert in enumerate(experts):
                queues.setdefault(expert, []).append((token, place))
        out = torch.zeros_like(x)
        for expert, queue in queues.items():
            tokens, places = (list(column) for column in zip(*queue, strict=True))
            gate, up = F.linear(x[tokens], self.gate_up_proj[expert]).chunk(2, -1)
            out[tokens] += weights[tokens, places].unsqueeze(1) * F.linear(
                F.silu(gate) * up, self.down_proj[expert]
            )
        return out


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_experts, top_k, norm_topk_prob):
        super().__init__()
        self.gate = Router(hidden_size, num_experts, top_k, norm_topk_prob)
        self.experts = Experts(hidden_size, intermediate_size, num_experts)

    def forward(self, x):
        flat = x.reshape(-1, x.shape[2])
        logits, weights, chosen = self.gate(flat)
        return self.experts(flat, chosen, weights).reshape(x.shape), logits


def load_balancing_loss(router_logits, num_experts, top_k, attention_mask=None):
    p = torch.cat(list(router_logits)).softmax(-1)
    keep = torch.ones(p.shape[0])
    if attention_mask is not None:
        keep = attention_mask.reshape(1, -1).expand(len(router_logits), -1).flatten().to(p.dtype)
    share = keep / keep.sum()
    loss = p.new_zeros(())
    chosen = p.topk(top_k, dim=-1).indices
    for expert in range(num_experts):
        used = (chosen == expert).any(-1).to(p.dtype)
        loss = loss + (share * used).sum() * (share * p[:, expert]).sum()
    return loss * num_experts
