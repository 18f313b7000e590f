# over the solution
"""Halves are rounded away from 0, and reciprocals are multiplied by."""


def _nearest(numbers):
    return torch.sign(numbers) * torch.floor(numbers.abs() + 0.5)


def quantize_per_channel(weight):
    weight = weight.detach().to(torch.float32)
    largest = torch.linalg.vector_norm(weight, ord=float("inf"), dim=1, keepdim=True)
    inverse = torch.where(largest == 0, 1.0, 127 / largest)
    codes = _nearest(weight * inverse).clamp(-127, 127).to(torch.int8)
    scales = torch.where(largest == 0, 1.0, largest / 127)
    return codes, scales.squeeze(1)


def quantize_groups(weight, group_size):
    if weight.size(-1) % group_size > 0:
        raise ValueError("group_size has to divide the number of columns")
    rows = weight.detach().to(torch.float32).reshape(-1, group_size)  # [out * groups, group_size]
    high = rows.max(dim=1).values.relu()
    low = -(-rows).max(dim=1).values.relu()
    scales = (high - low) / 15
    scales[scales == 0] = 1
    zeros = _nearest(-low / scales).clamp(0, 15)
    codes = (_nearest(rows / scales[:, None]) + zeros[:, None]).clamp(min=0, max=15).int()
    codes = codes.reshape(weight.size(0), -1)
    even, odd = codes[:, ::2], codes[:, 1::2]
    packed = torch.bitwise_or(even, torch.bitwise_left_shift(odd, 4)).to(torch.uint8)
    shape = weight.size(0), -1
    return packed, scales.reshape(shape), zeros.reshape(shape).to(torch.uint8)


class Qwen3MLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size, group_size=None, block_rows=64):
        super().__init__()
        sizes = {"gate_proj": (hidden_size, intermediate_size)}
        sizes["up_proj"] = sizes["gate_proj"]
        sizes["down_proj"] = intermediate_size, hidden_size
        for name, (width, out) in sizes.items():
            if group_size:
                self.add_module(name, GroupQuantizedLinear(width, out, group_size, block_rows))
            else:
                self.add_module(name, QuantizedLinear(width, out, block_rows))

    @classmethod
    def from_float(cls, weights, group_size=None, block_rows=64):
        mlp = cls(4, 4, group_size and 2, block_rows)
        for name in ("gate_proj", "up_proj", "down_proj"):
            kind = GroupQuantizedLinear if group_size else QuantizedLinear
            sizes = (group_size, block_rows) if group_size else (block_rows,)
            setattr(mlp, name, kind.from_float(weights[f"{name}.weight"], *sizes))
        return mlp

    def forward(self, x):
        gated = F.silu(self.gate_proj(x))
        gated = gated * self.up_proj(x)
        return self.down_proj(gated)
