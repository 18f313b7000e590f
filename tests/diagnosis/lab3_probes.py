"""Probes of lab 3: small runs in this process, each of which makes one kind of mistake visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from autograder.diagnosis.misconceptions import apply, load
from autograder.worker import costs
from labs.given.config import Qwen3Config
from tests.diagnosis.lab2_probes import execute, numbers, same

__all__ = ["BY_ID", "CATALOGUE", "PROBES", "SOURCES", "alike", "observe"]

FOLDER = Path(__file__).parents[2] / "solutions" / "lab3_kv_cache"
SOURCES = {f: (FOLDER / f).read_text(encoding="utf-8") for f in ("attention.py", "mlp.py")}
CATALOGUE = load(FOLDER / "misconceptions.toml", SOURCES)
BY_ID = {entry.id: entry for entry in CATALOGUE.entries}
BATCH, SEQ, DIM, HEADS, KV_HEADS, SIZE, ROOM = 3, 11, 44, 6, 2, 16, 13
PIECES = (5, 3, 2, 1)
Probe = tuple[str, Callable[[], Any]]


def weights(norm_scale: float = 1.0) -> dict[str, Tensor]:
    """Spread norm weights: with all of them 1, norm and rotation could change places."""
    shapes = {"wq": HEADS * SIZE, "wk": KV_HEADS * SIZE, "wv": KV_HEADS * SIZE}
    drawn = {
        f"{name}.weight": numbers(rows, DIM, seed=ord(name[1])) / DIM**0.5
        for name, rows in shapes.items()
    }
    drawn["wo.weight"] = numbers(DIM, HEADS * SIZE, seed=5) / (HEADS * SIZE) ** 0.5
    for name in ("q_norm", "k_norm"):
        drawn[f"{name}.weight"] = (1 + 0.6 * numbers(SIZE, seed=ord(name[0]))) * norm_scale
    return drawn


def causal(dtype: torch.dtype = torch.float32, *, padded: bool = False) -> Tensor:
    mask = torch.full((BATCH, 1, SEQ, SEQ), torch.finfo(dtype).min, dtype=dtype).triu(1)
    if padded:
        mask[1, :, :, :3] = torch.finfo(dtype).min
        mask[1].diagonal(dim1=-2, dim2=-1).zero_()  # never block a whole row
    return mask


def own_masks() -> Tensor:
    """Head h sees its first keys, 3 + h of them."""
    hidden = torch.arange(SEQ) >= 3 + torch.arange(HEADS)[:, None, None]
    return torch.finfo(torch.float32).min * hidden.expand(1, HEADS, SEQ, SEQ).float()


def tokens(dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    return (numbers(BATCH, SEQ, DIM, seed=1) * scale).to(dtype)


def attention_probes(module: SimpleNamespace) -> Iterator[Probe]:
    angles = torch.outer(torch.arange(64).float(), 1e6 ** -(torch.arange(8) / 8))
    table = torch.polar(torch.ones_like(angles), angles)

    def cache_of(dtype: torch.dtype = torch.float32) -> Any:
        return module.KVCache(BATCH, ROOM, KV_HEADS, SIZE, dtype)

    def build(dtype: torch.dtype = torch.float32, cache: Any = None, scale: float = 1.0) -> Any:
        made = module.GroupedQueryAttention(DIM, HEADS, KV_HEADS, SIZE, 3e-4, cache)
        made.load_state_dict(weights(scale))
        return made.to(dtype)

    def decoded(dtype: torch.dtype, mask: Tensor | None) -> Any:
        attention, first, found = build(dtype, cache_of(dtype)), 0, []
        for count in PIECES:
            own = None if mask is None else mask[..., first : first + count, : first + count]
            part = tokens(dtype)[:, first : first + count]
            found.append(attention(part, first, table, own))
            first += count
        return found

    def taken_back() -> Any:
        attention = build(cache=cache_of())
        attention(tokens(), 0, table)
        return attention(tokens()[:, :2], 3, table)

    def cost() -> Any:
        """Rows that a step projects, and bytes of a cache."""
        cache = cache_of()
        attention = build(cache=cache)
        attention(tokens()[:, :-1], 0, table)
        with costs.counted(attention, ("wq", "wk", "wv")) as rows:
            attention(tokens()[:, -1:], SEQ - 1, table)
        return [*rows.values(), costs.held(cache)]

    def rotated(dtype: torch.dtype) -> Any:
        q = numbers(BATCH, SEQ, HEADS, SIZE, seed=4).to(dtype)
        k = q[:, :, :KV_HEADS] * 2
        return [*module.apply_rotary_emb(q, k, table[3 : 3 + SEQ]), q, k]

    def permuted(*shape: int) -> Any:
        weight = numbers(*shape, seed=6)
        return module.permute_for_complex(weight, shape[0] // SIZE, SIZE), weight

    def parts(count: int, seed: int) -> tuple[Tensor, Tensor]:
        shape = BATCH, count, KV_HEADS, SIZE
        return numbers(*shape, seed=seed), numbers(*shape, seed=seed + 1)

    def stored(*steps: tuple[int, int], dtype: torch.dtype = torch.float32) -> Any:
        """What update gives for ``(start_pos, tokens)``; -1 as ``tokens`` resets."""
        cache: Any = cache_of(dtype)
        found = []
        for number, (start, count) in enumerate(steps):
            try:
                if count < 0:
                    cache.reset()
                else:
                    found.append([t.clone() for t in cache.update(*parts(count, number), start)])
            except Exception as error:
                found.append([f"{type(error).__name__} {ROOM if str(ROOM) in str(error) else ''}"])
        return found

    def two_caches() -> Any:
        one, other = cache_of(), cache_of()
        one.update(*parts(4, 1), 0)
        other.update(*parts(4, 2), 0)
        return [t.clone() for t in one.update(*parts(2, 3), 4)]

    half, fine = torch.float16, torch.float32
    yield "table", lambda: torch.view_as_real(module.precompute_freqs_cis(SIZE, 2000, 5e5))
    yield "rotated", partial(rotated, fine)
    yield "rotated float16", partial(rotated, half)
    yield "rotated bfloat16", partial(rotated, torch.bfloat16)
    yield "permuted", partial(permuted, HEADS * SIZE, 5)
    yield "permuted norm", partial(permuted, SIZE)
    yield "stored", partial(stored, (0, 5), (5, 3), (8, 1), (9, 1))
    yield "rewound", partial(stored, (0, 5), (5, 3), (6, 2), (8, 1))
    yield "reset", partial(stored, (0, 5), (0, -1), (0, 2), (2, 3))
    yield "emptied", partial(stored, (0, 5), (0, -1), (3, 2))
    yield "gap", partial(stored, (0, 2), (4, 1))
    yield "gap, twice", partial(stored, (0, 2), (4, 1), (4, 1))
    yield "gap after rewinding", partial(stored, (0, 5), (0, 2), (4, 1))
    yield "full by one", partial(stored, (0, ROOM), (ROOM, 1), (ROOM - 1, 1))
    yield "full by two", partial(stored, (0, ROOM - 1), (3, ROOM - 2), (ROOM - 1, 1))
    yield "full, then a gap", partial(stored, (0, 2), (1, ROOM), (4, 1))
    yield "stored in float16", partial(stored, (0, 5), (5, 1), dtype=half)
    yield "two caches", two_caches
    yield "causal", lambda: build()(tokens(), 0, table)
    yield "causal from 20", lambda: build()(tokens(), 20, table)
    yield "from 20", lambda: build()(tokens(), 20, table, causal())
    yield "all is seen", lambda: build()(tokens(), 0, table, torch.zeros(1, 1, SEQ, SEQ))
    yield "all is seen, for all alike", lambda: build()(tokens(), 0, table, torch.zeros(SEQ, SEQ))
    yield "each head sees its own", lambda: build()(tokens(), 0, table, own_masks())
    yield "one token", lambda: build()(tokens()[:, :1], 0, table)
    yield "large norm weights", lambda: build(scale=6.0)(tokens(), 0, table)
    yield "float16", lambda: build(half)(tokens(half), 0, table)
    yield "decoded", partial(decoded, fine, None)
    yield "decoded, masked", partial(decoded, fine, causal())
    yield "decoded, padded", partial(decoded, fine, causal(padded=True))
    yield "decoded, bfloat16", partial(decoded, torch.bfloat16, causal(torch.bfloat16))
    yield "decoded, all is seen", partial(decoded, fine, torch.zeros(SEQ, SEQ))
    yield "taken back", taken_back
    yield "cost", cost


def mlp_probes(module: SimpleNamespace) -> Iterator[Probe]:
    def mlp() -> Any:
        made = module.FeedForward(DIM, 56)
        for number, (_, weight) in enumerate(sorted(made.named_parameters())):
            weight.copy_(numbers(*weight.shape, seed=20 + number) / weight.shape[1] ** 0.5)
        return made(tokens())

    def converted(prefix: str) -> Any:
        names = ("gate_proj", "up_proj", "down_proj")
        state = {f"{prefix}{name}.weight": torch.tensor([float(len(name))]) for name in names}
        state |= {"norm.weight": torch.ones(2), f"{prefix}up_proj.weight_scale": torch.ones(3)}
        state |= {f"{prefix}gate_up_proj.weight": torch.ones(4)}
        before = list(state)
        found = module.convert_hf_mlp(state)
        return [sorted(found), [found[name] for name in sorted(found)], list(state) == before]

    sizes = ((4096, 256, None), (8192, 4096, 1.3), (48, 64, None), (100, 7, 1.5))
    yield "mlp", mlp
    yield "converted", partial(converted, "")
    yield "converted, prefixed", partial(converted, "layers.3.mlp.")
    yield "sizes", lambda: [module.feed_forward_size(*size) for size in sizes]
    config = Qwen3Config(97, DIM, 72, 4, HEADS, KV_HEADS, SIZE)
    calls = ((11, 0), (4, 23), (1, 41))
    yield "operations", lambda: [list(module.layer_flops(config, *c).values()) for c in calls]
    yield "prefill", lambda: [module.prefill_flops(config, tokens) for tokens in (7, 11)]


PROBES = {"attention.py": attention_probes, "mlp.py": mlp_probes}
# What is coarse tells by its dtype and whether it ran, not by its digits.
LIMITS = {"large norm weights": 1e-4, "table": 1e-4}
LIMITS |= {"float16": 5e-3, "rotated float16": 5e-3, "stored in float16": 5e-3}
LIMITS |= {"decoded, bfloat16": 3e-2, "rotated bfloat16": 3e-2}


def alike(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two observations of one file are the same."""
    return all(same(a[name], b[name], LIMITS.get(name, 1e-5)) for name in b)


@cache
def observe(file: str, entry: str | None) -> dict[str, Any]:
    """Run all probes of ``file`` with one mistake in it, or without any."""
    sources = SOURCES if entry is None else apply(BY_ID[entry], SOURCES)
    seen: dict[str, Any] = {}
    torch.default_generator.manual_seed(0)
    with torch.no_grad():
        for name, probe in PROBES[file](execute(sources[file], file)):
            try:
                seen[name] = probe()
            except Exception as error:
                seen[name] = type(error).__name__
    return seen
