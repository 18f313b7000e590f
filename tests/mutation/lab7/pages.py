"""Random lives of a pool and of block tables, and attention that reads through tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import torch

from tests.mutation.costs import over
from tests.mutation.dice import Dice
from tests.mutation.models import config_of, load, weights_of

NARROW = (torch.float32, torch.float32, torch.float16, torch.bfloat16)
WHOLE = (torch.int32, torch.int64)
STEPS = 12


def tried(call: Callable[[], Any], word: str = "") -> Any:
    """What a call gives, or what it raises and whether the text holds a word."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, word in str(error)


def _pool(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Blocks are taken, shared and given back; what is refused changes nothing."""
    shape = tuple(dice.integer(1, 6) for _ in range(4))
    pool = module.BlockPool(*shape, *((dice.pick(NARROW),) if number % 3 else ()))
    found: dict[str, Any] = {"keys": pool.keys.clone(), "values": pool.values.clone()}
    pool.keys.fill_(1)
    found["apart"] = bool((pool.values == 0).all())
    owned: list[int] = []
    for step in range(STEPS):
        kind = dice.pick(("allocate", "share", "free", "free"))
        lot, count = dice.integer(0, 99), dice.integer(0, shape[0] + 1)
        if kind == "allocate":
            given = (count,) if lot % 3 else ()
            got = tried(partial(pool.allocate, *given), str(*given or "1"))
            if isinstance(got, list):
                owned += got
                got = len(got), len({*owned}) == len(owned)
        else:
            nobodys = sorted({*range(shape[0])} - {*owned})
            mine = bool(owned) and (lot % 4 > 0 or not nobodys)
            block = owned[lot % len(owned)] if mine else nobodys[lot % len(nobodys)]
            got = tried(partial(getattr(pool, kind), block))
            if mine:
                owned.remove(block)
                owned += [block] * (2 if kind == "share" else 0)
        owners = [pool.references(block) for block in range(shape[0])]
        right = owners == [owned.count(block) for block in range(shape[0])]
        found[f"step {step}"] = kind, got, pool.available, right
    return found


def _tables(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Tables that grow, fork and end; what each holds, and how many own each of its blocks."""
    blocks, size, dtype = dice.integer(2, 9), dice.integer(1, 5), dice.pick(NARROW)
    pool = module.BlockPool(blocks, size, dice.integer(1, 3), dice.integer(1, 4), dtype)
    tables = [module.BlockTable(pool)]
    found: dict[str, Any] = {}
    for step in range(STEPS):
        kind, table = dice.pick(("append", "append", "append", "fork", "free")), dice.pick(tables)
        said = None
        if kind == "append":
            tokens = dice.integer(0, 2 * size)
            k, v = (dice.normal(tokens, *pool.keys.shape[2:]).to(dtype) * 3 for _ in "kv")
            kept = k.clone(), v.clone()
            said = tried(partial(table.append, k, v))
            found[f"step {step} input"] = torch.equal(k, kept[0]) and torch.equal(v, kept[1])
        elif kind == "fork":
            tables.append(table.fork())
        else:
            table.free()
        own = [(one.length, [pool.references(block) for block in one.blocks]) for one in tables]
        shared = len({block for one in tables for block in one.blocks})
        found[f"step {step}"] = kind, said, pool.available, own, shared
        for name, parts in (("keys", pool.keys), ("values", pool.values)):
            held = [parts[one.blocks].flatten(0, 1)[: one.length] for one in tables]
            found[f"step {step} {name}"] = torch.cat(held)
    return found


def _paged(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Tables of any blocks, also shared ones; what nobody stored is large."""
    kv_heads, size, head_dim = dice.integer(1, 3), dice.integer(1, 5), dice.integer(1, 9)
    dtype, whole = dice.pick(NARROW), dice.pick(WHOLE)
    contexts = [dice.integer(1, 14) for _ in range(dice.integer(1, 4))]
    news = [dice.pick((1, dice.integer(1, context), context)) for context in contexts]
    counts = [-(-context // size) for context in contexts]
    blocks = max(counts) + dice.integer(0, 9)
    k, v = (dice.normal(blocks, size, kv_heads, head_dim) * dice.pick((1.0, 6.0)) for _ in "kv")
    tables = torch.full((len(contexts), max(counts) + dice.integer(0, 2)), -1)
    for row, count in enumerate(counts):
        tables[row, :count] = torch.argsort(dice.uniform(blocks))[:count]
    free = sorted({*range(blocks)} - {*tables.flatten().tolist()})
    k[free], v[free] = 1e4, 1e4
    q = dice.normal(sum(news), kv_heads * dice.integer(1, 3), head_dim) * dice.pick((1.0, 6.0))
    ends = torch.tensor([0, *news]).cumsum(0)
    q, k, v = (part.to(dtype) for part in (q, k, v))
    given = q, k, v, tables, torch.tensor(contexts, dtype=whole), ends.to(whole)
    kept = [part.clone() for part in given]
    got = module.paged_attention(*given)
    same = all(torch.equal(one, other) for one, other in zip(given, kept, strict=True))
    return {"paged": got, "paged inputs": same}


def _paged_costs(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Many sequences in a large pool: neither is held at once, repeated or made wide."""
    if number % 40:
        return {}
    heads, head_dim, size, rows = 2, 4, 4, 20
    k, v = (dice.normal(400, size, heads, head_dim).half() for _ in "kv")
    q = dice.normal(rows, 2 * heads, head_dim).half()
    tables = torch.stack([torch.argsort(dice.uniform(400))[:8] for _ in range(rows)])
    given = q, k, v, tables, torch.full((rows,), 32), torch.arange(rows + 1)
    size = sum(part.nbytes for part in given) + rows * 32 * heads * head_dim * 2
    return over(module.paged_attention, given, size=size)


def _attention(module: ModuleType, dice: Dice, number: int) -> dict[str, Any]:
    """Chunks of several texts beside each other, call after call, at any positions."""
    c, dtype = config_of(dice), dice.pick(NARROW)
    c = replace(c, head_dim=dice.pick((2, c.head_dim)))
    sizes = c.num_attention_heads, c.num_key_value_heads, c.head_dim
    attention = module.Qwen3Attention(c.hidden_size, *sizes, c.rms_norm_eps, c.rope_theta)
    attention = load(attention, weights_of(dice, c, "attention"), dtype)
    found: dict[str, Any] = {"weights": {n: w.shape for n, w in attention.state_dict().items()}}
    texts, size = dice.integer(1, 3), dice.integer(1, 5)
    pool = module.BlockPool(8 * texts, size, *sizes[1:], dtype)
    tables, scale = [module.BlockTable(pool) for _ in range(texts)], dice.pick((1.0, 1.0, 1e-3))
    for call in range(dice.integer(1, 3)):
        news = [dice.integer(0, 2 * size) for _ in tables]
        news[0] += sum(news) == 0
        some = [(table, new) for table, new in zip(tables, news, strict=True) if new]
        x = (dice.normal(sum(news), c.hidden_size) * scale).to(dtype)
        # With two numbers to a head, angles are positions: exact, however far.
        far = dice.integer(0, 40_000) if c.head_dim == 2 else 0
        positions = torch.argsort(dice.uniform(sum(news))) % 12 + far
        ends = torch.tensor([0, *(new for _, new in some)]).cumsum(0).to(dice.pick(WHOLE))
        given = positions, x, ends
        kept = [part.clone() for part in given]
        found[f"call {call}"] = attention(positions, x, [table for table, _ in some], ends)
        same = all(torch.equal(one, other) for one, other in zip(given, kept, strict=True))
        found[f"call {call} inputs"] = same, [table.length for table in tables]
    return found


PARTS = (_pool, _tables, _paged, _paged_costs, _attention)
