"""Checks of ``load_weights``: which parameter is given which tensor, and how."""

from __future__ import annotations

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    Result,
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_keys,
    expect_unchanged,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from labs.lab5_tensor_parallel.checks.calls import expect_unknown

LOAD = "mlp.load_weights"
NOTES = Text("what the parameters received", "各参数收到的内容")


@checks("""
    test_load_packed: load_packed load_bare
        Packed weights reach the loader of their module, with their shard id.
        打包的权重连同 shard_id 交给所属模块的 loader。

    test_load_rows: load_rows
        A loader without parts is called with two arguments.
        不分部分的 loader 以两个参数调用。

    test_load_layers: load_layers
        Two layers at once: everything lands in its own.
        同时加载两层：每个张量都到自己的层。
    """)
def _expect_loaded(student: Student, case: Case) -> None:
    """Every loader is called with its part, every other parameter is filled."""
    model = student.new("labs.given.flat.StandInModel", case["shapes"], case["packed"])
    student.call(LOAD, model, case.group("hf."))
    _expect_found(student.call(model), case)


def _expect_found(found: Result, case: Case, en: str = "", zh: str = "") -> None:
    want = case.group("want.")
    got = expect_keys(found, sorted(want), case, NOTES)
    for name, tensor in want.items():
        what = Text(f"what was loaded as {name}{en}", f"作为 {name} 加载的内容{zh}")
        expect_close(got[name], tensor, case, what)


@cases("load_plain")
def test_load_plain(student: Student, case: Case) -> None:
    """What has no loader is copied, under its own name: the checkpoint may change afterwards.

    没有 loader 的参数按原名直接复制：之后检查点可以改变。
    """
    model = student.new("labs.given.flat.StandInModel", case["shapes"], case["packed"])
    given = {name: student.new("torch.clone", one) for name, one in case.group("hf.").items()}
    student.call(LOAD, model, given)
    found = student.call(model)
    for tensor in given.values():
        student.call(tensor, method="zero_")
    after = student.call(model)
    _expect_found(found, case)
    _expect_found(after, case, ", once the checkpoint's tensor was set to 0", "（检查点随后置零）")


@cases("load_plain")
def test_load_unknown(student: Student, case: Case) -> None:
    """A tensor that no parameter takes raises KeyError with its name in the checkpoint.

    没有参数可接收的张量应引发 KeyError，并给出它在检查点中的名称。
    """
    model = student.new("labs.given.flat.StandInModel", case["shapes"], case["packed"])
    tensor = next(iter(case.group("hf.").values()))
    names = (
        "layers.3.mlp.scale_proj.weight", "layers.3.self_attn.q_proj.weight",
        "layers.3.self_attn.q_norm.bias", "layers.3.self_attn.rotary_emb.inv_freq",
    )  # fmt: skip
    for name in names:
        expect_unknown(student.call(LOAD, model, {name: tensor}), name, case)


@cases("load_layers")
def test_load_pure(student: Student, case: Case) -> None:
    """The tensors and their dict are left as they were, and so is the dtype of a parameter.

    传入的张量与 dict 保持原样，参数的数据类型也不变。
    """
    sizes, given = (case["shapes"], case["packed"]), case.group("hf.")
    narrow = student.new("labs.given.flat.StandInModel", *sizes, dtype="bfloat16")
    student.call(LOAD, narrow, given)
    plain = sorted(set(case["shapes"]) - set(case["packed"]))
    found = expect_keys(student.call(narrow), plain, case, NOTES)
    for name in plain:
        expect_dtype(found[name], "bfloat16", case, Text(name, f"参数 {name}"))
    model = student.new("labs.given.flat.StandInModel", *sizes)
    called = student.call(LOAD, model, given, echo=True)
    _, args, _ = expect_items(called, 3, case)
    after = args[1] if isinstance(args[1], dict) else {}
    for name, tensor in given.items():
        what = Text(f"the tensor {name}", f"张量 {name}")
        expect_unchanged(after.get(name), tensor, case, what)
