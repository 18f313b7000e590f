"""Packed outside, three products inside; grouped einsum."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import nn

packed_modules_mapping: dict[str, tuple[str, str | int]] = {
    "q_proj": ("qkv_proj", "q"),
    "k_proj": ("qkv_proj", "k"),
    "v_proj": ("qkv_proj", "v"),
    "gate_proj": ("gate_up_proj", 0),
    "up_proj": ("gate_up_proj", 1),
}


class MergedColumnParallelLinear(nn.Module):
    def __init__(self, hidden_size: int, output_size: int) -> None:
        super().__init__()
        self.share = output_size // dist.get_world_size()
        self.weight = nn.Parameter(torch.empty(2 * self.share, hidden_size))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(
        self, param: nn.Parameter, loaded_weight: torch.Tensor, shard_id: int
    ) -> None:
        own = loaded_weight.narrow(0, dist.get_rank() * self.share, self.share)
        param.data.narrow(0, shard_id * self.share, self.share).copy_(own)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.weight.t())


class SiluAndMul(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.unflatten(-1, (2, -1)).unbind(-2)
        return (gate.float() / (1 + (-gate.float()).exp())).to(x.dtype) * up


class Qwen3MLP(nn.Module):
    def __init__(self, hidden_size: int, intermediate_size: int, down_proj: nn.Module) -> None:
        super().__init__()
        self.down_proj = down_proj
        self.gate_up_proj = MergedColumnParallelLinear(hidden_size, intermediate_size)
        self.act_fn = SiluAndMul()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_up_proj(x)))


class RMSNorm(nn.Module):
    def __init__(self, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden_size)), eps

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        total = x.clone() if residual is None else torch.add(x, residual)
        wide = total.to(torch.float32)
        size = (wide.pow(2).sum(-1, keepdim=True) / wide.shape[-1] + self.eps).sqrt()
        return (self.weight.float() * wide / size).to(x.dtype), total


class Qwen3DecoderLayer(nn.Module):
    def __init__(
        self, hidden_size: int, rms_norm_eps: float, self_attn: nn.Module, mlp: nn.Module
    ) -> None:
        super().__init__()
        self.self_attn, self.mlp = self_attn, mlp
        self.input_layernorm = RMSNorm(hidden_size, rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(hidden_size, rms_norm_eps)

    def forward(
        self,
        positions: torch.Tensor,
        hidden_states: torch.Tensor,
        residual: torch.Tensor | None,
        cu_seqlens: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x, residual = self.input_layernorm(hidden_states, residual)
        x, residual = self.post_attention_layernorm(
            self.self_attn(positions, x, cu_seqlens), residual
        )
        return self.mlp(x), residual


def load_weights(module: nn.Module, hf_tensors: Mapping[str, torch.Tensor]) -> None:
    params = dict(module.named_parameters())
    names = "|".join(packed_modules_mapping)
    for name, tensor in sorted(hf_tensors.items()):
        found = re.search(rf"(?<![^.])({names})(?![^.])", name)
        if found:
            packed, shard_id = packed_modules_mapping[found[1]]
            param = params[
                _known(params, name, name[: found.start()] + packed + name[found.end() :])
            ]
            param.weight_loader(param, tensor, shard_id)
            continue
        param = params[_known(params, name, name)]
        if hasattr(param, "weight_loader"):
            param.weight_loader(param, tensor)
        else:
            param.data[...] = tensor


def _known(params: Mapping[str, nn.Parameter], name: str, own: str) -> str:
    if own not in params:
        raise KeyError(f"{name} has no place in this model")
    return own
