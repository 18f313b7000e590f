"""Probes of lab 2: small runs in this process, each of which makes one kind of mistake visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from autograder.diagnosis.misconceptions import apply, load
from labs.given.config import Qwen3Config

FOLDER = Path(__file__).parents[2] / "solutions" / "lab2_qwen3_block"
SOURCES = {f: (FOLDER / f).read_text(encoding="utf-8") for f in ("attention.py", "mlp.py")}
CATALOGUE = load(FOLDER / "misconceptions.toml", SOURCES)
BY_ID = {entry.id: entry for entry in CATALOGUE.entries}

# Every size differs from every other (hidden // heads too), heads * head_dim is not hidden, eps
# is not the default.
CONFIG = Qwen3Config(97, 44, 56, 3, 6, 2, 16, rms_norm_eps=3e-4)
UNTIED = Qwen3Config(151_936, 4096, 12_288, 36, 32, 8, 128, tie_word_embeddings=False)
BATCH, SEQ, PAD, LONG = 4, 11, 3, 400
SEEN = dict[str, Any]  # what one probe showed: a tensor, a list of numbers, or an error's name


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def weights(norm_scale: float = 1.0) -> dict[str, Tensor]:
    """Spread norm weights: with all of them 1, norm and rotation could change places."""
    hidden, q_rows, kv_rows, d = CONFIG.hidden_size, 96, 32, 16
    shapes = {"q": (q_rows, hidden), "k": (kv_rows, hidden), "v": (kv_rows, hidden)}
    drawn = {
        f"{name}_proj.weight": numbers(*shape, seed=ord(name)) / hidden**0.5
        for name, shape in shapes.items()
    }
    drawn["o_proj.weight"] = numbers(hidden, q_rows, seed=5) / q_rows**0.5
    for name in ("q_norm", "k_norm"):
        drawn[f"{name}.weight"] = (1 + 0.6 * numbers(d, seed=ord(name[0]) + 9)) * norm_scale
    return drawn


def mlp_weights() -> dict[str, Tensor]:
    shapes = {"gate_proj": (56, 44), "up_proj": (56, 44), "down_proj": (44, 56)}
    return {
        f"{name}.weight": numbers(*shape, seed=20 + i) / shape[1] ** 0.5
        for i, (name, shape) in enumerate(shapes.items())
    }


ROW = torch.arange(SEQ)
# One row is padded on the left, one has a gap (else only differences count, and those are the
# same as without any position_ids), one starts far away.
ROWS = torch.stack((ROW, (ROW - PAD).clamp(min=0), ROW + 7 * (ROW > 5), ROW + 300))


def tokens(dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    """Drawn anew for each probe: a mistake may change its input."""
    return (numbers(BATCH, SEQ, 44, seed=1) * scale).to(dtype)


def left_padding(dtype: torch.dtype) -> Tensor:
    lowest = torch.finfo(dtype).min
    mask = torch.full((BATCH, 1, SEQ, SEQ), lowest, dtype=dtype).triu(1)
    mask[1, :, :, :PAD] = lowest
    mask[1].diagonal(dim1=-2, dim2=-1).zero_()  # never block a whole row
    return mask


def with_holes() -> Tensor:
    """A mask that is not causal: what is given decides alone."""
    holes = (numbers(BATCH, 1, SEQ, SEQ, seed=7) > 0.5).float() * torch.finfo(torch.float32).min
    holes.diagonal(dim1=-2, dim2=-1).zero_()
    return holes


def attention_probes(module: SimpleNamespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    def build(dtype: torch.dtype = torch.float32, norm_scale: float = 1.0) -> Any:
        attention = module.Qwen3Attention(CONFIG, 0)
        attention.load_state_dict(weights(norm_scale))
        return attention.to(dtype)

    def padded(dtype: torch.dtype) -> Any:
        mask = left_padding(dtype)
        y = build(dtype)(tokens(dtype), attention_mask=mask, position_ids=ROWS)
        return y, (mask == left_padding(dtype)).float()

    def untouched() -> Any:
        x, attention = tokens(), build()
        return attention(x) - attention(x), x

    def products(positions: Tensor) -> Any:
        angle = numbers(*positions.shape, 8, seed=3)
        angle = torch.cat((angle, angle), dim=-1)
        q, k = numbers(BATCH, 6, SEQ, 16, seed=4), numbers(BATCH, 6, SEQ, 16, seed=5)
        q, k = module.apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
        return q @ k.mT

    def thetas() -> Any:
        old = replace(CONFIG, rope_theta=1e4)
        return [module.RotaryEmbedding(c)(ROW)[0] for c in (CONFIG, old)]

    long_x, half = numbers(1, LONG, 44, seed=2), torch.float16
    yield "causal", lambda: build()(tokens())
    yield "far positions", lambda: build()(tokens(), position_ids=ROW + 300)
    yield "left padding", lambda: padded(torch.float32)
    yield "mask with holes", lambda: build()(tokens(), attention_mask=with_holes())
    yield "long", lambda: build()(long_x)
    yield "tiny input", lambda: build()(tokens(scale=1e-3))
    yield "large norm weights", lambda: build(norm_scale=6.0)(tokens())
    yield "two calls, input unchanged", untouched
    yield "rotate_half", lambda: module.rotate_half(tokens())
    yield "tables", lambda: module.RotaryEmbedding(CONFIG)(ROW)
    yield "tables by row", lambda: module.RotaryEmbedding(CONFIG)(ROWS)
    yield "two thetas", thetas
    yield "rotation", lambda: products(ROW)
    yield "rotation by row", lambda: products(ROWS)
    yield "repeat_kv", lambda: module.repeat_kv(numbers(BATCH, 2, SEQ, 16, seed=6), 3)
    yield "bfloat16", lambda: padded(torch.bfloat16)
    yield "bfloat16 causal", lambda: build(torch.bfloat16)(tokens(torch.bfloat16))
    yield "float16 x 300", lambda: build(half)(tokens(half, 300.0))


def mlp_probes(module: SimpleNamespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    def build(dtype: torch.dtype = torch.float32) -> Any:
        mlp = module.Qwen3MLP(CONFIG)
        mlp.load_state_dict(mlp_weights())
        return mlp.to(dtype)

    def counts(config: Qwen3Config) -> Any:
        parts = list(module.count_parameters(config).values())
        for dtype in ("float32", "float16", "bfloat16"):
            parts.append(module.weight_bytes(config, dtype))
            parts.append(module.kv_cache_bytes(config, 7, 5, dtype))
        return parts

    yield "mlp", lambda: build()(tokens())
    yield "mlp bfloat16", lambda: build(torch.bfloat16)(tokens(torch.bfloat16))
    yield "tied", partial(counts, CONFIG)
    yield "untied", partial(counts, UNTIED)
    longer = CONFIG.max_position_embeddings + 1  # than the model was made for
    yield "long cache", lambda: module.kv_cache_bytes(CONFIG, longer, 5, "float32")


PROBES = {"attention.py": attention_probes, "mlp.py": mlp_probes}
LIMITS = {"large norm weights": 1e-4, "float16 x 300": 5e-3}
LIMITS |= {"bfloat16": 3e-2, "bfloat16 causal": 3e-2, "mlp bfloat16": 3e-2}


def execute(text: str, name: str) -> SimpleNamespace:
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), namespace)
    return SimpleNamespace(**namespace)


@cache
def observe(file: str, entry: str | None) -> SEEN:
    """Run all probes of ``file`` with one mistake in it, or without any."""
    sources = SOURCES if entry is None else apply(BY_ID[entry], SOURCES)
    return observe_text(file, sources[file])


def observe_text(file: str, text: str) -> SEEN:
    """What all probes of ``file`` show when its text is ``text``."""
    seen: SEEN = {}
    torch.default_generator.manual_seed(0)
    with torch.no_grad():
        for name, probe in PROBES[file](execute(text, file)):
            try:
                seen[name] = probe()
            except Exception as error:
                seen[name] = type(error).__name__
    return seen


def same(a: Any, b: Any, limit: float) -> bool:
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(same(x, y, limit) for x, y in zip(a, b, strict=True))
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return type(a) is type(b) and bool(a == b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if torch.equal(a, b):
        return True
    a, b = a.double(), b.double()
    if not torch.equal(a.isfinite(), b.isfinite()):
        return False
    a, b = a.nan_to_num(0, 0, 0), b.nan_to_num(0, 0, 0)
    return float((a - b).norm()) <= limit * float(b.norm())


def alike(a: SEEN, b: SEEN) -> bool:
    return all(same(a[name], b[name], LIMITS.get(name, 1e-5)) for name in b)
