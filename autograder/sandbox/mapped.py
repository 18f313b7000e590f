"""Real weights, mapped once in the zygote: every forked worker shares the pages."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import safe_open

_tensors: dict[str, torch.Tensor] = {}


def tensors(prefix: str) -> dict[str, torch.Tensor]:
    """The mapped tensors whose names start with ``prefix``, under their full names."""
    return {name: tensor for name, tensor in _tensors.items() if name.startswith(prefix)}


def load(folder: Path, prefixes: tuple[str, ...]) -> None:
    """Map the tensors of a Hugging Face folder whose names start with one of ``prefixes``.

    Args:
        folder: holds ``model.safetensors``, or shards with ``model.safetensors.index.json``.
        prefixes: for instance ``model.layers.0.self_attn.``.

    Raises:
        OSError: the folder holds no safetensors files.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = sorted({file for name, file in names.items() if name.startswith(prefixes)})
    else:
        files = ["model.safetensors"]
    for file in files:
        with safe_open(folder / file, framework="pt") as shard:
            for name in shard.keys():  # noqa: SIM118 (not a dict)
                if name.startswith(prefixes):
                    _tensors[name] = shard.get_tensor(name)
