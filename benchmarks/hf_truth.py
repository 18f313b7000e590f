"""A pytest plugin: the truth of attention and MLP comes from transformers, in every process.

That is how most courses write such tests, and what grading here does without. It computes what
the cases of lab 2 hold already, and ends the run where the two do not agree.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autograder.checks import plugin
from autograder.reference.cases import Case
from autograder.reference.compare import LIMITS, difference
from autograder.worker.values import to_torch
from labs.given.config import Qwen3Config
from solutions.reference import hf


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compute the truth of every case once, as a fixture of the session would."""
    found = {case.name: case for item in session.items if (case := plugin.case_of(item))}
    for case in found.values():
        truth = _truth(case)
        if truth is None:
            continue
        keep = case["keep"].array.astype(bool) if "keep" in case.tensors else None
        want = case["y"].array.astype(np.float64)
        gap = difference(truth.double().numpy(), want, keep)
        if gap.tensor > LIMITS[case.values.get("dtype", "float32")].tensor:
            pytest.exit(f"{case.name}: transformers says something else ({gap.tensor:.2e})", 3)


def _truth(case: Case) -> torch.Tensor | None:
    """``y`` of a case as transformers computes it, float32; None where it is of another kind."""
    weights = {name: to_torch(tensor) for name, tensor in case.weights.items()}
    if "y" not in case.tensors or not weights:
        return None
    config, x = Qwen3Config(**case.config), to_torch(case["x"])
    with torch.no_grad():
        if "gate_proj.weight" in weights:
            return hf.hf_mlp(config, weights, x)
        tokens = x.shape[1]
        mask = torch.full((tokens, tokens), torch.finfo(torch.float32).min).triu(1)[None, None]
        if "mask" in case.tensors:
            mask = to_torch(case["mask"]).float()
        positions = torch.arange(tokens)
        if "positions" in case.tensors:
            positions = to_torch(case["positions"])
        return hf.hf_attention(config, weights, x, mask, positions)
