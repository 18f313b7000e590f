"""Products, maxima and sums written out."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist
import torch.nn.functional as F
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
        self.weight = nn.Parameter(torch.ones(2 * self.share, hidden_size))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(
        self, param: nn.Parameter, loaded_weight: torch.Tensor, shard_id: int
    ) -> None:
        own = loaded_weight.narrow(0, dist.get_rank() * self.share, self.share)
        param.data.narrow(0, shard_id * self.share, self.share).copy_(own)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("th,oh->to", x, self.weight)


class SiluAndMul(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.tensor_split(2, dim=-1)
        return up * F.silu(gate)


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
        total = x if residual is None else x + residual
        wide = total.float()
        scale = (wide.square().mean(-1, True) + self.eps).rsqrt()
        return (wide * scale).to(x.dtype) * self.weight, total


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
    for name, tensor in hf_tensors.items():
        target, arguments = name, ()
        for part, (packed, shard_id) in packed_modules_mapping.items():
            if f".{part}." in f".{name}.":
                target = f".{name}.".replace(f".{part}.", f".{packed}.").strip(".")
                arguments = (shard_id,)
        try:
            param = module.get_parameter(target)
        except AttributeError:
            raise KeyError(name) from None
        loader = getattr(param, "weight_loader", None)
        if loader is None:
            with torch.no_grad():
                param.copy_(tensor)
        else:
            loader(param, tensor, *arguments)
