"""The stages of attention: up to where a student's numbers are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from autograder.authoring.fingerprints import Steps
from autograder.reference.cases import Case
from labs.given.config import Qwen3Config
from solutions.reference import interleaved, oracle, stages


def attention(case: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages of causal attention on ``x`` ``[B, T, dim]`` at positions ``0 … T-1``."""
    config, x = Qwen3Config(**case.config), given["x"]
    batch, seq, _ = x.shape
    eps, size = config.rms_norm_eps, config.head_dim
    group = config.num_attention_heads // config.num_key_value_heads
    q, k, v = (stages.linear(x, given[f"w{name}.weight"]) for name in "qkv")
    for name, tensor in zip("qkv", (q, k, v), strict=True):
        yield stages.output_of(f"w{name}", tensor, name)

    q, k, v = (t.view(batch, seq, -1, size) for t in (q, k, v))  # [B, T, heads, head_dim]
    q = oracle.rms_norm(q, given["q_norm.weight"], eps)
    k = oracle.rms_norm(k, given["k_norm.weight"], eps)
    yield from stages.normed(q, k)
    table = interleaved.freqs_cis(torch.arange(seq), size, config.rope_theta)
    q, k = interleaved.rotate(q, table), interleaved.rotate(k, table)
    yield from stages.rotated(q, k)

    k, v = k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    seen = torch.ones(seq, seq, dtype=torch.bool).tril()
    after = "q_rotated", "k_rotated", "v"
    mixed = yield from stages.gathered(q, k, v, seen, *after, tokens_first=True)
    merged = mixed.reshape(batch, seq, -1)
    yield from stages.joined(merged, "wo", given["wo.weight"], "mixed")


# Exercise -> the check whose call is followed, and how its stages are computed.
STAGES = {
    "lab3.attention": ("test_attention_parity", attention),
}
