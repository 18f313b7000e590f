"""Hugging Face's sparse MoE block of Qwen3 behind plain functions, as :mod:`hf` does for the rest.

Since transformers 5.0 the weights of all experts are two tensors; before, every expert is a
module with three linear layers. Here they are always given in the new form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

Weights = Mapping[str, Tensor]


def hf_sparse_moe(
    weights: Weights, x: Tensor, top_k: int, *, norm: bool
) -> tuple[Tensor, Tensor | None]:
    """Run one block.

    Args:
        weights: ``gate.weight`` ``[experts, hidden]``, ``experts.gate_up_proj``
            ``[experts, 2 * inner, hidden]``, ``experts.down_proj`` ``[experts, hidden, inner]``.
        x: ``[B, T, hidden]``.
        top_k: experts per token.
        norm: ``norm_topk_prob``.

    Returns:
        float32 ``[B, T, hidden]``, and the router's logits where this release returns them.
    """
    from transformers import Qwen3MoeConfig  # when it is needed, as in `hf`

    count, hidden, inner = weights["experts.down_proj"].shape
    config = Qwen3MoeConfig(
        hidden_size=hidden,
        moe_intermediate_size=inner,
        num_experts=count,
        num_experts_per_tok=top_k,
        norm_topk_prob=norm,
        hidden_act="silu",
    )
    config._experts_implementation = "eager"  # a module built on its own never chooses
    block = _modeling().Qwen3MoeSparseMoeBlock(config)
    named = {name: weight.float() for name, weight in weights.items()}
    if "experts.gate_up_proj" not in dict(block.named_parameters()):
        named = _one_by_one(named)
    made = functional_call(block, named, (x.float(),))
    return made if isinstance(made, tuple) else (made, None)


def hf_load_balancing_loss(
    router_logits: Sequence[Tensor], top_k: int, mask: Tensor | None = None
) -> Tensor:
    """The loss of one or more layers ``[B * T, experts]``; ``mask`` is ``[B, T]`` or None."""
    layers = tuple(layer.float() for layer in router_logits)
    loss = _modeling().load_balancing_loss_func(layers, layers[0].shape[-1], top_k, mask)
    return torch.as_tensor(loss)


def _modeling() -> Any:
    from transformers.models.qwen3_moe import modeling_qwen3_moe

    return modeling_qwen3_moe


def _one_by_one(weights: Weights) -> dict[str, Tensor]:
    """Weights of all experts together as those of many modules."""
    found = {"gate.weight": weights["gate.weight"]}
    pairs = zip(weights["experts.gate_up_proj"], weights["experts.down_proj"], strict=True)
    for number, (into, back) in enumerate(pairs):
        gate, up = into.chunk(2)
        names = {"gate_proj": gate, "up_proj": up, "down_proj": back}
        found |= {f"experts.{number}.{name}.weight": weight for name, weight in names.items()}
    return found
