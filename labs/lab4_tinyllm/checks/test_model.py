"""Checks of ``Qwen3Model`` and ``Qwen3ForCausalLM``, built from stand-ins."""

from __future__ import annotations

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    config,
    expect_close,
    expect_dtype,
    expect_items,
    expect_same,
    expect_shape,
    expect_unchanged,
    expect_value,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab4_tinyllm.checks.calls import (
    LOGITS,
    STAND_INS,
    expect_pieces,
    kept,
    like,
    model_of,
)

MODEL, CAUSAL_LM = "Qwen3Model", "Qwen3ForCausalLM"
COUNT = "labs.given.standin.parameter_count"


def _given(case: Case) -> dict[str, Tensor]:
    """The mask and the positions of the case, if it has any."""
    names = {"attention_mask": "keep", "position_ids": "positions"}
    return {name: case[own] for name, own in names.items() if own in case.tensors}


@checks("""
    test_model_ends: model_empty
        Without any layer: the embedding, normed once.
        没有任何层时：词嵌入经过一次归一化。

    test_model_eps: model_eps
        eps of the config reaches every norm.
        配置中的 eps 用于每个归一化。

    test_model_padded: model_padded
        Padded rows: padding is hidden and not counted.
        有填充的各行：填充被屏蔽，也不计入位置。

    test_model_positions: model_positions model_positions_padded
        Given positions are used, with a mask and with a cache, too.
        使用传入的位置；同时传入掩码或缓存时也一样。
    """)
def _expect_states(student: Student, case: Case) -> None:
    result = model_of(student, case, MODEL)(case["ids"], **_given(case))
    expect_close(result, case["y"], case, keep=kept(case))
    if "positions" in case.tensors and "pieces" in case.values:
        expect_pieces(student, model_of(student, case, MODEL), case)


@checks("""
    test_lm_untied: lm_untied
        The logits of an untied head are right.
        不共享输出头时，logits 正确。

    test_lm_tied: lm_tied
        The logits of a tied head are right.
        共享输出头时，logits 正确。
    """)
def _expect_logits(student: Student, case: Case) -> None:
    result = model_of(student, case, CAUSAL_LM)(case["ids"], **_given(case))
    expect_close(result, case["y"], case, LOGITS, keep=kept(case))


@cases("model_core")
def test_model_runs(student: Student, case: Case) -> None:
    """It runs and gives [B, T, hidden].

    能运行，得到 [B, T, hidden]。
    """
    model = student.new("model.Qwen3Model", config(case.config), *STAND_INS)
    expect_shape(model(case["ids"]), case["y"].shape, case)


@cases("model_core")
def test_model_loads(student: Student, case: Case) -> None:
    """embed_tokens, layers and norm load by name, none missing and none left over.

    embed_tokens、layers 与 norm 按名称加载，不缺少也不多余。
    """
    expect_shape(model_of(student, case, MODEL)(case["ids"]), case["y"].shape, case)


@cases("model_core")
def test_model_hidden_states(student: Student, case: Case) -> None:
    """The embedding unscaled, then layers with weights of their own: right after one, two, and all.

    词嵌入不缩放，每层用自己的权重：经过一层、两层直到全部各层之后，隐藏状态均正确。
    """
    for depth in range(1, case.config["num_hidden_layers"] + 1):
        made = config(dict(case.config) | {"num_hidden_layers": depth})
        weights = {
            name: tensor
            for name, tensor in case.weights.items()
            if not name.startswith("layers.") or int(name.split(".")[1]) < depth
        }
        model = student.new("model.Qwen3Model", made, *STAND_INS, weights=weights)
        what = Text(f"the hidden states after layer {depth}", f"第 {depth} 层之后的隐藏状态")
        expect_close(model(case["ids"]), case[f"y{depth}"], case, what)


@checks("""
    test_model_cache: model_pieces
        In pieces with a cache as all at once: positions are the same in all layers, keys are not.
        用缓存分段输入与一次输入结果相同：各层的位置相同，键与值各存各的。

    test_model_cache_padded: model_padded
        Padded rows in pieces: the mask covers what is cached, too.
        有填充的各行分段输入：掩码也覆盖缓存中的 token。
    """)
def _expect_in_pieces(student: Student, case: Case) -> None:
    expect_pieces(student, model_of(student, case, MODEL), case)


@cases("model_core", "model_positions_padded")
def test_model_pure(student: Student, case: Case) -> None:
    """It leaves ids, mask and positions alone, and keeps nothing of an earlier call.

    不修改 token 编号、掩码与位置，也不保留上一次调用的任何内容。
    """
    model, given = model_of(student, case, MODEL), _given(case)
    if given:
        nothing = like(case["keep"], np.ones_like(case["keep"].array))
        model(case["ids"], attention_mask=nothing)
    result = model(case["ids"], **given, echo=True)
    value, args, kwargs = expect_items(result, 3, case)
    expect_unchanged(args[0], case["ids"], case, Text("input_ids", "input_ids"))
    for name, before in given.items():
        expect_unchanged(kwargs[name], before, case, Text(name, name))
    fresh = model_of(student, case, MODEL)(case["ids"], **given)
    why = Text("nothing may be left over from the first call.", "第一次调用不应留下任何影响。")
    expect_same(value, fresh, case, why)


@cases("lm_untied")
def test_lm_runs(student: Student, case: Case) -> None:
    """It runs and gives [B, T, vocab].

    能运行，得到 [B, T, vocab]。
    """
    model = student.new("model.Qwen3ForCausalLM", config(case.config), *STAND_INS)
    expect_shape(model(case["ids"]), case["y"].shape, case)


@cases("lm_untied", "lm_tied")
def test_lm_loads(student: Student, case: Case) -> None:
    """model and lm_head load by name, tied or not.

    model 与 lm_head 按名称加载，无论输出头是否共享。
    """
    expect_shape(model_of(student, case, CAUSAL_LM)(case["ids"]), case["y"].shape, case)


@cases("lm_untied", "lm_tied")
def test_lm_parameters(student: Student, case: Case) -> None:
    """As many parameters as in Hugging Face: a tied head adds none.

    参数量与 Hugging Face 相同：共享的输出头不增加参数。
    """
    model = student.new("model.Qwen3ForCausalLM", config(case.config), *STAND_INS)
    what = Text("the number of parameters", "参数量")
    expect_value(student.call(COUNT, model), case["parameters"], case, what)


@cases("lm_padded", "lm_positions")
def test_lm_padded(student: Student, case: Case) -> None:
    """Mask, positions and cache reach the model: padded rows need all three.

    掩码、位置与缓存都传到模型：有填充的各行三者都需要。
    """
    _expect_logits(student, case)
    if "pieces" in case.values:
        expect_pieces(student, model_of(student, case, CAUSAL_LM), case)


@cases("lm_bfloat16")
def test_lm_bfloat16(student: Student, case: Case) -> None:
    """A model in bfloat16 gives bfloat16, with padding, too: its mask is bfloat16, then.

    bfloat16 的模型输出 bfloat16，有填充时也一样：这时掩码也是 bfloat16。
    """
    result = model_of(student, case, CAUSAL_LM)(case["ids"], attention_mask=case["keep"])
    expect_dtype(result, "bfloat16", case, LOGITS)
    expect_close(result, case["y"], case, LOGITS, keep=kept(case))
