"""The stages of routing and of an expert: up to where numbers are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from autograder.authoring.fingerprints import Step, Steps
from autograder.course.records import Text
from autograder.reference.cases import Case
from solutions.reference import oracle_moe, stages


def _routed(x: Tensor, weight: Tensor, top_k: int, *, norm: bool) -> Steps:
    """From tokens ``[rows, hidden]`` to the weights of their experts."""
    logits = stages.linear(x, weight)
    yield Step("logits", Text("the logits", "logits"), (), logits)
    words = Text("the softmax over all experts", "对全部专家做 softmax 的结果")
    yield Step("probabilities", words, ("logits",), logits.softmax(-1))
    kept, _ = oracle_moe.route(logits, top_k, norm=False)
    words = Text("the top_k largest probabilities", "最大的 top_k 个概率")
    yield Step("kept", words, ("probabilities",), kept)
    if norm:
        words = Text("the weights that sum to one", "和为一的权重")
        yield Step("weights", words, ("kept",), oracle_moe.route(logits, top_k, norm=True)[0])


def router(case: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages of the router on ``x`` ``[tokens, hidden]``."""
    yield from _routed(given["x"], given["weight"], case["size"][2], norm=case["norm"])


def expert(_: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages of one expert, to which all tokens go, with a weight of one."""
    number = int(given["chosen"].flatten()[0])
    both = stages.linear(given["x"], given["gate_up_proj"][number])
    yield stages.output_of("gate_up_proj", both, "both")
    gate, up = both.chunk(2, dim=-1)
    yield from stages.gated(gate, up, given["down_proj"][number], "both", "both")


def sparse_moe(case: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages of the block on ``x`` ``[B, T, hidden]``, its experts as a whole."""
    flat, top_k, norm = given["x"].flatten(0, 1), case["size"][3], case["norm"]
    yield from _routed(flat, given["gate.weight"], top_k, norm=norm)
    weights = {name: given[name] for name in case.weights}
    out, _ = oracle_moe.sparse_moe(weights, given["x"], top_k, norm=norm)
    words = Text("the sum of the experts", "各专家输出之和")
    yield Step("out", words, ("weights" if norm else "kept",), out, ordered=True)


# Exercise -> the check whose call is followed, and how its stages are computed.
STAGES = {
    "lab6.router": ("test_router_normed", router),
    "lab6.experts": ("test_experts_one", expert),
    "lab6.sparse_moe": ("test_moe_parity", sparse_moe),
}
