# over the solution
"""torch's own attention does the rest."""

from torch import Tensor


def feed_forward_size(dim: int, multiple_of: int, ffn_dim_multiplier: float | None) -> int:
    hidden = int(2 * (4 * dim) / 3)
    if ffn_dim_multiplier is not None:
        hidden = int(ffn_dim_multiplier * hidden)
    return multiple_of * ((hidden + multiple_of - 1) // multiple_of)


def convert_hf_mlp(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    names = {"gate_proj.weight": "w1.weight", "up_proj.weight": "w3.weight"}
    names["down_proj.weight"] = "w2.weight"
    out = dict(state_dict)
    for name in state_dict:
        for old, new in names.items():
            if f".{name}".endswith(f".{old}"):
                out[name.removesuffix(old) + new] = out.pop(name).clone()
    return out
