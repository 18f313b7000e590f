"""A whole Qwen3 in float64, layer by layer, with padding, and with other parts in its layers.

``oracle.py`` has the parts; the tests beside ``hf.py`` prove that the two agree.
Source: ``transformers/models/qwen3/modeling_qwen3.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from labs.given.config import Qwen3Config
from labs.given.standin import StandInAttention, StandInMLP
from solutions.reference import oracle

Weights = Mapping[str, Tensor]
NARROWEST = torch.finfo(torch.float32).min


@dataclass(frozen=True)
class Parts:
    """The parts that a layer is built from.

    ``attention(config, weights, x, mask, positions, layer_idx)`` and ``mlp(config, weights, x)``
    map ``[B, T, hidden]`` to float64 ``[B, T, hidden]``.
    """

    attention: Callable[[Qwen3Config, Weights, Tensor, Tensor | None, Tensor, int], Tensor]
    mlp: Callable[[Qwen3Config, Weights, Tensor], Tensor]


def _standin_attention(
    config: Qwen3Config,
    weights: Weights,
    x: Tensor,
    mask: Tensor | None,
    positions: Tensor,
    layer_idx: int,
) -> Tensor:
    module = StandInAttention(config, layer_idx)
    module.load_state_dict(dict(weights))
    module.double()
    out: Tensor = module(x.double(), None if mask is None else mask.double(), positions)
    return out


def _standin_mlp(config: Qwen3Config, weights: Weights, x: Tensor) -> Tensor:
    module = StandInMLP(config)
    module.load_state_dict(dict(weights))
    out: Tensor = module.double()(x.double())
    return out


REAL = Parts(
    lambda config, weights, x, mask, positions, _: oracle.attention(
        config, weights, x, mask, positions
    ),
    lambda _, weights, x: oracle.mlp(weights, x),
)
STAND_IN = Parts(_standin_attention, _standin_mlp)


def mask_of(attention_mask: Tensor, query_len: int | None = None) -> Tensor:
    """Additive ``[B, 1, query_len, K]`` of a padding mask ``[B, K]``; every query sees itself."""
    keys = attention_mask.shape[1]
    allowed = torch.ones(keys, keys, dtype=torch.bool).tril() & attention_mask.bool()[:, None, None]
    allowed = allowed | torch.eye(keys, dtype=torch.bool)
    return torch.where(allowed, 0.0, NARROWEST)[:, :, keys - (query_len or keys) :]


def positions_of(attention_mask: Tensor) -> Tensor:
    """Positions ``[B, K]`` that count tokens from 0 and padding not at all."""
    return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)


def layer(
    config: Qwen3Config,
    weights: Weights,
    x: Tensor,
    mask: Tensor | None,
    positions: Tensor,
    layer_idx: int,
    parts: Parts = REAL,
) -> Tensor:
    """One decoder layer: ``[B, T, hidden]`` to float64 ``[B, T, hidden]``."""
    x, eps = x.double(), config.rms_norm_eps
    normed = oracle.rms_norm(x, weights["input_layernorm.weight"], eps)
    own = under(weights, "self_attn.")
    x = x + parts.attention(config, own, normed, mask, positions, layer_idx)
    normed = oracle.rms_norm(x, weights["post_attention_layernorm.weight"], eps)
    return x + parts.mlp(config, under(weights, "mlp."), normed)


def hidden_states(
    config: Qwen3Config,
    weights: Weights,
    tokens: Tensor,
    attention_mask: Tensor | None = None,
    positions: Tensor | None = None,
    parts: Parts = REAL,
) -> list[Tensor]:
    """The residual stream before the first layer and after every layer, float64, not normed.

    Args:
        config: sizes and constants.
        weights: a checkpoint under Hugging Face names, with ``model.`` in front.
        tokens: ``[B, T]``.
        attention_mask: ``[B, T]``, 0 for padding.
        positions: ``[T]`` or ``[B, T]``; None: counted.
        parts: what layers are built from.
    """
    mask = None if attention_mask is None else mask_of(attention_mask)
    if positions is None:
        plain = torch.arange(tokens.shape[1])
        positions = plain if attention_mask is None else positions_of(attention_mask)
    found = [weights["model.embed_tokens.weight"][tokens].double()]
    for index in range(config.num_hidden_layers):
        own = under(weights, f"model.layers.{index}.")
        found.append(layer(config, own, found[-1], mask, positions, index, parts))
    return found


def normed(config: Qwen3Config, weights: Weights, x: Tensor) -> Tensor:
    """The last norm of the model."""
    return oracle.rms_norm(x, weights["model.norm.weight"], config.rms_norm_eps)


def head(config: Qwen3Config, weights: Weights, x: Tensor) -> Tensor:
    """Logits of normed hidden states."""
    name = "model.embed_tokens" if config.tie_word_embeddings else "lm_head"
    return F.linear(x, weights[f"{name}.weight"].double())


def logits(
    config: Qwen3Config,
    weights: Weights,
    tokens: Tensor,
    attention_mask: Tensor | None = None,
    positions: Tensor | None = None,
    parts: Parts = REAL,
) -> Tensor:
    """float64 ``[B, T, vocab]``; arguments as for :func:`hidden_states`."""
    last = hidden_states(config, weights, tokens, attention_mask, positions, parts)[-1]
    return head(config, weights, normed(config, weights, last))


def under(weights: Weights, prefix: str) -> dict[str, Tensor]:
    """The entries whose names start with ``prefix``, without it."""
    return {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}
