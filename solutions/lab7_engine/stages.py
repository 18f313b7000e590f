"""The stages of attention on block tables: up to where numbers are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from autograder.authoring.fingerprints import Steps
from autograder.reference.cases import Case
from labs.given.config import Qwen3Config
from solutions.reference import oracle, oracle_parallel, stages


def attention(case: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages of one call with whole prompts side by side, all but those of a single prompt."""
    config = Qwen3Config(**case.config)
    eps, size, theta = config.rms_norm_eps, config.head_dim, config.rope_theta
    lengths = case["calls"][0]
    x, positions = (torch.cat([given[f"{name}.{i}"] for i in range(len(lengths))]) for name in "xp")
    q, k, v = (stages.linear(x, given[f"{name}_proj.weight"]) for name in "qkv")
    for name, tensor in zip("qkv", (q, k, v), strict=True):
        yield stages.output_of(f"{name}_proj", tensor, name)
    q, k, v = (t.view(len(x), -1, size) for t in (q, k, v))  # [tokens, heads, head_dim]
    q = oracle.rms_norm(q, given["q_norm.weight"], eps)
    k = oracle.rms_norm(k, given["k_norm.weight"], eps)
    yield from stages.normed(q, k)
    q, k = (oracle_parallel.rotate(t, positions, theta) for t in (q, k))
    yield from stages.rotated(q, k)
    borders = torch.tensor([0, *lengths]).cumsum(0)
    merged = oracle_parallel.flat_attention(q, k, v, borders).flatten(1)
    after = "q_rotated", "k_rotated", "v"
    yield stages.attended(merged, given["o_proj.weight"], *after)


# Exercise -> the check whose call is followed, and how its stages are computed.
STAGES = {
    "lab7.attention": ("test_attention_prompts", attention),
}
