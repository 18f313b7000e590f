# Generated from the course's sources (stub 6f0fb3bfa215): fill in the TODOs.
"""Lab 1, part 2: norms and the gated MLP from first principles.

Fill in every TODO. Every function works on the last dimension, for each token by itself.
Source: Ba et al. 2016 (LayerNorm), Zhang and Sennrich 2019 (RMSNorm), Shazeer 2020 (SwiGLU);
``Qwen3RMSNorm`` and ``Qwen3MLP`` in ``transformers/models/qwen3/modeling_qwen3.py``.
"""

from __future__ import annotations

import torch
from torch import nn


def silu(x: torch.Tensor) -> torch.Tensor:
    """Compute ``x * sigmoid(x)`` elementwise, also called Swish.

    Args:
        x: any shape; float32, float16 or bfloat16. Values of ±10,000 are fine.

    Returns:
        The shape and dtype of ``x``.
    """
    # TODO lab1.silu: SiLU
    raise NotImplementedError("TODO lab1.silu: to be written")


class LayerNorm(nn.Module):
    """Bring every token to mean 0 and variance 1, then scale and shift: ``weight``, ``bias``."""

    def __init__(self, size: int, eps: float = 1e-5) -> None:
        """Make ``weight`` (ones) and ``bias`` (zeros), each ``[size]``."""
        super().__init__()
        # TODO lab1.layer_norm: LayerNorm
        raise NotImplementedError("TODO lab1.layer_norm: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise over the last dimension.

        The statistics are computed in float32; the variance is the mean square of what is left
        after subtracting the mean, and ``eps`` is added to it under the root.

        Args:
            x: ``[..., size]``.

        Returns:
            ``[..., size]`` in the dtype of ``x``.
        """
        # TODO lab1.layer_norm: LayerNorm
        raise NotImplementedError("TODO lab1.layer_norm: to be written")


class RMSNorm(nn.Module):
    """Bring every token to a root mean square of 1, then scale it: ``weight``. No mean, no bias."""

    def __init__(self, size: int, eps: float = 1e-6) -> None:
        """Make ``weight`` (ones), ``[size]``."""
        super().__init__()
        # TODO lab1.rms_norm: RMSNorm
        raise NotImplementedError("TODO lab1.rms_norm: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Divide by ``sqrt(mean(x^2) + eps)`` over the last dimension.

        The statistics are computed in float32; the result goes back to the dtype of ``x``, and
        only then is multiplied by ``weight``: the order in which Qwen3 rounds.

        Args:
            x: ``[..., size]``.

        Returns:
            ``[..., size]`` in the dtype of ``x``.
        """
        # TODO lab1.rms_norm: RMSNorm
        raise NotImplementedError("TODO lab1.rms_norm: to be written")


class FeedForward(nn.Module):
    """The gated MLP of Qwen3 (SwiGLU): ``down_proj(silu(gate_proj(x)) * up_proj(x))``.

    Parameters, named as in Hugging Face, without biases: ``gate_proj up_proj down_proj``.
    """

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        """Make ``gate_proj``, ``up_proj`` (hidden to intermediate) and ``down_proj`` (back)."""
        super().__init__()
        # TODO lab1.feed_forward: FeedForward (SwiGLU)
        raise NotImplementedError("TODO lab1.feed_forward: to be written")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., hidden_size]`` to ``[..., hidden_size]``, in the dtype of ``x``."""
        # TODO lab1.feed_forward: FeedForward (SwiGLU)
        raise NotImplementedError("TODO lab1.feed_forward: to be written")
