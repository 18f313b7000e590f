# over the solution
"""Every row of the batch by itself, under vmap."""

import math

from torch import Tensor


def feed_forward_size(dim: int, multiple_of: int, ffn_dim_multiplier: float | None) -> int:
    hidden = 8 * dim // 3
    hidden = math.floor(hidden * (1.0 if ffn_dim_multiplier is None else ffn_dim_multiplier))
    return math.ceil(hidden / multiple_of) * multiple_of


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
    c, d = config, config.head_dim
    sides = {
        "projections": [(c.hidden_size, c.num_attention_heads * d)] * 2
        + [(c.hidden_size, c.num_key_value_heads * d)] * 2,
        "attention": [(past + tokens, d)] * (2 * c.num_attention_heads),
        "mlp": [(c.hidden_size, c.intermediate_size)] * 3,
    }
    out = {name: sum(2 * tokens * a * b for a, b in pairs) for name, pairs in sides.items()}
    out["total"] = sum(out.values())
    return out


def prefill_flops(config: Qwen3Config, tokens: int) -> int:
    every = [layer_flops(config, tokens, past=0)["total"]] * config.num_hidden_layers
    return sum(every, start=config.hidden_size * config.vocab_size * 2)
