# over the solution
"""Quantises in float64 and by tables: the sixteen weights that a group can have."""


def quantize_per_channel(weight):
    wide = weight.double()
    scales = wide.abs().max(dim=1).values / 127
    scales[scales == 0.0] = 1.0
    scales = scales.float()
    return (wide / scales.double().view(-1, 1)).round().clamp(-127, 127).to(torch.int8), scales


def quantize_groups(weight, group_size):
    if weight.shape[1] % group_size:
        raise ValueError(f"group_size {group_size} is no divisor")
    groups = weight.double().view(weight.shape[0], -1, group_size)
    ends = torch.cat((groups, torch.zeros_like(groups[..., :1])), -1)
    low, high = ends.min(-1)[0], ends.max(-1)[0]
    scales = torch.where(high == low, 1.0, (high - low) / 15).float()
    zeros = torch.round(-low / scales)
    tables = (torch.arange(16) - zeros[..., None]) * scales[..., None]  # [out, groups, 16]
    codes = (groups[..., None] - tables[..., None, :]).abs().argmin(-1).flatten(1)
    packed = (codes[:, ::2] | (codes[:, 1::2] << 4)).to(torch.uint8)
    return packed, scales, zeros.to(torch.uint8)


def dequantize_groups(packed, scales, zeros, group_size):
    tables = (torch.arange(16) - zeros.short()[..., None]) * scales[..., None]
    codes = torch.stack((packed & 15, packed >> 4), dim=2).view(*scales.shape, group_size)
    return tables.gather(2, codes.long()).flatten(1)


def weight_bytes(config, bits, group_size=None):
    if bits not in (16, 8, 4):
        raise ValueError("bits")
    heads = config.num_attention_heads + 2 * config.num_key_value_heads
    rows = heads * config.head_dim + config.hidden_size + 2 * config.intermediate_size
    numbers = config.hidden_size * (
        (heads + config.num_attention_heads) * config.head_dim + 3 * config.intermediate_size
    )
    rows += config.hidden_size
    extra = {16: 0, 8: 4 * rows, 4: 5 * numbers // (group_size or 1)}[bits]
    return (numbers * bits // 8 + extra) * config.num_hidden_layers
