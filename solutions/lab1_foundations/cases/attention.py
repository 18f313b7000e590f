"""Cases of scaled dot-product attention, each for one property."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_foundations as oracle


@dataclass(frozen=True)
class Sizes:
    """Sizes of a call, no two of them equal."""

    lead: tuple[int, ...]  # batch and heads, or whatever else stands in front
    q_len: int
    kv_len: int
    d: int
    d_v: int

    def about(self, en: str = "", zh: str = "") -> Text:
        """The sizes in words."""
        lead = "".join(f"{n}, " for n in self.lead)
        q, k, v = (self.q_len, self.d), (self.kv_len, self.d), (self.kv_len, self.d_v)
        shapes = [
            f"{name} [{lead}{rows}, {n}]" for name, (rows, n) in zip("qkv", (q, k, v), strict=True)
        ]
        return Text(en + ", ".join(shapes), zh + "，".join(shapes))


SIZES = (
    Sizes((2, 3), 5, 7, 8, 6),
    Sizes((3, 2), 6, 9, 10, 4),
    Sizes((4, 5), 3, 8, 12, 7),
    Sizes((2, 4), 7, 10, 6, 9),
)


def call(draw: Draw, s: Sizes) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random ``(q, k, v)``."""
    q, k = draw.normal(*s.lead, s.q_len, s.d), draw.normal(*s.lead, s.kv_len, s.d)
    return q, k, draw.normal(*s.lead, s.kv_len, s.d_v)


def drafted(
    about: Text,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    **values: Any,
) -> Draft:
    """An attention call with its expected result; an absent mask is not passed."""
    tensors = {"q": q, "k": k, "v": v, "y": oracle.sdpa(q, k, v, mask)}
    return draft(about, tensors if mask is None else tensors | {"mask": mask}, **values)


def holes(draw: Draw, *shape: int) -> torch.Tensor:
    """A bool mask: about half may be seen, every query sees something and misses something."""
    allowed = draw.uniform(*shape, low=0, high=1) < 0.5
    rows = torch.arange(shape[-2])
    allowed[..., rows, rows % shape[-1]] = True
    allowed[..., rows, (rows + 2) % shape[-1]] = False
    return allowed


def lookup(draw: Draw, s: Sizes) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Every query is a key of its own choice, so much longer that all others weigh nothing.

    The best score is 76, which no exp overflows, and the others 0; divided by d instead of the
    root of d, it still leads by some 25.
    """
    codes = torch.eye(s.d)[draw.permutation(s.d)]
    k = codes[: s.kv_len].expand(*s.lead, s.kv_len, s.d)
    orders = [draw.permutation(s.kv_len)[: s.q_len] for _ in range(prod(s.lead))]
    wanted = torch.stack(orders).reshape(*s.lead, s.q_len)
    q = codes[wanted] * 76 * s.d**0.5
    return q, k.contiguous(), draw.normal(*s.lead, s.kv_len, s.d_v)


@recipe()
def attention_core(draw: Draw) -> Draft:
    s: Sizes = draw.pick(SIZES)
    return drafted(s.about(), *call(draw, s))


LOOKUPS = (
    Sizes((2, 3), 5, 7, 9, 4),
    Sizes((3, 2), 6, 8, 10, 5),
    Sizes((4, 2), 3, 6, 9, 7),
)


@recipe()
def attention_lookup(draw: Draw) -> Draft:
    s: Sizes = draw.pick(LOOKUPS)
    about = s.about("every query equals one key: ", "每个查询与一个键相同：")
    return drafted(about, *lookup(draw, s))


@recipe()
def attention_scale(draw: Draw) -> Draft:
    """The same scores twice: four times the features, the new ones zero, and twice the q."""
    s: Sizes = draw.pick(SIZES)
    q, k, v = call(draw, s)
    more = (0, 3 * s.d)
    wide_q = torch.nn.functional.pad(q * 2, more)
    wide_k = torch.nn.functional.pad(k, more)
    about = s.about(f"d {s.d}, then d {4 * s.d} with zeros: ", f"d {s.d}，再补零到 {4 * s.d}：")
    return draft(about, {"q": q, "k": k, "v": v, "wide_q": wide_q, "wide_k": wide_k})


@recipe()
def attention_hidden(draw: Draw) -> Draft:
    s: Sizes = draw.pick(SIZES)
    about = s.about("a bool mask with holes: ", "带空洞的布尔掩码：")
    return drafted(about, *call(draw, s), holes(draw, s.q_len, s.kv_len))


def _remaining(draw: Draw, s: Sizes) -> torch.Tensor:
    """The places of the keys that stay: all but two or three."""
    return draw.permutation(s.kv_len)[: s.kv_len - draw.integer(2, 3)].sort().values


def _removed(
    about: Text,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    seen: torch.Tensor,
    **values: Any,
) -> Draft:
    """The same keys hidden from every query, and the call without those keys."""
    mask = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool)
    mask[:, seen] = True
    tensors = {"q": q, "k": k, "v": v, "mask": mask, "y": oracle.sdpa(q, k, v, mask)}
    tensors |= {"k_left": k[..., seen, :].contiguous(), "v_left": v[..., seen, :].contiguous()}
    tensors["mask_one"] = mask[:1].clone()
    return draft(about, tensors, **values)


@recipe()
def attention_removed(draw: Draw) -> Draft:
    s: Sizes = draw.pick(SIZES)
    q, k, v = call(draw, s)
    about = s.about("some keys hidden from all: ", "部分键对所有查询隐藏：")
    return _removed(about, q, k, v, _remaining(draw, s))


@recipe()
def attention_removed_far(draw: Draw) -> Draft:
    """Scores near -10,000 beside hidden ones near +10,000; whole numbers: nothing is rounded."""
    q_len, kv_len, d_v = draw.pick(((5, 7, 6), (4, 9, 3), (6, 8, 5)))
    s = Sizes((2, 3), q_len, kv_len, 16, d_v)
    q, k, v = call(draw, s)
    q, k, seen = q.round(), k.round(), _remaining(draw, s)
    q[..., 0], k[..., 0] = 100, 400  # 100 * 400 / sqrt(16) is 10,000
    k[..., seen, 0] = -400
    about = s.about(
        "scores of -10,000, those of keys hidden from all +10,000: ",
        "分数约为 -10,000，对所有查询隐藏的键约为 +10,000：",
    )
    return _removed(about, q, k, v, seen, far=True)
