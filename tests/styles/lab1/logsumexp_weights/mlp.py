# over the solution
"""var_mean for the statistics, exp of logsigmoid for the sigmoid."""

import torch.nn.functional as F
from torch import Tensor


def silu(x: Tensor) -> Tensor:
    return x * F.logsigmoid(x.float()).exp().to(x.dtype)


class LayerNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        normed = (x.float() - mean) / (variance + self.eps).sqrt()
        return torch.addcmul(self.bias.float(), normed, self.weight.float()).to(x.dtype)


class RMSNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        root = (wide.pow(2).mean(-1, keepdim=True) + self.eps).pow(0.5)
        return (wide.div(root) * self.weight).to(x.dtype)


class FeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(up * silu(gate))
