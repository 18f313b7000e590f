"""Flat tokens and sharded weights in float64: what lab 5 compares with.

Attention and MLP are those of ``oracle.py``, which is proved equal to Hugging Face, sequence by
sequence and unsharded. How a packed weight is cut follows
``vllm/model_executor/layers/linear.py`` of vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from labs.given.config import Qwen3Config
from labs.given.flat import StandInAttention, StandInMLP
from solutions.reference import oracle

Weights = Mapping[str, Tensor]


def sequences(cu_seqlens: Tensor) -> list[slice]:
    """The tokens of every sequence, ``cu_seqlens`` ``[sequences + 1]``."""
    return [slice(first, end) for first, end in pairwise(cu_seqlens.tolist())]


def rotate(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotary positions of ``[tokens, heads, head_dim]`` at ``[tokens]``, float64."""
    cos, sin = oracle.rope_tables(positions, x.shape[-1], theta)
    return oracle.rotate(x.transpose(0, 1), cos, sin).transpose(0, 1)


def flat_attention(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor) -> Tensor:
    """Causal grouped-query attention within every sequence.

    Args:
        q: ``[tokens, heads, head_dim]``.
        k: ``[tokens, kv_heads, head_dim]``.
        v: like ``k``.
        cu_seqlens: ``[sequences + 1]``.

    Returns:
        float64 ``[tokens, heads, head_dim]``.
    """
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double(), v.double()
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    mixed = []
    for own in sequences(cu_seqlens):
        scores = torch.einsum("qhd,khd->hqk", q[own], k[own]) * q.shape[-1] ** -0.5
        future = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, torch.finfo(torch.float64).min).softmax(-1)
        mixed.append(torch.einsum("hqk,khd->qhd", weights, v[own]))
    return torch.cat(mixed)


def attention(
    config: Qwen3Config, weights: Weights, hidden: Tensor, positions: Tensor, cu_seqlens: Tensor
) -> Tensor:
    """Attention of unsharded weights on flat tokens.

    Args:
        config: sizes and constants.
        weights: as :func:`oracle.attention` takes them.
        hidden: ``[tokens, hidden]``.
        positions: ``[tokens]``.
        cu_seqlens: ``[sequences + 1]``.

    Returns:
        float64 ``[tokens, hidden]``.
    """
    parts = [
        oracle.attention(config, weights, hidden[own][None], None, positions[own])[0]
        for own in sequences(cu_seqlens)
    ]
    return torch.cat(parts)


Part = Callable[[Weights, Tensor], Tensor]


def layers(
    config: Qwen3Config,
    weights: Weights,
    hidden: Tensor,
    positions: Tensor,
    cu_seqlens: Tensor,
    *,
    real: bool = True,
) -> list[Tensor]:
    """The residual stream before every layer and after the last one, float64.

    Args:
        config: sizes and constants; ``num_hidden_layers`` layers are run.
        weights: ``layers.0.self_attn…`` and so on, as Hugging Face names them.
        hidden: ``[tokens, hidden]``, the embeddings.
        positions: ``[tokens]``.
        cu_seqlens: ``[sequences + 1]``.
        real: False: with the stand-ins of ``labs/given/flat.py`` in place of attention and MLP.
    """
    stream, eps = [hidden.double()], config.rms_norm_eps
    for index in range(config.num_hidden_layers):
        own = _under(weights, f"layers.{index}.")
        x = stream[-1]
        normed = oracle.rms_norm(x, own["input_layernorm.weight"], eps)
        attended = _under(own, "self_attn.")
        if real:
            x = x + attention(config, attended, normed, positions, cu_seqlens)
        else:
            standing = StandInAttention(config.hidden_size)
            standing.load_state_dict(dict(attended))
            x = x + standing.double()(positions, normed, cu_seqlens)
        normed = oracle.rms_norm(x, own["post_attention_layernorm.weight"], eps)
        if real:
            x = x + oracle.mlp(_under(own, "mlp."), normed)
        else:
            other = StandInMLP(config.hidden_size)
            other.load_state_dict(_under(own, "mlp."))
            x = x + other.double()(normed)
        stream.append(x.detach())
    return stream


def stand_in_mlp(gate: Tensor, up: Tensor, down: Tensor, x: Tensor) -> Tensor:
    """The gated MLP with a ``StandInDown`` behind it: float64 ``[tokens, hidden]``."""
    hidden = F.silu(x.double() @ gate.double().T) * (x.double() @ up.double().T)
    return hidden.tanh() @ down.double().T


def attention_shard(
    config: Qwen3Config, weights: Weights, rank: int, world: int
) -> dict[str, Tensor]:
    """The packed weights of attention that a rank holds, by their names in lab 5."""
    size = config.head_dim
    heads, kv_heads = config.num_attention_heads // world, config.num_key_value_heads
    kv_own = max(1, kv_heads // world)
    kv_first = rank * kv_heads // world
    rows = [
        weights["q_proj.weight"][rank * heads * size : (rank + 1) * heads * size],
        *(
            weights[f"{name}_proj.weight"][kv_first * size : (kv_first + kv_own) * size]
            for name in "kv"
        ),
    ]
    shard = {
        "qkv_proj.weight": torch.cat(rows),
        "o_proj.weight": columns(weights["o_proj.weight"], rank, world),
    }
    return shard | {name: weights[name] for name in ("q_norm.weight", "k_norm.weight")}


def mlp_shard(weights: Weights, rank: int, world: int) -> dict[str, Tensor]:
    """The packed weights of the MLP that a rank holds, by their names in lab 5."""
    parts = [weights[f"{name}_proj.weight"].chunk(world)[rank] for name in ("gate", "up")]
    down = columns(weights["down_proj.weight"], rank, world)
    return {"gate_up_proj.weight": torch.cat(parts), "down_proj.weight": down}


def columns(weight: Tensor, rank: int, world: int) -> Tensor:
    """The columns of ``[out, in]`` that a rank holds."""
    return weight.chunk(world, dim=1)[rank].contiguous()


def layer_shard(config: Qwen3Config, weights: Weights, rank: int, world: int) -> dict[str, Tensor]:
    """All parameters of a decoder layer that a rank holds."""
    shards: Sequence[tuple[str, Mapping[str, Tensor]]] = (
        ("self_attn.", attention_shard(config, _under(weights, "self_attn."), rank, world)),
        ("mlp.", mlp_shard(_under(weights, "mlp."), rank, world)),
    )
    found = {prefix + name: tensor for prefix, shard in shards for name, tensor in shard.items()}
    return found | {name: w for name, w in weights.items() if "layernorm" in name}


def _under(weights: Weights, prefix: str) -> dict[str, Tensor]:
    """The entries whose names start with ``prefix``, without it."""
    return {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}
