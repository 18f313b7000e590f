# over the solution
"""The cache keeps heads in front of tokens, as a module with buffers."""

import math

from torch import Tensor


def feed_forward_size(dim: int, multiple_of: int, ffn_dim_multiplier: float | None) -> int:
    hidden = 8 * dim // 3
    hidden = math.floor(hidden * (1.0 if ffn_dim_multiplier is None else ffn_dim_multiplier))
    return math.ceil(hidden / multiple_of) * multiple_of


def convert_hf_mlp(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    names = {"gate_proj.weight": "w1.weight", "up_proj.weight": "w3.weight"}
    names["down_proj.weight"] = "w2.weight"
    out = dict(state_dict)
    for name in state_dict:
        for old, new in names.items():
            if f".{name}".endswith(f".{old}"):
                out[name.removesuffix(old) + new] = out.pop(name).clone()
    return out
