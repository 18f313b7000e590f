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
            name = name.replace(old, new)
        out[name] = weight
    return out
