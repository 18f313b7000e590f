"""A whole model on flat tokens in float64, with YaRN and a split vocabulary: lab 5's third part.

Attention and MLP are those of ``oracle.py`` and ``oracle_parallel.py``; tests prove that all of it
equals Hugging Face. How a vocabulary is cut follows
``vllm/model_executor/layers/vocab_parallel_embedding.py`` of vLLM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.parallel import STAND_INS
from solutions.reference import oracle, oracle_parallel

Weights = Mapping[str, Tensor]
Scaling = Mapping[str, Any] | None
PACKED: dict[str, tuple[str, str | int]] = {
    "q_proj": ("qkv_proj", "q"),
    "k_proj": ("qkv_proj", "k"),
    "v_proj": ("qkv_proj", "v"),
    "gate_proj": ("gate_up_proj", 0),
    "up_proj": ("gate_up_proj", 1),
}


def vocabulary_shard(weight: Tensor, rank: int, world: int) -> Tensor:
    """The rows of ``[vocab, hidden]`` that a rank holds; zeros where no id is left."""
    rows = math.ceil(len(weight) / world)
    padded = F.pad(weight, (0, 0, 0, rows * world - len(weight)))
    return padded[rank * rows : (rank + 1) * rows].contiguous()


def logits(weight: Tensor, hidden: Tensor, cu_seqlens: Tensor) -> Tensor:
    """Scores after the last token of every sequence, float64 ``[sequences, vocab]``."""
    ends = [own.stop - 1 for own in oracle_parallel.sequences(cu_seqlens)]
    return hidden[ends].double() @ weight.double().T


def frequencies(head_dim: int, theta: float, scaling: Scaling) -> Tensor:
    """Radians per position of every pair, float32 ``[head_dim / 2]`` as Qwen3 has them."""
    exponents = torch.arange(0, head_dim, 2).float() / head_dim
    plain = 1.0 / theta**exponents
    if scaling is None:
        return plain
    context, factor = scaling["original_max_position_embeddings"], scaling["factor"]

    def pair_of(turns: float) -> float:
        return head_dim * math.log(context / (2 * math.pi * turns)) / (2 * math.log(theta))

    low = max(0, math.floor(pair_of(scaling.get("beta_fast", 32))))
    high = min(head_dim - 1, math.ceil(pair_of(scaling.get("beta_slow", 1))))
    length = high - low or 0.001
    ramp = ((torch.arange(head_dim // 2).float() - low) / length).clamp(0, 1)
    return plain / factor * ramp + plain * (1 - ramp)


def attention_factor(scaling: Scaling) -> float:
    """What cos and sin are multiplied by."""
    if scaling is None:
        return 1.0
    own = scaling.get("attention_factor")
    return 0.1 * math.log(scaling["factor"]) + 1.0 if own is None else float(own)


def rotate(x: Tensor, positions: Tensor, theta: float, scaling: Scaling = None) -> Tensor:
    """Rotary positions of ``[tokens, heads, head_dim]`` at ``[tokens]``, float64."""
    angles = positions[:, None].float() * frequencies(x.shape[-1], theta, scaling)
    angles = torch.cat((angles, angles), dim=-1).double()
    factor = attention_factor(scaling)
    turned = oracle.rotate(x.transpose(0, 1), angles.cos() * factor, angles.sin() * factor)
    return turned.transpose(0, 1)


def attention(
    config: Qwen3Config,
    weights: Weights,
    hidden: Tensor,
    positions: Tensor,
    cu_seqlens: Tensor,
    scaling: Scaling,
) -> Tensor:
    """Attention of unsharded weights on flat tokens, float64 ``[tokens, hidden]``."""
    q, k, v = (
        (hidden.double() @ weights[f"{name}_proj.weight"].double().T).view(
            len(hidden), -1, config.head_dim
        )
        for name in "qkv"
    )
    q = oracle.rms_norm(q, weights["q_norm.weight"], config.rms_norm_eps)
    k = oracle.rms_norm(k, weights["k_norm.weight"], config.rms_norm_eps)
    q, k = (rotate(x, positions, config.rope_theta, scaling) for x in (q, k))
    mixed = oracle_parallel.flat_attention(q, k, v, cu_seqlens).flatten(1)
    return mixed @ weights["o_proj.weight"].double().T


def hidden_states(
    config: Qwen3Config,
    weights: Weights,
    tokens: Tensor,
    positions: Tensor,
    cu_seqlens: Tensor,
    scaling: Scaling = None,
) -> Tensor:
    """Normed hidden states of a whole Qwen3, float64 ``[tokens, hidden]``.

    Args:
        config: sizes and constants.
        weights: a checkpoint under Hugging Face names.
        tokens: ``[tokens]``, ids.
        positions: ``[tokens]``.
        cu_seqlens: ``[sequences + 1]``.
        scaling: ``rope_scaling``.
    """
    x, eps = weights["model.embed_tokens.weight"][tokens].double(), config.rms_norm_eps
    for index in range(config.num_hidden_layers):
        own = under(weights, f"model.layers.{index}.")
        normed = oracle.rms_norm(x, own["input_layernorm.weight"], eps)
        attended = under(own, "self_attn.")
        x = x + attention(config, attended, normed, positions, cu_seqlens, scaling)
        normed = oracle.rms_norm(x, own["post_attention_layernorm.weight"], eps)
        x = x + oracle.mlp(under(own, "mlp."), normed)
    return oracle.rms_norm(x, weights["model.norm.weight"], eps)


def head_of(config: Qwen3Config, weights: Weights) -> Tensor:
    """The matrix of the head."""
    name = "model.embed_tokens" if config.tie_word_embeddings else "lm_head"
    return weights[f"{name}.weight"]


# The same around the stand-ins of labs/given/parallel.py.


def standing_layer(config: Qwen3Config, scaling: Scaling) -> nn.Module:
    """One decoder layer of stand-ins, as the model makes it."""
    c = config
    rotary = None
    if scaling is not None:
        rotary = partial(rotate, theta=c.rope_theta, scaling=scaling)
    attention = STAND_INS.attention(
        c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim,
        c.rms_norm_eps, c.rope_theta, rotary,
    )  # fmt: skip
    down = STAND_INS.row(c.intermediate_size, c.hidden_size)
    mlp = STAND_INS.mlp(c.hidden_size, c.intermediate_size, down)
    return STAND_INS.layer(c.hidden_size, c.rms_norm_eps, attention, mlp)


def standing_state(config: Qwen3Config, weights: Weights) -> dict[str, Tensor]:
    """What the parameters of a model of stand-ins hold after loading, on a single rank.

    Args:
        config: of the model.
        weights: a checkpoint under Hugging Face names; a tied head is left out.
    """
    model, found = nn.Module(), {}
    made = (standing_layer(config, None) for _ in range(config.num_hidden_layers))
    model.layers = nn.ModuleList(made)
    parameters = {f"model.{name}": p for name, p in model.named_parameters()}
    for name, tensor in weights.items():
        *path, module, last = name.split(".")
        own, shard = PACKED.get(module, (module, None))
        target = ".".join((*path, own, last))
        if target not in parameters:  # embedding, last norm, head
            found[target] = tensor
        elif not hasattr(parameters[target], "weight_loader"):
            parameters[target].data.copy_(tensor)
        else:
            shards = () if shard is None else (shard,)
            load: Any = parameters[target].weight_loader  # type: ignore[attr-defined]
            load(parameters[target], tensor, *shards)
    return found | {name: p.detach().clone() for name, p in parameters.items()}


def standing_states(
    config: Qwen3Config,
    state: Weights,
    tokens: Tensor,
    positions: Tensor,
    cu_seqlens: Tensor,
    scaling: Scaling = None,
) -> Sequence[Tensor]:
    """Outputs of models of 0, 1, … layers of stand-ins, float64 ``[tokens, hidden]`` each.

    Args:
        config: of the deepest.
        state: as :func:`standing_state` gives it.
        tokens: ``[tokens]``, ids.
        positions: ``[tokens]``.
        cu_seqlens: ``[sequences + 1]``.
        scaling: ``rope_scaling``.
    """
    norm = STAND_INS.norm(config.hidden_size, config.rms_norm_eps)
    norm.load_state_dict(under(state, "model.norm."))
    norm.double()
    hidden, residual = state["model.embed_tokens.weight"][tokens].double(), None
    with torch.no_grad():
        found = [norm(hidden, residual)[0]]
        for index in range(config.num_hidden_layers):
            layer = standing_layer(config, scaling)
            layer.load_state_dict(under(state, f"model.layers.{index}."))
            hidden, residual = layer.double()(positions, hidden, residual, cu_seqlens)
            found.append(norm(hidden, residual)[0])
    return found


def under(weights: Weights, prefix: str) -> dict[str, Tensor]:
    """The entries whose names start with ``prefix``, without it."""
    return {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}
