# over the solution
"""Keys and values grow by concatenation."""

import re

from torch import Tensor


def feed_forward_size(dim: int, multiple_of: int, ffn_dim_multiplier: float | None) -> int:
    hidden = int(2 * (4 * dim) / 3)
    if ffn_dim_multiplier is not None:
        hidden = int(ffn_dim_multiplier * hidden)
    return multiple_of * ((hidden + multiple_of - 1) // multiple_of)


def convert_hf_mlp(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    out = {}
    for name, weight in state_dict.items():
        for old, new in (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")):
            name = re.sub(rf"\b{old}\.weight$", f"{new}.weight", name)
        out[name] = weight
    return out
