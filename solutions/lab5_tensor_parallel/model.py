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
        # BEGIN SOLUTION lab5.embedding
        self.num_embeddings = num_embeddings
        rows = -(-num_embeddings // dist.get_world_size())
        self.first = dist.get_rank() * rows
        self.weight = nn.Parameter(torch.zeros(rows, embedding_dim))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]
        # END SOLUTION

    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        """Copy the rows of this rank out of a whole weight.

        Args:
            param: ``self.weight``.
            loaded_weight: ``[num_embeddings, embedding_dim]``.
        """
        # BEGIN SOLUTION lab5.embedding
        own = loaded_weight[self.first : self.first + len(param)]
        param.data.zero_()
        param.data[: len(own)].copy_(own)
        # END SOLUTION

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Look every token up on the rank that holds it: one collective call.

        Args:
            input_ids: ``[tokens]``, each from 0 up to but not including ``num_embeddings``.

        Returns:
            ``[tokens, embedding_dim]`` in the dtype of ``weight``, the same on every rank.
        """
        # BEGIN SOLUTION lab5.embedding
        places = input_ids - self.first
        foreign = (places < 0) | (places >= len(self.weight))
        rows = F.embedding(places.masked_fill(foreign, 0), self.weight)
        rows = rows.masked_fill(foreign[:, None], 0.0)  # [tokens, embedding_dim]
        dist.all_reduce(rows)
        return rows
        # END SOLUTION


class ParallelLMHead(VocabParallelEmbedding):
    """The head: scores of the next token, each rank for its own range of token ids.

    Parameter and loader are those of :class:`VocabParallelEmbedding`; there is no bias.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        """Make the weight of this rank; ``num_embeddings`` is that of all ranks.

        In the other classes the parent's constructor is called already; here that is your part.
        """
        # BEGIN SOLUTION lab5.lm_head
        super().__init__(num_embeddings, embedding_dim)
        # END SOLUTION

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
        # BEGIN SOLUTION lab5.lm_head
        last = hidden_states[cu_seqlens[1:].long() - 1]  # [sequences, embedding_dim]
        own = F.linear(last, self.weight)  # [sequences, rows]
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, own)
        return torch.cat(parts, dim=-1)[:, : self.num_embeddings]
        # END SOLUTION


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
    # BEGIN SOLUTION lab5.yarn
    context = rope_scaling["original_max_position_embeddings"]

    def pair(turns: float) -> float:  # the pair that turns so many times over the context
        return head_dim * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first = max(math.floor(pair(rope_scaling.get("beta_fast", 32))), 0)
    last = min(math.ceil(pair(rope_scaling.get("beta_slow", 1))), head_dim - 1)
    pairs = torch.arange(head_dim // 2, dtype=torch.float32)
    slow = ((pairs - first) / max(last - first, 0.001)).clamp(0, 1)  # 0: as it was
    plain = theta ** (-2 * pairs / head_dim)
    return plain * (1 - slow) + plain / rope_scaling["factor"] * slow
    # END SOLUTION


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
        # BEGIN SOLUTION lab5.rotary
        self.factor = 1.0
        if rope_scaling is None:
            exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
            self.frequencies = theta**-exponents
            return
        kind = rope_scaling.get("rope_type", rope_scaling.get("type"))
        if kind != "yarn":
            raise ValueError(f"rope_scaling of type {kind}: only yarn is known")
        self.frequencies = yarn_frequencies(head_dim, theta, rope_scaling)
        given = rope_scaling.get("attention_factor")
        self.factor = 0.1 * math.log(rope_scaling["factor"]) + 1 if given is None else given
        # END SOLUTION

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Rotate every pair ``(x_j, x_{j + head_dim/2})`` by its angle.

        Args:
            x: ``[tokens, heads, head_dim]``.
            positions: ``[tokens]``; angles are taken in float32.

        Returns:
            Like ``x``, in its dtype; ``x`` is left as it was.
        """
        # BEGIN SOLUTION lab5.rotary
        angles = positions[:, None].float() * self.frequencies  # [tokens, head_dim/2]
        cos, sin = angles.cos() * self.factor, angles.sin() * self.factor
        cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        # END SOLUTION


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
        # BEGIN SOLUTION lab5.model
        c = config
        rotary = None
        if rope_scaling is not None:
            rotary = RotaryEmbedding(c.head_dim, c.rope_theta, rope_scaling)
        heads = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.embed_tokens = VocabParallelEmbedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList()
        for _ in range(c.num_hidden_layers):
            attention = parts.attention(c.hidden_size, *heads, c.rms_norm_eps, c.rope_theta, rotary)
            down = parts.row(c.intermediate_size, c.hidden_size)
            mlp = parts.mlp(c.hidden_size, c.intermediate_size, down)
            self.layers.append(parts.layer(c.hidden_size, c.rms_norm_eps, attention, mlp))
        self.norm = parts.norm(c.hidden_size, c.rms_norm_eps)
        # END SOLUTION

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
        # BEGIN SOLUTION lab5.model
        hidden_states, residual = self.embed_tokens(input_ids), None
        for layer in self.layers:
            hidden_states, residual = layer(positions, hidden_states, residual, cu_seqlens)
        hidden_states, _ = self.norm(hidden_states, residual)
        return hidden_states
        # END SOLUTION


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
        # BEGIN SOLUTION lab5.causal_lm
        self.tied = config.tie_word_embeddings
        self.model = Qwen3Model(config, parts, rope_scaling)
        self.lm_head = ParallelLMHead(config.vocab_size, config.hidden_size)
        if self.tied:
            self.lm_head.weight = self.model.embed_tokens.weight
        # END SOLUTION

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        """Give hidden states ``[tokens, hidden_size]``; arguments as for :class:`Qwen3Model`."""
        # BEGIN SOLUTION lab5.causal_lm
        return self.model(input_ids, positions, cu_seqlens)
        # END SOLUTION

    def compute_logits(self, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        """Score what may follow each sequence: ``[sequences, vocab_size]``, see the head."""
        # BEGIN SOLUTION lab5.causal_lm
        return self.lm_head(hidden_states, cu_seqlens)
        # END SOLUTION

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
        # BEGIN SOLUTION lab5.causal_lm
        parameters = dict(self.named_parameters())
        shards: dict[str, set[str | int]] = {}
        for packed, shard_id in self.packed_modules_mapping.values():
            shards.setdefault(packed, set()).add(shard_id)
        missing: dict[str, set[str | int]] = {}
        for name in parameters:
            missing[name] = set(shards.get(name.split(".")[-2], {""}))

        for name, tensor in hf_tensors.items():
            if self.tied and name == "lm_head.weight":
                continue
            *path, module, last = name.split(".")
            own, shard_id = self.packed_modules_mapping.get(module, (module, ""))
            target = ".".join((*path, own, last))
            if target not in parameters:
                raise KeyError(f"no parameter for {name}")
            param = parameters[target]
            if shard_id != "":
                param.weight_loader(param, tensor, shard_id)  # type: ignore[attr-defined]
            elif hasattr(param, "weight_loader"):
                param.weight_loader(param, tensor)
            else:
                param.data.copy_(tensor)
            missing[target].discard(shard_id)

        unfilled = sorted(name for name, left in missing.items() if left)
        if unfilled:
            raise ValueError(f"no tensor for {', '.join(unfilled)}")
        # END SOLUTION
