"""Checks of the student's own attention and MLP: as in lab 2, with a cache, in the whole."""

from __future__ import annotations

from typing import Any

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    NotCounted,
    cases,
    config,
    expect_close,
    expect_dtype,
    expect_items,
    expect_most,
    expect_same,
    expect_shape,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.links import StudentError
from autograder.sandbox.student import Folder, Handle, Result, Student
from labs.lab4_tinyllm.checks.calls import (
    CACHE,
    LOGITS,
    OWN,
    PIECES,
    attention_of,
    bounds,
    expect_pieces,
    joined,
    kept,
    like,
    model_of,
    without_past,
)

PROJECTIONS = ("q_proj", "k_proj", "v_proj")
NOT_CAUSAL = Text(
    "a query sees all cached keys, itself, and nothing after it.",
    "查询可以看到缓存中的全部键与自己，看不到之后的键。",
)


def _mlp(student: Student, case: Case) -> Handle:
    return student.new("mlp.Qwen3MLP", config(case.config), weights=case.weights)


def _pieces(
    student: Student, case: Case, *, mask: bool = True, positions: bool = True, first: bool = True
) -> list[Result]:
    """The student's answers piece by piece, with what is given of mask and positions.

    Unless this layer is the first with its cache, layer 0 is given every piece before it.
    """
    attention, cache, x = attention_of(student, case), student.new(CACHE), case["x"]
    layers = [attention] if first else [attention_of(student, case, 0), attention]
    found = []
    for begin, end in bounds(case["pieces"]):
        given: dict[str, Any] = {"past": cache}
        if mask:
            rows = case["mask"].array[..., begin:end, :end]
            given["attention_mask"] = like(case["mask"], rows)
        if positions:
            at = case["positions"]
            given["position_ids"] = like(at, at.array[..., begin:end])
        found.append([layer(like(x, x.array[:, begin:end]), **given) for layer in layers][-1])
    return found


@checks("""
    test_past_pieces: own_attention
        With masks and positions given, pieces give the same as all at once.
        给定掩码与位置时，分段输入与一次输入结果相同。

    test_past_padded: own_attention_padded
        Padded rows, token by token at the end: given positions are used, keys keep their rotation.
        有填充的各行，最后逐个输入 token：使用给定的位置，键保持各自的旋转。
    """)
def _expect_pieces(student: Student, case: Case, **given: bool) -> None:
    """In pieces as at once by the same code: what lab 2 got wrong costs nothing here."""
    places = {"position_ids": case["positions"]} if given.get("positions", True) else {}
    at_once = attention_of(student, case)(case["x"], attention_mask=case["mask"], **places)
    batch, _, hidden = case["x"].shape
    results = _pieces(student, case, **given)
    expect_shape(at_once, case["x"].shape, case)
    expect_same(joined(results, case, hidden, batch), at_once, case, PIECES)


@cases("own_attention")
def test_attention_runs(student: Student, case: Case) -> None:
    """Your attention of lab 2 runs.

    实验 2 的注意力能运行。
    """
    # Written down here, so that a forbidden function is seen however it was reached.
    result = attention_of(student, case)(case["x"], operators=True)
    expect_shape(result, case["x"].shape, case)


@cases("own_attention", "own_attention_rows", "own_attention_bfloat16")
def test_attention_parity(student: Student, case: Case) -> None:
    """Without a cache the numbers are still those of Hugging Face.

    没有缓存时，数值仍与 Hugging Face 一致。
    """
    attention, given = attention_of(student, case), {}
    if "rows" in case.tensors:
        given = {"position_ids": case["rows"], "attention_mask": case["mask"]}
        attention(case["x"])  # at other positions: nothing of it may be left over
    result, _, kwargs = expect_items(attention(case["x"], **given, echo=True), 3, case)
    expect_dtype(result, case["x"].dtype, case)
    expect_close(result, case["y"], case)
    for name, before in given.items():
        expect_unchanged(kwargs[name], before, case, Text(name, name))


@cases("own_mlp")
def test_mlp_runs(student: Student, case: Case) -> None:
    """Your MLP of lab 2 runs.

    实验 2 的 MLP 能运行。
    """
    expect_shape(_mlp(student, case)(case["x"]), case["x"].shape, case)


@cases("own_mlp")
def test_mlp_parity(student: Student, case: Case) -> None:
    """The numbers are those of Hugging Face.

    数值与 Hugging Face 一致。
    """
    expect_close(_mlp(student, case)(case["x"]), case["y"], case)


@cases("own_attention")
def test_past_runs(student: Student, case: Case) -> None:
    """forward takes a cache and gives as many tokens as came in.

    forward 接受缓存，输出的 token 数与输入相同。
    """
    batch, _, hidden = case["x"].shape
    results = _pieces(student, case, mask=False, positions=False)
    try:
        joined(results, case, hidden, batch)
    except StudentError as error:
        raise without_past(error) from None


@cases("own_attention")
def test_past_positions(student: Student, case: Case) -> None:
    """Without positions, counting goes on from what the cache holds of this layer.

    没有给定位置时，从缓存中本层已有的 token 数继续计数。
    """
    _expect_pieces(student, case, positions=False, first=False)


@cases("own_attention_uniform")
def test_past_causal(student: Student, case: Case) -> None:
    """Without a mask a piece is causal, and sees all that is cached.

    没有给定掩码时，一段输入满足因果性，并能看到缓存中的全部 token。
    """
    batch, _, hidden = case["x"].shape
    results = _pieces(student, case, mask=False, positions=False)
    whole = attention_of(student, case)(case["x"])
    expect_shape(whole, case["x"].shape, case)
    got = joined(results, case, hidden, batch)
    expect_same(got, whole, case, NOT_CAUSAL)


@cases("own_attention")
def test_past_rows(student: Student, case: Case) -> None:
    """Only new tokens enter the projections.

    只有新的 token 进入投影。
    """
    attention, cache, x = attention_of(student, case), student.new(CACHE), case["x"]
    batch = x.shape[0]
    counted = []
    for first, end in bounds(case["pieces"]):
        piece = like(x, x.array[:, first:end])
        result = attention(piece, past=cache, count=PROJECTIONS)
        counted.append((end - first, expect_items(result, 2, case)[1]))
    why = Text(
        "keys and values of earlier tokens are in the cache.", "之前 token 的键与值已在缓存中。"
    )
    for tokens, rows in counted:
        for name in PROJECTIONS:
            what = Text(f"rows that enter {name}", f"进入 {name} 的行数")
            if not rows.get(name):
                raise NotCounted(what)
            expect_most(rows[name], batch * tokens, case, what, why)


@cases("own_attention", "own_attention_bfloat16")
def test_past_kept(student: Student, case: Case) -> None:
    """The cache holds kv_heads heads (not repeated), under the number of the layer.

    缓存中保存 kv_heads 个头（未重复），存放在本层的编号之下。
    """
    attention, cache = attention_of(student, case), student.new(CACHE)
    attention(case["x"], past=cache)
    batch, tokens, _ = case["x"].shape
    shape = batch, case.config["num_key_value_heads"], tokens, case.config["head_dim"]
    both = student.call("labs.given.standin.cached", cache, case["layer"])
    for part, name in zip(expect_items(both, 2, case), ("keys", "values"), strict=True):
        what = Text(f"the cached {name}", f"缓存中的 {name}")
        expect_shape(part, shape, case, what)
        expect_dtype(part, case["x"].dtype, case, what)


@cases("own_attention")
def test_past_two(student: Student, case: Case) -> None:
    """Two caches do not mix.

    两个缓存互不影响。
    """
    attention, x = attention_of(student, case), case["x"]
    caches = [student.new(CACHE) for _ in range(2)]
    attention(x, past=caches[0])
    second, plain = attention(x, past=caches[1]), attention(x)
    why = Text("what one cache holds is no business of the other.", "一个缓存的内容与另一个无关。")
    expect_shape(plain, x.shape, case)
    expect_same(second, plain, case, why)


@cases("whole_untied")
def test_whole_logits(student: Student, case: Case) -> None:
    """Your model of your own parts has Hugging Face's logits, at once and in pieces.

    由自己的部件组成的模型：一次输入与分段输入的 logits 均与 Hugging Face 一致。
    """
    model = model_of(student, case, "Qwen3ForCausalLM", OWN)
    expect_close(model(case["ids"]), case["y"], case, LOGITS)
    expect_pieces(student, model, case)


@cases("whole_padded")
def test_whole_padded(student: Student, case: Case) -> None:
    """Padded rows: logits of Hugging Face, all at once and in pieces.

    有填充的各行：一次输入与分段输入的 logits 均与 Hugging Face 一致。
    """
    model = model_of(student, case, "Qwen3ForCausalLM", OWN)
    result = model(case["ids"], attention_mask=case["keep"])
    expect_close(result, case["y"], case, LOGITS, keep=kept(case))
    expect_pieces(student, model, case)


@cases("whole_checkpoint")
def test_whole_checkpoint(student: Student, case: Case) -> None:
    """The trained checkpoint: its logits, and the text that follows.

    训练好的检查点：logits 与接下来生成的文本。
    """
    model = student.new("model.load_hf_checkpoint", Folder(case["folder"]), *OWN)
    expect_close(model(case["ids"]), case["y"], case, LOGITS)
    text = student.call("model.generate", model, case["ids"], case["new"])
    expect_close(text, case["text"], case, Text("the text", "生成的文本"))
