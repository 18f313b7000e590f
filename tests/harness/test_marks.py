"""Marks: what a student wrote is theirs, also under the name of a function of torch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autograder.course import labfile
from autograder.harness import marks

LAB = replace(
    labfile.load(labfile.find_lab("1")),
    forbidden=("torch.softmax", "torch.nn.functional.silu", "torch.nn.MultiheadAttention"),
)
OWN = "def softmax(x, dim): return x\ndef use(x): return softmax(x, -1)\n"


def named(attention: str, mlp: str = "", operators: set[str] | None = None) -> list[str]:
    files = {"attention.py": attention, "mlp.py": mlp}
    found = marks.forbidden(LAB, files, operators or set())
    return [f"{mark.key} {mark.values['name']}" for mark in found]


@pytest.mark.parametrize(
    ("attention", "mlp"),
    [
        (OWN, ""),
        (OWN, "from attention import softmax\ny = softmax(x, 0)"),
        (OWN, "import attention\ny = attention.softmax(x, 0)"),
        (OWN, "from attention import softmax as weigh, use\ny = weigh(x, 0)"),
        ("class A:\n    def silu(self): return self.silu()", ""),
        ("class A:\n    async def silu(self): return await self.silu()", ""),
        (f"{OWN}__all__ = ['softmax']", ""),
        ("# softmax, silu\nx = 'a softmax'", ""),
    ],
)
def test_a_name_of_ones_own_is_no_use(attention: str, mlp: str) -> None:
    assert named(attention, mlp) == []


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ny = torch.softmax(x, 0)",
        "y = scores.softmax(-1)",
        "from torch import softmax\n",
        "from torch import softmax as weigh\n",
        "y = getattr(torch, 'softmax')(x, 0)",
        "import torch.softmax\n",
        "from torch import *\ny = softmax(x, 0)",
        f"{OWN}\nz = torch.softmax(x, 0)",
    ],
)
def test_a_use_of_torchs_is_marked(text: str) -> None:
    assert "check.forbidden torch.softmax" in named(text)


def test_the_operators_are_asked_where_the_text_shows_nothing() -> None:
    said = ["check.forbidden_operator torch.softmax"]
    assert named(OWN, operators={"matmul", "softmax"}) == said
    assert named(OWN, operators={"matmul"}) == []
