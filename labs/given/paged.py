"""Lab 7: the whole Qwen3 of a checkpoint behind blocks, called as an engine calls its model.

Embedding, norms and head are given; attention, MLP, pool and table are a hand-in's. Which blocks
a sequence has is the engine's decision alone: a pool of keys and values stands behind every layer,
and a block has the same number in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

from labs.given.checkpoint import load_model
from labs.given.config import Qwen3Config
from labs.given.generate import GenerationError


@dataclass(frozen=True)
class Parts:
    """The classes of a hand-in that a model is made of."""

    attention: Any  # Qwen3Attention
    pool: Any  # BlockPool
    table: Any  # BlockTable
    mlp: Any  # Qwen3MLP, made by from_float


class LoadedMLP(nn.Module):
    """The float weights of an MLP as they lie in the checkpoint, for a hand-in to quantise."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)


class LentTable:
    """A sequence's table in an engine: it stands in front of a hand-in's ``BlockTable``.

    The blocks are lent by the engine, so none is allocated, copied or freed here; all else is the
    hand-in's. Attributes are those of ``BlockTable``, from the first token that is new.
    """

    pool: Any = None
    blocks: Sequence[int] = ()
    length: int = 0
    _lent: Sequence[int] = ()

    def lend(self, blocks: Sequence[int], length: int) -> None:
        """Take the blocks of a sequence of which ``length`` tokens are stored."""
        self._lent = blocks
        self._stored(length)

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store ``[tokens, kv_heads, head_dim]`` behind what is stored, in the blocks lent."""
        size = self.pool.keys.shape[1]
        for key, value in zip(k, v, strict=True):
            block = self._lent[self.length // size]
            self.pool.keys[block, self.length % size] = key
            self.pool.values[block, self.length % size] = value
            self._stored(self.length + 1)

    def _stored(self, length: int) -> None:
        self.length = length
        self.blocks = list(self._lent[: -(-length // self.pool.keys.shape[1])])


class PagedQwen3:
    """A checkpoint's model, called as :class:`labs.given.serving.PagedModel` is."""

    def __init__(self, folder: str | Path, parts: Parts, num_blocks: int, block_size: int) -> None:
        """Load the weights, quantise the MLPs, and make a pool for every layer.

        Raises:
            CheckpointError: see :func:`labs.given.checkpoint.load_model`.
        """

        def attention(config: Qwen3Config, layer: int) -> nn.Module:
            heads = config.num_attention_heads, config.num_key_value_heads, config.head_dim
            return parts.attention(
                config.hidden_size, *heads, config.rms_norm_eps, config.rope_theta
            )

        whole = load_model(folder, attention, LoadedMLP)
        self.config, self.model, self.head = whole.config, whole.model, whole.lm_head
        self.layers: list[Any] = list(self.model.layers)
        for made in self.layers:
            made.mlp = parts.mlp.from_float(made.mlp.state_dict())
        sizes = num_blocks, block_size, self.config.num_key_value_heads, self.config.head_dim
        self.pools = [parts.pool(*sizes) for _ in self.layers]
        self._table: Any = type("BlockTable", (LentTable, parts.table), {})

    @torch.no_grad()
    def __call__(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        cu_seqlens: torch.Tensor,
        block_tables: torch.Tensor,
        context_lens: torch.Tensor,
    ) -> torch.Tensor:
        """Score what follows each token, of several sequences at once.

        Args:
            tokens: ids ``[T]`` of all sequences, one after the other.
            positions: ``[T]``, each token's place in its sequence.
            cu_seqlens: ``[n + 1]``; sequence ``i`` has tokens ``cu_seqlens[i]`` to
                ``cu_seqlens[i + 1]``.
            block_tables: ``[n, most blocks]``, filled up with -1.
            context_lens: ``[n]``, tokens of each sequence in all, those computed earlier included.

        Returns:
            Logits ``[T, vocab]``, float32.

        Raises:
            GenerationError: they are not finite.
        """
        tokens, positions, cu_seqlens, block_tables, context_lens = (
            torch.as_tensor(given)
            for given in (tokens, positions, cu_seqlens, block_tables, context_lens)
        )
        bounds = cu_seqlens.tolist()
        lent = [[block for block in row if block >= 0] for row in block_tables.tolist()]
        before = [
            length - (end - first)
            for length, (first, end) in zip(context_lens.tolist(), pairwise(bounds), strict=True)
        ]
        x = self.model.embed_tokens(tokens)  # [T, hidden]
        for layer, pool in zip(self.layers, self.pools, strict=True):
            tables = [self._lend(pool, *one) for one in zip(lent, before, strict=True)]
            x = x + layer.self_attn(positions, layer.input_layernorm(x), tables, cu_seqlens)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        logits: torch.Tensor = self.head(self.model.norm(x))  # [T, vocab]
        if not torch.isfinite(logits).all():
            raise GenerationError(
                "The logits of your model hold NaN or infinity; does a mask block whole rows, or "
                "does a softmax overflow?\n"
                "你的模型的 logits 含有 NaN 或无穷大；是不是掩码屏蔽了整行，或 softmax 溢出？"
            )
        return logits

    def _lend(self, pool: Any, blocks: Sequence[int], length: int) -> Any:
        table = self._table(pool)
        table.pool = pool
        table.lend(blocks, length)
        return table
