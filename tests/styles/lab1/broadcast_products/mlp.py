# over the solution
"""std for the LayerNorm, one helper for both norms."""

from torch import Tensor


def silu(x: Tensor) -> Tensor:
    return torch.div(x, torch.add(torch.exp(torch.neg(x)), 1))


class LayerNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        std = torch.sqrt(torch.std(y, dim=-1, correction=0, keepdim=True) ** 2 + self.eps)
        y = (y - torch.mean(y, dim=-1, keepdim=True)) / std
        return (self.weight * y + self.bias).type_as(x)


class RMSNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.reciprocal(torch.sqrt((y**2).mean(dim=-1, keepdim=True) + self.eps))
        return self.weight * y.type_as(x)


class FeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.gate_proj(x)
        hidden = silu(hidden).mul(self.up_proj(x))
        return self.down_proj(hidden)
