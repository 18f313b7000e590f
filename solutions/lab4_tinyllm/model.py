"""Lab 4, the whole model: layers, embeddings, head, checkpoints, masks and generation.

Fill in every TODO, from the top down. Attention and MLP come in as arguments: classes that are
called as ``attention_cls(config, layer_idx)`` and ``mlp_cls(config)``.
Source: ``transformers/models/qwen3/modeling_qwen3.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from labs.given.cache import KVCache
from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm

AttentionClass = Callable[[Qwen3Config, int], nn.Module]
MLPClass = Callable[[Qwen3Config], nn.Module]


class Qwen3DecoderLayer(nn.Module):
    """Attention and MLP, each behind a norm of its own and added to what came in.

    Modules, named as in Hugging Face: ``input_layernorm self_attn post_attention_layernorm mlp``.
    """

    def __init__(
        self, config: Qwen3Config, layer_idx: int, attention_cls: AttentionClass, mlp_cls: MLPClass
    ) -> None:
        """Make the four modules; norms are ``RMSNorm`` over ``hidden``."""
        super().__init__()
        # BEGIN SOLUTION lab4.decoder_layer
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = attention_cls(config, layer_idx)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = mlp_cls(config)
        # END SOLUTION

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        """Let the tokens look at each other, then let each one work by itself.

        Args:
            hidden_states: ``[B, T, hidden]``, left as it is.
            attention_mask: additive, for attention; None means causal.
            position_ids: ``[T]`` or ``[B, T]``, for attention.
            past: the cache of all layers, for attention.

        Returns:
            ``[B, T, hidden]`` in the dtype of ``hidden_states``.
        """
        # BEGIN SOLUTION lab4.decoder_layer
        attended = self.self_attn(
            self.input_layernorm(hidden_states),
            attention_mask=attention_mask,
            position_ids=position_ids,
            past=past,
        )
        hidden_states = hidden_states + attended
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))
        # END SOLUTION


def build_attention_mask(
    attention_mask: torch.Tensor, query_len: int, dtype: torch.dtype
) -> torch.Tensor:
    """Say for every query which keys it may see: tokens before it, and always itself.

    Args:
        attention_mask: ``[B, K]``, 1 for a token and 0 for padding (left or right), the tokens
            in a cache included.
        query_len: the queries are the last ``query_len`` of the K tokens.
        dtype: of the result.

    Returns:
        ``[B, 1, query_len, K]``: 0 where a query may look and ``finfo(dtype).min`` where not.
        Every query sees itself, padding too: a row with nothing to see would average everything.
    """
    # BEGIN SOLUTION lab4.attention_mask
    keys = attention_mask.shape[1]
    places = torch.arange(keys, device=attention_mask.device)
    own = places[keys - query_len :, None]  # [query_len, 1]
    allowed = (places <= own) & attention_mask.bool()[:, None, None, :]  # [B, 1, query_len, K]
    allowed = allowed | (places == own)
    blocked = torch.finfo(dtype).min
    return torch.zeros(allowed.shape, dtype=dtype, device=places.device).masked_fill(
        ~allowed, blocked
    )
    # END SOLUTION


def build_position_ids(attention_mask: torch.Tensor, query_len: int) -> torch.Tensor:
    """Count the tokens of every row from 0, leaving padding out.

    Args:
        attention_mask: ``[B, K]``, as in :func:`build_attention_mask`.
        query_len: of how many tokens, the last ones, positions are wanted.

    Returns:
        Integers ``[B, query_len]``, none below 0; the position of padding is yours to choose.
    """
    # BEGIN SOLUTION lab4.position_ids
    positions = attention_mask.long().cumsum(dim=-1) - 1  # [B, K]
    return positions.clamp(min=0)[:, -query_len:]
    # END SOLUTION


class Qwen3Model(nn.Module):
    """Embedding, decoder layers and a last norm.

    Modules, named as in Hugging Face: ``embed_tokens layers norm``.
    """

    def __init__(
        self, config: Qwen3Config, attention_cls: AttentionClass, mlp_cls: MLPClass
    ) -> None:
        """Make the modules; ``layers`` is an ``nn.ModuleList``, numbered from 0."""
        super().__init__()
        # BEGIN SOLUTION lab4.model
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            Qwen3DecoderLayer(config, layer_idx, attention_cls, mlp_cls)
            for layer_idx in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        # END SOLUTION

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        """Turn token ids into normed hidden states.

        Args:
            input_ids: ``[B, T]``, the new tokens.
            attention_mask: ``[B, past + T]``, 1 for a token and 0 for padding, tokens in the
                cache included; None means that nothing is padding.
            position_ids: ``[T]`` or ``[B, T]``; None: computed from the mask if there is one,
                otherwise continuing after the tokens in the cache.
            past: a cache that every layer reads and adds to, or None.

        Returns:
            ``[B, T, hidden]``.
        """
        # BEGIN SOLUTION lab4.model
        hidden_states = self.embed_tokens(input_ids)  # [B, T, hidden]
        seq = input_ids.shape[1]
        held = 0 if past is None else past.length()
        mask = None
        if attention_mask is not None:
            mask = build_attention_mask(attention_mask, seq, hidden_states.dtype)
        if position_ids is None and attention_mask is not None:
            position_ids = build_position_ids(attention_mask, seq)
        elif position_ids is None:
            position_ids = torch.arange(held, held + seq, device=input_ids.device)
        for layer in self.layers:
            hidden_states = layer(hidden_states, mask, position_ids, past)
        return self.norm(hidden_states)
        # END SOLUTION


class Qwen3ForCausalLM(nn.Module):
    """A whole Qwen3 that scores the next token.

    Modules, named as in Hugging Face: ``model lm_head``.
    """

    def __init__(
        self, config: Qwen3Config, attention_cls: AttentionClass, mlp_cls: MLPClass
    ) -> None:
        """Make the modules; with ``tie_word_embeddings`` the head's weight *is* the embedding."""
        super().__init__()
        # BEGIN SOLUTION lab4.causal_lm
        self.model = Qwen3Model(config, attention_cls, mlp_cls)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        # END SOLUTION

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        """Score every token of the vocabulary as the next one; arguments as for Qwen3Model.

        Returns:
            Logits ``[B, T, vocab]``.
        """
        # BEGIN SOLUTION lab4.causal_lm
        return self.lm_head(self.model(input_ids, attention_mask, position_ids, past))
        # END SOLUTION


def load_hf_checkpoint(
    path: str | Path,
    attention_cls: AttentionClass,
    mlp_cls: MLPClass,
    dtype: torch.dtype = torch.float32,
) -> Qwen3ForCausalLM:
    """Build the model of a Hugging Face folder and load its weights.

    Args:
        path: folder with ``config.json`` and either ``model.safetensors`` or the files that
            ``model.safetensors.index.json`` names (``weight_map``: parameter to file name).
        attention_cls: what layers are built from.
        mlp_cls: what layers are built from.
        dtype: of the model's parameters, whatever the dtype in the files.

    Returns:
        The model, in ``eval()`` mode. A tied head needs no tensor of its own.

    Raises:
        ValueError: the files lack a parameter, or hold one that the model does not have; the
            text names each of them; if both happen, naming all of one kind is enough.
    """
    # BEGIN SOLUTION lab4.load
    folder = Path(path)
    config = Qwen3Config.from_json(folder / "config.json")
    model = Qwen3ForCausalLM(config, attention_cls, mlp_cls).to(dtype)

    files = {"model.safetensors"}
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    state: dict[str, torch.Tensor] = {}
    for file in sorted(files):
        state |= load_file(folder / file)
    if config.tie_word_embeddings and "model.embed_tokens.weight" in state:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]

    wanted = set(model.state_dict())
    missing, unexpected = sorted(wanted - set(state)), sorted(set(state) - wanted)
    if missing or unexpected:
        raise ValueError(f"{folder}: missing {missing}, unexpected {unexpected}")
    model.load_state_dict(state)  # widens or narrows to the dtype of each parameter
    return model.eval()
    # END SOLUTION


def sample(
    logits: torch.Tensor,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Choose a token for every row.

    Args:
        logits: ``[B, vocab]``, left as they are.
        temperature: 0 means the likeliest token; otherwise logits are divided by it first.
        top_k: only the k likeliest tokens can be chosen; None means all, and so does a number
            larger than the vocabulary.
        top_p: of these only the smallest set of likeliest tokens whose probabilities add up to at
            least ``top_p`` (Holtzman et al. 2020, nucleus sampling); 1.0 means all. One always
            stays.
        generator: the source of randomness; None means torch's own.

    Returns:
        Token ids ``[B]``, int64.
    """
    # BEGIN SOLUTION lab4.sample
    if temperature == 0:
        return logits.argmax(dim=-1)
    scores = logits.float() / temperature
    if top_k is not None and top_k < scores.shape[-1]:
        least = scores.topk(top_k, dim=-1).values[:, -1:]  # [B, 1]
        scores = scores.masked_fill(scores < least, -torch.inf)
    probabilities = scores.softmax(dim=-1)
    if top_p < 1:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        before = ordered.cumsum(dim=-1) - ordered  # what likelier tokens have together
        ordered = ordered.masked_fill((before >= top_p), 0.0)
        ordered[:, 0] = ordered[:, 0].clamp(min=1e-12)  # one stays, whatever top_p
        probabilities = torch.zeros_like(ordered).scatter(-1, order, ordered)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(-1)
    # END SOLUTION


@torch.no_grad()
def generate(
    model: nn.Module,
    input_ids: torch.Tensor,
    max_new_tokens: int,
    *,
    attention_mask: torch.Tensor | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    eos: int | None = None,
    generator: torch.Generator | None = None,
    on_token: Callable[[torch.Tensor], object] | None = None,
) -> torch.Tensor:
    """Continue every row, token by token, with a cache.

    The model is called once with the whole prompt (prefill) and then with one new token per row
    and step (decode); no step reads anything twice, and nothing is computed after the last token.

    Args:
        model: called as ``model(input_ids, attention_mask=…, past=…)``, gives logits
            ``[B, T, vocab]``.
        input_ids: ``[B, T]``, prompts, padded on the left to one length.
        max_new_tokens: how many tokens are added at most, 1 or more.
        attention_mask: ``[B, T]``, 1 for a token and 0 for padding; None means no padding.
            For every step it grows by one column: 1 for each row that goes on. What a finished
            row gets there makes no difference.
        temperature: see :func:`sample`.
        top_k: see :func:`sample`.
        top_p: see :func:`sample`.
        eos: a row that generates this token is done: from then on it only gets ``eos``. When
            all rows are done, nothing more is generated. None means there is no such token.
        generator: see :func:`sample`.
        on_token: called with the new tokens ``[B]`` of every step, as soon as they are known.

    Returns:
        ``[B, T + n]``: the prompt and the ``n`` tokens added.
    """
    # BEGIN SOLUTION lab4.generate
    past = KVCache()
    new, text = input_ids, input_ids
    done = torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
    for step in range(max_new_tokens):
        if step and attention_mask is not None:
            attention_mask = torch.cat((attention_mask, attention_mask.new_ones(len(new), 1)), 1)
        logits = model(new, attention_mask=attention_mask, past=past)[:, -1]  # [B, vocab]
        chosen = sample(logits, temperature, top_k, top_p, generator)
        if eos is not None:
            chosen = chosen.masked_fill(done, eos)
            done = done | (chosen == eos)
        if on_token is not None:
            on_token(chosen)
        new = chosen[:, None]  # [B, 1]
        text = torch.cat((text, new), dim=1)
        if eos is not None and bool(done.all()):
            break
    return text
    # END SOLUTION
