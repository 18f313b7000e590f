"""Writes the small checkpoint folders of lab 4: ``python solutions/lab4_tinyllm/checkpoints.py``.

All of them are dense Qwen3s of a few thousand parameters with random weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from labs.given.config import Qwen3Config

FOLDER = Path(__file__).resolve().parents[2] / "labs" / "lab4_tinyllm" / "checkpoints"
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
Weights = dict[str, torch.Tensor]


def config_of(**other: object) -> Qwen3Config:
    """A model of two layers; ``other`` fields win."""
    values: dict[str, object] = {
        "vocab_size": 37, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4,
        "rms_norm_eps": 1e-4, "rope_theta": 5e6, "tie_word_embeddings": False,
    }  # fmt: skip
    return Qwen3Config(**(values | other))  # type: ignore[arg-type]


def weights_of(config: Qwen3Config, seed: int) -> Weights:
    """Random weights under the names of Hugging Face; a tied head has none of its own."""
    random = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random)

    hidden, inner, size = config.hidden_size, config.intermediate_size, config.head_dim
    query, kv = config.num_attention_heads * size, config.num_key_value_heads * size
    found = {EMBEDDING: drawn(config.vocab_size, hidden)}
    shapes = {
        "input_layernorm": (hidden,), "self_attn.q_proj": (query, hidden),
        "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden),
        "self_attn.o_proj": (hidden, query), "self_attn.q_norm": (size,),
        "self_attn.k_norm": (size,), "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }  # fmt: skip
    for layer in range(config.num_hidden_layers):
        for name, shape in shapes.items():
            found[f"model.layers.{layer}.{name}.weight"] = drawn(*shape)
    found["model.norm.weight"] = drawn(hidden)
    if not config.tie_word_embeddings:
        found[HEAD] = drawn(config.vocab_size, hidden)
    return found


def folders() -> dict[str, tuple[Qwen3Config, list[Weights]]]:
    """Every folder: its config, and the weights of each of its files."""
    tied, untied = config_of(tie_word_embeddings=True), config_of()
    plain, whole = weights_of(tied, 1), weights_of(untied, 2)
    names = sorted(whole)
    # Neighbours lie in different files, and the head is not in the last one.
    shards = [{name: whole[name] for name in names[number::3]} for number in range(3)]
    narrow = {name: weight.bfloat16() for name, weight in weights_of(untied, 3).items()}
    lacking = dict(weights_of(tied, 4))
    for name in (EMBEDDING, "model.layers.1.mlp.up_proj.weight", "model.norm.weight"):
        del lacking[name]
    headless = dict(weights_of(untied, 6))
    del headless[HEAD]
    extra = dict(weights_of(untied, 5))
    extra["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(24)
    extra["model.layers.2.mlp.up_proj.weight"] = torch.zeros(20, 12)
    return {
        "tied": (tied, [plain]),
        "tied_repeated": (tied, [plain | {HEAD: plain[EMBEDDING].clone()}]),
        "sharded": (untied, shards),
        "bfloat16": (untied, [narrow]),
        "missing": (tied, [lacking]),
        "unexpected": (untied, [extra]),
        "missing_head": (untied, [headless]),
    }


def write(folder: Path, config: Qwen3Config, files: list[Weights]) -> None:
    """Write one folder as Hugging Face's ``save_pretrained`` lays it out.

    Beside several files lie two that the index does not name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dtype = str(next(iter(files[0].values())).dtype).removeprefix("torch.")
    raw = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **asdict(config)}
    raw |= {"hidden_act": "silu", "attention_bias": False, "torch_dtype": dtype}
    raw["rope_parameters"] = {"rope_type": "default", "rope_theta": config.rope_theta}
    _json(folder / "config.json", raw)
    if len(files) == 1:
        save_file(files[0], folder / ONE, {"format": "pt"})
        return
    weight_map: dict[str, str] = {}
    for number, weights in enumerate(files, 1):
        name = f"model-{number:05}-of-{len(files):05}.safetensors"
        save_file(weights, folder / name, {"format": "pt"})
        weight_map |= dict.fromkeys(weights, name)
    # The same weights under the names of who trained them, as in some folders of Hugging Face.
    first = {"output.weight": files[0][HEAD]}
    save_file(first, folder / "consolidated.safetensors", {"format": "pt"})
    # The second half of an older save, of a model with a layer more: other numbers of some names.
    older = weights_of(replace(config, num_hidden_layers=config.num_hidden_layers + 1), 7)
    rest = {name: older[name] for name in sorted(older)[len(older) // 2 :]}
    save_file(rest, folder / "model-00002-of-00002.safetensors", {"format": "pt"})
    total = sum(w.numel() * w.element_size() for weights in files for w in weights.values())
    order = {name: weight_map[name] for name in sorted(weight_map)}
    _json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": order})


def _json(path: Path, raw: Mapping[str, object]) -> None:
    path.write_text(json.dumps(raw, indent=2) + "\n", encoding="utf-8", newline="\n")


def main(into: Path = FOLDER) -> None:
    """Write all folders."""
    for name, (config, files) in folders().items():
        write(into / name, config, files)


if __name__ == "__main__":
    main()
