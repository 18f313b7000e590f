"""How experiments of lab 4 ask for a layer, a model, a token and a text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from autograder.checks.expect import answers, expect_close, works
from autograder.checks.experiments import is_right
from autograder.reference.cases import Case
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor
from labs.lab4_tinyllm.checks.calls import CACHE, STAND_IN_MODEL, layer_of, like, model_of

MODEL, CAUSAL_LM = "lab4.model", "lab4.causal_lm"
KINDS = {MODEL: "Qwen3Model", CAUSAL_LM: "Qwen3ForCausalLM"}


def layer_answer(student: Student, case: Case) -> Result:
    return layer_of(student, case)(case["x"], position_ids=case["positions"])


def model_answer(student: Student, case: Case, exercise: str, **given: Any) -> Result:
    return model_of(student, case, KINDS[exercise])(case["ids"], **given)


def text_answer(student: Student, case: Case, rows: int | None = None, **given: Any) -> Result:
    model = student.new(STAND_IN_MODEL, case["table"])
    ids = like(case["ids"], case["ids"].array[:rows])
    return student.call("model.generate", model, ids, case["new"], **given)


def needs_mask(student: Student, case: Case, exercise: str) -> bool:
    """Whether a mask of ones is served, and none raises."""
    ones = Tensor.of(np.ones_like(case["ids"].array))
    served = is_right(
        student, case, lambda: model_answer(student, case, exercise, attention_mask=ones)
    )
    return served and not answers(student, lambda: model_answer(student, case, exercise))


def needs_cache(student: Student, case: Case, exercise: str) -> bool:
    """Whether an empty cache is served, and none raises."""

    def cached() -> Result:
        return model_answer(student, case, exercise, past=student.new(CACHE))

    return is_right(student, case, cached) and not answers(
        student, lambda: model_answer(student, case, exercise)
    )


def needs_option(call: Callable[..., Result], options: dict[str, Any], student: Student) -> bool:
    """Whether all options together are served, again and again, and without one it raises."""
    whole = partial(call, **options)
    if len(answers(student, whole, whole)) < 2:
        return False
    fewer = ({n: given for n, given in options.items() if n != name} for name in options)
    missed = any(not answers(student, partial(call, **some)) for some in fewer)
    return missed and len(answers(student, whole)) == 1


def continued(student: Student, case: Case, *calls: int) -> list[bool]:
    """Whether each call continues so many rows rightly; the end token never comes."""
    eos = min(set(range(len(case["table"].array))) - set(case["y"].array.flat))

    def right(rows: int) -> None:
        y = like(case["y"], case["y"].array[:rows])
        expect_close(text_answer(student, case, rows, eos=eos), y, case)

    return [works(student, partial(right, rows)) for rows in calls]


def drawn(student: Student, shares: list[float], rows: int, **given: Any) -> list[int] | None:
    """Tokens at temperature 1 of rows whose tokens have these shares."""
    logits = Tensor.of(np.log(np.tile(np.array(shares, np.float32), (rows, 1))))
    call = partial(student.call, "model.sample", logits, temperature=1.0, **given)
    for made in answers(student, call):
        if isinstance(made, Tensor) and made.shape == (rows,) and made.array.dtype.kind == "i":
            return [int(token) for token in made.array]
    return None
