"""Checks of ``load_hf_checkpoint``: what is in the model afterwards, whatever it computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    cases,
    expect_close,
    expect_dtype,
    expect_error,
    expect_keys,
    expect_value,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Dtype, Folder, Handle, Named, Result, Student
from labs.lab4_tinyllm.checks.calls import STAND_INS

WEIGHTS = "labs.given.standin.weights_of"
PARAMETERS = Text("the model's parameters", "模型的参数")


def _loaded(student: Student, case: Case, *dtype: Dtype) -> Handle:
    return student.new("model.load_hf_checkpoint", Folder(case["folder"]), *STAND_INS, *dtype)


def _expect_names(result: Result, case: Case) -> Mapping[str, Any]:
    """The parameters of a model, which has to have those of the case and no other."""
    found = expect_keys(result, [], case, PARAMETERS)
    for names, en, zh in (
        ([name for name in case.weights if name not in found], "missing", "缺少"),
        ([name for name in found if name not in case.weights], "too many", "多出"),
    ):
        some, more = ", ".join(name[:60] for name in names[:2]), ", …" * (len(names) > 2)
        what = Text(
            f"the number of parameters that are {en} ({some}{more})",
            f"模型{zh}的参数（{some}{more}）的个数",
        )
        expect_value(len(names), 0, case, what)
    return found


@checks("""
    test_load_tied: load_tied
        One file, and a tied head that has no tensor of its own.
        单个文件，共享的输出头没有自己的张量。

    test_load_repeated: load_repeated
        A tied head that is stored a second time is not an error.
        共享的输出头另存了一份，也不算错误。

    test_load_sharded: load_sharded
        Several files, as the index names them.
        按索引读取多个文件。
    """)
def _expect_weights(student: Student, case: Case) -> None:
    """Every parameter is the tensor of its name, and there is no other."""
    found = _expect_names(student.call(WEIGHTS, _loaded(student, case)), case)
    for name, tensor in case.weights.items():
        expect_close(found[name], tensor, case, Text(name, f"参数 {name}"))


@cases("load_tied")
def test_load_runs(student: Student, case: Case) -> None:
    """It runs and gives a model with parameters.

    能运行，得到带有参数的模型。
    """
    name = "model.embed_tokens.weight"
    expect_keys(student.call(WEIGHTS, _loaded(student, case)), [name], case, PARAMETERS)


@cases("load_bfloat16")
def test_load_bfloat16(student: Student, case: Case) -> None:
    """Weights stored in bfloat16 are float32 in the model, unless another dtype is asked for.

    以 bfloat16 存储的权重在模型中是 float32，除非另有要求。
    """
    found = student.call(WEIGHTS, _loaded(student, case))
    for name, tensor in _expect_names(found, case).items():
        expect_dtype(tensor, "float32", case, Text(name, f"参数 {name}"))
    _expect_weights(student, case)


@cases("load_tied")
def test_load_dtype(student: Student, case: Case) -> None:
    """If bfloat16 is asked for, all parameters are; the head is still tied; the mode is eval().

    要求 bfloat16：所有参数均为 bfloat16，输出头仍然共享，模型处于 eval() 模式。
    """
    found = student.call(WEIGHTS, _loaded(student, case, Dtype("bfloat16")))
    asked = Named("model.load_hf_checkpoint"), Folder(case["folder"]), *STAND_INS
    training = student.call("labs.given.standin.is_training", *asked)
    for name, tensor in _expect_names(found, case).items():
        expect_dtype(tensor, "bfloat16", case, Text(name, f"参数 {name}"))
    if training.value is not False:
        mode = Text("the model's `training`", "模型的 `training`")
        raise reject(
            training.value, Text("False: eval() mode", "False，即 eval() 模式"), case, mode
        )


def _expect_refused(student: Student, case: Case, why: Text) -> None:
    """A ValueError whose text holds all names of the case."""
    given = Folder(case["folder"]), *STAND_INS
    # In words that can be compared: what mistakes are recognised by.
    load = Named("model.load_hf_checkpoint")
    student.call("labs.given.standin.error_of", load, case["names"], *given).value  # noqa: B018
    for name in case["names"]:
        call = student.call("model.load_hf_checkpoint", *given)
        expect_error(call, "ValueError", name, case, why)


@cases("load_missing")
def test_load_missing(student: Student, case: Case) -> None:
    """A parameter that no file holds is an error that names it.

    文件中缺少参数时报错，并说出它的名称。
    """
    why = Text(
        "a model with random weights in it must not come out.", "不能得到含有随机权重的模型。"
    )
    _expect_refused(student, case, why)


@cases("load_missing_head")
def test_load_missing_head(student: Student, case: Case) -> None:
    """A head that is not tied has to be in the files: the embedding cannot replace it.

    不共享的输出头必须在文件中：词嵌入不能代替它。
    """
    why = Text(
        "this folder's head is not tied to the embedding.", "该文件夹的输出头并不与词嵌入共享。"
    )
    _expect_refused(student, case, why)


@cases("load_unexpected")
def test_load_unexpected(student: Student, case: Case) -> None:
    """A tensor that no parameter takes is an error that names it.

    文件中有多余的张量时报错，并说出它的名称。
    """
    why = Text("another model than the folder's would come out.", "得到的会是另一个模型。")
    _expect_refused(student, case, why)
