"""Fixed random projections: a few numbers that stand for many, near exactly when those are."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

WIDTH = 8  # numbers per item
SEED = 20_250_428


@lru_cache(maxsize=512)
def _signs(key: str, length: int) -> NDArray[np.float64]:
    """``[WIDTH, length]`` of +-1, the same under every release of numpy.

    Taken from the raw bits of the generator: only these are promised to stay.
    """
    seed = int.from_bytes(hashlib.sha256(f"{SEED} {key}".encode()).digest()[:8], "little")
    words = np.random.PCG64(seed).random_raw(-(-WIDTH * length // 64))
    bits = np.unpackbits(np.asarray(words, "<u8").view(np.uint8))[: WIDTH * length]
    return bits.reshape(WIDTH, length).astype(np.float64) * 2.0 - 1.0


def project(key: str, values: NDArray[np.float64], width: int = WIDTH) -> NDArray[np.float64]:
    """``[width]``: its length is that of ``values``, on average over keys.

    Args:
        key: which projection; equal keys and lengths give the same one.
        values: ``[n]``; nothing for n = 0 (then zeros).
        width: at most ``WIDTH``.
    """
    if not values.size:
        return np.zeros(width)
    found: NDArray[np.float64] = _signs(key, values.size)[:width] @ values / width**0.5
    return found
