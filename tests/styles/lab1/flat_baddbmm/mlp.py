# over the solution
"""The gate in float64, RMSNorm as a LayerNorm that knows no mean."""

from torch import Tensor


def silu(x: Tensor) -> Tensor:
    wide = x.double()
    return (wide * wide.sigmoid()).to(x.dtype)


def _scaled(x: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(torch.mean(torch.square(x), -1, keepdim=True) + eps)


class LayerNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        wide = x.double()
        normed = _scaled(wide - wide.mean(-1, keepdim=True), self.eps)
        return (normed * self.weight.double() + self.bias.double()).to(x.dtype)


class RMSNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (_scaled(x.double(), self.eps) * self.weight.double()).to(x.dtype)


class FeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        gated = silu(x @ self.gate_proj.weight.T) * (x @ self.up_proj.weight.T)
        return gated @ self.down_proj.weight.T
