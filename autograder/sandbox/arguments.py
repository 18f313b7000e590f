"""What checks pass that is neither a number nor a tensor: each becomes something real there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GivenConfig:
    """A given ``Qwen3Config`` as an argument; student code receives the real class."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Dtype:
    """A torch dtype by its name (``"bfloat16"``) as an argument."""

    name: str


@dataclass(frozen=True)
class Named:
    """A class as an argument, by name: ``"attention.Qwen3Attention"``, or one of given code."""

    path: str


@dataclass(frozen=True)
class Folder:
    """A folder that ``lab.toml`` lists; student code receives a path where it can read it."""

    path: str
