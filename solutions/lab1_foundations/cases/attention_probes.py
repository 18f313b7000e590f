"""Cases of attention for what an ordinary call hides: kinds of masks, empty rows, size, dtype."""

from __future__ import annotations

import torch

from autograder.reference.recipes import Draft, Draw, draft, recipe

from .attention import SIZES, Sizes, call, drafted, holes

INFINITE = float("inf")


def additive(allowed: torch.Tensor) -> torch.Tensor:
    """The same mask as floats: 0 where a query may look, -inf where not."""
    return torch.zeros(allowed.shape).masked_fill(~allowed, -INFINITE)


@recipe()
def attention_additive(draw: Draw) -> Draft:
    """An additive mask whose finite entries count, too, large ones as they are."""
    s: Sizes = draw.pick(SIZES)
    mask = additive(holes(draw, s.q_len, s.kv_len)) + draw.normal(s.q_len, s.kv_len, scale=3.0)
    mask[0] = -draw.uniform(s.kv_len, low=0.5, high=6.0)  # all below 0, and nothing hidden
    about = s.about("an additive mask with finite values: ", "含有限值的加性掩码：")
    return drafted(about, *call(draw, s), mask)


@recipe()
def attention_broadcast(draw: Draw) -> Draft:
    """One key mask for all, one per batch row, and one for all heads."""
    s: Sizes = draw.pick(SIZES)
    batch, _ = s.lead
    q, k, v = call(draw, s)
    masks = {
        "mask_keys": holes(draw, 3, s.kv_len)[0],  # [kv_len]
        "mask_rows": holes(draw, batch, 1, 3, s.kv_len)[:, :, :1],  # [B, 1, 1, kv_len]
        "mask_heads": holes(draw, s.lead[1], s.q_len, s.kv_len),  # [heads, q_len, kv_len]
        "mask_added": additive(holes(draw, batch, 1, s.q_len, s.kv_len)),  # [B, 1, q_len, kv_len]
    }
    about = s.about("masks to broadcast: ", "需要广播的掩码：")
    return draft(about, {"q": q, "k": k, "v": v} | masks)


@recipe()
def attention_empty(draw: Draw) -> Draft:
    """One query may see nothing, or else everything; the others see what they may."""
    return _empty(draw, torch.float32, "", "")


@recipe()
def attention_empty_float16(draw: Draw) -> Draft:
    """In float16 a small number that is added against a division by 0 is 0 itself."""
    return _empty(draw, torch.float16, "float16, ", "float16，")


def _empty(draw: Draw, dtype: torch.dtype, en: str, zh: str) -> Draft:
    s: Sizes = draw.pick(SIZES)
    q, k, v = (tensor.to(dtype) for tensor in call(draw, s))
    allowed, row = holes(draw, s.q_len, s.kv_len), draw.integer(0, s.q_len - 1)
    empty, full = allowed.clone(), allowed.clone()
    empty[row], full[row] = False, True
    tensors = {"q": q, "k": k, "v": v, "empty": empty, "full": full, "added": additive(empty)}
    tensors["added"] = tensors["added"].to(dtype)
    about = s.about(f"{en}a query that sees nothing: ", f"{zh}有一个查询什么都看不到：")
    return draft(about, tensors, row=row, dtype=str(dtype).removeprefix("torch."))


@recipe()
def attention_large(draw: Draw) -> Draft:
    """Scores around +10,000 or -10,000, made of whole numbers, so that nothing is rounded."""
    q_len, kv_len, d_v = draw.pick(((5, 7, 6), (4, 9, 3), (6, 8, 5)))
    s = Sizes((2, 3), q_len, kv_len, 16, d_v)
    q, k, v = call(draw, s)
    q, k = q.round(), k.round()
    k[..., 0] = 400
    q[..., 0] = 100  # 100 * 400 / sqrt(16) is 10,000 for every key
    q[..., ::2, 0] = -100
    return drafted(s.about("scores of ±10,000: ", "分数为 ±10,000："), q, k, v)


@recipe()
def attention_low(draw: Draw) -> Draft:
    """A row of an additive mask full of -1,000,000, which hides nothing; whole numbers again."""
    q_len, kv_len, d_v = draw.pick(((5, 7, 6), (4, 9, 3), (6, 8, 5)))
    s = Sizes((2, 3), q_len, kv_len, 16, d_v)
    q, k, v = call(draw, s)
    mask = torch.zeros(q_len, kv_len)
    mask[draw.integer(0, q_len - 1)] = -1e6
    about = s.about("a mask with a row of -1,000,000: ", "掩码中有一行全为 -1,000,000：")
    return drafted(about, 2 * q.round(), 2 * k.round(), v, mask)


def _narrow(draw: Draw, dtype: torch.dtype) -> Draft:
    s: Sizes = draw.pick(SIZES)
    q, k, v = (tensor.to(dtype) for tensor in call(draw, s))
    allowed, name = holes(draw, s.q_len, s.kv_len), str(dtype).removeprefix("torch.")
    made = drafted(s.about(f"{name}: ", f"{name}："), q, k, v, allowed, dtype=name)
    finite = draw.normal(s.q_len, s.kv_len).round() / 2  # which any float holds as it is
    tensors = dict(made.tensors) | {"added": (additive(allowed) + finite).to(dtype)}
    return draft(made.about, tensors, dtype=name)


@recipe()
def attention_bfloat16(draw: Draw) -> Draft:
    return _narrow(draw, torch.bfloat16)


@recipe()
def attention_float16(draw: Draw) -> Draft:
    """A fill of -1e9 has no place in float16."""
    return _narrow(draw, torch.float16)
