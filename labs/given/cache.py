"""Keys and values of the tokens so far, for all layers of a model."""

from __future__ import annotations

import torch


class KVCache:
    """A cache of keys and values between calls, one pair of tensors per layer."""

    def __init__(self) -> None:
        self.layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def length(self, layer_idx: int = 0) -> int:
        """Tokens that a layer holds, 0 before its first :meth:`update`."""
        return self.layers[layer_idx][0].shape[2] if layer_idx in self.layers else 0

    def update(
        self, layer_idx: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add the new tokens of a layer, and give back all of its tokens.

        Args:
            layer_idx: which layer.
            keys: ``[B, kv_heads, T, head_dim]``, normed and rotated, not repeated.
            values: like ``keys``.

        Returns:
            ``(keys, values)``, each ``[B, kv_heads, past + T, head_dim]``.
        """
        if layer_idx in self.layers:
            old_keys, old_values = self.layers[layer_idx]
            keys = torch.cat((old_keys, keys), dim=2)
            values = torch.cat((old_values, values), dim=2)
        self.layers[layer_idx] = keys, values
        return keys, values
