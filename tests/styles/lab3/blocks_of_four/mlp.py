# over the solution
"""A cache of blocks, as a paged one has; real and imaginary parts apart."""

from torch import Tensor


def feed_forward_size(dim: int, multiple_of: int, ffn_dim_multiplier: float | None) -> int:
    hidden = int(dim * 8 / 3)
    if ffn_dim_multiplier:
        hidden = int(hidden * ffn_dim_multiplier)
    rest = hidden % multiple_of
    return hidden + (multiple_of - rest if rest else 0)


class FeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        gate, up = F.linear(x, torch.cat((self.w1.weight, self.w3.weight))).chunk(2, dim=-1)
        return F.linear(F.silu(gate).mul(up), self.w2.weight)


def convert_hf_mlp(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    out = {}
    for name, weight in state_dict.items():
        for old, new in (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")):
            if f".{name}".endswith(f".{old}.weight"):
                name = name.replace(old, new)
        out[name] = weight
    return out
