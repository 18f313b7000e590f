# over the solution
"""Bytes are those of layers on the meta device; codes are cut to their range before the zero."""


def _layer(width, out, bits, group_size):
    if bits == 16:
        return nn.Linear(width, out, bias=False, dtype=torch.bfloat16)
    if bits == 8:
        return QuantizedLinear(width, out)
    if bits == 4:
        return GroupQuantizedLinear(width, out, group_size)
    raise ValueError(f"no such bits: {bits}")


def weight_bytes(config, bits, group_size=None):
    queries = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    with torch.device("meta"):
        layers = nn.ModuleList(
            [
                _layer(config.hidden_size, queries, bits, group_size),
                _layer(config.hidden_size, keys, bits, group_size),
                _layer(config.hidden_size, keys, bits, group_size),
                _layer(queries, config.hidden_size, bits, group_size),
                _layer(config.hidden_size, config.intermediate_size, bits, group_size),
                _layer(config.hidden_size, config.intermediate_size, bits, group_size),
                _layer(config.intermediate_size, config.hidden_size, bits, group_size),
            ]
        )
    tensors = [*layers.parameters(), *layers.buffers()]
    return config.num_hidden_layers * sum(one.numel() * one.element_size() for one in tensors)


def quantize_groups(weight, group_size):
    if weight.shape[1] // group_size * group_size != weight.shape[1]:
        raise ValueError(f"group_size {group_size} leaves a short group")
    groups = torch.stack(weight.float().split(group_size, dim=1), dim=1)
    low = torch.minimum(groups.amin(-1), torch.tensor(0.0))
    high = torch.maximum(groups.amax(-1), torch.tensor(0.0))
    scales = torch.where(high > low, (high - low) / 15, torch.tensor(1.0))[..., None]
    zeros = torch.round(-low[..., None] / scales)
    steps = torch.round(groups / scales)
    steps = torch.minimum(torch.maximum(steps, -zeros), 15 - zeros)
    codes = (steps + zeros).flatten(1)
    packed = codes[:, ::2] + 16 * codes[:, 1::2]
    return packed.to(torch.uint8), scales[..., 0], zeros[..., 0].to(torch.uint8)


class Qwen3MLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size, group_size=None, block_rows=64):
        super().__init__()
        shapes = [(hidden_size, intermediate_size)] * 2 + [(intermediate_size, hidden_size)]
        if group_size is None:
            made = [QuantizedLinear(*shape, block_rows) for shape in shapes]
        else:
            made = [GroupQuantizedLinear(*shape, group_size, block_rows) for shape in shapes]
        self.gate_proj, self.up_proj, self.down_proj = made

    @classmethod
    def from_float(cls, weights, group_size=None, block_rows=64):
        inner, hidden = weights["up_proj.weight"].shape
        mlp = cls(hidden, inner, group_size, block_rows)
        state = {}
        for name in ("gate_proj", "up_proj", "down_proj"):
            weight = weights[f"{name}.weight"]
            if group_size is None:
                keys, parts = ("weight", "scales"), quantize_per_channel(weight)
            else:
                keys, parts = ("packed", "scales", "zeros"), quantize_groups(weight, group_size)
            state |= {f"{name}.{key}": part for key, part in zip(keys, parts, strict=True)}
        mlp.load_state_dict(state)
        return mlp

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)).mul(self.up_proj(x)))
