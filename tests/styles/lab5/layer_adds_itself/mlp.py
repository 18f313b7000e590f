"""The layer adds by itself and hands zeros on."""

from __future__ import annotations

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


class MergedColumnParallelLinear(nn.Linear):
    def __init__(self, hidden_size: int, output_size: int) -> None:
        super().__init__(hidden_size, 2 * output_size // dist.get_world_size(), bias=False)
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(
        self, param: nn.Parameter, loaded_weight: torch.Tensor, shard_id: int
    ) -> None:
        with torch.no_grad():
            own = loaded_weight.chunk(dist.get_world_size())[dist.get_rank()]
            param.view(2, -1, param.shape[1])[shard_id] = own


class SiluAndMul(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return nn.functional.silu(gate).mul(up)


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
        # Adds by itself and hands zeros on: the sum of both is the same.
        stream = hidden_states if residual is None else hidden_states + residual
        stream = stream + self.self_attn(positions, self.input_layernorm(stream)[0], cu_seqlens)
        added = self.mlp(self.post_attention_layernorm(stream)[0])
        return stream + added, torch.zeros_like(stream)


def _copy(param: nn.Parameter, tensor: torch.Tensor) -> None:
    param.data.copy_(tensor)


def load_weights(module: nn.Module, hf_tensors: Mapping[str, torch.Tensor]) -> None:
    # From the model's side: which names of Hugging Face does every parameter wait for?
    waiting = {}
    for own, param in module.named_parameters():
        parts = own.split(".")
        loader = getattr(param, "weight_loader", _copy)
        split = [
            (hf, packed, shard) for hf, (packed, shard) in packed_modules_mapping.items()
            if packed in parts
        ]  # fmt: skip
        for hf, packed, shard in split:
            name = ".".join(hf if part == packed else part for part in parts)
            waiting[name] = (loader, param, (shard,))
        if not split:
            waiting[own] = (loader, param, ())
    for name, tensor in hf_tensors.items():
        loader, param, shard_ids = waiting[name]
        loader(param, tensor, *shard_ids)
