"""The float64 reference of lab 1 is torch and Hugging Face, and would not be if it were wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions.reference import hf, oracle
from solutions.reference import oracle_foundations as foundations
from tools.compat import BASE, errors

INFINITE, LEAST = float("inf"), torch.finfo(torch.float32).min
TIGHT = 1e-12  # relative; both sides are float64
BATCH, HEADS, QUERIES, KEYS, D, D_V = 2, 3, 5, 7, 8, 6


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def holes(*shape: int) -> Tensor:
    allowed = torch.rand(*shape, generator=torch.Generator().manual_seed(9)) < 0.5
    allowed[..., 0] = True
    return allowed


def blocked(values: Tensor, fill: float) -> Tensor:
    return values.masked_fill(~holes(QUERIES, KEYS), fill)


def expect_same(actual: Tensor, expected: Tensor, limit: float = TIGHT) -> None:
    assert actual.dtype == torch.float64
    assert actual.shape == expected.shape
    assert max(errors(actual, expected)) <= limit


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_softmax_is_exp_over_its_sum(dim: int) -> None:
    x = numbers(3, 5, 7)
    wide = x.double().exp()
    expect_same(foundations.softmax(x, dim), wide / wide.sum(dim, keepdim=True))


@pytest.mark.parametrize(("q_len", "kv_len"), [(5, 5), (3, 7), (1, 6), (1, 1)])
def test_causal_mask_is_that_of_torch_moved_to_the_last_key(q_len: int, kv_len: int) -> None:
    mask = foundations.causal_mask(q_len, kv_len)
    assert mask.dtype == torch.bool
    assert torch.equal(mask, torch.ones(kv_len, kv_len).tril().bool()[-q_len:])
    assert mask[-1].all()
    assert mask.sum(1).tolist() == [kv_len - q_len + 1 + row for row in range(q_len)]


MASKS: dict[str, Callable[[], Tensor | None]] = {
    "none": lambda: None,
    "bool": lambda: holes(QUERIES, KEYS),
    "bool, per row": lambda: holes(BATCH, 1, 1, KEYS),
    "bool, whole": lambda: holes(BATCH, HEADS, QUERIES, KEYS),
    "additive": lambda: blocked(numbers(QUERIES, KEYS, seed=5), -INFINITE),
    "additive, least number": lambda: blocked(torch.zeros(QUERIES, KEYS), LEAST),
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("lead", [(), (HEADS,), (BATCH, HEADS), (2, BATCH, HEADS)], ids=str)
def test_attention_is_that_of_torch(kind: str, lead: tuple[int, ...]) -> None:
    mask = MASKS[kind]()
    if mask is not None and mask.ndim > 2 and len(lead) < 2:
        lead = (BATCH, HEADS)
    q, k = numbers(*lead, QUERIES, D, seed=1), numbers(*lead, KEYS, D, seed=2)
    v = numbers(*lead, KEYS, D_V, seed=3)
    given = mask if mask is None or mask.dtype == torch.bool else mask.double()
    # Without leading dimensions torch wants one, and without heads one more.
    wide = [t.double()[(None,) * max(0, 2 - len(lead))] for t in (q, k, v)]
    theirs = F.scaled_dot_product_attention(*wide, attn_mask=given)  # type: ignore[misc]
    ours = foundations.sdpa(q, k, v, mask)
    expect_same(ours, theirs.reshape(ours.shape))


@pytest.mark.parametrize("kind", ["bool", "additive"])
def test_a_row_that_sees_nothing_is_zero_and_disturbs_no_other(kind: str) -> None:
    allowed = holes(QUERIES, KEYS)
    allowed[2] = False
    mask = (
        allowed if kind == "bool" else torch.zeros(QUERIES, KEYS).masked_fill(~allowed, -INFINITE)
    )
    q, k, v = numbers(QUERIES, D, seed=1), numbers(KEYS, D, seed=2), numbers(KEYS, D_V, seed=3)
    ours = foundations.sdpa(q, k, v, mask)
    assert not ours[2].any()
    rest = [0, 1, 3, 4]
    expect_same(ours[rest], foundations.sdpa(q[rest], k, v, mask[rest]))


def test_multi_head_is_that_of_torch() -> None:
    """torch's own knows no head_dim beside hidden / heads; with another one, head by head."""
    hidden, heads, head_dim = 24, 3, 8
    names = ("q_proj.weight", "k_proj.weight", "v_proj.weight")
    weights = {n: numbers(heads * head_dim, hidden, seed=i) for i, n in enumerate(names)}
    weights["o_proj.weight"] = numbers(hidden, heads * head_dim, seed=7)
    theirs = nn.MultiheadAttention(hidden, heads, bias=False, batch_first=True).double()
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([weights[name] for name in names]).double(),
            "out_proj.weight": weights["o_proj.weight"].double(),
        }
    )
    x, mask = numbers(4, 7, hidden, seed=8), foundations.causal_mask(7, 7)
    wide = x.double()
    expected, _ = theirs(wide, wide, wide, attn_mask=~mask)
    expect_same(foundations.multi_head(weights, x, heads, mask), expected.detach())


def test_multi_head_of_any_width_is_a_sum_over_heads() -> None:
    hidden, heads, head_dim = 20, 3, 8
    shapes = {"q": (24, 20), "k": (24, 20), "v": (24, 20), "o": (20, 24)}
    weights = {f"{n}_proj.weight": numbers(*s, seed=ord(n)) for n, s in shapes.items()}
    x = numbers(4, 7, hidden, seed=8)
    expected = torch.zeros(4, 7, hidden, dtype=torch.float64)
    for head in range(heads):
        rows = slice(head * head_dim, (head + 1) * head_dim)
        q, k, v = (x.double() @ weights[f"{n}_proj.weight"][rows].double().T for n in "qkv")
        mixed = F.scaled_dot_product_attention(q, k, v)
        expected += mixed @ weights["o_proj.weight"][:, rows].double().T
    expect_same(foundations.multi_head(weights, x, heads), expected)


@pytest.mark.parametrize("eps", [1e-5, 3e-4])
def test_layer_norm_is_its_formula_and_that_of_torch(eps: float) -> None:
    x = numbers(3, 5, 12) * 0.01 + 2
    weight, bias = numbers(12, seed=1), numbers(12, seed=2)
    ours = foundations.layer_norm(x, weight, bias, eps)
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    root = (wide.var(-1, correction=0, keepdim=True) + eps).sqrt()
    expect_same(ours, centred / root * weight.double() + bias.double())
    norm = nn.LayerNorm(12, eps).double()
    norm.load_state_dict({"weight": weight.double(), "bias": bias.double()})
    expect_same(ours, norm(wide).detach())


@pytest.mark.parametrize("eps", [1e-6, 3e-4])
def test_rms_norm_is_that_of_hugging_face_and_of_torch(eps: float) -> None:
    x, weight = numbers(3, 5, 12) * 0.01, numbers(12, seed=1)
    ours = oracle.rms_norm(x, weight, eps)
    expect_same(ours, hf.hf_rms_norm(x, weight, eps), limit=1e-6)
    expect_same(ours, F.rms_norm(x.double(), (12,), weight.double(), eps))


def test_the_gated_mlp_is_that_of_hugging_face() -> None:
    hidden, intermediate = BASE.hidden_size, BASE.intermediate_size
    weights = {
        "gate_proj.weight": numbers(intermediate, hidden, seed=1) / hidden**0.5,
        "up_proj.weight": numbers(intermediate, hidden, seed=2) / hidden**0.5,
        "down_proj.weight": numbers(hidden, intermediate, seed=3) / intermediate**0.5,
    }
    x = numbers(3, 7, hidden, seed=4)
    expect_same(oracle.mlp(weights, x), hf.hf_mlp(BASE, weights, x), limit=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_inputs_are_widened_exactly(dtype: torch.dtype) -> None:
    q, k, v = (numbers(5, 8, seed=seed).to(dtype) for seed in (1, 2, 3))
    wide = foundations.sdpa(q.double(), k.double(), v.double())
    assert torch.equal(foundations.sdpa(q, k, v), wide)


def test_a_wrong_reference_would_be_seen() -> None:
    q, k, v = (numbers(5, 8, seed=seed) for seed in (1, 2, 3))
    with pytest.raises(AssertionError):
        expect_same(foundations.sdpa(q * 1.0001, k, v), foundations.sdpa(q, k, v))
