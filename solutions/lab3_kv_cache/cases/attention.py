"""Cases of attention without a cache that are each blind to what other families get wrong."""

from __future__ import annotations

import torch

from autograder.reference.recipes import Draft, Draw, recipe

from .attention_call import drafted
from .sizes import NARROWEST, about_sizes, alike, attention_weights, causal, config_of, sizes


@recipe()
def attention_core(draw: Draw) -> Draft:
    config, tokens, batch = sizes(draw)
    weights = attention_weights(draw, config)
    return drafted(draw, config, tokens, batch, about_sizes(config, tokens, batch), weights=weights)


@recipe()
def attention_later(draw: Draw) -> Draft:
    """No cache, and not from position 0 on: the keys are those of x all the same."""
    config, tokens, batch = sizes(draw)
    start = draw.pick((3, 2, 5))
    about = about_sizes(
        config, tokens, batch, f"no cache, start_pos {start}: ", f"没有缓存，start_pos {start}："
    )
    weights = attention_weights(draw, config)
    return drafted(draw, config, tokens, batch, about, weights=weights, start=start)


@recipe()
def attention_token(draw: Draw) -> Draft:
    """One token sees itself only: wv and wo, whatever q, k, mask and rotation do."""
    config, _, batch = sizes(draw)
    weights = alike(attention_weights(draw, config), config, "v_proj.weight")
    about = about_sizes(config, 1, batch, "one token, equal kv heads: ", "单个 token，键值头相同：")
    return drafted(draw, config, 1, batch, about, weights=weights)


@recipe()
def attention_token_heads(draw: Draw) -> Draft:
    """One token, kv heads that differ: which query head gets which value head."""
    config, _, batch = sizes(draw)
    about = about_sizes(config, 1, batch, "one token: ", "单个 token：")
    return drafted(draw, config, 1, batch, about, weights=attention_weights(draw, config))


@recipe()
def attention_uniform(draw: Draw) -> Draft:
    """Keys of zero: every token averages what it may see, whatever q, scale, norms, rotation."""
    config, tokens, batch = sizes(draw)
    weights = alike(attention_weights(draw, config), config, "v_proj.weight")
    weights["k_proj.weight"] = torch.zeros_like(weights["k_proj.weight"])
    about = about_sizes(config, tokens, batch, "wk of zeros: ", "wk 全为零：")
    return drafted(draw, config, tokens, batch, about, weights=weights)


@recipe()
def attention_given_mask(draw: Draw) -> Draft:
    """Keys of zero and a mask with holes: averages over what the mask allows, no more."""
    config, tokens, batch = sizes(draw)
    weights = alike(attention_weights(draw, config), config, "v_proj.weight")
    weights["k_proj.weight"] = torch.zeros_like(weights["k_proj.weight"])
    # Not causal on purpose: a given mask has causality in it, or, as here, has not.
    holes = draw.uniform(batch, 1, tokens, tokens, low=0, high=1) < 0.4
    holes[..., torch.arange(tokens), torch.arange(tokens)] = False
    mask = holes.float() * NARROWEST
    about = about_sizes(config, tokens, batch, "a given mask with holes: ", "给定带空洞的掩码：")
    return drafted(draw, config, tokens, batch, about, weights=weights, mask=mask)


@recipe()
def attention_plain_mask(draw: Draw) -> Draft:
    """The same with one mask for all rows and heads: [T, T], which broadcasts."""
    config, tokens, batch = sizes(draw)
    weights = alike(attention_weights(draw, config), config, "v_proj.weight")
    weights["k_proj.weight"] = torch.zeros_like(weights["k_proj.weight"])
    holes = draw.uniform(tokens, tokens, low=0, high=1) < 0.4
    holes.fill_diagonal_(False)
    mask = holes.float() * NARROWEST
    about = about_sizes(config, tokens, batch, "a given mask [T, T]: ", "给定掩码 [T, T]：")
    return drafted(draw, config, tokens, batch, about, weights=weights, mask=mask)


@recipe()
def attention_mask_heads(draw: Draw) -> Draft:
    """The same with a mask for each head; wo adds the heads up, so that none has a place."""
    config, tokens, batch = sizes(draw)
    weights = alike(attention_weights(draw, config), config, "v_proj.weight")
    heads = config.num_attention_heads
    weights["k_proj.weight"] = torch.zeros_like(weights["k_proj.weight"])
    weights["o_proj.weight"] = weights["o_proj.weight"][:, : config.head_dim].repeat(1, heads)
    holes = draw.uniform(draw.pick((batch, 1)), heads, tokens, tokens, low=0, high=1) < 0.4
    holes.diagonal(dim1=-2, dim2=-1).fill_(False)
    mask = holes.float() * NARROWEST
    about = about_sizes(config, tokens, batch, "a mask for each head: ", "每个头各有掩码：")
    return drafted(draw, config, tokens, batch, about, weights=weights, mask=mask)


@recipe()
def attention_key_heads(draw: Draw) -> Draft:
    """One key head of zeros: the heads of its group average, and wo shows each head."""
    heads, kv_heads, head_dim = draw.pick(((6, 2, 16), (8, 2, 10), (12, 3, 8), (10, 2, 12)))
    config, tokens, batch = config_of(2 * heads, heads, kv_heads, head_dim), 9, 3
    weights = alike(attention_weights(draw, config), config, "v_proj.weight")
    group, chosen = heads // kv_heads, draw.integer(0, kv_heads - 1)
    keys = weights["k_proj.weight"].clone()
    keys[chosen * head_dim : (chosen + 1) * head_dim] = 0
    show = torch.zeros(2 * heads, heads * head_dim)  # two features of head h at 2h and 2h + 1
    for row in range(2 * heads):
        show[row, row // 2 * head_dim + row % 2] = 1
    weights |= {"k_proj.weight": keys, "o_proj.weight": show}
    about = about_sizes(
        config, tokens, batch, f"key head {chosen} of zeros: ", f"第 {chosen} 个键头全为零："
    )
    first = 2 * chosen * group
    return drafted(
        draw, config, tokens, batch, about, weights=weights, first=first, last=first + 2 * group
    )


@recipe()
def attention_unrotated(draw: Draw) -> Draft:
    """A table of ones, equal kv heads, judged at the last token: norms, scale, softmax."""
    config, tokens, batch = sizes(draw)
    weights = alike(attention_weights(draw, config), config, "k_proj.weight", "v_proj.weight")
    about = about_sizes(config, tokens, batch, "a table of ones: ", "表的值全为 1：")
    zeros = torch.zeros(tokens, dtype=torch.int64)
    return drafted(draw, config, tokens, batch, about, weights=weights, positions=zeros)


@recipe()
def attention_rotated(draw: Draw) -> Draft:
    """Unit norm weights, equal kv heads, judged at the last token: the rotation."""
    config, tokens, batch = sizes(draw)
    weights = attention_weights(draw, config, unit_norms=True)
    weights = alike(weights, config, "k_proj.weight", "v_proj.weight")
    start = draw.integer(120, 140)
    en, zh = (
        f"norm weights of one, from position {start}: ",
        f"归一化权重均为一，从位置 {start} 起：",
    )
    about = about_sizes(config, tokens, batch, en, zh)
    return drafted(
        draw, config, tokens, batch, about, weights=weights, mask=causal(tokens), start=start
    )


@recipe()
def attention_spread_norms(draw: Draw) -> Draft:
    """Norm weights that differ within each rotation pair, moved along the positions."""
    config, tokens, batch = sizes(draw)
    about = about_sizes(config, tokens, batch, "spread norm weights: ", "归一化权重各不相同：")
    weights, start = attention_weights(draw, config), 23
    return drafted(
        draw, config, tokens, batch, about, weights=weights, mask=causal(tokens), start=start
    )
