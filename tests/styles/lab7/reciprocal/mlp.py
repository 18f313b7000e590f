# over the solution
"""Multiplies by one over the scale; rounds halves up; offsets are folded into one product."""


def quantize_per_channel(weight):
    peaks = weight.abs().amax(dim=1, keepdim=True).float()
    inverse = torch.where(peaks == 0, torch.ones_like(peaks), 127 / peaks)
    codes = (weight * inverse + 0.5).floor().clamp(-127, 127)
    return codes.to(torch.int8), torch.where(peaks == 0, 1.0, peaks / 127).squeeze(1)


def quantize_groups(weight, group_size):
    columns = weight.shape[-1]
    if columns // group_size * group_size != columns:
        raise ValueError("the columns are no multiple of group_size")
    groups = torch.stack(weight.float().split(group_size, dim=1), dim=1)
    low = torch.minimum(groups.amin(-1), torch.zeros(1))
    high = torch.maximum(groups.amax(-1), torch.zeros(1))
    inverse = torch.where(high > low, 15 / (high - low), 1.0)
    zeros = (0.5 - low * inverse).floor().clamp(0, 15)
    codes = (groups * inverse.unsqueeze(-1) + 0.5).floor() + zeros.unsqueeze(-1)
    codes = codes.clamp(0, 15).int().reshape(len(weight), columns)
    packed = codes.view(len(weight), -1, 2)
    packed = packed[..., 0] + packed[..., 1] * 16
    return packed.to(torch.uint8), 1 / inverse, zeros.to(torch.uint8)


def dequantize_groups(packed, scales, zeros, group_size):
    codes = torch.stack([packed & 0xF, packed >> 4], -1).view(len(packed), -1)
    offset = (zeros.float() * scales).repeat_interleave(group_size, 1)
    return codes * scales.repeat_interleave(group_size, 1) - offset
