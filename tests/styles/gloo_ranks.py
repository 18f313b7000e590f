"""Runs lab 5's solutions under torch's own gloo, in real processes: ``python -m … FOLDER…``.

For every folder and for 1, 2 and 4 ranks it loads two decoder layers from the weights of Hugging
Face, runs them on flat tokens, and prints as JSON how far each rank is from the unsharded
reference: ``{folder: {world: [error of rank 0, …]}}``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labs.given.config import Qwen3Config
from solutions.reference import oracle, oracle_parallel
from tests.styles.solutions import load

CONFIG = Qwen3Config(
    vocab_size=97,
    hidden_size=44,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=6,
)
WORLDS = (1, 2, 4)


def drawn() -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor]:
    """Weights of two layers and a norm, hidden states, positions, cu_seqlens."""
    random = torch.Generator().manual_seed(7)

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=random) * columns**-0.5

    def vector(size: int) -> Tensor:
        return torch.rand(size, generator=random) * 1.5 + 0.25

    c = CONFIG
    query, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    weights = {"norm.weight": vector(c.hidden_size)}
    for index in range(c.num_hidden_layers):
        own = {
            "self_attn.q_proj.weight": matrix(query, c.hidden_size),
            "self_attn.k_proj.weight": matrix(kv, c.hidden_size),
            "self_attn.v_proj.weight": matrix(kv, c.hidden_size),
            "self_attn.o_proj.weight": matrix(c.hidden_size, query),
            "self_attn.q_norm.weight": vector(c.head_dim),
            "self_attn.k_norm.weight": vector(c.head_dim),
            "mlp.gate_proj.weight": matrix(c.intermediate_size, c.hidden_size),
            "mlp.up_proj.weight": matrix(c.intermediate_size, c.hidden_size),
            "mlp.down_proj.weight": matrix(c.hidden_size, c.intermediate_size),
            "input_layernorm.weight": vector(c.hidden_size),
            "post_attention_layernorm.weight": vector(c.hidden_size),
        }
        weights |= {f"layers.{index}.{name}": weight for name, weight in own.items()}
    x = torch.randn(10, c.hidden_size, generator=random)
    positions = torch.tensor([0, 1, 2, 5, 6, 7, 8, 9, 10, 0])
    return weights, x, positions, torch.tensor([0, 3, 9, 10], dtype=torch.int32)


def expected() -> Tensor:
    """The reference, unsharded."""
    weights, x, positions, cu = drawn()
    stream = oracle_parallel.layers(CONFIG, weights, x, positions, cu)[-1]
    return oracle.rms_norm(stream, weights["norm.weight"], CONFIG.rms_norm_eps)


def model_of(student: Any, weights: dict[str, Tensor]) -> Any:
    """Two layers and a norm of a solution's own parts, loaded by its own function."""
    c = CONFIG
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList()
    for _ in range(c.num_hidden_layers):
        attention = student.attention.Qwen3Attention(
            c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim,
            c.rms_norm_eps, c.rope_theta,
        )  # fmt: skip
        down = student.attention.RowParallelLinear(c.intermediate_size, c.hidden_size)
        mlp = student.mlp.Qwen3MLP(c.hidden_size, c.intermediate_size, down)
        eps = c.rms_norm_eps
        model.layers.append(student.mlp.Qwen3DecoderLayer(c.hidden_size, eps, attention, mlp))
    model.norm = student.mlp.RMSNorm(c.hidden_size, c.rms_norm_eps)
    student.mlp.load_weights(model, weights)
    return model


def answer(folder: Path) -> Tensor:
    """What a solution computes on this rank."""
    weights, x, positions, cu = drawn()
    with torch.no_grad():
        model = model_of(load(folder), weights)
        residual = None
        for layer in model.layers:
            x, residual = layer(positions, x, residual, cu)
        out: Tensor = model.norm(x, residual)[0]
    return out


def _rank(folders: list[Path], rank: int, world: int, store: str, out: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    want = expected()
    errors = {
        folder.name: float((answer(folder).double() - want).norm() / want.norm())
        for folder in folders
    }
    out.write_text(json.dumps(errors), encoding="utf-8")
    dist.destroy_process_group()


def main(names: list[str]) -> None:
    """Fork the ranks of each world and print what they found."""
    folders = [Path(name) for name in names]
    found: dict[str, dict[int, list[float]]] = {f.name: {} for f in folders}
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        for world in WORLDS:
            outs = [Path(scratch, f"{world}.{rank}") for rank in range(world)]
            store = f"{scratch}/store{world}"
            pids = []
            for rank, out in enumerate(outs):
                pid = os.fork()
                if pid == 0:
                    code = 1
                    try:
                        _rank(folders, rank, world, store, out)
                        code = 0
                    finally:
                        os._exit(code)
                pids.append(pid)
            if any(os.waitpid(pid, 0)[1] for pid in pids):
                sys.exit(f"a rank of {world} failed")
            errors = [json.loads(out.read_text(encoding="utf-8")) for out in outs]
            for name in found:
                found[name][world] = [one[name] for one in errors]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
