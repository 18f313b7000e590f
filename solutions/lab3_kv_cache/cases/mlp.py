"""Cases of the gated MLP, of its width, of weights carried over, and of what a layer costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.config import Qwen3Config
from solutions.reference import interleaved, oracle

from .sizes import SIZES as LAYERS
from .sizes import Weights, config_of, prefixed

SIZES = ((40, 72), (24, 100), (52, 60), (36, 90))

# dim, multiple_of, ffn_dim_multiplier as the configs of the released models have them
PUBLISHED = {
    "Llama-2-7B": (4096, 256, None),
    "Llama-2-13B": (5120, 256, None),
    "Llama-2-70B": (8192, 4096, 1.3),
    "Llama-3-8B": (4096, 1024, 1.3),
    "Llama-3-70B": (8192, 4096, 1.3),
    "Llama-3.2-1B": (2048, 256, 1.5),
}


def _widths(about: Text, asked: list[tuple[int, int, float | None]]) -> Draft:
    sizes = [[*one, interleaved.feed_forward_size(*one)] for one in asked]
    return draft(about, sizes=sizes)


@recipe(hidden=0)
def sizes_published(draw: Draw) -> Draft:
    return _widths(
        Text("the published Llama models", "已发布的 Llama 模型"), list(PUBLISHED.values())
    )


@recipe()
def sizes_plain(draw: Draw) -> Draft:
    dims = [draw.integer(10, 400) for _ in range(4)]
    about = Text(f"dim {dims}, no multiplier", f"dim {dims}，无乘数")
    return _widths(about, [(dim, draw.integer(5, 40), None) for dim in dims])


@recipe()
def sizes_exact(draw: Draw) -> Draft:
    """Nothing is left to round up: rounded down, the size is a multiple already, or one more."""
    dims = [3 * draw.integer(10, 99) + rest for rest in (0, 1, 2)]
    about = Text(
        f"dim {dims}, multiples once they are rounded down, or one more",
        f"dim {dims}，向下取整后就是倍数，或比倍数大 1",
    )
    asked = [
        (dim, int((factor or 1) * (8 * dim // 3)) - less, factor)
        for less in (0, 1)
        for dim in dims
        for factor in (None, 1.3)
    ]
    return _widths(about, asked)


@recipe()
def sizes_multiplied(draw: Draw) -> Draft:
    dims = [draw.integer(100, 4000) for _ in range(4)]
    about = Text(f"dim {dims}, with multipliers", f"dim {dims}，有乘数")
    return _widths(about, [(d, draw.integer(3, 40), draw.pick((1.3, 1.5, 0.8))) for d in dims])


def _weights(draw: Draw, dim: int, width: int) -> Weights:
    return {
        "w1.weight": draw.normal(width, dim, scale=1.5 * dim**-0.5),
        "w3.weight": draw.normal(width, dim, scale=dim**-0.5),
        "w2.weight": draw.normal(dim, width, scale=width**-0.5),
    }


def _drafted(x: torch.Tensor, weights: Weights, en: str = "", zh: str = "", **values: Any) -> Draft:
    width, dim = weights["w1.weight"].shape
    about = Text(
        f"{en}dim {dim}, hidden_dim {width}, x {list(x.shape)}",
        f"{zh}dim {dim}，hidden_dim {width}，x {list(x.shape)}",
    )
    tensors = {"x": x, "y": interleaved.feed_forward(weights, x)} | prefixed(weights)
    return draft(about, tensors, dim=dim, width=width, **values)


@recipe()
def mlp_core(draw: Draw) -> Draft:
    dim, width = draw.pick(SIZES)
    return _drafted(draw.normal(3, 7, dim), _weights(draw, dim, width))


@recipe()
def mlp_flat(draw: Draw) -> Draft:
    dim, width = draw.pick(SIZES)
    return _drafted(draw.normal(5, dim), _weights(draw, dim, width))


@recipe()
def mlp_curve(draw: Draw) -> Draft:
    """w3 gives ones and w2 picks features: what comes out is the activation of the gate."""
    dim, width = 12, 20
    weights = {
        "w1.weight": torch.zeros(width, dim),
        "w3.weight": torch.zeros(width, dim),
        "w2.weight": torch.eye(dim, width),
    }
    for feature in range(1, dim):
        weights["w1.weight"][feature, feature] = 1
        weights["w3.weight"][feature, 0] = 1
    x = draw.uniform(2, 5, dim, low=-8, high=8)
    x[..., 0] = 1
    return _drafted(x, weights, "one gate per feature: ", "每个特征一个门：")


@recipe()
def mlp_bfloat16(draw: Draw) -> Draft:
    dim, width = draw.pick(SIZES)
    weights = {name: weight.bfloat16() for name, weight in _weights(draw, dim, width).items()}
    x = draw.normal(3, 7, dim).bfloat16()
    return _drafted(x, weights, "bfloat16: ", "bfloat16：", dtype="bfloat16")


@recipe()
def converting(draw: Draw) -> Draft:
    """A whole layer's worth of names, in an order that tells nothing."""
    dim, width = draw.pick(SIZES)
    prefix = f"model.layers.{draw.integer(0, 30)}."
    tensors = {
        f"in.{prefix}mlp.up_proj.weight": draw.normal(width, dim),
        f"in.{prefix}input_layernorm.weight": draw.normal(dim),
        f"in.{prefix}mlp.down_proj.weight": draw.normal(dim, width),
        f"in.{prefix}mlp.gate_proj.weight": draw.normal(width, dim),
        "in.model.norm.weight": draw.normal(dim),
        f"in.{prefix}mlp.gate_proj.weight_scale": draw.normal(width),
        f"in.{prefix}mlp.gate_up_proj.weight": draw.normal(2 * width, dim),
    }
    about = Text(f"names behind {prefix}mlp.", f"名称带有前缀 {prefix}mlp.")
    return draft(about, tensors, prefix=f"{prefix}mlp.")


@recipe()
def converting_bare(draw: Draw) -> Draft:
    dim, width = draw.pick(SIZES)
    shapes = {"gate_proj": (width, dim), "up_proj": (width, dim), "down_proj": (dim, width)}
    tensors = {f"in.{name}.weight": draw.normal(*shape) for name, shape in shapes.items()}
    return draft(Text("the names of an MLP alone", "单个 MLP 的名称"), tensors, prefix="")


# hidden, layers, heads, intermediate; 8 kv heads of 128, vocabulary 151,936
QWEN3 = {
    "Qwen3-0.6B": (1024, 28, 16, 3072),
    "Qwen3-4B": (2560, 36, 32, 9728),
    "Qwen3-8B": (4096, 36, 32, 12288),
    "Qwen3-32B": (5120, 64, 64, 25600),
}


def _counted(name: str, config: Qwen3Config, *calls: tuple[int, int]) -> dict[str, Any]:
    """A model, and what its layers and its prefill take for (new tokens, tokens before)."""
    layers = [[*call, oracle.layer_flops(config, *call)] for call in calls]
    prompts = [[tokens, oracle.prefill_flops(config, tokens)] for tokens, _ in calls]
    return {"name": name, "config": asdict(config), "layers": layers, "prompts": prompts}


def _small(draw: Draw) -> tuple[Text, Qwen3Config]:
    hidden, heads, kv_heads, head_dim, _, _ = draw.pick(LAYERS)
    config = config_of(
        hidden, heads, kv_heads, head_dim,
        vocab_size=draw.integer(90, 130), num_hidden_layers=draw.integer(3, 5),
        intermediate_size=draw.integer(63, 99),
    )  # fmt: skip
    layers, inner, vocabulary = (
        config.num_hidden_layers, config.intermediate_size, config.vocab_size
    )  # fmt: skip
    about = Text(
        f"hidden {hidden}, {heads} query and {kv_heads} kv heads of {head_dim}, MLP {inner} wide, "
        f"{layers} layers, vocabulary {vocabulary}",
        f"hidden {hidden}，{heads} 个查询头、{kv_heads} 个键值头，head_dim {head_dim}，"
        f"MLP 宽 {inner}，{layers} 层，词表 {vocabulary}",
    )
    return about, config


@recipe()
def flops(draw: Draw) -> Draft:
    """An odd little layer: a prompt, a piece in the middle, a single step."""
    calls = (draw.integer(7, 15), 0), (draw.integer(3, 6), draw.integer(20, 30)), (1, 41)
    about, config = _small(draw)
    return draft(about, models=[_counted("", config, *calls)])


@recipe(hidden=0)
def flops_published(draw: Draw) -> Draft:
    models = []
    for name, (hidden, layers, heads, width) in QWEN3.items():
        config = config_of(
            hidden, heads, 8, 128,
            vocab_size=151_936, num_hidden_layers=layers, intermediate_size=width,
        )  # fmt: skip
        models.append(_counted(name, config, (4096, 0), (1, 4095)))
    return draft(Text("published Qwen3 models", "已发布的 Qwen3 模型"), models=models)
