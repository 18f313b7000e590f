# over the solution
"""Vector norms for the root mean square; gate and up in one matrix."""

import torch.nn.functional as F
from torch import Tensor


def silu(x: Tensor) -> Tensor:
    return torch.special.expit(x).mul(x)


def _rms(x: Tensor, eps: float) -> Tensor:
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return torch.hypot(length / x.shape[-1] ** 0.5, torch.tensor(eps**0.5))


class LayerNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        centred = wide - wide.sum(-1, keepdim=True) / x.shape[-1]
        normed = centred / _rms(centred, self.eps)
        return torch.addcmul(self.bias, normed.to(x.dtype), self.weight)


class RMSNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide / _rms(wide, self.eps)).to(x.dtype).mul(self.weight)


class FeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        both = F.linear(x, torch.cat((self.gate_proj.weight, self.up_proj.weight)))
        gate, up = both.chunk(2, dim=-1)
        return self.down_proj(silu(gate) * up)
