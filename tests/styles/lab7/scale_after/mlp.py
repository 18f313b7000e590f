# over the solution
"""Products with codes first; scales, and zero points times sums of x, come after them."""


class QuantizedLinear(nn.Module):
    def __init__(self, in_features, out_features, block_rows=64):
        super().__init__()
        self.block_rows = block_rows
        self.register_buffer("weight", torch.zeros(out_features, in_features, dtype=torch.int8))
        self.register_buffer("scales", torch.ones(out_features))

    @classmethod
    def from_float(cls, weight, block_rows=64):
        linear = cls(weight.shape[1], weight.shape[0], block_rows)
        linear.weight, linear.scales = quantize_per_channel(weight)
        return linear

    def forward(self, x):
        blocks = self.weight.split(self.block_rows)
        y = torch.cat([x.float() @ block.float().T for block in blocks], dim=-1)
        return (y * self.scales).to(x.dtype)


class GroupQuantizedLinear(nn.Module):
    def __init__(self, in_features, out_features, group_size, block_rows=64):
        super().__init__()
        if in_features // group_size * group_size < in_features:
            raise ValueError(f"{in_features=} and {group_size=} do not fit")
        self.group_size, self.block_rows = group_size, block_rows
        shape = out_features, in_features // group_size
        self.register_buffer(
            "packed", torch.zeros(out_features, in_features // 2, dtype=torch.uint8)
        )
        self.register_buffer("scales", torch.ones(shape))
        self.register_buffer("zeros", torch.zeros(shape, dtype=torch.uint8))

    @classmethod
    def from_float(cls, weight, group_size, block_rows=64):
        linear = cls(weight.shape[1], weight.shape[0], group_size, block_rows)
        linear.packed, linear.scales, linear.zeros = quantize_groups(weight, group_size)
        return linear

    def forward(self, x):
        flat = x.float().reshape(-1, x.shape[-1])
        parts = flat.unflatten(1, (-1, self.group_size // 2, 2))  # [tokens, groups, size / 2, 2]
        sums = parts.sum(dim=(2, 3))  # [tokens, groups]
        made = []
        for first in range(0, len(self.packed), self.block_rows):
            rows = slice(first, first + self.block_rows)
            codes = self.packed[rows].unflatten(1, (-1, self.group_size // 2))
            products = torch.einsum("tgk,ogk->tog", parts[..., 0], (codes & 15).float())
            products += torch.einsum("tgk,ogk->tog", parts[..., 1], (codes >> 4).float())
            products -= sums[:, None] * self.zeros[rows].float()
            made.append((products * self.scales[rows]).sum(dim=-1))
        y = torch.cat(made, dim=1).to(x.dtype)
        return y.view(*x.shape[:-1], -1)
