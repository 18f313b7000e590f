"""Cases of attention for what an ordinary case hides: padding, length, size, dtype."""

from __future__ import annotations

import torch

from autograder.reference.recipes import Draft, Draw, draft, recipe

from .attention_call import drafted
from .sizes import NARROWEST, SIZES, about_sizes, attention_weights, config_of, sizes


@recipe()
def attention_rows(draw: Draw) -> Draft:
    """Every row of the batch at positions of its own; the first as if padded on the left.

    Its repeated positions hide nothing: causal is who comes first, not whose number is smaller.
    """
    config, tokens, batch = sizes(draw)
    rows = []
    for _ in range(batch):
        steps = torch.arange(tokens)
        gap = draw.integer(1, tokens - 2)
        rows.append(steps + draw.integer(0, 9) + draw.integer(2, 20) * (steps > gap))
    rows[0] = (torch.arange(tokens) - draw.integer(2, 4)).clamp(min=0)
    about = about_sizes(
        config, tokens, batch,
        "positions per row, repeated ones in row 0: ", "每行位置不同，第 0 行有重复的位置：",
    )  # fmt: skip
    weights = attention_weights(draw, config)
    return drafted(draw, config, tokens, batch, about, weights=weights, positions=torch.stack(rows))


@recipe()
def attention_padded(draw: Draw) -> Draft:
    """One row padded on the left; a padded query sees itself, so that no row is empty."""
    config, tokens, batch = sizes(draw)
    pad = draw.integer(2, 4)
    allowed = torch.ones(tokens, tokens).tril().bool().repeat(batch, 1, 1, 1)
    allowed[1, :, :, :pad] = False
    allowed[..., torch.arange(tokens), torch.arange(tokens)] = True
    mask = torch.where(allowed, 0.0, NARROWEST)
    positions = torch.arange(tokens).repeat(batch, 1)
    positions[1] = (positions[1] - pad).clamp(min=0)
    keep = torch.ones(batch, tokens, dtype=torch.bool)
    keep[1, :pad] = False
    about = about_sizes(config, tokens, batch, "a left-padded row: ", "有一行左侧填充：")
    made = drafted(
        draw, config, tokens, batch, about,
        weights=attention_weights(draw, config), mask=mask, positions=positions,
    )  # fmt: skip
    return draft(about, dict(made.tensors) | {"keep": keep}, made.config)


@recipe(hidden=0)
def attention_long(draw: Draw) -> Draft:
    # Few heads and no second case: the scores of 400 tokens are what a hand-in spends most of
    # its time on, and what they show (clamped tables, coarse angles) no other numbers hide.
    config, tokens = config_of(20, 2, 1, 8), 400
    about = about_sizes(config, tokens, 1, "a long sequence: ", "长序列：")
    return drafted(draw, config, tokens, 1, about, weights=attention_weights(draw, config))


@recipe()
def attention_tiny_inputs(draw: Draw) -> Draft:
    """Inputs of 1e-3 and an eps of 3e-4: eps decides the size of q and k."""
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


def _narrow(draw: Draw, dtype: torch.dtype, scale: float, lowest: int, en: str, zh: str) -> Draft:
    """Positions from beyond the whole numbers that the dtype knows, one after the other.

    Frequencies that `.to(dtype)` rounds stay within the limits, since distances are short.
    """
    config, tokens, batch = sizes(draw)
    weights = {n: w.to(dtype) for n, w in attention_weights(draw, config).items()}
    x = draw.normal(batch, tokens, config.hidden_size, scale=scale).to(dtype)
    causal = torch.full((tokens, tokens), torch.finfo(dtype).min).triu(1)[None, None]
    first = lowest + draw.integer(0, 99)
    about = about_sizes(
        config, tokens, batch, f"{en}, positions from {first}: ", f"{zh}，位置从 {first} 起："
    )
    return drafted(
        draw, config, tokens, batch, about, weights=weights, x=x, mask=causal,
        positions=torch.arange(tokens) + first, dtype=str(dtype).removeprefix("torch."),
    )  # fmt: skip


@recipe()
def attention_bfloat16(draw: Draw) -> Draft:
    return _narrow(draw, torch.bfloat16, 1.0, 301, "bfloat16", "bfloat16")


@recipe()
def attention_float16(draw: Draw) -> Draft:
    """Inputs of 300: their squares overflow float16 unless the norm widens first."""
    en, zh = "float16, inputs x 300", "float16，输入乘以 300"
    return _narrow(draw, torch.float16, 300.0, 2051, en, zh)
