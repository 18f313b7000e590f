"""Cases of the functions that attention is built from: rotation and repetition."""

from __future__ import annotations

from dataclasses import asdict

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle

from .sizes import config_of


@recipe(public=2)
def rotate_half(draw: Draw) -> Draft:
    shape = [2, 3, 5, draw.pick((8, 6, 10, 14))][draw.integer(0, 2) :]
    x = draw.normal(*shape)
    first, second = x.chunk(2, dim=-1)
    about = Text(f"x of shape {shape}", f"x 的形状为 {shape}")
    return draft(about, {"x": x, "y": torch.cat((-second, first), dim=-1)})


def _tables(
    draw: Draw, head_dim: int, theta: float, positions: torch.Tensor, **values: object
) -> Draft:
    cos, sin = oracle.rope_tables(positions, head_dim, theta)
    low, high = int(positions.min()), int(positions.max())
    about = Text(
        f"head_dim {head_dim}, theta {theta:g}, positions {low} to {high}",
        f"head_dim {head_dim}，theta {theta:g}，位置 {low} 到 {high}",
    )
    config = asdict(config_of(70, 6, 2, head_dim, rope_theta=theta))
    return draft(about, {"positions": positions, "cos": cos, "sin": sin}, config, **values)


@recipe()
def tables(draw: Draw) -> Draft:
    start = draw.pick((0, 1, 5))
    count = draw.pick((11, 9, 13))
    return _tables(draw, draw.pick((16, 12, 20)), 1e6, torch.arange(start, start + count))


@recipe()
def tables_theta(draw: Draw) -> Draft:
    return _tables(draw, draw.pick((16, 12, 10)), draw.pick((5e6, 1e4, 1e7)), torch.arange(11))


@recipe()
def tables_far(draw: Draw) -> Draft:
    positions = torch.tensor([draw.integer(257, 900), draw.integer(1000, 2000), 3001, 3999])
    return _tables(draw, draw.pick((16, 12, 10)), 1e6, positions, limits=[1e-3, 2e-3])


@recipe()
def tables_farthest(draw: Draw) -> Draft:
    """Far beyond the tables that codes make in advance, within what the config allows: 40,960."""
    far = [draw.integer(low, low + 3000) for low in (4100, 8200, 16_400, 32_800)]
    positions = torch.tensor([*far, draw.integer(38_000, 40_000)])
    return _tables(draw, draw.pick((16, 12, 10)), 1e6, positions, limits=[1e-2, 3e-2])


@recipe()
def tables_batched(draw: Draw) -> Draft:
    rows = [torch.arange(7) + draw.integer(0, 30) for _ in range(3)]
    return _tables(draw, draw.pick((16, 12, 10)), 1e6, torch.stack(rows))


@recipe(hidden=0)
def tables_two(draw: Draw) -> Draft:
    first = _tables(draw, 16, 1e4, torch.arange(11))
    second = _tables(draw, 16, 1e6, torch.arange(11))
    tensors = dict(second.tensors) | {f"other_{n}": t for n, t in first.tensors.items()}
    about = Text("theta 1e4, then theta 1e6", "先 theta 1e4，后 theta 1e6")
    return draft(about, tensors, second.config, other_theta=1e4)


@recipe()
def rotation(draw: Draw) -> Draft:
    batch, heads, kv_heads, tokens, head_dim = draw.pick(
        ((2, 6, 3, 11, 16), (3, 8, 2, 7, 10), (5, 4, 2, 9, 12))
    )
    q, k = (
        draw.normal(batch, heads, tokens, head_dim),
        draw.normal(batch, kv_heads, tokens, head_dim),
    )
    positions = torch.arange(tokens) + draw.integer(1, 40)
    cos, sin = (t.float() for t in oracle.rope_tables(positions, head_dim, 1e6))
    later_cos, later_sin = (t.float() for t in oracle.rope_tables(positions + 17, head_dim, 1e6))
    # Other distances in every row: rows that are shifts of each other have the same scores.
    rows = torch.stack([positions * (row + 1) for row in range(batch)])
    row_cos, row_sin = (t.float() for t in oracle.rope_tables(rows, head_dim, 1e6))
    about = Text(
        f"q [{batch}, {heads}, {tokens}, {head_dim}], k [{batch}, {kv_heads}, {tokens}, "
        f"{head_dim}], tables [{tokens}, {head_dim}] or [{batch}, {tokens}, {head_dim}]",
        f"q [{batch}, {heads}, {tokens}, {head_dim}]，k [{batch}, {kv_heads}, {tokens}, "
        f"{head_dim}]，表 [{tokens}, {head_dim}] 或 [{batch}, {tokens}, {head_dim}]",
    )
    return draft(
        about,
        {
            "q": q, "k": k, "cos": cos, "sin": sin,
            "later_cos": later_cos, "later_sin": later_sin,
            "row_cos": row_cos, "row_sin": row_sin,
            "scores": _scores(q, k, cos, sin),
            "row_scores": _scores(q, k, row_cos, row_sin),
        },
    )  # fmt: skip


def _scores(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """``q' k'^T`` for every pair of heads and positions: ``[B, heads, kv_heads, T, T]``."""
    q, k = oracle.rotate(q, cos, sin), oracle.rotate(k, cos, sin)
    return q.unsqueeze(2) @ k.unsqueeze(1).transpose(-1, -2)


@recipe()
def repeating(draw: Draw) -> Draft:
    batch, kv_heads, tokens, head_dim, times = draw.pick(
        ((2, 3, 5, 8, 4), (3, 2, 7, 6, 5), (2, 4, 3, 10, 3))
    )
    x = draw.normal(batch, kv_heads, tokens, head_dim)
    about = Text(
        f"{kv_heads} kv heads, {times} query heads each",
        f"{kv_heads} 个键值头，各对应 {times} 个查询头",
    )
    return draft(about, {"x": x, "y": x.repeat_interleave(times, dim=1)}, times=times)
