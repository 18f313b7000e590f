"""The stages of attention and MLP: up to where a student's numbers are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from autograder.authoring.fingerprints import Steps
from autograder.reference.cases import Case
from solutions.reference import stages


def attention(_: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages of ``softmax(q k^T / sqrt(d)) v``, without a mask."""
    q, k, v = (given[name].double() for name in "qkv")
    yield from stages.gathered(q, k, v, None)


def multi_head(case: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages on ``x`` ``[B, T, hidden]``, with the causal mask of the case."""
    _, heads, size = case["sizes"]
    x, mask = given["x"], given["mask"]
    q, k, v = (stages.linear(x, given[f"{name}_proj.weight"]) for name in "qkv")
    for name, tensor in zip("qkv", (q, k, v), strict=True):
        yield stages.output_of(f"{name}_proj", tensor, name)
    q, k, v = (t.view(*x.shape[:2], heads, size).transpose(1, 2) for t in (q, k, v))
    mixed = yield from stages.gathered(q, k, v, mask, "q", "k", "v")
    merged = mixed.transpose(1, 2).flatten(2)  # [B, T, heads * head_dim]
    yield from stages.joined(merged, "o_proj", given["o_proj.weight"], "mixed")


def feed_forward(_: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages of the gated MLP on ``x`` ``[..., hidden]``."""
    yield from stages.mlp(given, given["x"])


# Exercise -> the check whose call is followed, and how its stages are computed.
STAGES = {
    "lab1.attention": ("test_attention_parity", attention),
    "lab1.multi_head": ("test_multi_head_parity", multi_head),
    "lab1.feed_forward": ("test_feed_forward_parity", feed_forward),
}
