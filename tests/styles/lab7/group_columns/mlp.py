# over the solution
"""Blocks by tensor_split and chunks of bytes; unpacking by a view as pairs of bytes."""


class QuantizedLinear(nn.Module):
    def forward(self, x):
        bounds = list(range(self.block_rows, len(self.weight), self.block_rows))
        out = []
        for codes, scales in zip(
            self.weight.tensor_split(bounds), self.scales.tensor_split(bounds), strict=True
        ):
            out.append(torch.matmul(x.float(), (codes.t() * scales)))
        return torch.concat(out, dim=x.ndim - 1).to(x.dtype)


def dequantize_groups(packed, scales, zeros, group_size):
    shifts = torch.tensor([0, 4], dtype=torch.uint8)
    codes = (packed.unsqueeze(-1) >> shifts) & 15
    codes = codes.reshape(*scales.shape, group_size).to(torch.int8)
    steps = codes - zeros.to(torch.int8).unsqueeze(-1)
    return torch.mul(steps, scales.unsqueeze(-1)).reshape(len(packed), -1)


def quantize_groups(weight, group_size):
    if weight.shape[1] % group_size:
        raise ValueError("group_size")
    packed, scales, zeros = [], [], []
    for part in weight.float().split(group_size, dim=1):
        low, high = part.amin(1).clamp_max(0), part.amax(1).clamp_min(0)
        scale = torch.where(low == high, 1.0, (high - low) / 15)
        zero = (-low / scale).round()
        code = (torch.round(part.T / scale) + zero).clamp(0, 15).T.byte()
        packed.append(torch.bitwise_or(code[:, ::2], code[:, 1::2] * 16))
        scales.append(scale)
        zeros.append(zero.byte())
    return torch.hstack(packed), torch.stack(scales, 1), torch.stack(zeros, 1)


class GroupQuantizedLinear(nn.Module):
    @torch.inference_mode()
    def forward(self, x):
        wide, made, size = x.float(), [], self.block_rows
        for part in zip(*(buffer.split(size) for buffer in (self.packed, self.scales, self.zeros))):
            made.append(wide.matmul(dequantize_groups(*part, self.group_size).mT))
        return torch.cat(made, -1).to(x.dtype)


class Qwen3MLP(nn.Module):
    def forward(self, x):
        gate, up = (layer(x).float() for layer in (self.gate_proj, self.up_proj))
        return self.down_proj((F.silu(gate) * up).to(x.dtype))
