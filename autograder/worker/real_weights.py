"""Real weights: read from a Hugging Face folder by prefix, and mapped once in the zygote.

Every forked worker shares the zygote's pages; requests name the weights by their prefix.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import safe_open


def read(folder: Path, prefix: str) -> dict[str, torch.Tensor]:
    """Tensors whose names start with ``prefix``, named without it, in their stored dtype.

    Args:
        folder: holds ``model.safetensors``, or shards and ``model.safetensors.index.json``.
        prefix: for instance ``model.layers.0.self_attn.``.

    Raises:
        ValueError: the folder holds no such tensors (names the folder and the prefix).
    """
    parts = folder / "model.safetensors.index.json"
    try:
        if parts.is_file():
            names = json.loads(parts.read_text(encoding="utf-8"))["weight_map"]
            files = sorted({file for name, file in names.items() if name.startswith(prefix)})
        else:
            files = ["model.safetensors"]
        found = {}
        for file in files:
            with safe_open(folder / file, framework="pt") as shard:
                for name in shard.keys():  # noqa: SIM118  (a reader, not a dict)
                    if name.startswith(prefix):
                        found[name.removeprefix(prefix)] = shard.get_tensor(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{folder}: not a Hugging Face checkpoint folder: {error}") from None
    if not found:
        raise ValueError(f"{folder}: no tensor is called {prefix}…; is it a dense Qwen3?")
    return found


_mapped: dict[str, dict[str, torch.Tensor]] = {}


def hold(folder: Path, prefixes: tuple[str, ...]) -> None:
    """Read the tensors of these prefixes and keep them for :func:`held`."""
    for prefix in prefixes:
        _mapped[prefix] = read(folder, prefix)


def held(prefix: str) -> dict[str, torch.Tensor]:
    """The tensors kept under ``prefix``, named without it."""
    return _mapped[prefix]
