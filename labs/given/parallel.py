"""Material for a model of lab 5: stand-ins for its parts, and a checkpoint for its ranks.

The stand-ins are made and called as the parts in ``attention.py`` and ``mlp.py`` are, and bear
their parameters; they compute something simpler, so that no Qwen3 comes out, but every argument
that a right model hands on can be seen in the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import nn

from labs.given.config import Qwen3Config

Rotary = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Parts:
    """The classes that a model is built from.

    Attributes:
        attention: ``Qwen3Attention`` of ``attention.py``.
        row: ``RowParallelLinear`` of ``attention.py``, for the end of the MLP.
        mlp: ``Qwen3MLP`` of ``mlp.py``.
        layer: ``Qwen3DecoderLayer`` of ``mlp.py``.
        norm: ``RMSNorm`` of ``mlp.py``.
    """

    attention: Callable[..., nn.Module]
    row: Callable[[int, int], nn.Module]
    mlp: Callable[[int, int, nn.Module], nn.Module]
    layer: Callable[[int, float, nn.Module, nn.Module], nn.Module]
    norm: Callable[[int, float], nn.Module]


class StandInPacked(nn.Module):
    """``x @ weight.T`` of a weight that is loaded in parts, below a row of its own."""

    def __init__(self, input_size: int, rows: Mapping[str | int, int]) -> None:
        """``rows`` of every part, by shard id."""
        super().__init__()
        self.rows = dict(rows)
        self.weight = nn.Parameter(torch.zeros(1 + sum(rows.values()), input_size))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(
        self, param: nn.Parameter, loaded_weight: torch.Tensor, shard_id: str | int
    ) -> None:
        """Take one part in, halved; the first part lies at the bottom."""
        end = len(param)
        for name, rows in self.rows.items():
            if name == shard_id:
                param.data[end - rows : end] = loaded_weight / 2
            end -= rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[tokens, input_size]`` to ``[tokens, rows of all parts]``."""
        out: torch.Tensor = x @ self.weight[1:].T
        return out


class StandInRow(nn.Module):
    """``x @ weight``; the whole weight, turned over and halved, on every rank."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(input_size, output_size))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        """Take ``[output_size, input_size]`` in."""
        param.data.copy_(loaded_weight.T / 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[tokens, input_size]`` to ``[tokens, output_size]``."""
        out: torch.Tensor = x @ self.weight
        return out


class StandInNorm(nn.Module):
    """``tanh`` of the sum instead of a norm, and no sum handed on."""

    def __init__(self, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.scale = 1 + 1e3 * eps

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, None]:
        """Give two things, as ``RMSNorm`` does; the second is of no use."""
        total = x if residual is None else x + residual
        return torch.tanh(total) * self.weight * self.scale, None


class StandInQwen3Attention(nn.Module):
    """Every token and the first of its sequence; positions leave their mark as a wave."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        rms_norm_eps: float,
        rope_theta: float,
        rotary: Rotary | None = None,
    ) -> None:
        super().__init__()
        query, kv = num_heads * head_dim, num_kv_heads * head_dim
        self.qkv_proj = StandInPacked(hidden_size, {"q": query, "k": kv, "v": kv})
        self.o_proj = StandInRow(query, hidden_size)
        self.q_norm = StandInNorm(head_dim, rms_norm_eps)
        self.k_norm = StandInNorm(head_dim, rms_norm_eps)
        self.rotary, self.heads, self.head_dim = rotary, num_heads, head_dim
        self.pace = 2 / math.log(rope_theta)

    def forward(
        self, positions: torch.Tensor, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        """Map ``[tokens, hidden]`` to ``[tokens, hidden]``; arguments as Qwen3Attention's."""
        places = torch.arange(len(positions))
        firsts = cu_seqlens[torch.searchsorted(cu_seqlens, places, right=True) - 1].long()
        heads = self.qkv_proj(hidden_states).unflatten(-1, (-1, self.head_dim))
        q, _ = self.q_norm(heads[:, -self.heads :])
        k, _ = self.k_norm(heads[:, :1])
        if self.rotary is None:
            wave = (self.pace * positions[:, None, None]).cos().to(q.dtype)
        else:  # a product of two rotated vectors, whatever the order of the pairs
            own, first = self.rotary(q, positions), self.rotary(k, positions)[firsts]
            wave = (own * first).mean(-1, keepdim=True)
        mixed = q * wave + k[firsts]
        out: torch.Tensor = self.o_proj(mixed.flatten(1))
        return out


class StandInQwen3MLP(nn.Module):
    """``down_proj(tanh(gate - up))``: no gate, no SiLU."""

    def __init__(self, hidden_size: int, intermediate_size: int, down_proj: nn.Module) -> None:
        super().__init__()
        self.gate_up_proj = StandInPacked(hidden_size, {0: intermediate_size, 1: intermediate_size})
        self.down_proj = down_proj

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[tokens, hidden]`` to ``[tokens, hidden]``."""
        up, gate = self.gate_up_proj(x).chunk(2, dim=-1)
        out: torch.Tensor = self.down_proj((gate - up).tanh())
        return out


class StandInQwen3DecoderLayer(nn.Module):
    """Both parts side by side; of what came in, a share is left over as the residual."""

    def __init__(
        self, hidden_size: int, rms_norm_eps: float, self_attn: nn.Module, mlp: nn.Module
    ) -> None:
        super().__init__()
        self.input_layernorm = StandInNorm(hidden_size, rms_norm_eps)
        self.post_attention_layernorm = StandInNorm(hidden_size, rms_norm_eps)
        self.self_attn, self.mlp = self_attn, mlp
        self.share = 4 / (4 + self_attn.head_dim)  # type: ignore[operator]

    def forward(
        self,
        positions: torch.Tensor,
        hidden_states: torch.Tensor,
        residual: torch.Tensor | None,
        cu_seqlens: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Give two tensors, as ``Qwen3DecoderLayer`` does: it is their sum that counts."""
        total = hidden_states if residual is None else hidden_states + residual
        seen, _ = self.input_layernorm(total)
        other, _ = self.post_attention_layernorm(total)
        attended = self.self_attn(positions, seen, cu_seqlens)
        return attended + self.mlp(other), total * self.share


STAND_INS = Parts(
    StandInQwen3Attention, StandInRow, StandInQwen3MLP, StandInQwen3DecoderLayer, StandInNorm
)


def read_checkpoint(folder: str | Path) -> tuple[Qwen3Config, dict[str, torch.Tensor]]:
    """Read ``config.json`` and ``model.safetensors``: the config, and float32 tensors by name."""
    tensors = load_file(Path(folder) / "model.safetensors")
    config = Qwen3Config.from_json(Path(folder) / "config.json")
    return config, {name: tensor.float() for name, tensor in tensors.items()}


def with_heads_for(
    ranks: int, config: Qwen3Config, tensors: Mapping[str, torch.Tensor]
) -> tuple[Qwen3Config, dict[str, torch.Tensor]]:
    """Add heads of zeros until they can be shared out evenly; the model computes what it did.

    A head with keys and values of zero adds nothing, and its columns of ``o_proj`` are zero, too.
    The checkpoint on board has 6 query and 3 kv heads: 8 and 4 on two ranks or on four.
    """
    old = config.num_key_value_heads
    group, size = config.num_attention_heads // old, config.head_dim
    new = old
    while new % ranks and ranks % new:
        new += 1
    grown = {}
    for name, tensor in tensors.items():
        rows = (new - old) * size * (group if "q_proj" in name else 1)
        if any(f"{part}_proj" in name for part in "qkv"):
            tensor = torch.cat((tensor, tensor.new_zeros(rows, tensor.shape[1])))
        elif "o_proj" in name:
            columns = (new - old) * size * group
            tensor = torch.cat((tensor, tensor.new_zeros(tensor.shape[0], columns)), dim=1)
        grown[name] = tensor
    made = replace(config, num_attention_heads=new * group, num_key_value_heads=new)
    return made, grown


def loaded(
    causal_lm: Callable[..., Any],
    folder: str | Path,
    parts: Parts,
    rope_scaling: Mapping[str, Any] | None = None,
) -> Any:
    """A model of this rank with the weights of a folder.

    Args:
        causal_lm: ``Qwen3ForCausalLM`` of ``model.py``.
        folder: in Hugging Face format.
        parts: what the model is built from.
        rope_scaling: for the model.
    """
    config, tensors = with_heads_for(dist.get_world_size(), *read_checkpoint(folder))
    model = causal_lm(config, parts, rope_scaling)
    model.load_weights(tensors)
    return model.eval()


def parameters_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters of a model by name; one that has two goes by that of the embedding."""
    named: dict[int, tuple[str, torch.Tensor]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        earlier, _ = named.get(id(parameter), ("", parameter))
        named[id(parameter)] = max(name, earlier), parameter
    return dict(named.values())


def named_state(model: nn.Module) -> list[str]:
    """The names of everything that a checkpoint of this module would hold."""
    return sorted(model.state_dict())


def scores_of(
    rotary: Rotary, q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """Products of rotated queries and keys, ``[heads, kv heads, tokens, tokens]``."""
    return torch.einsum("qhd,kgd->hgqk", rotary(q, positions), rotary(k, positions))


class NoRotation:
    """A rotation that leaves everything as it is."""

    def __call__(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Give ``x`` back."""
        return x
