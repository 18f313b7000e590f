"""Checks of ``Qwen3Model`` and ``Qwen3ForCausalLM``: of stand-ins, and of your own parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    config,
    expect_close,
    expect_collectives,
    expect_dtype,
    expect_error,
    expect_items,
    expect_keys,
    expect_shape,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.ranks import Group, RankHandle
from autograder.sandbox.student import Folder, Handle, Named, Student
from autograder.wire.messages import Tensor
from labs.lab5_tensor_parallel.checks.calls import about, expect_kept, expect_unknown, spaced

MODEL, CAUSAL_LM = "model.Qwen3Model", "model.Qwen3ForCausalLM"
GIVEN = "labs.given.parallel"
STAND_INS = tuple(
    Named(f"{GIVEN}.StandIn{name}")
    for name in ("Qwen3Attention", "Row", "Qwen3MLP", "Qwen3DecoderLayer", "Norm")
)
OWN = (
    Named("attention.Qwen3Attention"), Named("attention.RowParallelLinear"),
    Named("mlp.Qwen3MLP"), Named("mlp.Qwen3DecoderLayer"), Named("mlp.RMSNorm"),
)  # fmt: skip
SILENT = (*STAND_INS[:3], *OWN[3:])  # your layers, around what makes no collective call
STATES = Text("the hidden states", "隐藏状态")
LOGITS = Text("the logits", "logits")
HELD = Text("lm_head.weight after loading", "lm_head.weight（加载后）")
PARAMETERS = Text("the model's parameters", "模型的参数")


def _at(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    return case["ids"], case["positions"], case["cu"]


def _standing(
    student: Student,
    case: Case,
    path: str,
    *,
    weights: Mapping[str, Tensor] | None = None,
    made: Mapping[str, Any] | None = None,
) -> Handle:
    """The student's model, made of stand-ins."""
    parts = student.new(f"{GIVEN}.Parts", *STAND_INS)
    scaling = case.values.get("scaling")
    more = () if scaling is None else (scaling,)
    return student.new(
        path, config(made or case.config), parts, *more,
        weights=weights, dtype=case.values.get("dtype", "float32"),
    )  # fmt: skip


def _model_weights(case: Case, depth: int) -> dict[str, Tensor]:
    """What ``Qwen3Model`` holds: its first layers, and what is around them."""
    found = {}
    for name, tensor in case.weights.items():
        own = name.removeprefix("model.")
        deeper = own.startswith("layers.") and int(own.split(".")[1]) >= depth
        if own != name and not deeper:
            found[own] = tensor
    return found


def _deep(student: Student, case: Case, depth: int) -> Handle:
    made = dict(case.config) | {"num_hidden_layers": depth}
    return _standing(student, case, MODEL, weights=_model_weights(case, depth), made=made)


def _depth(case: Case) -> int:
    depth: int = case.config["num_hidden_layers"]
    return depth


@cases("model_core")
def test_model_runs(student: Student, case: Case) -> None:
    """It runs and gives [tokens, hidden_size].

    能运行，得到 [tokens, hidden_size]。
    """
    expect_shape(_standing(student, case, MODEL)(*_at(case)), case["y0"].shape, case)


@cases("model_core")
def test_model_loads(student: Student, case: Case) -> None:
    """embed_tokens, layers and norm load by name, none missing and none left over.

    embed_tokens、layers 与 norm 按名称加载，不缺少也不多余。
    """
    expect_shape(_deep(student, case, _depth(case))(*_at(case)), case["y0"].shape, case)


@cases("model_core")
def test_model_layers(student: Student, case: Case) -> None:
    """Without layers, after one, two and all of them, the last norm gives the right numbers.

    没有层、经过一层、两层直到全部层，最后的归一化给出的数值都正确。
    """
    for depth in range(_depth(case) + 1):
        layers = "1 layer" if depth == 1 else f"{depth} layers"
        what = Text(f"the hidden states after {layers}", f"经过 {depth} 层之后的隐藏状态")
        expect_close(_deep(student, case, depth)(*_at(case)), case[f"y{depth}"], case, what)


@cases("model_scaled")
def test_model_scaled(student: Student, case: Case) -> None:
    """rope_scaling reaches the attention of every layer, as a RotaryEmbedding.

    rope_scaling 以 RotaryEmbedding 的形式传到每一层的注意力。
    """
    depth = _depth(case)
    expect_close(_deep(student, case, depth)(*_at(case)), case[f"y{depth}"], case, STATES)


def _lm(student: Student, case: Case) -> Handle:
    return _standing(student, case, CAUSAL_LM, weights=case.weights)


def _last(case: Case) -> Tensor:
    last: Tensor = case[f"y{_depth(case)}"]
    return last


@cases("lm_untied")
def test_lm_runs(student: Student, case: Case) -> None:
    """It can be built, and it contains an embedding.

    模型能够创建，其中有词嵌入。
    """
    found = student.call(f"{GIVEN}.parameters_of", _standing(student, case, CAUSAL_LM))
    expect_keys(found, ["model.embed_tokens.weight"], case, PARAMETERS)


@cases("lm_untied", "lm_tied")
def test_lm_loads(student: Student, case: Case) -> None:
    """model and lm_head load by name, tied or not.

    model 与 lm_head 按名称加载，无论输出头是否共享。
    """
    expect_shape(_lm(student, case)(*_at(case)), _last(case).shape, case, STATES)


@cases("lm_untied", "lm_bfloat16")
def test_lm_states(student: Student, case: Case) -> None:
    """forward gives the normed hidden states of all tokens, in the dtype of the weights.

    forward 给出所有 token 归一化后的隐藏状态，数据类型与权重相同。
    """
    states = _lm(student, case)(*_at(case))
    expect_dtype(states, case.values["dtype"], case, STATES)
    if case.recipe != "lm_bfloat16":  # whose numbers compute_logits is given below
        expect_close(states, _last(case), case, STATES)


@cases("lm_scored", "lm_tied", "lm_bfloat16")
def test_lm_logits(student: Student, case: Case) -> None:
    """compute_logits scores with a head of its own, or with the embedding where that is tied.

    compute_logits 用独立的输出头打分；共享时用词嵌入打分。
    """
    given = _last(case), case["cu"]
    logits = student.call(_lm(student, case), *given, method="compute_logits")
    expect_dtype(logits, case.values["dtype"], case, LOGITS)
    expect_close(logits, case["logits"], case, LOGITS)


@cases("lm_untied", "lm_tied", "lm_bfloat16")
def test_lm_one_parameter(student: Student, case: Case) -> None:
    """Tied, head and embedding are one parameter, in bfloat16, too; untied they are two.

    共享时输出头与词嵌入是同一个参数，转为 bfloat16 之后也是；不共享时是两个。
    """
    model = _standing(student, case, CAUSAL_LM)
    found = student.call(f"{GIVEN}.parameters_of", model)
    names = sorted(expect_keys(found, [], case, PARAMETERS))
    if names != case["names"]:
        want = Text("lm_head.weight as a parameter of its own", "lm_head.weight 是独立的参数")
        if case.config["tie_word_embeddings"]:
            want = Text("one parameter for head and embedding", "输出头与词嵌入共用一个参数")
        raise reject(", ".join(n for n in names if "lm_head" in n or "embed" in n), want, case)


def _ordered(case: Case) -> dict[str, Tensor]:
    """The checkpoint of a case, in the order that it says."""
    given = case.group("hf.")
    return {name: given[name] for name in case["order"]}


@checks("""
    test_checkpoint_fills: checkpoint_untied checkpoint_tied
        A whole checkpoint: every tensor in its parameter, every part of a packed one in its place.
        整个检查点：每个张量进入对应的参数，打包参数的每一部分都在应在的位置。
    """)
def _expect_loaded(student: Student, case: Case) -> None:
    model = _standing(student, case, CAUSAL_LM)
    student.call(model, _ordered(case), method="load_weights")
    found, want = student.call(f"{GIVEN}.parameters_of", model), case.group("want.")
    got = expect_keys(found, sorted(want), case, PARAMETERS)
    for name, tensor in want.items():
        what = Text(name, f"参数 {name}")
        expect_dtype(got[name], case.values["dtype"], case, what)
        expect_close(got[name], tensor, case, what)


@cases("checkpoint_repeated")
def test_checkpoint_repeated(student: Student, case: Case) -> None:
    """A tied head that is stored anyway is skipped, and stays in the checkpoint.

    共享的输出头在文件中另有一份时，跳过它，且不从检查点中移除。
    """
    _expect_loaded(student, case)
    model = _standing(student, case, CAUSAL_LM)
    called = student.call(model, _ordered(case), method="load_weights", echo=True)
    kept = expect_items(called, 3, case)[1][0]
    what = Text("the names in the checkpoint", "检查点中的名称")
    expect_kept(sorted(kept if isinstance(kept, dict) else ()), sorted(case["order"]), case, what)


@cases("checkpoint_tied")
def test_checkpoint_unknown(student: Student, case: Case) -> None:
    """A tensor that no parameter takes raises KeyError with its name.

    没有参数可接收的张量应引发 KeyError，并给出其名称。
    """
    given = _ordered(case)
    tensor = next(iter(given.values()))
    for name in (
        "model.layers.9.mlp.scale_proj.weight", "model.layers.9.self_attn.q_proj.weight",
        "model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.rotary_emb.inv_freq",
        "layers.0.mlp.down_proj.weight", "lm_head.bias",
    ):  # fmt: skip
        model = _standing(student, case, CAUSAL_LM)
        result = student.call(model, given | {name: tensor}, method="load_weights")
        expect_unknown(result, name, case)


@checks("""
    test_checkpoint_refuses: checkpoint_without_norm checkpoint_without_head
        A parameter that no tensor fills raises ValueError with its name, also in a second loading.
        没有张量填充的参数应引发 ValueError，并给出其名称，第二次加载时也是如此。

    test_checkpoint_part: checkpoint_without_part
        A packed parameter of which a part is missing raises ValueError, too.
        打包参数缺少其中一部分时，也应引发 ValueError。
    """)
def _expect_refused(student: Student, case: Case) -> None:
    absent = sorted(set(case.group("want.")) - set(case["order"]))
    names = [n for n in absent if not n.endswith(("qkv_proj.weight", "gate_up_proj.weight"))]
    name = names[0] if names else "model.layers.0.self_attn.qkv_proj.weight"
    model = _standing(student, case, CAUSAL_LM)
    why = Text(
        "a call that leaves a parameter unfilled must not return as if all were well.",
        "仍有参数未填充时，不应正常返回。",
    )
    result = student.call(model, _ordered(case), method="load_weights")
    expect_error(result, "ValueError", name, case, why)
    student.call(model, case.group("hf."), method="load_weights")
    again = student.call(model, _ordered(case), method="load_weights")
    later = about(
        case,
        f"loaded whole before, now once more; {case.about.en}",
        f"此前已完整加载过一次，再次加载；{case.about.zh}",
    )
    why = Text(
        "every call counts anew, and what an earlier one has filled does not count.",
        "每次调用都从头记录，以前的调用填充过的不算。",
    )
    expect_error(again, "ValueError", name, later, why)


# Whole, of the student's own parts, on ranks.


def _whole(group: Group, case: Case) -> RankHandle:
    parts = group.new(f"{GIVEN}.Parts", *OWN)
    scaling = case["scaling"]
    more = () if scaling is None else (scaling,)
    if "folder" in case.values:
        folder = Folder(case["folder"])
        return group.new(f"{GIVEN}.loaded", Named(CAUSAL_LM), folder, parts, *more)
    model = group.new(CAUSAL_LM, config(case.config), parts, *more)
    group.call(model, case.group("hf."), method="load_weights")
    return model


@checks("""
    test_engine_ranks: engine engine_tied
        Your whole model on 1, 2 and 4 ranks: Hugging Face's numbers, from shares of the head.
        你的整个模型在 1、2、4 个 rank 上：数值与 Hugging Face 一致，每个 rank 只持有输出头的一份。

    test_engine_scaled: engine_scaled
        With rope_scaling, too, states and logits are those of Hugging Face.
        带 rope_scaling 时，隐藏状态与 logits 也与 Hugging Face 一致。

    test_engine_checkpoint: engine_checkpoint
        The trained checkpoint gives Hugging Face's numbers, with heads of zeros where needed.
        训练好的检查点也与 Hugging Face 一致；rank 需要时补上全零的头。
    """)
def _expect_engine(student: Student, case: Case) -> None:
    for world in case["ranks"]:
        group = student.ranks(world)
        model = _whole(group, case)
        states = group.call(model, *_at(case))
        logits = group.call(model, case["y"], case["cu"], method="compute_logits")
        for rank in range(world):
            expect_close(states[rank], case["y"], case, _where(rank, world, STATES))
            expect_close(logits[rank], case["logits"], case, _where(rank, world, LOGITS))
        if "folder" not in case.values:
            _expect_share(group, model, case)


def _expect_share(group: Group, model: RankHandle, case: Case) -> None:
    """As many rows of the head on every rank as its constructor has made, and no more."""
    weights = group.get(group.new("builtins.getattr", model, "lm_head"), "weight")
    rows = -(-case.config["vocab_size"] // group.world)
    for rank, weight in enumerate(weights):
        where = _where(rank, group.world, HELD)
        expect_shape(weight, (rows, case.config["hidden_size"]), case, where)


def _where(rank: int, world: int, what: Text) -> Text:
    where = f"rank {rank}（共 {world} 个）上的"
    return Text(f"{what.en} on rank {rank} of {world}", where + spaced(what.zh))


@cases("model_core")
def test_engine_collectives(student: Student, case: Case) -> None:
    """Model and layers make no collective calls of their own: only embedding and head make one.

    模型与各层自己不做集合通信，只有词嵌入与输出头各做一次。
    """
    group = student.ranks(2)
    model = group.new(CAUSAL_LM, config(case.config), group.new(f"{GIVEN}.Parts", *SILENT))
    inner, head = (group.new("builtins.getattr", model, name) for name in ("model", "lm_head"))
    embedding = group.new("builtins.getattr", inner, "embed_tokens")
    for module in (embedding, head):  # what a weight holds at first may be anything
        group.call(group.new("builtins.getattr", module, "weight"), 1.0, method="fill_")
    ones = Tensor.of(np.ones(case["y0"].shape, np.float32)), case["cu"]
    looked_up = group.call(embedding, case["ids"], counted=True)
    states = group.call(model, *_at(case), counted=True)
    scored = group.call(head, *ones, counted=True)
    logits = group.call(model, *ones, method="compute_logits", counted=True)
    why = Text(
        "attention and MLP are stand-ins here, which make none: only the embedding's are left.",
        "注意力与 MLP 在这里由替身代替，不做集合通信，只剩下词嵌入的。",
    )
    expect_collectives(states, len(looked_up.calls), case, why)
    for rank, one in enumerate(states):
        expect_shape(one, case["y0"].shape, case, _where(rank, group.world, STATES))
    why = Text("only the head's are left.", "只剩下输出头的。")
    expect_collectives(logits, len(scored.calls), case, why)
