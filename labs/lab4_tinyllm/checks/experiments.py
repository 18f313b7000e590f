"""How experiments of lab 4 ask for a layer, a model, a token and a text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checks.expect import (
    answers,
    config,
    expect_close,
    expect_same,
    expect_shape,
    works,
)
from autograder.checks.experiments import is_right, refuses
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Dtype, Folder, Handle, Named, Result, Student
from autograder.wire.messages import Tensor
from labs.lab4_tinyllm.checks.calls import (
    CACHE,
    STAND_IN_MODEL,
    STAND_INS,
    attention_of,
    bounds,
    like,
    model_of,
)

MODEL, CAUSAL_LM = "lab4.model", "lab4.causal_lm"
KINDS = {MODEL: "Qwen3Model", CAUSAL_LM: "Qwen3ForCausalLM"}
WHY = Text("the two should agree.", "两者应当一致。")


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
    return served and refuses(student, lambda: model_answer(student, case, exercise))


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


def drawn(student: Student, shares: list[float], rows: int, **given: Any) -> set[int]:
    """The tokens at temperature 1 of rows whose tokens have these shares; none where it raises."""
    logits = Tensor.of(np.log(np.tile(np.array(shares, np.float32), (rows, 1))))
    call = partial(student.call, "model.sample", logits, temperature=1.0, **given)
    for made in answers(student, call):
        if isinstance(made, Tensor) and made.shape == (rows,) and made.array.dtype.kind == "i":
            return {int(token) for token in made.array}
    return set()


def hides(student: Student, case: Case, queries: int, hidden: Any) -> bool:
    """Whether the mask hides these keys from the last queries, padding too, own places aside."""
    keep = case["keep"].array.astype(bool)
    rows, keys = keep.shape
    own = np.eye(keys, dtype=bool)[-queries:]
    mask = student.new("model.build_attention_mask", case["keep"], queries, Dtype("float32"))
    want = (hidden | ~keep[:, None, None]) & ~own

    def same() -> None:
        call = student.call("labs.given.standin.blocked", mask)
        got = expect_shape(call, (rows, 1, queries, keys), case).array
        expect_same(Tensor.of(got * ~own), Tensor.of(want.astype(np.float32)), case, WHY)

    return works(student, same)


def blocked(student: Student, case: Case, keep: list[list[int]], queries: int) -> Any:
    """What the mask of these rows hides: ``[rows, queries, keys]`` of 0 and 1, or None."""
    rows = like(case["keep"], np.array(keep, case["keep"].array.dtype))
    mask = student.new("model.build_attention_mask", rows, queries, Dtype("float32"))
    for hidden in answers(student, lambda: student.call("labs.given.standin.blocked", mask)):
        return hidden.array[:, 0] if isinstance(hidden, Tensor) and hidden.array.ndim == 4 else None
    return None


def goes_on(student: Student, case: Case, ids: Any, counted: Any, **given: Any) -> bool:
    """Whether the token after ``ids`` is the likeliest one after those that are ``counted``."""
    table = case["table"].array
    token = table[((ids + 1) * counted).sum(1) % len(table)].argmax(1)

    def text() -> None:
        model = student.new(STAND_IN_MODEL, case["table"])
        made = student.call("model.generate", model, like(case["ids"], ids), 1, **given)
        expect_close(made, like(case["ids"], np.c_[ids, token]), case)

    return works(student, text)


def right_in_pieces(student: Student, case: Case, *, true: bool) -> bool:
    """Whether attention is right piece by piece, given true positions or each piece's from 0."""
    attention, cache = attention_of(student, case), student.new(CACHE)

    def pieces() -> None:
        for first, end in bounds(case["pieces"]):
            part, held = slice(first, end), 0 if true else first
            places = like(case["positions"], case["positions"].array[part] - held)
            mask = like(case["mask"], case["mask"].array[:, :, part, :end])
            x, y = (like(case[name], case[name].array[:, part]) for name in "xy")
            got = attention(x, attention_mask=mask, position_ids=places, past=cache)
            expect_close(got, y, case)

    return works(student, pieces)


def later_as(student: Student, case: Case, first: int, places: list[int]) -> bool:
    """Whether tokens ``first`` to 7, as a second piece, come out as those at ``places`` should.

    All at once is right.
    """
    attention, cache, x = attention_of(student, case), student.new(CACHE), case["x"]

    def later() -> None:
        expect_close(attention(x), case["y"], case)
        attention(like(x, x.array[:, :first]), past=cache)
        got = attention(like(x, x.array[:, first:7]), past=cache)
        expect_close(got, like(x, case["y"].array[:, places]), case)

    return works(student, later)


def first_layers(student: Student, case: Case, depth: int, **given: Any) -> bool:
    """Whether so many layers of the case's model give what they should."""
    made = config({**case.config, "num_hidden_layers": depth})
    late = tuple(f"layers.{n}." for n in range(depth, case.config["num_hidden_layers"]))
    weights = {name: w for name, w in case.weights.items() if not name.startswith(late)}
    model = student.new("model.Qwen3Model", made, *STAND_INS, weights=weights)
    return is_right(student, case, lambda: model(case["ids"], **given), f"y{depth}")


def in_turn(student: Student, case: Case, *layers: int, positions: bool = False) -> bool:
    """Whether the case's layer is right in pieces that these layers take with one cache."""
    parts, cache = [attention_of(student, case, n) for n in layers], student.new(CACHE)

    def pieces() -> None:
        for first, end in bounds(case["pieces"]):
            x, y = (like(case[name], case[name].array[:, first:end]) for name in "xy")
            at = like(case["positions"], case["positions"].array[first:end])
            given = {"past": cache} | ({"position_ids": at} if positions else {})
            answers = [part(x, **given) for part in parts]
            expect_close(answers[layers.index(case["layer"])], y, case)

    return works(student, pieces)


def attention_with(student: Student, case: Case, **weights: NDArray[Any]) -> Handle:
    """The student's attention with the case's weights but for these, named by their modules."""
    others = {f"{name}.weight": like(case["x"], array) for name, array in weights.items()}
    made = config(case.config)
    return student.new(
        "attention.Qwen3Attention", made, case["layer"], weights=case.weights | others
    )


def right_with(student: Student, case: Case, **weights: NDArray[Any]) -> bool:
    """Whether attention with these weights gives what it should with the case's own."""
    return is_right(student, case, lambda: attention_with(student, case, **weights)(case["x"]))


def cached_alike(student: Student, case: Case, attention: Handle) -> bool:
    """Whether the same token at all places is cached alike at every place."""
    x, cache = case["x"], student.new(CACHE)
    batch, tokens, _ = x.shape
    shape = batch, case.config["num_key_value_heads"], tokens, case.config["head_dim"]
    same = np.repeat(x.array[:, :1], tokens, axis=1)
    answers(student, lambda: attention(like(x, same), past=cache))
    parts = student.call("labs.given.standin.cached", cache, case["layer"])
    for both in answers(student, lambda: parts):
        if isinstance(both, (list, tuple)) and len(both) == 2:
            held = [expect_shape(one, shape, case).array.astype(np.float64) for one in both]
            alike = [np.allclose(one, one[:, :, :1], rtol=1e-4, atol=1e-5) for one in held]
            return all(alike) and all(one.any() for one in held)
    return False


def heads_of(case: Case, name: str) -> NDArray[Any]:
    """The weight of a projection, by heads: ``[heads, head_dim, hidden]``."""
    weight = case.weights[f"{name}.weight"].array
    weight = weight.T if name == "o_proj" else weight
    return weight.reshape(-1, case.config["head_dim"], weight.shape[1])


def deaf_to_eps(student: Student, case: Case, *silent: str) -> bool:
    """Whether a layer with these weights silent norms, and does so with any eps of the config."""
    zeros = {name: np.zeros_like(case.weights[name].array) for name in silent}
    weights = case.weights | {name: Tensor.of(array) for name, array in zeros.items()}

    def branch(eps: float, factor: float = 1.0) -> Tensor:
        """What the branch that is not silent adds to the input."""
        made = config({**case.config, "rms_norm_eps": eps})
        layer = student.new(
            "model.Qwen3DecoderLayer", made, case["layer"], *STAND_INS, weights=weights
        )
        x = case["x"].array * np.float32(factor)
        result = layer(Tensor.of(x), position_ids=case["positions"])
        return Tensor.of(expect_shape(result, x.shape, case).array - x)

    def same() -> None:
        expect_same(branch(1e-5, 300.0), branch(1e-5, 100.0), case, WHY, limit=1e-3)
        expect_same(branch(9.0), branch(1e-5), case, WHY)

    return works(student, same)


def error_names(student: Student, case: Case, names: list[str]) -> list[str] | None:
    """Which of these names the error of loading holds; none where nothing is raised."""
    call = partial(student.call, "labs.given.standin.error_of")
    load, given = Named("model.load_hf_checkpoint"), (Folder(case["folder"]), *STAND_INS)
    for told in answers(student, lambda: call(load, names, *given)):
        if isinstance(told, list) and told != ["nothing"]:
            return [name for name in told[1:] if isinstance(name, str)]
    return None
