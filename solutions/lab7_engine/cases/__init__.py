"""Lab 7: the cases. Adversarial on purpose, in the manner of the other labs'."""

from . import (
    attention,
    blocks,
    loop,
    pool,
    quantized,
    schedules,
    speculation,
    tables,
    through_tables,
    weights,
)

PARTS = (
    pool,
    tables,
    through_tables,
    attention,
    weights,
    quantized,
    blocks,
    schedules,
    loop,
    speculation,
)

__all__ = ["PARTS"]
