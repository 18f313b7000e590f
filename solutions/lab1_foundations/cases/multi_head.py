"""Cases of multi-head attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_foundations as oracle

from .attention_probes import additive

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Sizes:
    """Sizes of a module and its input: all distinct, heads * head_dim is not hidden."""

    hidden: int
    heads: int
    head_dim: int
    tokens: int
    batch: int

    @property
    def width(self) -> int:
        """Of all heads together."""
        return self.heads * self.head_dim

    def about(self, en: str = "", zh: str = "") -> Text:
        """The sizes in words."""
        sizes = f"hidden {self.hidden}", f"{self.batch} x {self.tokens}"
        return Text(
            f"{en}{self.heads} heads of {self.head_dim}, {sizes[0]}, {sizes[1]} tokens",
            f"{zh}{self.heads} 个头，head_dim {self.head_dim}，{sizes[0]}，{sizes[1]} 个 token",
        )


SIZES = (
    Sizes(20, 3, 8, 7, 4),
    Sizes(28, 5, 6, 9, 3),
    Sizes(30, 4, 10, 6, 5),
    Sizes(18, 6, 7, 8, 2),
)


def weights_of(draw: Draw, s: Sizes) -> Weights:
    fan_in = s.hidden**-0.5
    return {
        "q_proj.weight": draw.normal(s.width, s.hidden, scale=1.5 * fan_in),
        "k_proj.weight": draw.normal(s.width, s.hidden, scale=1.5 * fan_in),
        "v_proj.weight": draw.normal(s.width, s.hidden, scale=fan_in),
        "o_proj.weight": draw.normal(s.hidden, s.width, scale=s.width**-0.5),
    }


def drafted(
    s: Sizes,
    about: Text,
    x: torch.Tensor,
    weights: Weights,
    mask: torch.Tensor | None = None,
    **values: Any,
) -> Draft:
    """A call with its expected result; an absent mask is not passed."""
    tensors = {"x": x, "y": oracle.multi_head(weights, x, s.heads, mask)}
    tensors |= {f"w.{name}": weight for name, weight in weights.items()}
    if mask is not None:
        tensors["mask"] = mask
    sizes = [s.hidden, s.heads, s.head_dim]
    return draft(about, tensors, sizes=sizes, **values)


def _random(draw: Draw, s: Sizes, tokens: int = 0) -> tuple[torch.Tensor, Weights]:
    return draw.normal(s.batch, tokens or s.tokens, s.hidden), weights_of(draw, s)


@recipe()
def multi_head_core(draw: Draw) -> Draft:
    s: Sizes = draw.pick(SIZES)
    return drafted(s, s.about(), *_random(draw, s))


@recipe()
def multi_head_token(draw: Draw) -> Draft:
    """One large token sees itself only: V and O, whatever q, k and the scale do."""
    s: Sizes = draw.pick(SIZES)
    x, weights = _random(draw, s, tokens=1)
    return drafted(s, s.about("one token: ", "单个 token："), x * 6, weights)


@recipe()
def multi_head_lookup(draw: Draw) -> Draft:
    """Every head looks up another token, by so much that nothing else weighs anything."""
    s: Sizes = draw.pick((Sizes(20, 3, 8, 7, 4), Sizes(25, 5, 9, 6, 3), Sizes(22, 4, 7, 5, 2)))
    # The first features of token t say that it is t; the rest is what its values are made of.
    x = draw.normal(s.batch, s.tokens, s.hidden)
    x[..., : s.tokens] = torch.eye(s.tokens)
    weights = weights_of(draw, s)
    keys, queries = torch.zeros(s.width, s.hidden), torch.zeros(s.width, s.hidden)
    for head in range(s.heads):
        rows = slice(head * s.head_dim, (head + 1) * s.head_dim)
        codes = torch.eye(s.head_dim)[draw.permutation(s.head_dim)]
        wanted = draw.permutation(s.tokens)
        keys[rows, : s.tokens] = codes[: s.tokens].T
        queries[rows, : s.tokens] = codes[wanted].T * 76 * s.head_dim**0.5
    weights |= {"k_proj.weight": keys, "q_proj.weight": queries}
    about = s.about("every head looks up another token: ", "每个头查找不同的 token：")
    return drafted(s, about, x, weights)


@recipe()
def multi_head_causal(draw: Draw) -> Draft:
    """One feature of every token is large: what is cut off somewhere shows."""
    s: Sizes = draw.pick(SIZES)
    x, weights = _random(draw, s)
    x[..., 0] = draw.uniform(s.batch, s.tokens, low=5, high=8) * x[..., 0].sign()
    about = s.about("a causal mask: ", "因果掩码：")
    made = drafted(s, about, x, weights, oracle.causal_mask(s.tokens, s.tokens))
    plain = {"y_plain": oracle.multi_head(weights, x, s.heads)}
    return draft(about, dict(made.tensors) | plain, **made.values)


@recipe()
def multi_head_masks(draw: Draw) -> Draft:
    """A padding mask on the right, as bool [B, 1, 1, T] and as floats [B, 1, T, T].

    And a mask for every head, [heads, T, T].
    """
    s: Sizes = draw.pick(SIZES)
    seen = torch.ones(s.batch, 1, 1, s.tokens, dtype=torch.bool)
    left = s.tokens - draw.integer(2, 3)
    seen[1, ..., left:] = False
    shapes = [seen.shape, (s.batch, 1, s.tokens, s.tokens), (s.heads, s.tokens, s.tokens)]
    row, each_row, each_head = (str(list(shape)) for shape in shapes)
    about = s.about(
        f"padding masks {row} and {each_row}, a mask of each head's own {each_head}: ",
        f"填充掩码 {row} 与 {each_row}，各头自己的掩码 {each_head}：",
    )
    made = drafted(s, about, *_random(draw, s), seen)
    wide = additive(seen.expand(s.batch, 1, s.tokens, s.tokens))
    each = draw.normal(s.heads, s.tokens, s.tokens, scale=2.0)  # [heads, T, T]
    more = {"added": wide, "each": each}
    return draft(made.about, dict(made.tensors) | more, left=left, **made.values)


@recipe()
def multi_head_padded(draw: Draw) -> Draft:
    """Causal, and padded on the left: the queries of the padding see nothing at all."""
    s: Sizes = draw.pick(SIZES)
    x, weights = _random(draw, s)
    pad = draw.integer(2, 3)
    keep = torch.ones(s.batch, s.tokens, dtype=torch.bool)
    keep[1, :pad] = False
    mask = oracle.causal_mask(s.tokens, s.tokens) & keep[:, None, None, :]
    about = s.about("a left-padded row: ", "有一行左侧填充：")
    return drafted(s, about, x, weights, mask, pad=pad)


@recipe()
def multi_head_bfloat16(draw: Draw) -> Draft:
    s: Sizes = draw.pick(SIZES)
    x, weights = _random(draw, s)
    narrow = {name: weight.bfloat16() for name, weight in weights.items()}
    mask = oracle.causal_mask(s.tokens, s.tokens)
    about = s.about("bfloat16: ", "bfloat16：")
    return drafted(s, about, x.bfloat16(), narrow, mask, dtype="bfloat16")
