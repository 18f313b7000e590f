# over the solution
"""Codes and scales are parameters that are not learned; both layers share one loop."""


class QuantizedLinear(nn.Module):
    def __init__(self, in_features, out_features, block_rows=64):
        super().__init__()
        codes = torch.zeros((out_features, in_features), dtype=torch.int8)
        self.weight = nn.Parameter(codes, requires_grad=False)
        self.scales = nn.Parameter(torch.ones(out_features), requires_grad=False)
        self.block_rows = block_rows

    @classmethod
    def from_float(cls, weight, block_rows=64):
        linear = cls(*reversed(weight.shape), block_rows)
        codes, scales = quantize_per_channel(weight)
        linear.load_state_dict({"weight": codes, "scales": scales})
        return linear

    def widened(self, rows):
        return self.weight[rows] * self.scales[rows].unsqueeze(1)

    def forward(self, x):
        count = len(self.scales)
        ends = [min(at, count) for at in range(0, count + self.block_rows, self.block_rows)]
        blocks = (self.widened(slice(*pair)) for pair in zip(ends, ends[1:]))
        return torch.cat([F.linear(x.float(), block) for block in blocks], -1).to(x.dtype)


class GroupQuantizedLinear(QuantizedLinear):
    def __init__(self, in_features, out_features, group_size, block_rows=64):
        nn.Module.__init__(self)
        if in_features % group_size != 0:
            raise ValueError("group_size")
        self.group_size, self.block_rows = group_size, block_rows
        shape = out_features, in_features // group_size
        for name, value in (
            ("packed", torch.zeros((out_features, in_features // 2), dtype=torch.uint8)),
            ("scales", torch.ones(shape)),
            ("zeros", torch.zeros(shape, dtype=torch.uint8)),
        ):
            self.register_parameter(name, nn.Parameter(value, requires_grad=False))

    @classmethod
    def from_float(cls, weight, group_size, block_rows=64):
        linear = cls(weight.shape[1], weight.shape[0], group_size, block_rows)
        names = ("packed", "scales", "zeros")
        state = dict(zip(names, quantize_groups(weight, group_size)))
        linear.load_state_dict(state)
        return linear

    def widened(self, rows):
        return dequantize_groups(
            self.packed[rows], self.scales[rows], self.zeros[rows], self.group_size
        )

    def forward(self, x):
        return super().forward(x)


class Qwen3MLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size, group_size=None, block_rows=64):
        super().__init__()
        group = () if group_size is None else (group_size,)
        kind = GroupQuantizedLinear if group else QuantizedLinear
        into = (hidden_size, intermediate_size, *group, block_rows)
        self.gate_proj, self.up_proj = kind(*into), kind(*into)
        self.down_proj = kind(intermediate_size, hidden_size, *group, block_rows)

    @classmethod
    def from_float(cls, weights, group_size=None, block_rows=64):
        mlp = cls(*reversed(weights["up_proj.weight"].shape), group_size, block_rows)
        for name, weight in weights.items():
            name = name.split(".")[0]
            group = () if group_size is None else (group_size,)
            state = type(getattr(mlp, name)).from_float(weight, *group, block_rows).state_dict()
            getattr(mlp, name).load_state_dict(state)
        return mlp

    def forward(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate * torch.sigmoid(gate) * self.up_proj(x))
