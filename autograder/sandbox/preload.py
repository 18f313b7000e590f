"""What a worker finds imported already, and which files it may still read."""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path

from autograder.sandbox.jail import Jail, harden_parent
from autograder.sandbox.reach import python_readable

WARM_TURNS = 24
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
    """Touch what initialises itself at first use; after the fork each worker would pay.

    The interpreter specialises code that runs often, and torch looks kernels up once: a
    worker forked from a warm zygote needs two thirds of the time.
    """
    import torch
    import torch.nn.functional as F

    from labs.given.norm import RMSNorm

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        for turn in range(WARM_TURNS):
            dtype = (torch.float32, torch.float32, torch.bfloat16, torch.float16)[turn % 4]
            layer = torch.nn.ModuleDict({"up": torch.nn.Linear(12, 24, bias=False)})
            layer["norm"] = RMSNorm(8)
            layer.eval().to(dtype).load_state_dict(layer.state_dict(), strict=True)
            with torch.no_grad():
                x = torch.randn(2, 5, 12).to(dtype)
                heads = layer["norm"](layer["up"](x).view(2, 5, 3, 8)).transpose(1, 2)
                first, second = heads.chunk(2, dim=-1)
                angles = torch.arange(5)[:, None].float() * torch.ones(4)
                angles = torch.cat((angles, angles), dim=-1)
                turned = torch.cat((-second, first), dim=-1) * angles.sin().to(dtype)
                q = heads * angles.cos().to(dtype) + turned
                k = q[:, :1].repeat_interleave(3, dim=1)
                scores = q @ k.transpose(-1, -2) * 8**-0.5
                future = torch.ones(5, 5, dtype=torch.bool).triu(1)
                scores = scores.masked_fill(future, torch.finfo(dtype).min)
                weights = (scores + torch.zeros(5, 5, dtype=dtype)).softmax(-1, torch.float32)
                mixed = (weights.to(dtype) @ k).transpose(1, 2).reshape(2, 5, -1)
                F.silu(mixed).expand(2, 5, 24).pow(2).mean(-1, keepdim=True)
                torch.einsum("bhqd,bhkd->bhqk", q, k)
                F.scaled_dot_product_attention(q, k, k, is_causal=True)
                F.rms_norm(mixed, (24,))
        torch.view_as_complex(torch.randn(2, 3, 4, 2)).abs()
        torch.nn.Linear(3, 3)(torch.randn(2, 3)).sum().backward()
