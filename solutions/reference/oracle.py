"""Dense Qwen3 in float64: the numbers that expected values are made of.

Every function widens its inputs to float64 (exactly, also from float16 and bfloat16), computes
there, and can be differentiated. One rounding is kept on purpose: the angles of the rotary
embedding are float32 in Qwen3, so that is what a right answer contains.
Source: ``transformers/models/qwen3/modeling_qwen3.py``; ``hf.py`` and the tests beside it prove
that the two agree.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from labs.given.config import Qwen3Config

Weights = Mapping[str, Tensor]
BLOCKED = -1e4  # mask entries at or below this hide a key; float16 masks bottom out at -65504


def rope_tables(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Tabulate the cos and sin of rotary position embedding (Su et al. 2021).

    Args:
        positions: ``[T]`` or ``[B, T]``, whole numbers.
        head_dim: even size of a head.
        theta: base of the frequencies.

    Returns:
        ``(cos, sin)``, each float64 ``[..., T, head_dim]``, made of two equal halves.
    """
    exponents = torch.arange(0, head_dim, 2, device=positions.device).float() / head_dim
    inv_freq = 1.0 / theta**exponents  # float32, like the product below
    angles = positions[..., None].float() * inv_freq  # [..., T, head_dim/2]
    angles = torch.cat((angles, angles), dim=-1).double()
    return angles.cos(), angles.sin()


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Scale ``x`` to a root mean square of one over its last dimension, times ``weight``.

    Args:
        x: ``[..., size]``.
        weight: ``[size]``.
        eps: added to the mean square.

    Returns:
        float64 ``[..., size]``. Source: Zhang and Sennrich 2019.
    """
    x = x.double()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight.double()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn every pair ``(x_i, x_{i + head_dim/2})`` by the angle of its position.

    Args:
        x: ``[B, heads, T, head_dim]``.
        cos: ``[T, head_dim]`` or ``[B, T, head_dim]``.
        sin: like ``cos``.

    Returns:
        float64 ``[B, heads, T, head_dim]``.
    """
    x, cos, sin = x.double(), cos.double().unsqueeze(-3), sin.double().unsqueeze(-3)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attention(
    config: Qwen3Config,
    weights: Weights,
    hidden: Tensor,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
) -> Tensor:
    """Grouped-query attention with QK-norm and rotary positions.

    Args:
        config: sizes and constants.
        weights: ``q_proj.weight k_proj.weight v_proj.weight o_proj.weight q_norm.weight
            k_norm.weight``, shaped as in Hugging Face.
        hidden: ``[B, T, hidden]``.
        mask: None means causal. Otherwise it replaces causality: additive, broadcastable to
            ``[B, heads, T, T]``, entries at or below ``BLOCKED`` hide the key.
        positions: ``[T]`` or ``[B, T]``; None means ``0 … T-1``.

    Returns:
        float64 ``[B, T, hidden]``. A row with every key hidden averages all values.

    Raises:
        TypeError: ``mask`` is boolean; adding it would not mean what it says.
    """
    if mask is not None and mask.dtype == torch.bool:
        raise TypeError("mask: expected additive floats (0 or finfo.min), got torch.bool")
    batch, seq, _ = hidden.shape
    if positions is None:
        positions = torch.arange(seq, device=hidden.device)

    def heads(name: str) -> Tensor:  # [B, T, hidden] -> [B, T, heads, head_dim]
        return _linear(hidden, weights[name]).view(batch, seq, -1, config.head_dim)

    eps = config.rms_norm_eps
    q = rms_norm(heads("q_proj.weight"), weights["q_norm.weight"], eps).transpose(1, 2)
    k = rms_norm(heads("k_proj.weight"), weights["k_norm.weight"], eps).transpose(1, 2)
    v = heads("v_proj.weight").transpose(1, 2)

    cos, sin = rope_tables(positions, config.head_dim, config.rope_theta)
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)

    group = config.num_attention_heads // config.num_key_value_heads
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)

    scores = q @ k.transpose(-1, -2) * config.head_dim**-0.5  # [B, heads, T, T]
    if mask is None:
        blocked = torch.ones(seq, seq, dtype=torch.bool, device=hidden.device).triu(1)
    else:
        blocked = mask <= BLOCKED
        scores = scores + mask.double().masked_fill(blocked, 0.0)
    # The least finite number, not -inf: a row with nothing to see stays free of NaN.
    scores = scores.masked_fill(blocked, torch.finfo(torch.float64).min)

    mixed = scores.softmax(dim=-1) @ v  # [B, heads, T, head_dim]
    return _linear(mixed.transpose(1, 2).reshape(batch, seq, -1), weights["o_proj.weight"])


def mlp(weights: Weights, x: Tensor) -> Tensor:
    """The gated MLP, ``down(silu(gate(x)) * up(x))`` (Shazeer 2020).

    Args:
        weights: ``gate_proj.weight up_proj.weight down_proj.weight``.
        x: ``[..., hidden]``.

    Returns:
        float64 ``[..., hidden]``.
    """
    gate = F.silu(_linear(x, weights["gate_proj.weight"]))
    return _linear(gate * _linear(x, weights["up_proj.weight"]), weights["down_proj.weight"])


def count_parameters(config: Qwen3Config) -> dict[str, int]:
    """Count the parameters of a whole model.

    Returns:
        Whole numbers under ``embedding, attention, mlp, norm, lm_head, total``. ``attention``
        holds the four projections; ``norm`` every RMSNorm, q_norm and k_norm among them; a
        tied head counts 0.
    """
    hidden, head_dim = config.hidden_size, config.head_dim
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    layers, embedding = config.num_hidden_layers, config.vocab_size * hidden
    counts = {
        "embedding": embedding,
        "attention": layers * 2 * (heads + kv_heads) * head_dim * hidden,
        "mlp": layers * 3 * hidden * config.intermediate_size,
        "norm": layers * 2 * (hidden + head_dim) + hidden,
        "lm_head": 0 if config.tie_word_embeddings else embedding,
    }
    return {**counts, "total": sum(counts.values())}


def layer_flops(config: Qwen3Config, tokens: int, past: int) -> dict[str, int]:
    """Count the operations of one decoder layer, a product of ``[m, k]`` and ``[k, n]`` 2mkn.

    Returns:
        Whole numbers under ``projections, attention, mlp, total``, for ``tokens`` new tokens of
        one sequence after ``past`` others; hidden keys count as well.
    """
    hidden, size = config.hidden_size, config.head_dim
    widths = [n * size for n in (config.num_attention_heads, config.num_key_value_heads)]
    inward = sum(2 * tokens * hidden * width for width in (widths[0], widths[1], widths[1]))
    counts = {
        "projections": inward + 2 * tokens * widths[0] * hidden,
        "attention": 4 * config.num_attention_heads * tokens * size * (tokens + past),
        "mlp": 6 * tokens * hidden * config.intermediate_size,
    }
    return {**counts, "total": sum(counts.values())}


def prefill_flops(config: Qwen3Config, tokens: int) -> int:
    """Count the operations of a whole model on a prompt, with logits of its last token only."""
    layers = config.num_hidden_layers * layer_flops(config, tokens, 0)["total"]
    return layers + 2 * config.vocab_size * config.hidden_size


def model_logits(config: Qwen3Config, weights: Weights, tokens: Tensor) -> Tensor:
    """Run a whole causal language model on unpadded tokens.

    Args:
        config: sizes and constants.
        weights: a checkpoint under Hugging Face names; ``lm_head.weight`` is read only where
            the head is not tied.
        tokens: ``[B, T]``, whole numbers below the vocabulary size.

    Returns:
        float64 logits ``[B, T, vocab]``.
    """
    eps, embedding = config.rms_norm_eps, weights["model.embed_tokens.weight"]
    x = embedding[tokens].double()  # [B, T, hidden]
    for index in range(config.num_hidden_layers):
        layer = _under(weights, f"model.layers.{index}.")
        normed = rms_norm(x, layer["input_layernorm.weight"], eps)
        x = x + attention(config, _under(layer, "self_attn."), normed)
        normed = rms_norm(x, layer["post_attention_layernorm.weight"], eps)
        x = x + mlp(_under(layer, "mlp."), normed)
    x = rms_norm(x, weights["model.norm.weight"], eps)
    return _linear(x, embedding if config.tie_word_embeddings else weights["lm_head.weight"])


def _linear(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` in float64: ``[..., in]`` and ``[out, in]`` give ``[..., out]``."""
    return F.linear(x.double(), weight.double())


def _under(weights: Weights, prefix: str) -> dict[str, Tensor]:
    """The entries whose names start with ``prefix``, without it."""
    return {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}
