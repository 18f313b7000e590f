"""The stages of attention and MLP: up to where a student's numbers are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from autograder.authoring.fingerprints import Steps
from autograder.reference.cases import Case
from labs.given.config import Qwen3Config
from solutions.reference import oracle, stages


def attention(case: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages of causal attention on ``x`` ``[B, T, hidden]`` at positions ``0 … T-1``."""
    config, x = Qwen3Config(**case.config), given["x"]
    batch, seq, _ = x.shape
    eps, size = config.rms_norm_eps, config.head_dim
    group = config.num_attention_heads // config.num_key_value_heads
    q, k, v = (stages.linear(x, given[f"{name}_proj.weight"]) for name in "qkv")
    for name, tensor in zip("qkv", (q, k, v), strict=True):
        yield stages.output_of(f"{name}_proj", tensor, name)

    q, k, v = (t.view(batch, seq, -1, size).transpose(1, 2) for t in (q, k, v))
    q = oracle.rms_norm(q, given["q_norm.weight"], eps)  # [B, heads, T, head_dim]
    k = oracle.rms_norm(k, given["k_norm.weight"], eps)
    yield from stages.normed(q, k)
    tables = oracle.rope_tables(torch.arange(seq), size, config.rope_theta)
    q, k = oracle.rotate(q, *tables), oracle.rotate(k, *tables)
    yield from stages.rotated(q, k)

    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    seen = torch.ones(seq, seq, dtype=torch.bool).tril()
    mixed = yield from stages.gathered(q, k, v, seen, "q_rotated", "k_rotated", "v")
    merged = mixed.transpose(1, 2).reshape(batch, seq, -1)
    yield from stages.joined(merged, "o_proj", given["o_proj.weight"], "mixed")


def mlp(_: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages of the gated MLP on ``x`` ``[..., hidden]``."""
    yield from stages.mlp(given, given["x"])


# Exercise -> the check whose call is followed, and how its stages are computed.
STAGES = {
    "lab2.attention": ("test_attention_parity", attention),
    "lab2.mlp": ("test_mlp_parity", mlp),
}
