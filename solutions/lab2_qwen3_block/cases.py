"""Lab 2: the cases. Adversarial on purpose: nothing a default tiny config hides stays hidden.

All sizes of a case are distinct (batch, tokens, heads, kv heads, head_dim), heads * head_dim
is not hidden, hidden // heads is no other size, the group size is not the number of kv heads,
and norm weights are random and
different within each rotation pair. A case whose name ends in a property is blind to the
other families: its expected result does not depend on what they get wrong.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from autograder.course.labfile import LABS
from autograder.course.records import Text
from autograder.reference import oracle
from autograder.reference.recipes import Draft, Draw, draft, recipe
from autograder.sandbox import mapped
from labs.given.config import Qwen3Config

Weights = dict[str, torch.Tensor]
CHECKPOINT = LABS / "given" / "tiny_qwen3"
NARROWEST = torch.finfo(torch.float32).min

# hidden, heads, kv heads, head_dim, tokens, batch
SIZES = (
    (44, 6, 2, 16, 11, 4),
    (56, 8, 2, 10, 13, 3),
    (36, 10, 2, 12, 7, 5),
    (60, 12, 3, 8, 13, 5),
    (62, 15, 3, 14, 10, 4),
)


def _config(hidden: int, heads: int, kv_heads: int, head_dim: int, **other: Any) -> Qwen3Config:
    values: dict[str, Any] = {"vocab_size": 97, "intermediate_size": 72, "num_hidden_layers": 1}
    return Qwen3Config(
        **(values | other),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
    )


def _attention_weights(draw: Draw, c: Qwen3Config, *, unit_norms: bool = False) -> Weights:
    query, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    fan_in = c.hidden_size**-0.5
    weights = {
        "q_proj.weight": draw.normal(query, c.hidden_size, scale=fan_in),
        "k_proj.weight": draw.normal(kv, c.hidden_size, scale=fan_in),
        "v_proj.weight": draw.normal(kv, c.hidden_size, scale=fan_in),
        "o_proj.weight": draw.normal(c.hidden_size, query, scale=query**-0.5),
        "q_norm.weight": draw.uniform(c.head_dim, low=0.4, high=2.2),
        "k_norm.weight": draw.uniform(c.head_dim, low=0.4, high=2.2),
    }
    if unit_norms:
        weights["q_norm.weight"] = torch.ones(c.head_dim)
        weights["k_norm.weight"] = torch.ones(c.head_dim)
    return weights


def _alike(weights: Weights, c: Qwen3Config, *names: str) -> Weights:
    """Give every kv head the rows of the first, so that no mapping of heads matters."""
    same = {name: weights[name][: c.head_dim].repeat(c.num_key_value_heads, 1) for name in names}
    return weights | same


def _prefixed(weights: Weights, prefix: str = "w.") -> Weights:
    return {prefix + name: value for name, value in weights.items()}


def _sizes(draw: Draw) -> tuple[Qwen3Config, int, int]:
    hidden, heads, kv_heads, head_dim, tokens, batch = draw.pick(SIZES)
    return _config(hidden, heads, kv_heads, head_dim), tokens, batch


def _about(c: Qwen3Config, tokens: int, batch: int, en: str = "", zh: str = "") -> Text:
    return Text(
        f"{en}{c.num_attention_heads} query and {c.num_key_value_heads} kv heads of "
        f"{c.head_dim}, hidden {c.hidden_size}, {batch} x {tokens} tokens",
        f"{zh}{c.num_attention_heads} 个查询头、{c.num_key_value_heads} 个键值头，head_dim "
        f"{c.head_dim}，hidden {c.hidden_size}，{batch} x {tokens} 个 token",
    )


# ---------------------------------------------------------------- rotary sub-functions


@recipe(public=2)
def rotate_half(draw: Draw) -> Draft:
    shape = [2, 3, 5, draw.pick((8, 6, 10, 14))][draw.integer(0, 2) :]
    x = draw.normal(*shape)
    first, second = x.chunk(2, dim=-1)
    about = Text(f"x of shape {shape}", f"x 的形状为 {shape}")
    return draft(about, {"x": x, "y": torch.cat((-second, first), dim=-1)})


def _tables(draw: Draw, head_dim: int, theta: float, positions: torch.Tensor) -> Draft:
    cos, sin = oracle.rope_tables(positions, head_dim, theta)
    low, high = int(positions.min()), int(positions.max())
    about = Text(
        f"head_dim {head_dim}, theta {theta:g}, positions {low} to {high}",
        f"head_dim {head_dim}，theta {theta:g}，位置 {low} 到 {high}",
    )
    config = asdict(_config(40, 6, 2, head_dim, rope_theta=theta))
    return draft(about, {"positions": positions, "cos": cos, "sin": sin}, config)


@recipe()
def tables(draw: Draw) -> Draft:
    start = draw.pick((0, 1, 5))
    count = draw.pick((11, 9, 13))
    return _tables(draw, draw.pick((16, 12, 20)), 1e6, torch.arange(start, start + count))


@recipe()
def tables_theta(draw: Draw) -> Draft:
    return _tables(draw, draw.pick((16, 12, 10)), draw.pick((5e6, 1e4, 1e7)), torch.arange(11))


@recipe()
def tables_far(draw: Draw) -> Draft:
    positions = torch.tensor([draw.integer(257, 900), draw.integer(1000, 2000), 3001, 3999])
    return _tables(draw, draw.pick((16, 12, 10)), 1e6, positions)


@recipe()
def tables_batched(draw: Draw) -> Draft:
    rows = [torch.arange(7) + draw.integer(0, 30) for _ in range(3)]
    return _tables(draw, draw.pick((16, 12, 10)), 1e6, torch.stack(rows))


@recipe(hidden=0)
def tables_two(draw: Draw) -> Draft:
    first = _tables(draw, 16, 1e4, torch.arange(11))
    second = _tables(draw, 16, 1e6, torch.arange(11))
    tensors = dict(second.tensors) | {f"other_{n}": t for n, t in first.tensors.items()}
    about = Text("theta 1e4, then theta 1e6", "先 theta 1e4，后 theta 1e6")
    return draft(about, tensors, second.config, other_theta=1e4)


@recipe()
def rotation(draw: Draw) -> Draft:
    batch, heads, kv_heads, tokens, head_dim = draw.pick(
        ((2, 6, 3, 11, 16), (3, 8, 2, 7, 10), (5, 4, 2, 9, 12))
    )
    q, k = (
        draw.normal(batch, heads, tokens, head_dim),
        draw.normal(batch, kv_heads, tokens, head_dim),
    )
    positions = torch.arange(tokens) + draw.integer(1, 40)
    cos, sin = (t.float() for t in oracle.rope_tables(positions, head_dim, 1e6))
    later_cos, later_sin = (t.float() for t in oracle.rope_tables(positions + 17, head_dim, 1e6))
    rows = torch.stack([positions + 3 * row for row in range(batch)])
    row_cos, row_sin = (t.float() for t in oracle.rope_tables(rows, head_dim, 1e6))
    about = Text(
        f"q [{batch}, {heads}, {tokens}, {head_dim}], k [{batch}, {kv_heads}, …]",
        f"q [{batch}, {heads}, {tokens}, {head_dim}]，k [{batch}, {kv_heads}, …]",
    )
    return draft(
        about,
        {
            "q": q, "k": k, "cos": cos, "sin": sin,
            "later_cos": later_cos, "later_sin": later_sin,
            "row_cos": row_cos, "row_sin": row_sin,
            "scores": _scores(q, k, cos, sin),
            "row_scores": _scores(q, k, row_cos, row_sin),
        },
    )  # fmt: skip


def _scores(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """``q' k'^T`` for every pair of heads and positions: ``[B, heads, kv_heads, T, T]``."""
    q, k = oracle.rotate(q, cos, sin), oracle.rotate(k, cos, sin)
    return q.unsqueeze(2) @ k.unsqueeze(1).transpose(-1, -2)


@recipe()
def repeating(draw: Draw) -> Draft:
    batch, kv_heads, tokens, head_dim, times = draw.pick(
        ((2, 3, 5, 8, 4), (3, 2, 7, 6, 5), (2, 4, 3, 10, 3))
    )
    x = draw.normal(batch, kv_heads, tokens, head_dim)
    about = Text(
        f"{kv_heads} kv heads, {times} query heads each",
        f"{kv_heads} 个键值头，各对应 {times} 个查询头",
    )
    return draft(about, {"x": x, "y": x.repeat_interleave(times, dim=1)}, times=times)


# ---------------------------------------------------------------- attention


def _attention(
    draw: Draw,
    config: Qwen3Config,
    tokens: int,
    batch: int,
    about: Text,
    *,
    weights: Weights,
    x: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    positions: torch.Tensor | None = None,
    **values: Any,
) -> Draft:
    """An attention call with its expected result; absent mask and positions are not passed."""
    x = draw.normal(batch, tokens, config.hidden_size) if x is None else x
    tensors = {"x": x, "y": oracle.attention(config, weights, x, mask, positions)}
    if mask is not None:
        tensors["mask"] = mask.to(x.dtype)
    if positions is not None:
        tensors["positions"] = positions
    return draft(about, tensors | _prefixed(weights), asdict(config), **values)


@recipe()
def attention_core(draw: Draw) -> Draft:
    config, tokens, batch = _sizes(draw)
    weights = _attention_weights(draw, config)
    return _attention(draw, config, tokens, batch, _about(config, tokens, batch), weights=weights)


@recipe()
def attention_token(draw: Draw) -> Draft:
    """One token sees itself only: V and O, whatever q, k, mask and rotation do."""
    config, _, batch = _sizes(draw)
    weights = _alike(_attention_weights(draw, config), config, "v_proj.weight")
    about = _about(config, 1, batch, "one token, equal kv heads: ", "单个 token，键值头相同：")
    return _attention(draw, config, 1, batch, about, weights=weights)


@recipe()
def attention_token_heads(draw: Draw) -> Draft:
    """One token, kv heads that differ: which query head gets which value head."""
    config, _, batch = _sizes(draw)
    about = _about(config, 1, batch, "one token: ", "单个 token：")
    return _attention(draw, config, 1, batch, about, weights=_attention_weights(draw, config))


@recipe()
def attention_uniform(draw: Draw) -> Draft:
    """Keys of zero: every token averages what it may see, whatever q, scale, norms, rotation."""
    config, tokens, batch = _sizes(draw)
    weights = _alike(_attention_weights(draw, config), config, "v_proj.weight")
    weights["k_proj.weight"] = torch.zeros_like(weights["k_proj.weight"])
    about = _about(config, tokens, batch, "k_proj of zeros: ", "k_proj 全为零：")
    return _attention(draw, config, tokens, batch, about, weights=weights)


@recipe()
def attention_given_mask(draw: Draw) -> Draft:
    """Keys of zero and a mask with holes: averages over what the mask allows, no more."""
    config, tokens, batch = _sizes(draw)
    weights = _alike(_attention_weights(draw, config), config, "v_proj.weight")
    weights["k_proj.weight"] = torch.zeros_like(weights["k_proj.weight"])
    # Not causal on purpose: a given mask has causality in it, or, as here, has not.
    holes = draw.uniform(batch, 1, tokens, tokens, low=0, high=1) < 0.4
    holes[..., torch.arange(tokens), torch.arange(tokens)] = False
    mask = holes.float() * NARROWEST
    about = _about(config, tokens, batch, "a given mask with holes: ", "给定带空洞的掩码：")
    return _attention(draw, config, tokens, batch, about, weights=weights, mask=mask)


@recipe()
def attention_key_heads(draw: Draw) -> Draft:
    """One key head of zeros: the heads of its group average, and o_proj shows each head."""
    sizes = (6, 2, 16), (8, 2, 10), (12, 3, 8), (10, 2, 12)
    heads, kv_heads, head_dim = draw.pick(sizes)
    config, tokens, batch = _config(2 * heads, heads, kv_heads, head_dim), 9, 3
    weights = _alike(_attention_weights(draw, config), config, "v_proj.weight")
    group, chosen = heads // kv_heads, draw.integer(0, kv_heads - 1)
    keys = weights["k_proj.weight"].clone()
    keys[chosen * head_dim : (chosen + 1) * head_dim] = 0
    show = torch.zeros(2 * heads, heads * head_dim)  # two features of head h at 2h and 2h + 1
    for row in range(2 * heads):
        show[row, row // 2 * head_dim + row % 2] = 1
    weights |= {"k_proj.weight": keys, "o_proj.weight": show}
    about = _about(
        config, tokens, batch, f"key head {chosen} of zeros: ", f"第 {chosen} 个键头全为零："
    )
    first = 2 * chosen * group
    return _attention(
        draw, config, tokens, batch, about, weights=weights, first=first, last=first + 2 * group
    )


@recipe()
def attention_unrotated(draw: Draw) -> Draft:
    """All positions zero, equal kv heads, judged at the last token: norms, scale, softmax."""
    config, tokens, batch = _sizes(draw)
    weights = _alike(_attention_weights(draw, config), config, "k_proj.weight", "v_proj.weight")
    about = _about(config, tokens, batch, "all positions 0: ", "所有位置均为 0：")
    zeros = torch.zeros(tokens, dtype=torch.int64)
    return _attention(draw, config, tokens, batch, about, weights=weights, positions=zeros)


@recipe()
def attention_rotated(draw: Draw) -> Draft:
    """Unit norm weights, equal kv heads, judged at the last token: the rotation."""
    config, tokens, batch = _sizes(draw)
    weights = _attention_weights(draw, config, unit_norms=True)
    weights = _alike(weights, config, "k_proj.weight", "v_proj.weight")
    about = _about(config, tokens, batch, "norm weights of one: ", "归一化权重均为一：")
    positions = torch.arange(tokens) + draw.integer(290, 310)
    return _attention(draw, config, tokens, batch, about, weights=weights, positions=positions)


@recipe()
def attention_spread_norms(draw: Draw) -> Draft:
    """Norm weights that differ within each rotation pair, moved along the positions."""
    config, tokens, batch = _sizes(draw)
    weights = _attention_weights(draw, config)
    about = _about(config, tokens, batch, "spread norm weights: ", "归一化权重各不相同：")
    positions = torch.arange(tokens)
    return _attention(draw, config, tokens, batch, about, weights=weights, positions=positions)


@recipe()
def attention_rows(draw: Draw) -> Draft:
    """Every row of the batch at positions of its own."""
    config, tokens, batch = _sizes(draw)
    rows = []
    for _ in range(batch):
        steps = torch.arange(tokens)
        gap = draw.integer(1, tokens - 2)
        rows.append(steps + draw.integer(0, 9) + draw.integer(2, 20) * (steps > gap))
    about = _about(config, tokens, batch, "positions per row: ", "每行位置不同：")
    weights = _attention_weights(draw, config)
    return _attention(
        draw, config, tokens, batch, about, weights=weights, positions=torch.stack(rows)
    )


@recipe()
def attention_padded(draw: Draw) -> Draft:
    """One row padded on the left; a padded query sees itself, so that no row is empty."""
    config, tokens, batch = _sizes(draw)
    pad = draw.integer(2, 4)
    allowed = torch.ones(tokens, tokens).tril().bool().repeat(batch, 1, 1, 1)
    allowed[1, :, :, :pad] = False
    allowed[..., torch.arange(tokens), torch.arange(tokens)] = True
    mask = torch.where(allowed, 0.0, NARROWEST)
    positions = torch.arange(tokens).repeat(batch, 1)
    positions[1] = (positions[1] - pad).clamp(min=0)
    keep = torch.ones(batch, tokens, dtype=torch.bool)
    keep[1, :pad] = False
    about = _about(config, tokens, batch, "a left-padded row: ", "有一行左侧填充：")
    made = _attention(
        draw, config, tokens, batch, about,
        weights=_attention_weights(draw, config), mask=mask, positions=positions,
    )  # fmt: skip
    return draft(about, dict(made.tensors) | {"keep": keep}, made.config)


@recipe()
def attention_checkpoint(draw: Draw) -> Draft:
    config, weights, layer = _checkpoint_layer(draw, "self_attn.")
    about = _about(config, 11, 3, f"tiny Qwen3, layer {layer}: ", f"小型 Qwen3，第 {layer} 层：")
    return _attention(draw, config, 11, 3, about, weights=weights)


@recipe()
def attention_long(draw: Draw) -> Draft:
    # Few heads: the scores of 400 tokens are what a hand-in spends most of its time on.
    hidden, heads, kv_heads, head_dim = draw.pick(((20, 2, 1, 8), (14, 2, 1, 6), (26, 2, 1, 10)))
    config, tokens = _config(hidden, heads, kv_heads, head_dim), 400
    about = _about(config, tokens, 1, "a long sequence: ", "长序列：")
    return _attention(draw, config, tokens, 1, about, weights=_attention_weights(draw, config))


@recipe()
def attention_tiny_inputs(draw: Draw) -> Draft:
    """Inputs of 1e-3 and an eps of 3e-4: eps decides the size of q and k."""
    hidden, heads, kv_heads, head_dim, tokens, batch = draw.pick(SIZES)
    config = _config(hidden, heads, kv_heads, head_dim, rms_norm_eps=3e-4)
    weights = _attention_weights(draw, config)
    x = draw.normal(batch, tokens, hidden, scale=1e-2)
    about = _about(config, tokens, batch, "tiny inputs, eps 3e-4: ", "输入很小，eps 3e-4：")
    return _attention(draw, config, tokens, batch, about, weights=weights, x=x)


@recipe()
def attention_large_logits(draw: Draw) -> Draft:
    """Norm weights times 6: logits beyond 88 overflow a softmax without its maximum."""
    config, tokens, batch = _sizes(draw)
    weights = _attention_weights(draw, config)
    for name in ("q_norm.weight", "k_norm.weight"):
        weights[name] = weights[name] * 6
    about = _about(config, tokens, batch, "norm weights x 6: ", "归一化权重乘以 6：")
    return _attention(draw, config, tokens, batch, about, weights=weights)


def _narrow(draw: Draw, dtype: torch.dtype, scale: float, en: str, zh: str) -> Draft:
    config, tokens, batch = _sizes(draw)
    weights = {n: w.to(dtype) for n, w in _attention_weights(draw, config).items()}
    x = draw.normal(batch, tokens, config.hidden_size, scale=scale).to(dtype)
    causal = torch.full((tokens, tokens), torch.finfo(dtype).min).triu(1)[None, None]
    about = _about(config, tokens, batch, en, zh)
    return _attention(
        draw, config, tokens, batch, about, weights=weights, x=x, mask=causal,
        positions=torch.arange(tokens), dtype=str(dtype).removeprefix("torch."),
    )  # fmt: skip


@recipe()
def attention_bfloat16(draw: Draw) -> Draft:
    return _narrow(draw, torch.bfloat16, 1.0, "bfloat16: ", "bfloat16：")


@recipe()
def attention_float16(draw: Draw) -> Draft:
    """Inputs of 300: their squares overflow float16 unless the norm widens first."""
    return _narrow(draw, torch.float16, 300.0, "float16, inputs x 300: ", "float16，输入乘以 300：")


# ---------------------------------------------------------------- MLP


def _mlp_weights(draw: Draw, hidden: int, intermediate: int) -> Weights:
    return {
        "gate_proj.weight": draw.normal(intermediate, hidden, scale=1.5 * hidden**-0.5),
        "up_proj.weight": draw.normal(intermediate, hidden, scale=hidden**-0.5),
        "down_proj.weight": draw.normal(hidden, intermediate, scale=intermediate**-0.5),
    }


def _mlp(
    draw: Draw, x: torch.Tensor, weights: Weights, en: str = "", zh: str = "", **values: Any
) -> Draft:
    intermediate, hidden = weights["gate_proj.weight"].shape
    config = _config(hidden, 6, 2, 16, intermediate_size=intermediate)
    about = Text(
        f"{en}hidden {hidden}, intermediate {intermediate}, x {list(x.shape)}",
        f"{zh}hidden {hidden}，intermediate {intermediate}，x {list(x.shape)}",
    )
    tensors = {"x": x, "y": oracle.mlp(weights, x)} | _prefixed(weights)
    return draft(about, tensors, asdict(config), **values)


def _mlp_sizes(draw: Draw) -> tuple[int, int]:
    hidden, intermediate = draw.pick(((40, 72), (24, 100), (52, 60), (36, 90)))
    return hidden, intermediate


@recipe()
def mlp_core(draw: Draw) -> Draft:
    hidden, intermediate = _mlp_sizes(draw)
    return _mlp(draw, draw.normal(3, 7, hidden), _mlp_weights(draw, hidden, intermediate))


@recipe()
def mlp_flat(draw: Draw) -> Draft:
    hidden, intermediate = _mlp_sizes(draw)
    return _mlp(draw, draw.normal(5, hidden), _mlp_weights(draw, hidden, intermediate))


@recipe()
def mlp_curve(draw: Draw) -> Draft:
    """up is one and down picks features: what comes out is the activation of the gate."""
    hidden, intermediate = 12, 20
    weights = {
        "gate_proj.weight": torch.zeros(intermediate, hidden),
        "up_proj.weight": torch.zeros(intermediate, hidden),
        "down_proj.weight": torch.eye(hidden, intermediate),
    }
    for feature in range(1, hidden):
        weights["gate_proj.weight"][feature, feature] = 1
        weights["up_proj.weight"][feature, 0] = 1
    x = draw.uniform(2, 5, hidden, low=-8, high=8)
    x[..., 0] = 1
    return _mlp(draw, x, weights, "one gate per feature: ", "每个特征一个门：")


@recipe()
def mlp_outlier(draw: Draw) -> Draft:
    """One token a thousand times larger: every token is judged by itself."""
    hidden, intermediate = _mlp_sizes(draw)
    x = draw.normal(2, 6, hidden)
    x[1, 3] *= 1000
    weights = _mlp_weights(draw, hidden, intermediate)
    return _mlp(draw, x, weights, "one token x 1000: ", "一个 token 乘以 1000：")


@recipe()
def mlp_bfloat16(draw: Draw) -> Draft:
    hidden, intermediate = _mlp_sizes(draw)
    weights = _mlp_weights(draw, hidden, intermediate)
    weights = {name: weight.bfloat16() for name, weight in weights.items()}
    x = draw.normal(3, 7, hidden).bfloat16()
    return _mlp(draw, x, weights, "bfloat16: ", "bfloat16：", dtype="bfloat16")


@recipe()
def mlp_checkpoint(draw: Draw) -> Draft:
    _, weights, layer = _checkpoint_layer(draw, "mlp.")
    x = draw.normal(3, 7, weights["up_proj.weight"].shape[1])
    return _mlp(draw, x, weights, f"tiny Qwen3, layer {layer}: ", f"小型 Qwen3，第 {layer} 层：")


def _checkpoint_layer(draw: Draw, part: str) -> tuple[Qwen3Config, Weights, int]:
    """Weights of one layer of the checkpoint on board, as stored (bfloat16)."""
    config = Qwen3Config.from_json(CHECKPOINT / "config.json")
    layer = draw.pick(range(config.num_hidden_layers))
    prefix = f"model.layers.{layer}.{part}"
    return config, mapped.read(CHECKPOINT, prefix), layer


def real_cases(folder: Path) -> dict[str, list[Draft]]:
    """Cases on real weights by recipe: the first and the last layer of a Qwen3 folder.

    Args:
        folder: Hugging Face format, any dense size. The worker maps the weights by itself; a
            case only names them.
    """
    config = Qwen3Config.from_json(folder / "config.json")
    made: dict[str, list[Draft]] = {"attention_real": [], "mlp_real": []}
    for layer in sorted({0, config.num_hidden_layers - 1}):
        draw = Draw(b"real %d" % layer, hidden=False)
        x = draw.normal(2, 9, config.hidden_size)
        for recipe_name, part in (("attention_real", "self_attn."), ("mlp_real", "mlp.")):
            prefix = f"model.layers.{layer}.{part}"
            weights = mapped.read(folder, prefix)
            y = oracle.mlp(weights, x) if part == "mlp." else oracle.attention(config, weights, x)
            about = Text(f"real weights, layer {layer}", f"真实权重，第 {layer} 层")
            tensors = {"x": x, "y": y}
            size = sum(weight.nbytes for weight in weights.values())
            values = {"mapped": prefix, "bytes": size}
            made[recipe_name].append(draft(about, tensors, asdict(config), **values))
    return made


# ---------------------------------------------------------------- accounting

# hidden, layers, heads, kv heads, intermediate, tied; head_dim 128 and vocabulary 151,936
PUBLISHED = {
    "Qwen3-0.6B": (1024, 28, 16, 8, 3072, True),
    "Qwen3-1.7B": (2048, 28, 16, 8, 6144, True),
    "Qwen3-4B": (2560, 36, 32, 8, 9728, True),
    "Qwen3-8B": (4096, 36, 32, 8, 12288, False),
    "Qwen3-14B": (5120, 40, 40, 8, 17408, False),
    "Qwen3-32B": (5120, 64, 64, 8, 25600, False),
}


def _model(name: str, config: Qwen3Config, tokens: int, batch: int) -> dict[str, Any]:
    """One model with everything that is to be worked out for it."""
    counts = oracle.count_parameters(config)
    kv_width = config.num_key_value_heads * config.head_dim
    cached = 2 * config.num_hidden_layers * kv_width * tokens * batch
    itemsizes = {"float32": 4, "float16": 2, "bfloat16": 2}
    return {
        "name": name,
        "config": asdict(config),
        "tokens": tokens,
        "batch": batch,
        "counts": counts,
        "weights": {dtype: size * counts["total"] for dtype, size in itemsizes.items()},
        "cache": {dtype: size * cached for dtype, size in itemsizes.items()},
    }


@recipe(hidden=0)
def published(draw: Draw) -> Draft:
    models = []
    for name, (hidden, layers, heads, kv_heads, intermediate, tied) in PUBLISHED.items():
        config = _config(
            hidden, heads, kv_heads, 128, vocab_size=151_936, num_hidden_layers=layers,
            intermediate_size=intermediate, tie_word_embeddings=tied,
        )  # fmt: skip
        models.append(_model(name, config, tokens=4096, batch=3))
    return draft(Text("the published dense models", "已发布的稠密模型"), models=models)


def _odd_model(draw: Draw, tied: bool) -> dict[str, Any]:
    hidden, heads, kv_heads, head_dim, _, _ = draw.pick(SIZES)
    config = _config(
        hidden, heads, kv_heads, head_dim,
        vocab_size=draw.integer(90, 130), num_hidden_layers=draw.integer(3, 5),
        intermediate_size=draw.integer(60, 99), tie_word_embeddings=tied,
    )  # fmt: skip
    name = f"{config.num_hidden_layers} x {hidden}, {'tied' if tied else 'untied'}"
    return _model(name, config, draw.integer(7, 30), draw.integer(2, 5))


@recipe()
def accounting(draw: Draw) -> Draft:
    """An odd little model in which no two terms are equal."""
    model = _odd_model(draw, tied=draw.integer(0, 1) == 1)
    return draft(Text("a small model", "一个小模型"), models=[model])


@recipe()
def accounting_twin(draw: Draw) -> Draft:
    """A tied and an untied model."""
    models = [_odd_model(draw, tied=True), _odd_model(draw, tied=False)]
    return draft(Text("two small models", "两个小模型"), models=models)
