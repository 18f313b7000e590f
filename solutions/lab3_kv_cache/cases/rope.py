"""Cases of the rotation: the table, the product, the order of rows."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import interleaved


def _table(draw: Draw, head_dim: int, theta: float, end: int, first: int = 0) -> Draft:
    rows = interleaved.freqs_cis(torch.arange(first, end), head_dim, theta)
    about = Text(
        f"head_dim {head_dim}, theta {theta:g}, end {end}",
        f"head_dim {head_dim}，theta {theta:g}，end {end}",
    )
    tensors = {"cos": rows.real, "sin": rows.imag}
    return draft(about, tensors, head_dim=head_dim, theta=theta, end=end, first=first)


@recipe()
def freqs(draw: Draw) -> Draft:
    # No head_dim of attention's: its tables are handed to attention.
    return _table(draw, draw.pick((18, 22, 26)), 1e6, draw.pick((11, 9, 13)))


@recipe()
def freqs_theta(draw: Draw) -> Draft:
    return _table(draw, draw.pick((16, 12, 10)), draw.pick((5e6, 1e4, 1e7)), 11)


@recipe()
def freqs_far(draw: Draw) -> Draft:
    end = draw.pick((4000, 3500, 3777))
    return _table(draw, draw.pick((16, 12, 10)), 1e6, end, first=end - 7)


def _scores(q: torch.Tensor, k: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """``q' k'^T`` for every pair of heads and positions: ``[B, heads, kv_heads, T, T]``."""
    q, k = interleaved.rotate(q, table), interleaved.rotate(k, table)
    return torch.einsum("bqhd,bkgd->bhgqk", q, k)


@recipe()
def rotation(draw: Draw) -> Draft:
    batch, heads, kv_heads, tokens, head_dim = draw.pick(
        ((2, 6, 3, 11, 16), (3, 8, 2, 7, 10), (5, 4, 2, 9, 12))
    )
    q = draw.normal(batch, tokens, heads, head_dim, scale=2.0)
    k = draw.normal(batch, tokens, kv_heads, head_dim, scale=2.0)
    positions = torch.arange(tokens) + draw.integer(1, 40)
    here, later = (
        interleaved.freqs_cis(p, head_dim, 1e6).to(torch.complex64)
        for p in (positions, positions + 17)
    )
    about = Text(
        f"xq [{batch}, {tokens}, {heads}, {head_dim}], xk [{batch}, {tokens}, {kv_heads}, …]",
        f"xq [{batch}, {tokens}, {heads}, {head_dim}]，xk [{batch}, {tokens}, {kv_heads}, …]",
    )
    return draft(
        about,
        {
            "q": q, "k": k, "cos": here.real.clone(), "sin": here.imag.clone(),
            "later_cos": later.real.clone(), "later_sin": later.imag.clone(),
            "scores": _scores(q, k, here),
        },
    )  # fmt: skip


@recipe()
def permuting(draw: Draw) -> Draft:
    heads, head_dim, dim = draw.pick(((6, 16, 40), (5, 12, 28), (4, 10, 36)))
    weight = draw.normal(heads * head_dim, dim, scale=3.0)
    about = Text(
        f"{heads} heads of {head_dim}, weight [{heads * head_dim}, {dim}]",
        f"{heads} 个头，head_dim {head_dim}，权重 [{heads * head_dim}, {dim}]",
    )
    tensors = {"weight": weight, "y": interleaved.rows(weight, head_dim)}
    return draft(about, tensors, heads=heads, head_dim=head_dim)


@recipe()
def permuting_norm(draw: Draw) -> Draft:
    head_dim = draw.pick((16, 12, 10))
    weight = draw.uniform(head_dim, low=0.4, high=2.2)
    about = Text(f"a norm's weight [{head_dim}]", f"归一化的权重 [{head_dim}]")
    tensors = {"weight": weight, "y": interleaved.rows(weight, head_dim)}
    return draft(about, tensors, heads=1, head_dim=head_dim)
