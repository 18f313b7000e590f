"""The stages of attention over flat tokens: up to where numbers are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from autograder.authoring.fingerprints import Steps
from autograder.reference.cases import Case
from labs.given.config import Qwen3Config
from solutions.reference import oracle, oracle_parallel, stages


def flat_attention(_: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages for a single sequence ``[T, heads, head_dim]`` with one kv head."""
    q, k, v = (given[name].double().transpose(0, 1) for name in "qkv")  # [heads, T, head_dim]
    k, v = k.expand_as(q), v.expand_as(q)
    seen = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril()
    yield from stages.gathered(q, k, v, seen)


def attention(case: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages on ``x`` ``[tokens, hidden]``, all that is no matter of a single sequence."""
    config, x = Qwen3Config(**case.config), given["x"]
    eps, size = config.rms_norm_eps, config.head_dim
    widths = [n * size for n in (config.num_attention_heads, *[config.num_key_value_heads] * 2)]
    packed = stages.linear(x, given["qkv_proj.weight"])
    yield stages.output_of("qkv_proj", packed, "packed")
    q, k, v = (t.reshape(len(x), -1, size) for t in torch.split(packed, widths, dim=-1))
    q = oracle.rms_norm(q, given["q_norm.weight"], eps)  # [tokens, heads, head_dim]
    k = oracle.rms_norm(k, given["k_norm.weight"], eps)
    yield from stages.normed(q, k, "packed")
    q, k = (oracle_parallel.rotate(t, given["positions"], config.rope_theta) for t in (q, k))
    yield from stages.rotated(q, k)
    merged = oracle_parallel.flat_attention(q, k, v, given["cu"]).flatten(1)
    after = "q_rotated", "k_rotated"
    yield stages.attended(merged, given["o_proj.weight"], *after)


# Exercise -> the check whose call is followed, and how its stages are computed.
STAGES = {
    "lab5.flat_attention": ("test_flat_one", flat_attention),
    "lab5.attention": ("test_attention_parity", attention),
}
