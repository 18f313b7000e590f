"""Hugging Face's Qwen3 behind plain functions; with ``hf_moe`` the only one with transformers.

Everything is computed in float32, with eager attention, and can be differentiated with respect
to the weights and inputs handed in. Works alike on transformers 4.51.3 to 5.x, whose keywords,
defaults and return values differ; each difference is met here, once.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from labs.given.config import Qwen3Config

VERSION = version("transformers")
Weights = Mapping[str, Tensor]


def modeling() -> Any:
    """Import the models of transformers when they are needed: it takes two seconds.

    They are annotated in part only, and differently in each release.
    """
    from transformers.models.qwen3 import modeling_qwen3

    return modeling_qwen3


def hf_config(config: Qwen3Config) -> Any:
    """Translate a config, naming every field: the defaults of transformers are no real Qwen3."""
    from transformers import Qwen3Config as HFConfig

    fields: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_position_embeddings,
        "initializer_range": 0.02,
        "rms_norm_eps": config.rms_norm_eps,
        "use_cache": False,
        "tie_word_embeddings": config.tie_word_embeddings,
        # As a keyword this reaches every release; `rope_parameters` is ignored before 5.0.
        "rope_theta": config.rope_theta,
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": None,
        "max_window_layers": config.num_hidden_layers,
        "attention_dropout": 0.0,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    made = HFConfig(**fields)
    # A module built on its own never chooses; 4.55 to 5.0 then raise KeyError.
    made._attn_implementation = "eager"
    return made


def hf_rope_tables(config: Qwen3Config, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Tabulate cos and sin, float32 ``[B or 1, T, head_dim]``, for ``[T]`` or ``[B, T]``.

    Raises:
        RuntimeError: transformers lost the ``rope_theta`` of the config.
    """
    rotary = modeling().Qwen3RotaryEmbedding(hf_config(config))
    _check_theta(rotary, config)
    batched = positions if positions.ndim == 2 else positions[None]
    cos, sin = rotary(torch.empty(0, dtype=torch.float32), batched)  # read for its dtype only
    return cos, sin


def hf_attention(
    config: Qwen3Config,
    weights: Weights,
    hidden: Tensor,
    mask_additive_4d: Tensor,
    positions: Tensor,
) -> Tensor:
    """Run one attention module.

    Args:
        config: sizes and constants.
        weights: the module's parameters, ``q_proj.weight`` to ``k_norm.weight``.
        hidden: ``[B, T, hidden]``.
        mask_additive_4d: broadcastable to ``[B, heads, T, T]``, 0 or ``finfo.min``. It has no
            default, because eager attention without a mask is not causal.
        positions: ``[T]`` or ``[B, T]``.

    Returns:
        float32 ``[B, T, hidden]``.
    """
    arguments = {
        "hidden_states": hidden.float(),
        "position_embeddings": hf_rope_tables(config, positions),
        "attention_mask": mask_additive_4d.float(),
    }
    module = modeling().Qwen3Attention(hf_config(config), layer_idx=0)
    output: Tensor = _call(module, weights, arguments)[0]  # (output, attention weights)
    return output


def hf_attention_in_pieces(
    config: Qwen3Config,
    weights: Weights,
    hidden: Tensor,
    mask_additive_4d: Tensor,
    positions: Tensor,
    pieces: Sequence[int],
) -> Tensor:
    """Run one attention module piece by piece, with a ``DynamicCache`` between the pieces.

    Args:
        config: sizes and constants.
        weights: the module's parameters, ``q_proj.weight`` to ``k_norm.weight``.
        hidden: ``[B, T, hidden]``.
        mask_additive_4d: ``[…, T, T]``, of all tokens; each piece gets its rows up to its end.
        positions: ``[T]`` or ``[B, T]``.
        pieces: numbers of tokens, T in all.

    Returns:
        float32 ``[B, T, hidden]``.
    """
    from transformers import DynamicCache

    module = modeling().Qwen3Attention(hf_config(config), layer_idx=0)
    known = inspect.signature(module.forward).parameters
    keyword = "past_key_values" if "past_key_values" in known else "past_key_value"
    cache, first, outputs = DynamicCache(), 0, []
    for count in pieces:
        end = first + count
        arguments = {
            "hidden_states": hidden[:, first:end].float(),
            "position_embeddings": hf_rope_tables(config, positions[..., first:end]),
            "attention_mask": mask_additive_4d[..., first:end, :end].float(),
            keyword: cache,
        }
        outputs.append(_call(module, weights, arguments)[0])
        first = end
    return torch.cat(outputs, dim=1)


def hf_mlp(config: Qwen3Config, weights: Weights, x: Tensor) -> Tensor:
    """Run one MLP: ``[..., hidden]`` to float32 ``[..., hidden]``."""
    output: Tensor = _call(modeling().Qwen3MLP(hf_config(config)), weights, {"x": x.float()})
    return output


def hf_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Run one RMSNorm: ``[..., size]`` and ``[size]`` to float32 ``[..., size]``."""
    module = modeling().Qwen3RMSNorm(weight.shape[0], eps=eps)
    output: Tensor = _call(module, {"weight": weight}, {"hidden_states": x.float()})
    return output


def hf_logits(config: Qwen3Config, weights: Weights, tokens: Tensor) -> Tensor:
    """Run a whole model on unpadded tokens ``[B, T]``; float32 logits ``[B, T, vocab]``.

    Raises:
        RuntimeError: transformers lost ``rope_theta`` or chose other attention than eager.
    """
    model = modeling().Qwen3ForCausalLM(hf_config(config)).eval()
    _check_theta(model.model.rotary_emb, config)
    if model.config._attn_implementation != "eager":
        raise RuntimeError(f"expected eager attention, got {model.config._attn_implementation}")
    output = _call(model, weights, {"input_ids": tokens, "use_cache": False})
    logits: Tensor = output.logits
    return logits


def hf_hidden_states(
    config: Qwen3Config,
    weights: Weights,
    tokens: Tensor,
    attention_mask: Tensor,
    positions: Tensor,
) -> tuple[list[Tensor], Tensor]:
    """Run a whole model on padded tokens, all of ``[B, T]``.

    Returns:
        The residual stream before every layer and, normed, after the last one; the logits.
        What stands at padding is not to be relied on.
    """
    model = modeling().Qwen3ForCausalLM(hf_config(config)).eval()
    _check_theta(model.model.rotary_emb, config)
    arguments = {
        "input_ids": tokens,
        "attention_mask": attention_mask,
        "position_ids": positions,
        "use_cache": False,
        "output_hidden_states": True,
    }
    output = _call(model, weights, arguments)
    return list(output.hidden_states), output.logits


def hf_parameter_shapes(config: Qwen3Config) -> dict[str, tuple[int, ...]]:
    """Name the parameters of a whole model, with their shapes, without allocating them.

    A shared parameter comes once: a model with a tied head has no ``lm_head.weight``.
    """
    with torch.device("meta"):
        model = modeling().Qwen3ForCausalLM(hf_config(config))
    model.tie_weights()  # 5.0 leaves this out on the meta device
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def hf_parameter_counts(config: Qwen3Config) -> dict[str, int]:
    """Count the parameters of a whole model.

    Returns:
        Whole numbers under ``embedding, attention, mlp, norm, lm_head, total``, as
        ``oracle.count_parameters``: q_norm and k_norm are norms, a tied head counts 0.
    """
    counts: Counter[str] = Counter()
    for name, shape in hf_parameter_shapes(config).items():
        counts[_kind(name)] += math.prod(shape)
    kinds = ("embedding", "attention", "mlp", "norm", "lm_head")
    return {kind: counts[kind] for kind in kinds} | {"total": counts.total()}


def hf_flops(config: Qwen3Config, tokens: int, past: int) -> dict[str, int]:
    """Count, with torch's own counter, what the products of a whole model take.

    Returns:
        Whole numbers under ``projections, attention, mlp, lm_head``: of all layers, for ``tokens``
        new tokens of one sequence after ``past`` others in a cache, and logits of the last one.
    """
    from transformers import DynamicCache

    model = modeling().Qwen3ForCausalLM(hf_config(config)).eval()
    ids, cache = torch.zeros(1, past + tokens, dtype=torch.long), DynamicCache()
    with torch.no_grad():
        if past:
            model(ids[:, :past], past_key_values=cache, use_cache=True)
        with FlopCounterMode(display=False) as counter:
            model(ids[:, past:], past_key_values=cache, use_cache=True, logits_to_keep=1)
    counts: Counter[str] = Counter()
    for name, by_operator in counter.get_flop_counts().items():
        path, flops = name.split("."), sum(by_operator.values())
        if path[-1] in ("mlp", "lm_head"):
            counts[path[-1]] += flops
        elif path[-1] == "self_attn":
            counts["attention"] += flops
        elif path[-1].endswith("_proj") and path[-2] == "self_attn":
            counts["projections"] += flops
            counts["attention"] -= flops
    return dict(counts)


def _kind(name: str) -> str:
    """Sort a parameter, by its name in a checkpoint, into one of the five kinds."""
    marks = {"embed": "embedding", "lm_head": "lm_head", "norm": "norm", "mlp": "mlp"}
    for mark, kind in marks.items():  # `norm` before `self_attn`: q_norm lies inside it
        if mark in name:
            return kind
    return "attention"


def _call(module: nn.Module, weights: Weights, arguments: dict[str, Any]) -> Any:
    """Call a module with the given weights in place of its own, so that gradients reach them."""
    own = {name for name, _ in module.named_parameters()}
    if own != set(weights):
        missing, extra = sorted(own - set(weights)), sorted(set(weights) - own)
        raise KeyError(f"weights of {type(module).__name__}: missing {missing}, unknown {extra}")
    widened = {name: weight.float() for name, weight in weights.items()}
    return functional_call(module, widened, kwargs=arguments)


def _check_theta(rotary: nn.Module, config: Qwen3Config) -> None:
    """Refuse a rotary embedding whose frequencies do not come from the config's theta."""
    exponents = torch.arange(0, config.head_dim, 2).float() / config.head_dim
    expected = 1.0 / config.rope_theta**exponents
    if not torch.equal(torch.as_tensor(rotary.inv_freq), expected):
        raise RuntimeError(f"transformers did not take rope_theta = {config.rope_theta}")


# Hugging Face's sparse MoE block of Qwen3 behind plain functions, as :mod:`hf` does for the rest.
#
# Since transformers 5.0 the weights of all experts are two tensors; before, every expert is a
# module with three linear layers. Here they are always given in the new form.


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
