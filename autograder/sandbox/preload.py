"""What a worker finds imported already, and which files it may still read."""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path

from autograder.sandbox.jail import Jail, harden_parent
from autograder.sandbox.reach import python_readable

CPU_BACKSTOP_SECONDS = 600  # the judge's own deadline per check is far below this


def jail(root: Path, memory_bytes: int) -> Jail:
    """Import what workers need, then build the jail around it.

    Args:
        root: the project's folder, which no worker may read.
        memory_bytes: what a worker may allocate beyond what it starts with.
    """
    readable = everything(root)
    harden_parent()
    return Jail.prepare(readable, memory_bytes, CPU_BACKSTOP_SECONDS)


def everything(root: Path) -> tuple[str, ...]:
    """Import torch and the given code, run the operators that load things lazily.

    Returns:
        The paths that a worker may read: Python, torch and what torch imports lazily.
        The project's own folder is not among them, and leaves ``sys.path`` here.
    """
    # Our own copies are in memory from here on; nothing of the project is read later.
    import labs.given.norm  # noqa: F401
    from autograder.sandbox import session  # noqa: F401

    _warm_up()
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != root]
    gc.collect()
    gc.freeze()  # forked workers share these pages; collecting would copy them
    return python_readable()


def _warm_up() -> None:
    """Touch what initialises itself at first use; after the fork each worker would pay."""
    import torch
    import torch.nn.functional as F

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        x = torch.randn(2, 3, 4, 8)
        layer = torch.nn.Linear(8, 8, bias=False)
        F.silu(layer(x)).sum().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            torch.einsum("bhqd,bhkd->bhqk", x, x).softmax(-1) @ x
            F.scaled_dot_product_attention(x, x, x, is_causal=True)
            F.rms_norm(x, (8,))
            for dtype in (torch.bfloat16, torch.float16):
                narrow = layer.to(dtype)(x.to(dtype))
                narrow.float().rsqrt().masked_fill(narrow.float() > 0, -1.0).numpy()
            layer.float().load_state_dict(layer.state_dict(), strict=True)
            x.repeat_interleave(2, dim=1).cos().triu(1).chunk(2, dim=-1)
            torch.view_as_complex(x.reshape(2, 3, 4, 4, 2)).abs()
