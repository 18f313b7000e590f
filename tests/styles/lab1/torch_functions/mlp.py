# over the solution
"""torch's own functions for norms and activation."""

import torch.nn.functional as F
from torch import Tensor


def silu(x: Tensor) -> Tensor:
    return F.silu(x)


class LayerNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class FeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
