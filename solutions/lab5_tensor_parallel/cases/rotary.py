"""Cases of the frequencies of YaRN, and of the rotation by them."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_engine

Scaling = dict[str, Any]
# head_dim, theta, context, factor: the straight line lies inside, and is some pairs long. For the
# first it begins just below the pair that turns 32 times, which turns less than 33 times.
_SIZES = ((32, 1e6, 2728, 4.0), (48, 5e5, 8192, 8.0), (40, 2e6, 2048, 2.5))


def _scaling(context: int, factor: float, **more: Any) -> Scaling:
    made: Scaling = {"rope_type": "yarn", "factor": factor}
    return {**made, "original_max_position_embeddings": context, **more}


def _about(size: int, scaling: Scaling | None, en: str = "", zh: str = "") -> Text:
    if scaling is None:
        return Text(f"{en}head_dim {size}, no scaling", f"{zh}head_dim {size}，没有缩放")
    factor, context = scaling["factor"], scaling["original_max_position_embeddings"]
    return Text(
        f"{en}head_dim {size}, factor {factor:g}, original context {context}",
        f"{zh}head_dim {size}，factor {factor:g}，原始上下文 {context}",
    )


def _yarn(size: int, theta: float, scaling: Scaling, en: str = "", zh: str = "") -> Draft:
    y = oracle_engine.frequencies(size, theta, scaling)
    about = _about(size, scaling, en, zh)
    return draft(about, {"y": y}, size=size, theta=theta, scaling=scaling)


@recipe()
def yarn(draw: Draw) -> Draft:
    size, theta, context, factor = draw.pick(_SIZES)
    return _yarn(size, theta, _scaling(context, factor))


@recipe()
def yarn_betas(draw: Draw) -> Draft:
    """beta_fast and beta_slow that are given."""
    size, theta, context, factor = draw.pick(_SIZES)
    scaling = _scaling(context, factor, beta_fast=draw.pick((8, 12, 16)), beta_slow=2)
    return _yarn(size, theta, scaling, "betas given: ", "给定 beta：")


@recipe()
def yarn_short(draw: Draw) -> Draft:
    """A context so short that not even the first pair turns beta_fast times."""
    size, theta, _, factor = draw.pick(_SIZES)
    scaling = _scaling(draw.pick((96, 112, 128)), factor)
    return _yarn(size, theta, scaling, "a short context: ", "上下文很短：")


@recipe()
def yarn_long(draw: Draw) -> Draft:
    """A context so long, and a theta so small, that even the last pair turns more than once."""
    # The line of the first begins almost a pair below: with 31 turns it would begin one later.
    size, theta, context, factor = draw.pick(((16, 1e3, 6250, 4.0), (24, 500.0, 8192, 8.0)))
    scaling = _scaling(context, factor)
    return _yarn(size, theta, scaling, "a long context: ", "上下文很长：")


@recipe()
def yarn_ends(draw: Draw) -> Draft:
    """A line that would end beyond head_dim - 1; a line from one pair to the next."""
    beyond = 16, 20.0, _scaling(4408, 4.0, beta_fast=128), "a line too long: ", "直线过长："
    steep = 8, 1e7, _scaling(256, 4.0), "a line of one pair: ", "直线只有一对："
    return _yarn(*draw.pick((beyond, steep)))


def _rotation(
    draw: Draw,
    scaling: Scaling | None,
    en: str = "",
    zh: str = "",
    *,
    key: str = "rope_type",
    start: int = 300,
) -> Draft:
    size, theta, _, _ = draw.pick(_SIZES)
    tokens, heads = draw.pick(((9, 4), (12, 3), (7, 5)))
    first = start + draw.integer(0, 200)
    positions = torch.cat((torch.arange(tokens - 4), torch.arange(first, first + 4)))
    q, k = draw.normal(tokens, heads, size), draw.normal(tokens, 2, size)
    turned = [oracle_engine.rotate(x, positions, theta, scaling) for x in (q, k)]
    scores = torch.einsum("qhd,kgd->hgqk", *turned)
    lengths = turned[0].norm(dim=-1)
    given = scaling
    if scaling is not None:
        given = {key if name == "rope_type" else name: value for name, value in scaling.items()}
    tensors = {"q": q, "k": k, "positions": positions, "y": scores, "lengths": lengths}
    about = _about(size, scaling, en, zh)
    return draft(about, tensors, size=size, theta=theta, scaling=given)


@recipe()
def rotary_plain(draw: Draw) -> Draft:
    return _rotation(draw, None)


@recipe()
def rotary_scaled(draw: Draw) -> Draft:
    """The factor of cos and sin follows from the factor of the context."""
    _, _, context, factor = draw.pick(_SIZES)
    return _rotation(draw, _scaling(context, factor))


@recipe()
def rotary_far(draw: Draw) -> Draft:
    """Positions beyond those of the training: float16 holds one in 32 of them.

    A file may say None for what it leaves to the reader.
    """
    _, _, context, factor = draw.pick(_SIZES)
    scaling = _scaling(context, factor, attention_factor=None)
    en, zh = (
        "positions above 41000, attention_factor None: ",
        "位置超过 41000，attention_factor 为 None：",
    )
    return _rotation(draw, scaling, en, zh, start=41001)


@recipe()
def rotary_factor(draw: Draw) -> Draft:
    """attention_factor is given; betas, too, and the older name of the type."""
    _, _, context, factor = draw.pick(_SIZES)
    scaling = _scaling(context, factor, attention_factor=draw.pick((1.4, 0.8, 1.25)), beta_fast=16)
    en, zh = "attention_factor given: ", "给定 attention_factor："
    return _rotation(draw, scaling, en, zh, key="type")


@recipe()
def rotary_bfloat16(draw: Draw) -> Draft:
    _, _, context, factor = draw.pick(_SIZES)
    en, zh = (
        "module and tokens in bfloat16, positions above 41000: ",
        "模块与 token 均为 bfloat16，位置超过 41000：",
    )
    made = _rotation(draw, _scaling(context, factor), en, zh, start=41001)
    q = made.tensors["q"].bfloat16()
    values = dict(made.values)
    y = oracle_engine.rotate(q, made.tensors["positions"], values["theta"], values["scaling"])
    tensors = {"q": q, "positions": made.tensors["positions"], "y": y, "lengths": y.norm(dim=-1)}
    return draft(made.about, tensors, **values, dtype="bfloat16")
