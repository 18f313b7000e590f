"""Cases on trained weights: the tiny Qwen3 on board, and any folder of real ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from autograder.course.labfile import LABS
from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from autograder.worker import real_weights
from labs.given.config import Qwen3Config
from solutions.reference import oracle

from .attention_call import drafted
from .mlp import drafted_mlp
from .sizes import Weights, about_sizes

CHECKPOINT = LABS / "given" / "tiny_qwen3"


@recipe()
def attention_checkpoint(draw: Draw) -> Draft:
    config, weights, layer = _checkpoint_layer(draw, "self_attn.")
    about = about_sizes(
        config, 11, 3, f"tiny Qwen3, layer {layer}: ", f"小型 Qwen3，第 {layer} 层："
    )
    return drafted(draw, config, 11, 3, about, weights=weights)


@recipe()
def mlp_checkpoint(draw: Draw) -> Draft:
    _, weights, layer = _checkpoint_layer(draw, "mlp.")
    x = draw.normal(3, 7, weights["up_proj.weight"].shape[1])
    return drafted_mlp(
        draw, x, weights, f"tiny Qwen3, layer {layer}: ", f"小型 Qwen3，第 {layer} 层："
    )


def _checkpoint_layer(draw: Draw, part: str) -> tuple[Qwen3Config, Weights, int]:
    """Weights of one layer of the checkpoint on board, as stored (bfloat16)."""
    config = Qwen3Config.from_json(CHECKPOINT / "config.json")
    layer = draw.pick(range(config.num_hidden_layers))
    prefix = f"model.layers.{layer}.{part}"
    return config, real_weights.read(CHECKPOINT, prefix), layer


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
            weights = real_weights.read(folder, prefix)
            y = oracle.mlp(weights, x) if part == "mlp." else oracle.attention(config, weights, x)
            about = Text(f"real weights, layer {layer}", f"真实权重，第 {layer} 层")
            tensors = {"x": x, "y": y}
            size = sum(weight.nbytes for weight in weights.values())
            values = {"mapped": prefix, "bytes": size}
            made[recipe_name].append(draft(about, tensors, asdict(config), **values))
    return made
