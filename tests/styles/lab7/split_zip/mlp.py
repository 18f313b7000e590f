# over the solution
"""split and zip in place of slices, a power of two in place of shifts, buffers by a loop."""


class QuantizedLinear(nn.Module):
    def __init__(self, in_features, out_features, block_rows=64):
        super().__init__()
        self.rows = block_rows
        self.weight = nn.Buffer(torch.zeros(out_features, in_features, dtype=torch.int8))
        self.scales = nn.Buffer(torch.ones(out_features))

    @classmethod
    def from_float(cls, weight, block_rows=64):
        made = cls(*reversed(weight.shape), block_rows)
        made.load_state_dict(
            dict(zip(("weight", "scales"), quantize_per_channel(weight), strict=True))
        )
        return made

    def forward(self, x):
        y = []
        for codes, scales in zip(
            self.weight.split(self.rows), self.scales.split(self.rows), strict=True
        ):
            y += [torch.matmul(x.to(torch.float32), codes.mul(scales.unsqueeze(1)).t())]
        return torch.cat(y, -1).to(x.dtype)


class GroupQuantizedLinear(nn.Module):
    def __init__(self, in_features, out_features, group_size, block_rows=64):
        super().__init__()
        if divmod(in_features, group_size)[1]:
            raise ValueError(f"{in_features} columns for a group_size of {group_size}")
        self.size, self.rows = group_size, block_rows
        for name, width, dtype in (
            ("packed", in_features // 2, torch.uint8),
            ("scales", in_features // group_size, torch.float32),
            ("zeros", in_features // group_size, torch.uint8),
        ):
            self.register_buffer(name, torch.zeros(out_features, width, dtype=dtype))

    @classmethod
    def from_float(cls, weight, group_size, block_rows=64):
        made = cls(*reversed(weight.shape), group_size, block_rows)
        names = "packed", "scales", "zeros"
        made.load_state_dict(dict(zip(names, quantize_groups(weight, group_size), strict=True)))
        return made

    def forward(self, x):
        split = [buffer.split(self.rows) for buffer in (self.packed, self.scales, self.zeros)]
        y = [
            torch.matmul(x.to(torch.float32), dequantize_groups(*parts, self.size).t())
            for parts in zip(*split, strict=True)
        ]
        return torch.cat(y, -1).to(x.dtype)


def dequantize_groups(packed, scales, zeros, group_size):
    low = packed.remainder(16).float()
    high = (packed.float() - low) / 2**4
    codes = torch.stack([low, high], dim=2).reshape(len(packed), -1)
    scale = scales.repeat_interleave(group_size, dim=1)
    return (codes - zeros.repeat_interleave(group_size, dim=1).float()) * scale
