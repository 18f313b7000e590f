"""The stages of attention and MLP: up to where a student's numbers are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.authoring.fingerprints import Step, Steps
from autograder.course.records import Text
from labs.given.config import Qwen3Config
from solutions.reference import oracle


def attention(values: Mapping[str, Any], weights: dict[str, Tensor], x: Tensor) -> Steps:
    """The stages of causal attention on ``x`` ``[B, T, hidden]`` at positions ``0 … T-1``."""
    config = Qwen3Config(**values)
    batch, seq, _ = x.shape
    x, eps, size = x.double(), config.rms_norm_eps, config.head_dim
    group = config.num_attention_heads // config.num_key_value_heads
    q, k, v = (x @ weights[f"{name}_proj.weight"].double().T for name in "qkv")
    yield Step("q", Text("the output of q_proj", "q_proj 的输出"), (), q)
    yield Step("k", Text("the output of k_proj", "k_proj 的输出"), (), k)
    yield Step("v", Text("the output of v_proj", "v_proj 的输出"), (), v)

    q, k, v = (t.view(batch, seq, -1, size).transpose(1, 2) for t in (q, k, v))
    q = oracle.rms_norm(q, weights["q_norm.weight"], eps)  # [B, heads, T, head_dim]
    k = oracle.rms_norm(k, weights["k_norm.weight"], eps)
    name = Text("the normed heads of q", "归一化后 q 的各个头")
    yield Step("q_normed", name, ("q",), q)
    name = Text("the normed heads of k", "归一化后 k 的各个头")
    yield Step("k_normed", name, ("k",), k)

    tables = oracle.rope_tables(torch.arange(seq), size, config.rope_theta)
    q, k = oracle.rotate(q, *tables), oracle.rotate(k, *tables)
    yield Step("q_rotated", Text("q after the rotation", "旋转后的 q"), ("q_normed",), q)
    yield Step("k_rotated", Text("k after the rotation", "旋转后的 k"), ("k_normed",), k)

    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    products = q @ k.transpose(-1, -2)  # [B, heads, T, T]
    scores = products * size**-0.5
    name = Text("the products of q and k", "q 与 k 的乘积")
    # Whoever scales q, or k, or both a little, never sees the products alone.
    yield Step("products", name, ("q_rotated", "k_rotated"), products, scores)
    yield Step("scores", Text("the scaled scores", "缩放后的分数"), ("products",), scores)

    future = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    weighted = scores.masked_fill(future, -torch.inf).softmax(-1)
    name = Text("the attention weights (mask and softmax)", "注意力权重（掩码与 softmax）")
    yield Step("weights", name, ("scores",), weighted)
    mixed = weighted @ v  # [B, heads, T, head_dim]
    name = Text("the weighted sums of the values", "value 的加权和")
    yield Step("mixed", name, ("weights", "v"), mixed)
    merged = mixed.transpose(1, 2).reshape(batch, seq, -1)
    name = Text("the heads joined side by side", "并排合并后的各个头")
    yield Step("merged", name, ("mixed",), merged, ordered=True)
    out = merged @ weights["o_proj.weight"].double().T
    yield Step("out", Text("the output of o_proj", "o_proj 的输出"), ("merged",), out, ordered=True)


def mlp(_: Mapping[str, Any], weights: dict[str, Tensor], x: Tensor) -> Steps:
    """The stages of the gated MLP on ``x`` ``[..., hidden]``."""
    x = x.double()
    gate, up = (x @ weights[f"{name}_proj.weight"].double().T for name in ("gate", "up"))
    yield Step("gate", Text("the output of gate_proj", "gate_proj 的输出"), (), gate)
    yield Step("up", Text("the output of up_proj", "up_proj 的输出"), (), up)
    active = F.silu(gate)
    yield Step("active", Text("SiLU of the gate", "门经过 SiLU 的结果"), ("gate",), active)
    name = Text("the gate times up", "门与 up 的乘积")
    yield Step("product", name, ("active", "up"), active * up)
    out = (active * up) @ weights["down_proj.weight"].double().T
    name = Text("the output of down_proj", "down_proj 的输出")
    yield Step("out", name, ("product",), out, ordered=True)


# Exercise -> the check whose call is followed, and how its stages are computed.
STAGES = {
    "lab2.attention": ("test_attention_parity", attention),
    "lab2.mlp": ("test_mlp_parity", mlp),
}
