# Generated from the course's sources (stub b9f929ee3564): fill in the TODOs.
"""Lab 5, part 3: the model of an engine, whole, its vocabulary split over the ranks.

Fill in every TODO. Nothing here imports ``attention.py`` or ``mlp.py``: what a model is built from
is handed in as ``Parts``. Tokens of all sequences lie side by side, as in the other two files.
Source: ``vllm/model_executor/layers/vocab_parallel_embedding.py`` and ``models/qwen3.py`` of vLLM
for the form, ``transformers/models/qwen3/modeling_qwen3.py`` and ``modeling_rope_utils.py`` for
the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.parallel import Parts


class VocabParallelEmbedding(nn.Module):
    """An embedding of which a rank holds the rows of its own range of token ids.

    Parameter: ``weight``, ``[rows, embedding_dim]`` with as many rows on every rank:
    ``num_embeddings / ranks``, rounded up. Rank ``r`` holds the ids from ``r * rows`` on. Rows that
    no id is left for are zero. ``weight.weight_loader`` is :meth:`weight_loader`.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        """Make the weight of this rank; ``num_embeddings`` is that of all ranks."""
        super().__init__()
        # TODO lab5.embedding: An embedding in ranges
        raise NotImplementedError("TODO lab5.embedding: to be written")

    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        """Copy the rows of this rank out of a whole weight.

        Args:
            param: ``self.weight``.
            loaded_weight: ``[num_embeddings, embedding_dim]``.
        """
        # TODO lab5.embedding: An embedding in ranges
        raise NotImplementedError("TODO lab5.embedding: to be written")

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Look every token up on the rank that holds it: one collective call.

        Args:
            input_ids: ``[tokens]``, each from 0 up to but not including ``num_embeddings``.

        Returns:
            ``[tokens, embedding_dim]`` in the dtype of ``weight``, the same on every rank.
        """
        # TODO lab5.embedding: An embedding in ranges
        raise NotImplementedError("TODO lab5.embedding: to be written")


class ParallelLMHead(VocabParallelEmbedding):
    """The head: scores of the next token, each rank for its own range of token ids.

    Parameter and loader are those of :class:`VocabParallelEmbedding`; there is no bias.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        """Make the weight of this rank; ``num_embeddings`` is that of all ranks.

        In the other classes the parent's constructor is called already; here that is your part.
        """
        # TODO lab5.lm_head: The head
        raise NotImplementedError("TODO lab5.lm_head: to be written")

    def forward(  # type: ignore[override]
        self, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        """Score what may follow the last token of every sequence: one collective call.

        Args:
            hidden_states: ``[tokens, embedding_dim]``, the same on every rank.
            cu_seqlens: ``[sequences + 1]``: where sequences end; none is empty.

        Returns:
            Logits ``[sequences, num_embeddings]`` in the dtype of ``hidden_states``, the same on
            every rank: no column of a row that no id is left for.
        """
        # TODO lab5.lm_head: The head
        raise NotImplementedError("TODO lab5.lm_head: to be written")


def yarn_frequencies(head_dim: int, theta: float, rope_scaling: Mapping[str, Any]) -> torch.Tensor:
    """The frequencies of YaRN (Peng et al. 2023): fast pairs stay, slow ones turn less.

    Over the original context a pair turns so many times; where that is more than ``beta_fast``,
    its frequency stays ``theta ** (-2j / head_dim)``, where it is less than ``beta_slow``, it is
    divided by ``factor``, and in between it is interpolated linearly over the pairs.

    Args:
        head_dim: even; there are ``head_dim / 2`` pairs.
        theta: base of the frequencies.
        rope_scaling: as in ``config.json``: ``factor``, ``original_max_position_embeddings``, and
            perhaps ``beta_fast`` (32 where it is absent) and ``beta_slow`` (1).

    Returns:
        float32 ``[head_dim / 2]``, radians per position.
    """
    # TODO lab5.yarn: The frequencies of YaRN
    raise NotImplementedError("TODO lab5.yarn: to be written")


class RotaryEmbedding(nn.Module):
    """The rotation of all layers, by the frequencies that ``rope_scaling`` asks for.

    Has no parameters and adds nothing to the ``state_dict``, as a buffer would do unless it is made
    with ``persistent=False``. Angles stay float32 when the model is made bfloat16, though that
    rounds every buffer.
    """

    def __init__(
        self, head_dim: int, theta: float, rope_scaling: Mapping[str, Any] | None = None
    ) -> None:
        """Prepare the frequencies.

        Args:
            head_dim: even.
            theta: base of the frequencies.
            rope_scaling: as in ``config.json``; None means plain ``theta ** (-2j / head_dim)``.
                Its ``rope_type`` is ``"yarn"``; older files say ``type``. Cos and sin are
                multiplied by its ``attention_factor`` or, where that is absent or None, by
                ``0.1 ln(factor) + 1``.

        Raises:
            ValueError: another ``rope_type``, or ``type``; the text names it.
        """
        super().__init__()
        # TODO lab5.rotary: A rotation with scaling
        raise NotImplementedError("TODO lab5.rotary: to be written")

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Rotate every pair ``(x_j, x_{j + head_dim/2})`` by its angle.

        Args:
            x: ``[tokens, heads, head_dim]``.
            positions: ``[tokens]``; angles are taken in float32.

        Returns:
            Like ``x``, in its dtype; ``x`` is left as it was.
        """
        # TODO lab5.rotary: A rotation with scaling
        raise NotImplementedError("TODO lab5.rotary: to be written")


class Qwen3Model(nn.Module):
    """Embedding, decoder layers and a last norm, on flat tokens.

    Modules, named as in Hugging Face: ``embed_tokens layers norm``.
    """

    def __init__(
        self, config: Qwen3Config, parts: Parts, rope_scaling: Mapping[str, Any] | None = None
    ) -> None:
        """Make the modules; ``layers`` is an ``nn.ModuleList``, numbered from 0.

        Args:
            config: of the whole model.
            parts: what layers are built from. ``parts.attention`` takes hidden_size, num_heads,
                num_kv_heads, head_dim, rms_norm_eps, rope_theta and ``rotary``: the
                :class:`RotaryEmbedding` of ``rope_scaling``, or None where there is no scaling.
            rope_scaling: as in ``config.json``.
        """
        super().__init__()
        # TODO lab5.model: Embedding, layers, norm
        raise NotImplementedError("TODO lab5.model: to be written")

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        """Turn token ids into normed hidden states.

        Args:
            input_ids: ``[tokens]``.
            positions: ``[tokens]``, where each token stands in its sequence, not always from 0 on.
            cu_seqlens: ``[sequences + 1]``.

        Returns:
            ``[tokens, hidden_size]``, the same on every rank.
        """
        # TODO lab5.model: Embedding, layers, norm
        raise NotImplementedError("TODO lab5.model: to be written")


class Qwen3ForCausalLM(nn.Module):
    """A whole Qwen3 as engines run it: hidden states for all tokens, logits for the last ones.

    Modules, named as in Hugging Face: ``model lm_head``.
    """

    # Hugging Face's name -> the packed module that holds it here, and which part of it.
    packed_modules_mapping: Mapping[str, tuple[str, str | int]] = {
        "q_proj": ("qkv_proj", "q"),
        "k_proj": ("qkv_proj", "k"),
        "v_proj": ("qkv_proj", "v"),
        "gate_proj": ("gate_up_proj", 0),
        "up_proj": ("gate_up_proj", 1),
    }

    def __init__(
        self, config: Qwen3Config, parts: Parts, rope_scaling: Mapping[str, Any] | None = None
    ) -> None:
        """Make the modules; arguments as for :class:`Qwen3Model`.

        With ``tie_word_embeddings`` head and embedding share one parameter: the very same, no copy.
        """
        super().__init__()
        # TODO lab5.causal_lm: States, logits, and a whole checkpoint
        raise NotImplementedError("TODO lab5.causal_lm: to be written")

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        """Give hidden states ``[tokens, hidden_size]``; arguments as for :class:`Qwen3Model`."""
        # TODO lab5.causal_lm: States, logits, and a whole checkpoint
        raise NotImplementedError("TODO lab5.causal_lm: to be written")

    def compute_logits(self, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        """Score what may follow each sequence: ``[sequences, vocab_size]``, see the head."""
        # TODO lab5.causal_lm: States, logits, and a whole checkpoint
        raise NotImplementedError("TODO lab5.causal_lm: to be written")

    def load_weights(self, hf_tensors: Mapping[str, torch.Tensor]) -> None:
        """Fill every parameter of this rank from a whole checkpoint.

        Names go as in ``load_weights`` of ``mlp.py``. A tied head needs no tensor of its own: if
        there is one called ``lm_head.weight``, ignore it. What an earlier call has filled does not
        count.

        Args:
            hf_tensors: whole tensors by Hugging Face's names, in any order.

        Raises:
            KeyError: no parameter takes a tensor; the text holds its name.
            ValueError: a parameter, or a part of a packed one, was given no tensor; the text holds
                the name of the parameter.
        """
        # TODO lab5.causal_lm: States, logits, and a whole checkpoint
        raise NotImplementedError("TODO lab5.causal_lm: to be written")
