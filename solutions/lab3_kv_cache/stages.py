"""The stages of attention: up to where a student's numbers are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from autograder.authoring.fingerprints import Step, Steps
from autograder.course.records import Text
from labs.given.config import Qwen3Config
from solutions.reference import interleaved, oracle


def attention(values: Mapping[str, Any], weights: dict[str, Tensor], x: Tensor) -> Steps:
    """The stages of causal attention on ``x`` ``[B, T, dim]`` at positions ``0 … T-1``.

    Tensors are ``[B, T, heads, head_dim]`` up to the scores; the order of elements tells nothing
    before the heads are joined.
    """
    config = Qwen3Config(**values)
    batch, seq, _ = x.shape
    x, eps, size = x.double(), config.rms_norm_eps, config.head_dim
    group = config.num_attention_heads // config.num_key_value_heads
    q, k, v = (x @ weights[f"w{name}.weight"].double().T for name in "qkv")
    yield Step("q", Text("the output of wq", "wq 的输出"), (), q)
    yield Step("k", Text("the output of wk", "wk 的输出"), (), k)
    yield Step("v", Text("the output of wv", "wv 的输出"), (), v)

    q, k, v = (t.view(batch, seq, -1, size) for t in (q, k, v))
    q = oracle.rms_norm(q, weights["q_norm.weight"], eps)
    k = oracle.rms_norm(k, weights["k_norm.weight"], eps)
    name = Text("the normed heads of q", "归一化后 q 的各个头")
    yield Step("q_normed", name, ("q",), q)
    name = Text("the normed heads of k", "归一化后 k 的各个头")
    yield Step("k_normed", name, ("k",), k)

    table = interleaved.freqs_cis(torch.arange(seq), size, config.rope_theta)
    q, k = interleaved.rotate(q, table), interleaved.rotate(k, table)
    yield Step("q_rotated", Text("q after the rotation", "旋转后的 q"), ("q_normed",), q)
    yield Step("k_rotated", Text("k after the rotation", "旋转后的 k"), ("k_normed",), k)

    k, v = k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)
    products = torch.einsum("bqhd,bkhd->bhqk", q, k)
    scores = products * size**-0.5
    name = Text("the products of q and k", "q 与 k 的乘积")
    # Whoever scales q, or k, or both a little, never sees the products alone.
    yield Step("products", name, ("q_rotated", "k_rotated"), products, scores)
    yield Step("scores", Text("the scaled scores", "缩放后的分数"), ("products",), scores)

    future = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    weighted = scores.masked_fill(future, -torch.inf).softmax(-1)
    name = Text("the attention weights (mask and softmax)", "注意力权重（掩码与 softmax）")
    yield Step("weights", name, ("scores",), weighted)
    mixed = torch.einsum("bhqk,bkhd->bqhd", weighted, v)
    name = Text("the weighted sums of the values", "value 的加权和")
    yield Step("mixed", name, ("weights", "v"), mixed)
    merged = mixed.reshape(batch, seq, -1)
    name = Text("the heads joined side by side", "并排合并后的各个头")
    yield Step("merged", name, ("mixed",), merged, ordered=True)
    out = merged @ weights["wo.weight"].double().T
    yield Step("out", Text("the output of wo", "wo 的输出"), ("merged",), out, ordered=True)


# Exercise -> the check whose call is followed, and how its stages are computed.
STAGES = {
    "lab3.attention": ("test_attention_parity", attention),
}
