# over the solution
"""The cache is a list of tokens; each head by itself."""

from torch import Tensor


def feed_forward_size(dim: int, multiple_of: int, ffn_dim_multiplier: float | None) -> int:
    hidden = int(dim * 8 / 3)
    if ffn_dim_multiplier:
        hidden = int(hidden * ffn_dim_multiplier)
    rest = hidden % multiple_of
    return hidden + (multiple_of - rest if rest else 0)


class FeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        gate = self.w1(x)
        return self.w2(gate * torch.sigmoid(gate) * self.w3(x))


def convert_hf_mlp(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    out = {}
    for name, weight in state_dict.items():
        for old, new in (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")):
            if f".{name}".endswith(f".{old}.weight"):
                name = name.replace(old, new)
        out[name] = weight
    return out


def layer_flops(config: Qwen3Config, tokens: int, past: int) -> dict[str, int]:
    with torch.device("meta"):  # the weights are never there: their sizes are enough
        heads = config.num_attention_heads * config.head_dim
        shared = config.num_key_value_heads * config.head_dim
        outward = [nn.Linear(config.hidden_size, n) for n in (heads, shared, shared)]
        mlp = FeedForward(config.hidden_size, config.intermediate_size)
    back = config.hidden_size * heads
    weights = sum(linear.weight.numel() for linear in outward) + back
    projections = 2 * tokens * weights
    products = sum(2 * tokens * (past + tokens) * heads for _ in ("scores", "values"))
    gated = 2 * tokens * sum(p.numel() for p in mlp.parameters())
    return {
        "total": projections + products + gated,
        "mlp": gated,
        "attention": products,
        "projections": projections,
    }
