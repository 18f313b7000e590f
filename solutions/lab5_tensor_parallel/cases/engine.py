"""Cases of the whole model: of stand-ins, its loading, and whole Qwen3 on flat tokens."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from autograder.course.labfile import ROOT
from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from labs.given import parallel
from labs.given.config import Qwen3Config
from solutions.reference import oracle_engine

from .sizes import Weights, config_of, flat, layer_weights, listed, prefixed

CHECKPOINT = "labs/given/tiny_qwen3"
# hidden, heads, kv heads, head_dim, width of the MLP, vocabulary, lengths: stand-ins on one rank
_SIZES = (
    (14, 6, 2, 4, 10, 37, (3, 5, 1)),
    (10, 4, 1, 6, 14, 41, (4, 2)),
    (18, 6, 3, 8, 12, 29, (1, 6, 2)),
)
# ... and whole, for 1, 2 and 4 ranks, which do not divide the vocabulary
_WHOLE = (
    (44, 8, 2, 6, 20, 97, (3, 6, 1)),
    (28, 12, 4, 10, 24, 51, (2, 5)),
    (36, 16, 2, 8, 12, 73, (4, 1, 3)),
)
SCALING = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}

Size = tuple[int, int, int, int, int, int, tuple[int, ...]]


def _config(size: Size, layers: int, **other: Any) -> Qwen3Config:
    hidden, heads, kv_heads, head_dim, inner, vocabulary, _ = size
    more = {"intermediate_size": inner, "vocab_size": vocabulary, "num_hidden_layers": layers}
    return config_of(hidden, heads, kv_heads, head_dim, **more, **other)


def _weights(draw: Draw, c: Qwen3Config) -> Weights:
    """A checkpoint as Hugging Face has it."""
    found = {"model.embed_tokens.weight": draw.normal(c.vocab_size, c.hidden_size)}
    for index in range(c.num_hidden_layers):
        found |= prefixed(layer_weights(draw, c), f"model.layers.{index}.")
    found["model.norm.weight"] = draw.uniform(c.hidden_size, low=0.4, high=2.2)
    if not c.tie_word_embeddings:
        scale = c.hidden_size**-0.5
        found["lm_head.weight"] = draw.normal(c.vocab_size, c.hidden_size, scale=scale)
    return found


def _tokens(draw: Draw, c: Qwen3Config, lengths: tuple[int, ...], first: int = 0) -> Weights:
    """Ids, positions and borders; every sequence goes on from a place of its own."""
    firsts = tuple(first + 3 * n for n in range(len(lengths)))
    ids = torch.tensor([draw.integer(0, c.vocab_size - 1) for _ in range(sum(lengths))])
    return {"ids": ids, **flat(lengths, firsts)}


def _about(c: Qwen3Config, lengths: tuple[int, ...], en: str = "", zh: str = "") -> Text:
    all_lengths = listed(lengths)
    layers = "1 layer" if c.num_hidden_layers == 1 else f"{c.num_hidden_layers} layers"
    return Text(
        f"{en}{layers} of hidden {c.hidden_size}, {c.vocab_size} token ids, "
        f"sequences of {all_lengths.en} tokens",
        f"{zh}{c.num_hidden_layers} 层，hidden {c.hidden_size}，词表大小 {c.vocab_size}，"
        f"序列长度为 {all_lengths.zh}",
    )


def _standing(
    draw: Draw,
    layers: int,
    en: str,
    zh: str,
    *,
    scaling: dict[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
    **other: Any,
) -> Draft:
    size = draw.pick(_SIZES)
    c, lengths = _config(size, layers, **other), size[-1]
    state = oracle_engine.standing_state(c, _weights(draw, c))
    state = {name: weight.to(dtype) for name, weight in state.items()}
    given = _tokens(draw, c, lengths, draw.integer(5, 9))
    at = given["ids"], given["positions"], given["cu"]
    outputs = oracle_engine.standing_states(c, state, *at, scaling)
    outputs = [y.to(dtype) for y in outputs]
    tensors = {f"y{depth}": y for depth, y in enumerate(outputs)}
    head = oracle_engine.head_of(c, state)
    tensors["logits"] = oracle_engine.logits(head, outputs[-1], given["cu"])
    if c.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    names = sorted(state.keys() - ({"lm_head.weight"} if c.tie_word_embeddings else set()))
    values = {"scaling": scaling, "dtype": str(dtype).removeprefix("torch."), "names": names}
    about = _about(c, lengths, en, zh)
    return draft(about, tensors | given | prefixed(state), asdict(c), **values)


@recipe()
def model_core(draw: Draw) -> Draft:
    return _standing(draw, 3, "stand-ins: ", "使用替身：", rms_norm_eps=3e-4)


@recipe()
def model_scaled(draw: Draw) -> Draft:
    """rope_scaling reaches every attention."""
    return _standing(draw, 2, "YaRN, stand-ins: ", "YaRN，使用替身：", scaling=SCALING)


@recipe()
def lm_untied(draw: Draw) -> Draft:
    en, zh = "a head of its own, stand-ins: ", "独立的输出头，使用替身："
    return _standing(draw, 1, en, zh, tie_word_embeddings=False)


@recipe()
def lm_scored(draw: Draw) -> Draft:
    """The same for the head, which is given the hidden states."""
    en, zh = "a head of its own, stand-ins: ", "独立的输出头，使用替身："
    return _standing(draw, 1, en, zh, tie_word_embeddings=False)


@recipe()
def lm_tied(draw: Draw) -> Draft:
    return _standing(draw, 1, "tied, stand-ins: ", "共享输出头，使用替身：")


@recipe()
def lm_bfloat16(draw: Draw) -> Draft:
    en, zh = "tied, bfloat16, stand-ins: ", "共享输出头，bfloat16，使用替身："
    return _standing(draw, 1, en, zh, dtype=torch.bfloat16)


def _loading(
    draw: Draw,
    en: str,
    zh: str,
    *,
    tied: bool,
    repeated: bool = False,
    without: str = "",
    dtype: str = "float32",
) -> Draft:
    """A checkpoint under Hugging Face names, and what the parameters have to hold afterwards."""
    size = draw.pick(_SIZES)
    c = _config(size, 2, tie_word_embeddings=tied)
    weights = _weights(draw, c)
    want = oracle_engine.standing_state(c, weights)
    if repeated:  # in some checkpoints the tied head stands, too; its values do not count
        weights["lm_head.weight"] = draw.normal(c.vocab_size, c.hidden_size)
    given = [name for name in weights if not without or without not in name]
    tensors = prefixed(weights, "hf.") | prefixed(want, "want.")
    order = [given[place] for place in draw.permutation(len(given)).tolist()]
    return draft(_about(c, size[-1], en, zh), tensors, asdict(c), order=order, dtype=dtype)


@recipe()
def checkpoint_untied(draw: Draw) -> Draft:
    return _loading(draw, "a head of its own: ", "独立的输出头：", tied=False)


@recipe()
def checkpoint_tied(draw: Draw) -> Draft:
    return _loading(draw, "tied: ", "共享输出头：", tied=True)


@recipe()
def checkpoint_repeated(draw: Draw) -> Draft:
    """The tensors are float32, the parameters bfloat16."""
    en, zh = "tied, and stored once more: ", "共享输出头，但文件中另存了一份："
    return _loading(draw, en, zh, tied=True, repeated=True, dtype="bfloat16")


@recipe()
def checkpoint_without_norm(draw: Draw) -> Draft:
    en, zh = "a norm is absent: ", "缺少一个归一化权重："
    return _loading(draw, en, zh, tied=True, without="1.post_attention_layernorm")


@recipe()
def checkpoint_without_part(draw: Draw) -> Draft:
    en, zh = "k_proj of a layer is absent: ", "缺少某一层的 k_proj："
    return _loading(draw, en, zh, tied=True, without="layers.0.self_attn.k_proj")


@recipe()
def checkpoint_without_head(draw: Draw) -> Draft:
    en, zh = "not tied, and no head: ", "不共享，却没有输出头："
    return _loading(draw, en, zh, tied=False, without="lm_head")


def _engine(
    draw: Draw,
    en: str,
    zh: str,
    *,
    ranks: tuple[int, ...],
    scaling: dict[str, Any] | None = None,
    **other: Any,
) -> Draft:
    size = draw.pick(_WHOLE)
    c, lengths = _config(size, 2, **other), size[-1]
    weights = _weights(draw, c)
    given = _tokens(draw, c, lengths, 300 if scaling else 0)
    at = given["ids"], given["positions"], given["cu"]
    y = oracle_engine.hidden_states(c, weights, *at, scaling)
    logits = oracle_engine.logits(oracle_engine.head_of(c, weights), y, given["cu"])
    tensors = {"y": y, "logits": logits, **given, **prefixed(weights, "hf.")}
    return draft(_about(c, lengths, en, zh), tensors, asdict(c), scaling=scaling, ranks=list(ranks))


@recipe()
def engine(draw: Draw) -> Draft:
    return _engine(
        draw, "a head of its own: ", "独立的输出头：", ranks=(1, 2, 4), tie_word_embeddings=False
    )


@recipe()
def engine_tied(draw: Draw) -> Draft:
    return _engine(draw, "tied: ", "共享输出头：", ranks=(4,))


@recipe()
def engine_scaled(draw: Draw) -> Draft:
    en, zh = "YaRN, positions from 300: ", "YaRN，位置从 300 开始："
    return _engine(draw, en, zh, ranks=(2,), scaling=SCALING)


@recipe()
def engine_checkpoint(draw: Draw) -> Draft:
    """The trained checkpoint on board."""
    c, weights = parallel.read_checkpoint(ROOT / CHECKPOINT)
    lengths = draw.pick(((6, 9, 2), (7, 4), (3, 8, 5)))
    given = _tokens(draw, c, lengths)
    y = oracle_engine.hidden_states(c, weights, given["ids"], given["positions"], given["cu"])
    logits = oracle_engine.logits(oracle_engine.head_of(c, weights), y, given["cu"])
    about = _about(c, lengths, "tiny Qwen3: ", "小型 Qwen3：")
    tensors = {"y": y, "logits": logits, **given}
    return draft(about, tensors, asdict(c), folder=CHECKPOINT, scaling=None, ranks=[4])
