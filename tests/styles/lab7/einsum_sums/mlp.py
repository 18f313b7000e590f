# over the solution
"""einsum for every product; outputs are written into one float32 tensor."""


class QuantizedLinear(nn.Module):
    def __init__(self, in_features, out_features, block_rows=64):
        super().__init__()
        self.block_rows = block_rows
        self.register_buffer("weight", torch.empty(out_features, in_features, dtype=torch.int8))
        self.register_buffer("scales", torch.empty(out_features, dtype=torch.float32))

    @classmethod
    def from_float(cls, weight, block_rows=64):
        out_features, in_features = weight.shape
        linear = cls(in_features, out_features, block_rows)
        codes, scales = quantize_per_channel(weight)
        linear.weight.copy_(codes)
        linear.scales.copy_(scales)
        return linear

    def forward(self, x):
        out = self.weight.shape[0]
        y = torch.empty(*x.shape[:-1], out, dtype=torch.float32)
        for start in range(0, out, self.block_rows):
            end = min(start + self.block_rows, out)
            wide = torch.einsum("oi,o->oi", self.weight[start:end].float(), self.scales[start:end])
            y[..., start:end] = torch.einsum("...i,oi->...o", x.float(), wide)
        return y.to(x.dtype)


def dequantize_groups(packed, scales, zeros, group_size):
    out, half = packed.shape
    codes = torch.empty(out, 2 * half)
    codes[:, ::2] = packed % 16
    codes[:, 1::2] = packed // 16
    by_group = codes.view(out, -1, group_size)
    wide = torch.einsum("ogk,og->ogk", by_group, scales)
    return (wide - (scales * zeros.float())[:, :, None]).reshape(out, -1)
