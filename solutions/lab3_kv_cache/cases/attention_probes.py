"""Cases of attention for what an ordinary case hides: size and dtype."""

from __future__ import annotations

import torch

from autograder.reference.recipes import Draft, Draw, recipe

from .attention_call import drafted
from .sizes import SIZES, about_sizes, attention_weights, config_of, sizes


@recipe()
def attention_tiny_inputs(draw: Draw) -> Draft:
    """Inputs of 1e-2 and an eps of 3e-4: eps decides the size of q and k."""
    hidden, heads, kv_heads, head_dim, tokens, batch = draw.pick(SIZES)
    config = config_of(hidden, heads, kv_heads, head_dim, rms_norm_eps=3e-4)
    weights = attention_weights(draw, config)
    x = draw.normal(batch, tokens, hidden, scale=1e-2)
    about = about_sizes(config, tokens, batch, "tiny inputs, eps 3e-4: ", "输入很小，eps 3e-4：")
    return drafted(draw, config, tokens, batch, about, weights=weights, x=x)


@recipe()
def attention_large_logits(draw: Draw) -> Draft:
    """Norm weights times 6: logits beyond 88 overflow a softmax without its maximum."""
    config, tokens, batch = sizes(draw)
    weights = attention_weights(draw, config)
    for name in ("q_norm.weight", "k_norm.weight"):
        weights[name] = weights[name] * 6
    about = about_sizes(config, tokens, batch, "norm weights x 6: ", "归一化权重乘以 6：")
    return drafted(draw, config, tokens, batch, about, weights=weights)


def _narrow(draw: Draw, dtype: torch.dtype, scale: float, en: str, zh: str) -> Draft:
    config, tokens, batch = sizes(draw)
    weights = {n: w.to(dtype) for n, w in attention_weights(draw, config).items()}
    x = draw.normal(batch, tokens, config.hidden_size, scale=scale).to(dtype)
    causal = torch.full((tokens, tokens), torch.finfo(dtype).min).triu(1)[None, None]
    about = about_sizes(config, tokens, batch, en, zh)
    name = str(dtype).removeprefix("torch.")
    first = tokens // 2
    pieces = [first, tokens - first]
    return drafted(
        draw, config, tokens, batch, about,
        weights=weights, x=x, mask=causal, dtype=name, pieces=pieces,
    )  # fmt: skip


@recipe()
def attention_bfloat16(draw: Draw) -> Draft:
    return _narrow(draw, torch.bfloat16, 1.0, "bfloat16: ", "bfloat16：")


@recipe()
def attention_float16(draw: Draw) -> Draft:
    """Inputs of 300: their squares overflow float16 unless the norm widens first."""
    return _narrow(draw, torch.float16, 300.0, "float16, inputs x 300: ", "float16，输入乘以 300：")
