"""Random checkpoint folders: one file or several, a shared head, other dtypes, and wrong ones."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save_file

from labs.given.config import Qwen3Config
from labs.given.standin import StandInAttention, StandInMLP, weights_of
from tests.mutation.dice import Dice

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
TEXT = 400  # as much of an error as the grader reads
KINDS = ("one", "several", "repeated", "lacking", "extra", "headless", "both")


def loaded(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """What is in a model that was loaded; or what the error names."""
    kind = KINDS[number // 4 % len(KINDS)]
    if number % 4:  # files take time
        return {}
    tied = kind == "repeated" or (kind != "headless" and dice.integer(0, 1) == 1)
    config = Qwen3Config(
        vocab_size=7, hidden_size=4, intermediate_size=3, num_hidden_layers=dice.integer(1, 2),
        num_attention_heads=2, num_key_value_heads=1, head_dim=2, tie_word_embeddings=tied,
    )  # fmt: skip
    model = module.Qwen3ForCausalLM(config, StandInAttention, StandInMLP)
    stored, asked = dice.pick(DTYPES), dice.pick(DTYPES)
    state = {n: dice.normal(*w.shape).to(stored) for n, w in model.state_dict().items()}
    if tied:
        head = state.pop("lm_head.weight")
        state |= {"lm_head.weight": head} if kind == "repeated" else {}
    names = [dice.pick(sorted(state)) for _ in range(2)]
    if kind in ("lacking", "both"):
        state = {name: weight for name, weight in state.items() if name not in names}
    if kind in ("extra", "both"):
        names += ["model.layers.7.mlp.up_proj.weight", "model.bias"]
        state |= {name: torch.zeros(2) for name in names[2:]}
    if kind == "headless":
        names = ["lm_head.weight"]
        del state["lm_head.weight"]
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), config, state, dice.integer(2, 3) if kind == "several" else 1)
        given = dice.pick((folder, Path(folder))), StandInAttention, StandInMLP
        try:
            model = module.load_hf_checkpoint(*given, *(() if asked == stored else (asked,)))
        except ValueError as error:
            return {"error": [name in str(error)[:TEXT] for name in names]}
    return {"training": model.training, **weights_of(model)}


def _write(folder: Path, config: Qwen3Config, state: dict[str, torch.Tensor], files: int) -> None:
    (folder / "config.json").write_text(json.dumps(asdict(config)), encoding="utf-8")
    if files == 1:
        save_file(state, folder / "model.safetensors")
        return
    places = {name: f"part-{i % files}.safetensors" for i, name in enumerate(sorted(state))}
    for file in set(places.values()):
        save_file({n: state[n] for n, place in places.items() if place == file}, folder / file)
    index = json.dumps({"metadata": {"total_size": 1}, "weight_map": places})
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")
