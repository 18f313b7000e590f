# over the solution
"""Statistics by Welford's running mean and variance, feature by feature."""

from torch import Tensor


def silu(x: Tensor) -> Tensor:
    return torch.where(
        x >= 0, x / (1 + (-x.abs()).exp()), x * x.exp().nan_to_num() / (1 + (-x.abs()).exp())
    )


class LayerNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mean = torch.zeros(x.shape[:-1])
        square = torch.zeros(x.shape[:-1])
        for count, feature in enumerate(x.float().unbind(-1), start=1):
            step = feature - mean
            mean = mean + step / count
            square = square + step * (feature - mean)
        root = (square / x.shape[-1] + self.eps).sqrt()
        normed = (x.float() - mean[..., None]) / root[..., None]
        return (normed * self.weight + self.bias).to(x.dtype)


class RMSNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        square = torch.zeros(x.shape[:-1])
        for feature in x.float().unbind(-1):
            square = square + feature * feature
        root = (square / x.shape[-1] + self.eps).sqrt()[..., None]
        return self.weight * (x.float() / root).to(x.dtype)


class FeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        for block in range(0, self.up_proj.out_features, 10):
            rows = slice(block, block + 10)
            gate = nn.functional.linear(x, self.gate_proj.weight[rows])
            up = nn.functional.linear(x, self.up_proj.weight[rows])
            y = y + nn.functional.linear(silu(gate) * up, self.down_proj.weight[:, rows])
        return y
