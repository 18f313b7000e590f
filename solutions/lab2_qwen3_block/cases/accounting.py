"""Cases of what a model costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given.config import Qwen3Config
from solutions.reference import oracle

from .sizes import SIZES, config_of

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
    """One model with everything that is to be worked out for it, under a name of one word."""
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
    """Caches of more tokens than ``max_position_embeddings``, all of which count."""
    models = []
    for name, (hidden, layers, heads, kv_heads, intermediate, tied) in PUBLISHED.items():
        config = config_of(
            hidden, heads, kv_heads, 128, vocab_size=151_936, num_hidden_layers=layers,
            intermediate_size=intermediate, tie_word_embeddings=tied,
        )  # fmt: skip
        models.append(_model(name, config, tokens=65_536, batch=3))
    return draft(Text("the published dense models", "已发布的稠密模型"), models=models)


def _odd_model(draw: Draw, tied: bool) -> dict[str, Any]:
    hidden, heads, kv_heads, head_dim, _, _ = draw.pick(SIZES)
    config = config_of(
        hidden, heads, kv_heads, head_dim,
        vocab_size=draw.integer(90, 130), num_hidden_layers=draw.integer(3, 5),
        intermediate_size=draw.integer(60, 99), tie_word_embeddings=tied,
    )  # fmt: skip
    name = "tied" if tied else "untied"
    return _model(name, config, draw.integer(7, 30), draw.integer(2, 5))


def _about(model: dict[str, Any]) -> str:
    """The sizes of a model, in the words of its config."""
    c = model["config"]
    return (
        f"{model['name']}: layers {c['num_hidden_layers']}, hidden {c['hidden_size']}, heads "
        f"{c['num_attention_heads']}/{c['num_key_value_heads']} of {c['head_dim']}, "
        f"intermediate {c['intermediate_size']}, vocab {c['vocab_size']}"
    )


@recipe()
def accounting(draw: Draw) -> Draft:
    """An odd little model in which no two terms are equal."""
    model = _odd_model(draw, tied=draw.integer(0, 1) == 1)
    return draft(Text(_about(model), _about(model)), models=[model])


@recipe()
def accounting_twin(draw: Draw) -> Draft:
    """A tied and an untied model."""
    models = [_odd_model(draw, tied=True), _odd_model(draw, tied=False)]
    about = "; ".join(map(_about, models)), "；".join(map(_about, models))
    return draft(Text(*about), models=models)
