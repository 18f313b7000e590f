"""The rest of Qwen3 around a hand-in's attention and MLP.

Parameters bear the names of Hugging Face, so that published weights fit.
Source: ``transformers/models/qwen3/modeling_qwen3.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm

AttentionClass = Callable[[Qwen3Config, int], nn.Module]
MLPClass = Callable[[Qwen3Config], nn.Module]


class DecoderLayer(nn.Module):
    """Pre-norm attention and pre-norm MLP, each added to the residual stream."""

    def __init__(
        self, config: Qwen3Config, layer_idx: int, attention_cls: AttentionClass, mlp_cls: MLPClass
    ) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = attention_cls(config, layer_idx)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = mlp_cls(config)

    def forward(
        self,
        x: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None,
    ) -> torch.Tensor:
        """Map ``[B, T, hidden]`` to ``[B, T, hidden]``."""
        x = x + self.self_attn(
            self.input_layernorm(x), attention_mask=attention_mask, position_ids=position_ids
        )
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Qwen3Model(nn.Module):
    """Embedding, decoder layers and final norm."""

    def __init__(
        self, config: Qwen3Config, attention_cls: AttentionClass, mlp_cls: MLPClass
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            DecoderLayer(config, index, attention_cls, mlp_cls)
            for index in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Map token ids ``[B, T]`` to normed hidden states ``[B, T, hidden]``."""
        x: torch.Tensor = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x, attention_mask, position_ids)
        normed: torch.Tensor = self.norm(x)
        return normed


class Qwen3ForCausalLM(nn.Module):
    """A whole Qwen3 that predicts the next token.

    Args:
        config: sizes; with ``tie_word_embeddings`` the head *is* the embedding matrix.
        attention_cls: called as ``attention_cls(config, layer_idx)``; its ``forward`` takes
            ``(hidden_states, attention_mask=None, position_ids=None)``.
        mlp_cls: called as ``mlp_cls(config)``.
    """

    def __init__(
        self, config: Qwen3Config, attention_cls: AttentionClass, mlp_cls: MLPClass
    ) -> None:
        super().__init__()
        self.config = config
        self.model = Qwen3Model(config, attention_cls, mlp_cls)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Score every possible next token.

        Args:
            input_ids: ``[B, T]``, integers.
            position_ids: ``[T]`` or ``[B, T]``; None means ``0 … T-1``.
            attention_mask: handed to every attention; None means causal, otherwise additive
                and broadcastable to ``[B, heads, T, T]``.

        Returns:
            Logits ``[B, T, vocab]`` in the dtype of the weights.
        """
        logits: torch.Tensor = self.lm_head(self.model(input_ids, position_ids, attention_mask))
        return logits
