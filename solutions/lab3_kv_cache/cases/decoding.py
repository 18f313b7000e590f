"""Cases of attention with a cache: the same tokens in pieces, padded rows, a second sequence."""

from __future__ import annotations

from dataclasses import asdict

import torch

from autograder.course.labfile import LABS
from autograder.reference.recipes import Draft, Draw, draft, recipe
from autograder.worker import real_weights
from labs.given.config import Qwen3Config
from solutions.reference import oracle

from .attention_call import drafted
from .sizes import NARROWEST, about_sizes, alike, attention_weights, causal, prefixed, sizes

CHECKPOINT = LABS / "given" / "tiny_qwen3"


def _pieces(draw: Draw, tokens: int) -> list[int]:
    """Lengths of the chunks: 5 + 3 + 3 for the 11 tokens of public cases."""
    first, last = draw.pick(((tokens - 6, 3), (2, 1), (tokens - 3, 2), (1, 4)))
    return [first, tokens - first - last, last]


@recipe()
def decoding(draw: Draw) -> Draft:
    """The causal mask is given, so that only what is kept matters; values beyond 4 are, too."""
    config, tokens, batch = sizes(draw)
    pieces = _pieces(draw, tokens)
    joined = " + ".join(map(str, pieces))
    about = about_sizes(config, tokens, batch, f"in pieces of {joined}: ", f"分为 {joined}：")
    weights, mask = attention_weights(draw, config), causal(tokens)
    weights["v_proj.weight"] = 4 * weights["v_proj.weight"]
    return drafted(draw, config, tokens, batch, about, weights=weights, mask=mask, pieces=pieces)


@recipe()
def decoding_uniform(draw: Draw) -> Draft:
    """Keys of zero, no mask given: every token averages all tokens before it, cached or not."""
    config, tokens, batch = sizes(draw)
    weights = alike(attention_weights(draw, config), config, "v_proj.weight")
    weights["k_proj.weight"] = torch.zeros_like(weights["k_proj.weight"])
    pieces = _pieces(draw, tokens)
    joined = " + ".join(map(str, pieces))
    en, zh = f"wk of zeros, in pieces of {joined}: ", f"wk 全为零，分为 {joined}："
    about = about_sizes(config, tokens, batch, en, zh)
    return drafted(draw, config, tokens, batch, about, weights=weights, pieces=pieces)


@recipe()
def decoding_given_mask(draw: Draw) -> Draft:
    """Keys of zero and a mask [T, keys] for every piece, in which tokens may look ahead."""
    config, tokens, batch = sizes(draw)
    weights = alike(attention_weights(draw, config), config, "v_proj.weight")
    weights["k_proj.weight"] = torch.zeros_like(weights["k_proj.weight"])
    # No piece of one token: a mask that is ignored in single steps is not the question here.
    first, last = draw.pick(((tokens - 5, 3), (2, 2), (3, 2)))
    pieces = [first, tokens - first - last, last]
    hidden = draw.uniform(tokens, tokens, low=0, high=1) < 0.3
    for end in (first, tokens - last):
        hidden[:end, end:] = True  # what comes in later pieces
    hidden.fill_diagonal_(False)
    hidden[-last, -1] = False  # at least here a token looks ahead
    mask, joined = hidden.float() * NARROWEST, " + ".join(map(str, pieces))
    en, zh = f"given masks [T, keys], pieces of {joined}: ", f"给定掩码 [T, keys]，分为 {joined}："
    about = about_sizes(config, tokens, batch, en, zh)
    return drafted(draw, config, tokens, batch, about, weights=weights, mask=mask, pieces=pieces)


@recipe()
def decoding_padded(draw: Draw) -> Draft:
    """Rows of different lengths, padded on the left; the last tokens come one by one."""
    config, tokens, batch = sizes(draw)
    pads = [draw.integer(0, 4) for _ in range(batch)]
    pads[0], pads[1] = 0, 3
    allowed = torch.ones(tokens, tokens).tril().bool().repeat(batch, 1, 1, 1)
    keep = torch.ones(batch, tokens, dtype=torch.bool)
    positions = torch.arange(tokens).repeat(batch, 1)
    for row, pad in enumerate(pads):
        allowed[row, :, :, :pad] = False
        keep[row, :pad] = False
        positions[row] = (positions[row] - pad).clamp(min=0)
    # A padded query may see itself, so that no row of scores is blocked altogether.
    allowed[..., torch.arange(tokens), torch.arange(tokens)] = True
    mask = torch.where(allowed, 0.0, NARROWEST)
    about = about_sizes(config, tokens, batch, "left-padded rows: ", "左侧填充的各行：")
    made = drafted(
        draw, config, tokens, batch, about, weights=attention_weights(draw, config),
        mask=mask, positions=positions, pieces=[tokens - 2, 1, 1],
    )  # fmt: skip
    return draft(about, dict(made.tensors) | {"keep": keep}, made.config, **made.values)


@recipe()
def decoding_second(draw: Draw) -> Draft:
    """Another, shorter sequence after the first."""
    config, tokens, batch = sizes(draw)
    weights, second = attention_weights(draw, config), tokens - draw.integer(2, 3)
    about = about_sizes(
        config,
        tokens,
        batch,
        f"then {second} of another sequence: ",
        f"之后是另一序列的 {second} 个：",
    )
    made = drafted(draw, config, tokens, batch, about, weights=weights, mask=causal(tokens))
    x = draw.normal(batch, second, config.hidden_size)
    other = {"other_x": x, "other_y": oracle.attention(config, weights, x)}
    pieces = [second - 2, 2]
    return draft(about, dict(made.tensors) | other, made.config, **made.values, pieces=pieces)


@recipe()
def decoding_checkpoint(draw: Draw) -> Draft:
    """One layer of the trained checkpoint on board, token by token at the end."""
    config = Qwen3Config.from_json(CHECKPOINT / "config.json")
    layer = draw.pick(range(config.num_hidden_layers))
    weights = real_weights.read(CHECKPOINT, f"model.layers.{layer}.self_attn.")
    about = about_sizes(
        config, 9, 3, f"tiny Qwen3, layer {layer}: ", f"小型 Qwen3，第 {layer} 层："
    )
    return drafted(draw, config, 9, 3, about, weights=weights, mask=causal(9), pieces=[6, 1, 1, 1])


@recipe()
def whole(draw: Draw) -> Draft:
    """Weights of Hugging Face in their own order: everything is carried over by the student."""
    config, tokens, batch = sizes(draw)
    weights = attention_weights(draw, config)
    x = draw.normal(batch, tokens, config.hidden_size)
    about = about_sizes(config, tokens, batch, "Hugging Face's rows: ", "Hugging Face 的行顺序：")
    tensors = {"x": x, "y": oracle.attention(config, weights, x), **prefixed(weights)}
    pieces = _pieces(draw, tokens)
    return draft(about, tensors, asdict(config), pieces=pieces, start=0)
