"""Stand-ins for the parts around what an exercise of lab 5 is about.

They are called as the real parts are and compute something simple instead: no Qwen3 comes out,
but every argument that right code hands on can be seen in the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
import torch.distributed as dist
from torch import nn


class StandInDown(nn.Module):
    """``tanh(x) @ weight.T`` in the dtype of ``x``, by each rank for its own features alone."""

    def __init__(self, output_size: int, input_size: int) -> None:
        """``input_size`` is that of all ranks."""
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(output_size, input_size // dist.get_world_size()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[tokens, input_size / ranks]`` to ``[tokens, output_size]``."""
        out: torch.Tensor = x.tanh() @ self.weight.to(x.dtype).T
        return out


class StandInAttention(nn.Module):
    """Every token and the first of its sequence; positions leave their mark as a wave."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hidden_size, hidden_size))

    def forward(
        self, positions: torch.Tensor, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        """Map ``[tokens, hidden]`` to ``[tokens, hidden]``; arguments as Qwen3Attention's."""
        wave = (0.3 * positions[:, None]).cos().to(hidden_states.dtype)
        places = torch.arange(len(positions))
        firsts = cu_seqlens[torch.searchsorted(cu_seqlens, places, right=True) - 1]
        out: torch.Tensor = (hidden_states * wave + hidden_states[firsts]) @ self.weight.T
        return out


class StandInMLP(nn.Module):
    """``tanh(x @ weight.T)``."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hidden_size, hidden_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[tokens, hidden]`` to ``[tokens, hidden]``."""
        out: torch.Tensor = (x @ self.weight.T).tanh()
        return out


class StandInModel(nn.Module):
    """Parameters under dotted names, some with a loader that writes down what it is given.

    Args:
        shapes: of every parameter, by name.
        packed: names of those with a ``weight_loader``.
    """

    def __init__(self, shapes: Mapping[str, list[int]], packed: list[str]) -> None:
        super().__init__()
        self.notes: dict[str, torch.Tensor] = {}
        for name, shape in shapes.items():
            *path, last = name.split(".")
            holder: nn.Module = self
            for part in path:
                if part not in dict(holder.named_children()):
                    holder.add_module(part, nn.Module())
                holder = holder.get_submodule(part)
            parameter = nn.Parameter(torch.zeros(shape))
            if name in packed:
                parameter.weight_loader = partial(self._note, name)  # type: ignore[attr-defined]
            holder.register_parameter(last, parameter)

    def _note(
        self, name: str, /, param: nn.Parameter, loaded_weight: torch.Tensor, shard_id: object = ...
    ) -> None:
        """Take the place of a real loader, and note the call."""
        same = param.data_ptr() == self.get_parameter(name).data_ptr()
        words = [name] if same else [name, "with another parameter"]
        words += [] if shard_id is ... else [f"shard_id={shard_id!r}"]
        self.notes[" ".join(words)] = loaded_weight.clone()

    def forward(self) -> dict[str, torch.Tensor]:
        """The notes of the loaders, and the values of all other parameters."""
        plain = {n: p for n, p in self.named_parameters() if not hasattr(p, "weight_loader")}
        return {**self.notes, **plain}
