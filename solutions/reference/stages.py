"""Stages of attention and of gated MLPs, with their names: what several labs have in common.

A lab's ``stages.py`` puts them together; see :class:`autograder.authoring.fingerprints.Step`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.authoring.fingerprints import Step, Steps
from autograder.course.records import Text

Weights = Mapping[str, Tensor]


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` in float64: ``[..., in]`` and ``[out, in]`` give ``[..., out]``."""
    return F.linear(x.double(), weight.double())


def output_of(name: str, tensor: Tensor, id: str, *after: str, ordered: bool = False) -> Step:
    """What the projection of this name gives."""
    words = Text(f"the output of {name}", f"{name} 的输出")
    return Step(id, words, after, tensor, ordered=ordered)


def normed(q: Tensor, k: Tensor, *after: str) -> Steps:
    """Queries and keys behind their norms; ``after`` is what both are cut from, if anything."""
    yield Step("q_normed", Text("the normed heads of q", "归一化后 q 的各个头"), after or ("q",), q)
    yield Step("k_normed", Text("the normed heads of k", "归一化后 k 的各个头"), after or ("k",), k)


def rotated(q: Tensor, k: Tensor) -> Steps:
    """Queries and keys at their positions."""
    yield Step("q_rotated", Text("q after the rotation", "旋转后的 q"), ("q_normed",), q)
    yield Step("k_rotated", Text("k after the rotation", "旋转后的 k"), ("k_normed",), k)


def gathered(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor | None,
    *after: str,
    tokens_first: bool = False,
) -> Generator[Step, None, Tensor]:
    """From queries and keys to the weighted sums of the values, which are returned, too.

    Args:
        q: ``[..., T, head_dim]``.
        k: ``[..., keys, head_dim]``, with as many heads as ``q``.
        v: like ``k``.
        seen: bool, broadcastable to ``[..., T, keys]``; None means everything.
        after: the stages of ``q``, ``k`` and ``v``, as far as there are any.
        tokens_first: whether the sums are ``[..., T, heads, head_dim]``.
    """
    products = q @ k.transpose(-1, -2)
    scores = products * q.shape[-1] ** -0.5
    name = Text("the products of q and k", "q 与 k 的乘积")
    # Whoever scales q, or k, or both a little, never sees the products alone.
    yield Step("products", name, after[:2], products, scores)
    yield Step("scores", Text("the scaled scores", "缩放后的分数"), ("products",), scores)
    hidden = torch.zeros(1, dtype=torch.bool) if seen is None else ~seen
    # Where nothing is seen, the weights are 0.
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1).nan_to_num(0.0)
    name = Text("the attention weights (mask and softmax)", "注意力权重（掩码与 softmax）")
    yield Step("weights", name, ("scores",), weights)
    name = Text("the weighted sums of the values", "value 的加权和")
    mixed = (weights @ v).transpose(-2, -3) if tokens_first else weights @ v
    yield Step("mixed", name, ("weights", *after[2:]), mixed)
    return mixed


def joined(merged: Tensor, name: str, weight: Tensor, *after: str) -> Steps:
    """The heads of each token side by side ``[..., T, heads * head_dim]``, and the last projection.

    ``name`` and ``weight`` are those of the projection; ``after`` is what the heads are made from.
    """
    words = Text("the heads joined side by side", "并排合并后的各个头")
    yield Step("merged", words, after, merged, ordered=True)
    yield output_of(name, linear(merged, weight), "out", "merged", ordered=True)


def attended(merged: Tensor, weight: Tensor, *after: str) -> Step:
    """The output of attention over sequences of several lengths, which codes make in many ways.

    ``merged`` are the heads of each token side by side, ``weight`` is that of ``o_proj``.
    """
    words = Text("the output, by attention and o_proj", "由注意力与 o_proj 得到的输出")
    return Step("out", words, after, linear(merged, weight))


def gated(gate: Tensor, up: Tensor, down: Tensor, *after: str) -> Steps:
    """From the outputs of gate and up ``[..., inner]`` to that of ``down`` ``[hidden, inner]``.

    ``after``: the stages of gate and up.
    """
    words = Text("SiLU of the gate", "门经过 SiLU 的结果")
    yield Step("active", words, after[:1], F.silu(gate))
    product = F.silu(gate) * up
    words = Text("the gate times up", "门与 up 的乘积")
    yield Step("product", words, ("active", *after[1:]), product)
    yield output_of("down_proj", linear(product, down), "out", "product", ordered=True)


def mlp(weights: Weights, x: Tensor) -> Steps:
    """The gated MLP on ``x`` ``[..., hidden]``."""
    gate, up = (linear(x, weights[f"{name}_proj.weight"]) for name in ("gate", "up"))
    yield output_of("gate_proj", gate, "gate")
    yield output_of("up_proj", up, "up")
    yield from gated(gate, up, weights["down_proj.weight"], "gate", "up")
