"""Lab 5, part 2: the merged MLP, the norm that adds, the decoder layer, and loading.

Fill in every TODO. Nothing here imports ``attention.py``: what a module needs of it is handed in.
Source: ``vllm/model_executor/layers/linear.py``, ``layernorm.py`` and ``models/qwen3.py`` of vLLM
for the form, ``transformers/models/qwen3/modeling_qwen3.py`` for the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

# Hugging Face's name -> the packed module that holds it here, and which part of it.
packed_modules_mapping: dict[str, tuple[str, str | int]] = {
    "q_proj": ("qkv_proj", "q"),
    "k_proj": ("qkv_proj", "k"),
    "v_proj": ("qkv_proj", "v"),
    "gate_proj": ("gate_up_proj", 0),
    "up_proj": ("gate_up_proj", 1),
}


class MergedColumnParallelLinear(nn.Module):
    """Two projections in one, gate and up, of which a rank holds its share of *each*.

    Parameter: ``weight``, ``[2 * output_size / ranks, hidden_size]``: first the rows of part 0
    (gate) that are this rank's, then those of part 1 (up). No bias. ``weight.weight_loader`` is
    :meth:`weight_loader`.
    """

    def __init__(self, hidden_size: int, output_size: int) -> None:
        """Make the weight of this rank; ``output_size`` is that of one part on all ranks."""
        super().__init__()
        # BEGIN SOLUTION lab5.merged
        rows = output_size // dist.get_world_size()
        self.weight = nn.Parameter(torch.zeros(2 * rows, hidden_size))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]
        # END SOLUTION

    def weight_loader(
        self, param: nn.Parameter, loaded_weight: torch.Tensor, shard_id: int
    ) -> None:
        """Copy the rows of this rank out of a whole weight to their place.

        Args:
            param: ``self.weight``.
            loaded_weight: ``[output_size, hidden_size]``.
            shard_id: 0 for gate, 1 for up.
        """
        # BEGIN SOLUTION lab5.merged
        rows = param.shape[0] // 2
        own = loaded_weight[dist.get_rank() * rows : (dist.get_rank() + 1) * rows]
        param.data[shard_id * rows : (shard_id + 1) * rows].copy_(own)
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Project ``[tokens, hidden_size]`` to ``[tokens, rows of weight]``."""
        # BEGIN SOLUTION lab5.merged
        return F.linear(x, self.weight)
        # END SOLUTION


class SiluAndMul(nn.Module):
    """``silu(gate) * up`` of a tensor that holds both."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[tokens, 2 * size]``, gate before up, to ``[tokens, size]``."""
        # BEGIN SOLUTION lab5.silu_and_mul
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up
        # END SOLUTION


class Qwen3MLP(nn.Module):
    """The gated MLP, its width split over the ranks.

    Modules: ``gate_up_proj`` (:class:`MergedColumnParallelLinear`), ``act_fn``
    (:class:`SiluAndMul`), ``down_proj`` (handed in).
    """

    def __init__(self, hidden_size: int, intermediate_size: int, down_proj: nn.Module) -> None:
        """Make the modules.

        Args:
            hidden_size: width of the model.
            intermediate_size: width of the MLP on all ranks together.
            down_proj: leads back to ``hidden_size`` and adds up the ranks: the model's
                ``RowParallelLinear(intermediate_size, hidden_size)``.
        """
        super().__init__()
        # BEGIN SOLUTION lab5.mlp
        self.gate_up_proj = MergedColumnParallelLinear(hidden_size, intermediate_size)
        self.act_fn = SiluAndMul()
        self.down_proj = down_proj
        # END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[tokens, hidden_size]`` to ``[tokens, hidden_size]``."""
        # BEGIN SOLUTION lab5.mlp
        return self.down_proj(self.act_fn(self.gate_up_proj(x)))
        # END SOLUTION


class RMSNorm(nn.Module):
    """RMSNorm that first adds what is left over from before.

    Parameter: ``weight`` ``[hidden_size]``.
    """

    def __init__(self, hidden_size: int, eps: float) -> None:
        """Make the weight, of ones."""
        super().__init__()
        # BEGIN SOLUTION lab5.norm
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps
        # END SOLUTION

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Norm ``x + residual``, and hand that sum on as the new residual.

        Args:
            x: ``[tokens, hidden_size]``.
            residual: like ``x``; None means that there is nothing to add.

        Returns:
            ``(normed, sum)``, both like ``x``: ``sum / sqrt(mean(sum^2) + eps) * weight`` with
            statistics in float32, and the sum itself (``x`` where there is no residual). ``x``
            and ``residual`` are left as they were.
        """
        # BEGIN SOLUTION lab5.norm
        residual = x if residual is None else x + residual
        wide = residual.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype), residual
        # END SOLUTION


class Qwen3DecoderLayer(nn.Module):
    """A decoder layer that leaves its last addition to the norm that comes next.

    Modules: ``input_layernorm`` and ``post_attention_layernorm`` (:class:`RMSNorm`), ``self_attn``
    and ``mlp`` (handed in).
    """

    def __init__(
        self, hidden_size: int, rms_norm_eps: float, self_attn: nn.Module, mlp: nn.Module
    ) -> None:
        """Make the norms and keep the two modules."""
        super().__init__()
        # BEGIN SOLUTION lab5.layer
        self.input_layernorm = RMSNorm(hidden_size, rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(hidden_size, rms_norm_eps)
        self.self_attn = self_attn
        self.mlp = mlp
        # END SOLUTION

    def forward(
        self,
        positions: torch.Tensor,
        hidden_states: torch.Tensor,
        residual: torch.Tensor | None,
        cu_seqlens: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Let the tokens look at each other, then each work by itself.

        Args:
            positions: ``[tokens]``, for attention.
            hidden_states: ``[tokens, hidden_size]``: the embeddings, or what the layer before
                returned.
            residual: what the layer before returned beside it; None in the first layer.
            cu_seqlens: ``[sequences + 1]``, for attention.

        Returns:
            ``(hidden_states, residual)``, both ``[tokens, hidden_size]``. Their *sum* is what
            Hugging Face's layer returns; the next norm takes it.
        """
        # BEGIN SOLUTION lab5.layer
        hidden_states, residual = self.input_layernorm(hidden_states, residual)
        hidden_states = self.self_attn(positions, hidden_states, cu_seqlens)
        hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)
        return self.mlp(hidden_states), residual
        # END SOLUTION


def load_weights(module: nn.Module, hf_tensors: Mapping[str, torch.Tensor]) -> None:
    """Hand every tensor of a checkpoint to the parameter that holds it, or a part of it.

    A name of Hugging Face is dotted. One of its parts may stand in ``packed_modules_mapping``;
    the parameter then goes by the packed module's name in that part's place, and its
    ``weight_loader(param, tensor, shard_id)`` is called. Otherwise the name is the parameter's
    own: ``weight_loader(param, tensor)`` is called if the parameter has one, and the values are
    copied into it if not.

    Args:
        module: whose parameters are filled.
        hf_tensors: whole tensors by Hugging Face's names.

    Raises:
        KeyError: ``module`` has no such parameter (the text holds Hugging Face's name).
    """
    # BEGIN SOLUTION lab5.load
    parameters = dict(module.named_parameters())
    for name, tensor in hf_tensors.items():
        parts: list[str] = name.split(".")
        shard: tuple[str | int, ...] = ()
        for place, part in enumerate(parts):
            if part in packed_modules_mapping:
                parts[place], shard_id = packed_modules_mapping[part]
                shard = (shard_id,)
        param = parameters.get(".".join(parts))
        if param is None:
            raise KeyError(f"no parameter for {name}")
        if hasattr(param, "weight_loader"):
            param.weight_loader(param, tensor, *shard)
        else:
            param.data.copy_(tensor)
    # END SOLUTION
