"""The float64 reference is Qwen3: it agrees with transformers, and would not if it were wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from labs.given.config import Qwen3Config
from solutions.reference import hf, oracle
from tools import compat
from tools.compat import BASE, CASES, Case

# hidden, layers, heads, kv heads, intermediate, tied; parameters, those outside the embeddings.
PUBLISHED = {
    "0.6B": ((1024, 28, 16, 8, 3072, True), 596_049_920, 440_467_456),
    "1.7B": ((2048, 28, 16, 8, 6144, True), 1_720_574_976, 1_409_410_048),
    "4B": ((2560, 36, 32, 8, 9728, True), 4_022_468_096, 3_633_511_936),
    "8B": ((4096, 36, 32, 8, 12288, False), 8_190_735_360, 6_946_075_648),
    "14B": ((5120, 40, 40, 8, 17408, False), 14_768_307_200, 13_212_482_560),
    "32B": ((5120, 64, 64, 8, 25600, False), 32_762_123_264, 31_206_298_624),
}
MORE_CASES = {
    "400 tokens from 300": Case(BASE, batch=2, seq=400, first=300),
    "theta 1e4, far": Case(replace(BASE, rope_theta=1e4), batch=2, seq=7, first=20_000),
    "head_dim 128, one kv head": Case(replace(BASE, head_dim=128, num_key_value_heads=1), seq=5),
    "long padding": Case(BASE, batch=4, seq=17, padded=16),
    "four layers, untied": Case(
        replace(BASE, num_hidden_layers=4, hidden_size=72, tie_word_embeddings=False)
    ),
}


def published(name: str) -> Qwen3Config:
    """The config of a released dense model, from its row in ``PUBLISHED``."""
    hidden, layers, heads, kv_heads, intermediate, tied = PUBLISHED[name][0]
    return Qwen3Config(
        vocab_size=151_936,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=128,
        tie_word_embeddings=bool(tied),
    )


def attention_weights(config: Qwen3Config) -> dict[str, Tensor]:
    """The attention of the first layer of a drawn checkpoint."""
    prefix, weights = "model.layers.0.self_attn.", compat.draw_weights(config)
    return {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}


def causal(seq: int, fill: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """An additive ``[T, T]`` mask with ``fill`` on the future."""
    return torch.full((seq, seq), fill, dtype=dtype).triu(1)


@pytest.mark.parametrize("name", [*CASES, *MORE_CASES])
def test_agrees_with_transformers(name: str) -> None:
    agreements = list(compat.compare((CASES | MORE_CASES)[name]))
    whats = {a.what for a in agreements}
    assert {"attention", "mlp", "rms_norm", "logits", "gradient of mlp by input"} <= whats
    assert [a for a in agreements if not a.holds] == []


def test_rotary_angles_are_rounded_as_in_transformers() -> None:
    # At this distance a float64 angle would be off by 1e-3: the limit tells the two apart.
    positions = torch.arange(39_950, 40_000)
    config = replace(BASE, head_dim=128)
    theirs = hf.hf_rope_tables(config, positions)
    ours = oracle.rope_tables(positions, config.head_dim, config.rope_theta)
    for a, b in zip(theirs, ours, strict=True):
        torch.testing.assert_close(a[0].double(), b, rtol=0, atol=1.5e-7)


def _no_rotation(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x.double() + 0 * cos.double().unsqueeze(-3) * sin.double().unsqueeze(-3)


def _sum_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x.double() / (x.double().square().sum(-1, keepdim=True) + eps).sqrt() * weight


def _fixed_eps(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight


def _fixed_theta(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    return RIGHT_TABLES(positions, head_dim, 1e6)


def _swapped_mlp(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    swapped = {"gate_proj.weight": "up_proj.weight", "up_proj.weight": "gate_proj.weight"}
    return RIGHT_MLP({n: weights[swapped.get(n, n)] for n in weights}, x)


RIGHT_TABLES, RIGHT_MLP = oracle.rope_tables, oracle.mlp


@pytest.mark.parametrize(
    ("part", "wrong", "case", "seen"),
    [
        ("rotate", _no_rotation, "base", "attention"),
        ("rms_norm", _sum_norm, "base", "rms_norm"),
        ("rms_norm", _fixed_eps, "eps 3e-4", "rms_norm"),
        ("rope_tables", _fixed_theta, "theta 5e6", "rope tables"),
        ("mlp", _swapped_mlp, "base", "mlp"),
        ("mlp", _swapped_mlp, "base", "logits"),
    ],
)
def test_a_wrong_reference_is_seen(
    part: str, wrong: Callable[..., object], case: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, part, wrong)
    assert seen in {a.what for a in compat.compare(CASES[case]) if not a.holds}


def test_one_bad_token_among_many_is_seen() -> None:
    expected = torch.ones(1, 50, 8, dtype=torch.float64)
    expected[0, 0] = 1e3
    actual = expected.clone()
    actual[0, 7] *= 1.001
    whole, worst = compat.errors(actual, expected)
    assert whole < compat.LIMIT.tensor
    assert worst == pytest.approx(0.001)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_of_published_models(name: str) -> None:
    _, total, outside_embeddings = PUBLISHED[name]
    counts = oracle.count_parameters(published(name))
    assert counts["total"] == total
    assert total - counts["embedding"] - counts["lm_head"] == outside_embeddings
    assert hf.hf_parameter_counts(published(name)) == counts


def test_parameter_counts_of_one_8b_layer() -> None:
    counts = oracle.count_parameters(published("8B"))
    assert counts["attention"] == 36 * 2 * (16_777_216 + 4_194_304)
    assert counts["mlp"] == 36 * 3 * 50_331_648
    assert counts["norm"] == 36 * (8_192 + 256) + 4_096


@pytest.mark.parametrize(("tokens", "past"), [(11, 0), (4, 23), (1, 41)])
def test_operations_are_those_that_torch_counts(tokens: int, past: int) -> None:
    config = replace(BASE, num_hidden_layers=3)
    layer, counted = oracle.layer_flops(config, tokens, past), hf.hf_flops(config, tokens, past)
    head = counted.pop("lm_head")
    assert counted == {name: 3 * layer[name] for name in ("projections", "attention", "mlp")}
    assert layer["total"] == sum(counted.values()) / 3
    if not past:
        assert oracle.prefill_flops(config, tokens) == 3 * layer["total"] + head


@pytest.mark.parametrize(
    "mask",
    [
        causal(11, -1e4),
        causal(11, float("-inf")),
        causal(11, torch.finfo(torch.float32).min)[None, None],
        causal(11, torch.finfo(torch.float16).min, torch.float16),
        causal(11, torch.finfo(torch.bfloat16).min, torch.bfloat16).expand(3, 6, 11, 11),
    ],
    ids=["-1e4", "-inf", "[1,1,T,T]", "float16", "[B,heads,T,T]"],
)
def test_every_kind_of_causal_mask_means_the_same(mask: Tensor) -> None:
    hidden, _, _ = compat.draw_inputs(CASES["base"])
    weights = attention_weights(BASE)
    expected = oracle.attention(BASE, weights, hidden)
    torch.testing.assert_close(oracle.attention(BASE, weights, hidden, mask), expected)


def test_mask_entries_that_do_not_block_are_added() -> None:
    hidden, mask, positions = compat.draw_inputs(CASES["base"])
    mask = mask - torch.rand(mask.shape, generator=torch.Generator().manual_seed(4))
    weights = attention_weights(BASE)
    actual = hf.hf_attention(BASE, weights, hidden, mask, positions)
    whole, worst = compat.errors(actual, oracle.attention(BASE, weights, hidden, mask))
    assert whole <= compat.LIMIT.tensor
    assert worst <= compat.LIMIT.token
    plain = oracle.attention(BASE, weights, hidden)
    assert compat.errors(actual, plain)[0] > 1e-2


def test_a_row_with_every_key_blocked_stays_finite() -> None:
    hidden, mask, _ = compat.draw_inputs(CASES["base"])
    hidden.requires_grad_()
    mask[0, :, 0] = float("-inf")
    output = oracle.attention(BASE, attention_weights(BASE), hidden, mask)
    output.sum().backward()  # type: ignore[no-untyped-call]
    assert output.isfinite().all()
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()


def test_a_boolean_mask_is_refused() -> None:
    hidden, _, _ = compat.draw_inputs(CASES["base"])
    with pytest.raises(TypeError, match="additive floats"):
        oracle.attention(BASE, attention_weights(BASE), hidden, torch.ones(11, 11).bool())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_inputs_are_widened_exactly(dtype: torch.dtype) -> None:
    narrow = {n: w.to(dtype) for n, w in compat.draw_weights(BASE).items()}
    wide = {n: w.double() for n, w in narrow.items()}
    tokens = torch.arange(10).view(2, 5)
    logits = oracle.model_logits(BASE, narrow, tokens)
    assert logits.dtype == torch.float64
    assert torch.equal(logits, oracle.model_logits(BASE, wide, tokens))


def test_a_theta_lost_by_transformers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = hf.hf_config(replace(BASE, rope_theta=1e4))
    monkeypatch.setattr(hf, "hf_config", lambda config: lost)
    with pytest.raises(RuntimeError, match=r"rope_theta = 1000000\.0"):
        hf.hf_rope_tables(BASE, torch.arange(3))


def test_weights_under_wrong_names_are_refused() -> None:
    weights = attention_weights(BASE)
    weights["q_proj.bias"] = weights.pop("q_norm.weight")
    hidden, mask, positions = compat.draw_inputs(CASES["base"])
    with pytest.raises(KeyError, match=r"missing \['q_norm.weight'\], unknown \['q_proj.bias'\]"):
        hf.hf_attention(BASE, weights, hidden, mask, positions)


def test_the_reference_does_not_import_transformers() -> None:
    code = "import sys, tools.compat; sys.exit('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=compat.ROOT, check=False)
    assert done.returncode == 0


@pytest.mark.slow
def test_a_release_that_cannot_be_installed_is_named_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(requirement: str) -> Path:
        if requirement == "transformers==0.0":
            raise RuntimeError("no such release")
        return Path(sys.executable)

    monkeypatch.setattr(compat, "prepare", prepare)
    monkeypatch.setattr(compat, "RELEASES", ("transformers==0.0", "transformers"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # other tests run beside this one
    assert compat.main([]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "transformers==0.0  FAILED: cannot be installed: no such release"
    assert second.startswith(f"transformers {hf.VERSION}  worst error")
    assert second.endswith("ok")
