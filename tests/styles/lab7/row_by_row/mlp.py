# over the solution
"""Plain loops over rows and groups, one number of each at a time."""


def quantize_per_channel(weight):
    codes = torch.zeros(weight.shape, dtype=torch.int8)
    scales = torch.ones(len(weight))
    for row, numbers in enumerate(weight.float()):
        largest = max(abs(float(numbers.max())), abs(float(numbers.min())))
        if largest:
            scales[row] = torch.tensor(largest) / 127
            codes[row] = torch.round(numbers / scales[row]).clamp(-127, 127).to(torch.int8)
    return codes, scales


def quantize_groups(weight, group_size):
    out, width = weight.shape
    if width % group_size != 0:
        raise ValueError(f"{width} columns are no multiple of group_size={group_size}")
    codes = torch.zeros(out, width, dtype=torch.uint8)
    scales = torch.ones(out, width // group_size)
    zeros = torch.zeros(out, width // group_size, dtype=torch.uint8)
    for row in range(out):
        for group in range(width // group_size):
            columns = slice(group * group_size, (group + 1) * group_size)
            numbers = weight[row, columns].float()
            low, high = min(0.0, float(numbers.min())), max(0.0, float(numbers.max()))
            if low == high:
                continue
            scale = (torch.tensor(high) - torch.tensor(low)) / 15
            zero = int(torch.round(torch.tensor(-low) / scale))
            scales[row, group], zeros[row, group] = scale, zero
            steps = torch.round(numbers / scale) + zero
            codes[row, columns] = steps.clamp(0, 15).to(torch.uint8)
    packed = torch.zeros(out, width // 2, dtype=torch.uint8)
    for column in range(0, width, 2):
        packed[:, column // 2] = codes[:, column] + 16 * codes[:, column + 1]
    return packed, scales, zeros


def dequantize_groups(packed, scales, zeros, group_size):
    wide = torch.zeros(len(packed), 2 * packed.shape[1])
    for column in range(wide.shape[1]):
        byte = packed[:, column // 2].int()
        code = (byte >> 4) if column % 2 else (byte & 0x0F)
        group = column // group_size
        wide[:, column] = (code - zeros[:, group].int()) * scales[:, group]
    return wide


class QuantizedLinear(nn.Module):
    def __init__(self, in_features, out_features, block_rows=64):
        super().__init__()
        self.block = block_rows
        self.register_buffer("weight", torch.zeros((out_features, in_features)).to(torch.int8))
        self.register_buffer("scales", torch.zeros(out_features))

    @staticmethod
    def from_float(weight, block_rows=64):
        linear = QuantizedLinear(weight.size(1), weight.size(0), block_rows)
        linear.weight, linear.scales = quantize_per_channel(weight)
        return linear

    def forward(self, x):
        y = [
            x.float() @ (codes.float() * scale)
            for codes, scale in zip(self.weight, self.scales, strict=True)
        ]
        return torch.stack(y, dim=-1).type(x.dtype)
