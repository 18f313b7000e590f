"""The stages of a decoder layer: up to where a student's numbers are those of the reference."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from autograder.authoring.fingerprints import Step, Steps
from autograder.course.records import Text
from autograder.reference.cases import Case
from labs.given.config import Qwen3Config
from solutions.reference import oracle
from solutions.reference.oracle_model import STAND_IN, under


def layer(case: Case, given: Mapping[str, Tensor]) -> Steps:
    """The stages on ``x`` ``[B, T, hidden]``, with stand-ins for attention and MLP."""
    config, x = Qwen3Config(**case.config), given["x"].double()
    weights = {name: given[name] for name in case.weights}
    eps, positions = config.rms_norm_eps, given["positions"]
    normed = oracle.rms_norm(x, weights["input_layernorm.weight"], eps)
    words = Text("the output of input_layernorm", "input_layernorm 的输出")
    yield Step("normed", words, (), normed)
    own = under(weights, "self_attn.")
    attended = STAND_IN.attention(config, own, normed, None, positions, case["layer"])
    yield Step(
        "attended", Text("the output of self_attn", "self_attn 的输出"), ("normed",), attended
    )
    x = x + attended
    words = Text("the input plus attention's output", "输入加上注意力的输出")
    yield Step("between", words, ("attended",), x)
    normed = oracle.rms_norm(x, weights["post_attention_layernorm.weight"], eps)
    words = Text("the output of post_attention_layernorm", "post_attention_layernorm 的输出")
    yield Step("normed_again", words, ("between",), normed)
    made = STAND_IN.mlp(config, under(weights, "mlp."), normed)
    yield Step("made", Text("the output of mlp", "mlp 的输出"), ("normed_again",), made)
    words = Text("that sum plus the output of mlp", "这个和再加上 mlp 的输出")
    yield Step("out", words, ("between", "made"), x + made, ordered=True)


# Exercise -> the check whose call is followed, and how its stages are computed.
STAGES = {
    "lab4.decoder_layer": ("test_layer_parity", layer),
}
