"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from autograder.checks.expect import (
    answers,
    behaviour,
    cases,
    config,
    expect_close,
    expect_same,
    expect_shape,
    expect_unlike,
    expect_value,
    works,
)
from autograder.checks.experiments import is_right, near
from autograder.reference.cases import Case
from autograder.sandbox.student import Result, Student
from autograder.wire.messages import Tensor
from labs.lab4_tinyllm.checks.calls import (
    CACHE,
    STAND_IN_MODEL,
    STAND_INS,
    attention_of,
    like,
)
from labs.lab4_tinyllm.checks.experiments import (
    CAUSAL_LM,
    MODEL,
    WHY,
    attention_with,
    blocked,
    cached_alike,
    continued,
    deaf_to_eps,
    drawn,
    error_names,
    first_layers,
    goes_on,
    heads_of,
    hides,
    in_turn,
    later_as,
    needs_cache,
    needs_mask,
    needs_option,
    right_in_pieces,
    right_with,
    text_answer,
)

ATTENTION, MLP, LAYER, PAST = "lab4.attention", "lab4.mlp", "lab4.decoder_layer", "lab4.past"
MASK, LOAD, SAMPLE, GENERATE = "lab4.attention_mask", "lab4.load", "lab4.sample", "lab4.generate"


@behaviour("no_scale", ATTENTION)
@cases("own_attention")
def behaves_unscaled(student: Student, case: Case) -> bool:
    """With queries that are smaller by sqrt(head_dim) it is right."""
    smaller = case.weights["q_norm.weight"].array / case.config["head_dim"] ** 0.5
    return right_with(student, case, q_norm=smaller)


@behaviour("norm_after_rope", ATTENTION)
@cases("own_attention")
def behaves_normed_after_rotation(student: Student, case: Case) -> bool:
    """A shift of all positions changes something, but not with norms whose weights are 1."""
    ones, at = np.ones(case.config["head_dim"]), case["positions"]
    places = at, like(at, at.array + 5)
    layers = attention_with(student, case, q_norm=ones, k_norm=ones), attention_of(student, case)

    def shifted() -> None:
        fresh, own = ([part(case["x"], position_ids=p) for p in places] for part in layers)
        expect_same(fresh[0], fresh[1], case, WHY, limit=1e-4)
        expect_unlike(own[0], own[1], case, WHY)

    return works(student, shifted)


@behaviour("qk_norm_missing", ATTENTION)
@cases("own_attention")
def behaves_without_norm(student: Student, case: Case) -> bool:
    """Other weights of q_norm and k_norm change nothing, larger queries do."""
    larger = {n: 3 * case.weights[f"{n}.weight"].array for n in ("q_norm", "k_norm", "q_proj")}
    queries = attention_with(student, case, q_proj=larger.pop("q_proj"))
    parts = attention_of(student, case), attention_with(student, case, **larger), queries

    def deaf() -> None:
        own, normed, asked = (part(case["x"]) for part in parts)
        expect_same(normed, own, case, WHY)
        expect_unlike(asked, own, case, WHY)

    return works(student, deaf)


@behaviour("kv_heads_tiled", ATTENTION)
@cases("own_attention")
def behaves_tiled(student: Student, case: Case) -> bool:
    """With query heads in the order that tiled kv heads need it is right."""
    q, o = heads_of(case, "q_proj"), heads_of(case, "o_proj")
    order = np.arange(len(q)).reshape(case.config["num_key_value_heads"], -1).T.reshape(-1)
    moved = {"q_proj": np.vstack([*q[order]]), "o_proj": np.vstack([*o[order]]).T}
    return right_with(student, case, **moved)


@behaviour("rope_interleaved", ATTENTION)
@cases("own_attention")
def behaves_neighbours_rotated(student: Student, case: Case) -> bool:
    """With the numbers of a head so that pairs are neighbours it is right."""
    order = np.arange(case.config["head_dim"]).reshape(2, -1).T.reshape(-1)
    moved = {name: np.vstack([*heads_of(case, name)[:, order]]) for name in ("q_proj", "k_proj")}
    moved |= {name: case.weights[f"{name}.weight"].array[order] for name in ("q_norm", "k_norm")}
    return right_with(student, case, **moved)


@behaviour("one_future_token", ATTENTION)
@cases("own_attention")
def behaves_next_token_seen(student: Student, case: Case) -> bool:
    """Another last token changes the answer to the last but one, and to none before it."""
    attention, x = attention_of(student, case), case["x"]
    other = x.array.copy()
    other[:, -1] += 1

    def moved() -> None:
        before, after = attention(x), attention(like(x, other))
        expect_same(after, before, case, WHY, part=np.s_[:, :-2])
        expect_unlike(after, before, case, WHY, part=np.s_[:, -2:-1])

    return works(student, moved)


@behaviour("gate_and_up_swapped", MLP)
@cases("own_mlp")
def behaves_up_activated(student: Student, case: Case) -> bool:
    """With the weights of gate and up exchanged it is right."""
    gate, up = "gate_proj.weight", "up_proj.weight"
    weights = case.weights | {gate: case.weights[up], up: case.weights[gate]}
    mlp = student.new("mlp.Qwen3MLP", config(case.config), weights=weights)
    return is_right(student, case, lambda: mlp(case["x"]))


@behaviour("mask_required", MODEL)
@cases("model_core")
def behaves_needed_mask(student: Student, case: Case) -> bool:
    """A mask of ones is served; None raises."""
    return needs_mask(student, case, MODEL)


@behaviour("mask_required", CAUSAL_LM)
@cases("lm_untied")
def behaves_needed_mask_of_causal_lm(student: Student, case: Case) -> bool:
    """A mask of ones is served; None raises."""
    return needs_mask(student, case, CAUSAL_LM)


@behaviour("cache_required", MODEL)
@cases("model_core")
def behaves_needed_cache(student: Student, case: Case) -> bool:
    """An empty cache is served; None raises."""
    return needs_cache(student, case, MODEL)


@behaviour("cache_required", CAUSAL_LM)
@cases("lm_untied")
def behaves_needed_cache_of_causal_lm(student: Student, case: Case) -> bool:
    """An empty cache is served; None raises."""
    return needs_cache(student, case, CAUSAL_LM)


@behaviour("option_required", SAMPLE)
@cases("sample_greedy")
def behaves_needed_option_of_sample(student: Student, case: Case) -> bool:
    """With top_k, top_p and a generator it runs; without one of them it raises."""
    chance = student.new("labs.given.standin.seeded", 3)
    options = {"top_k": 2, "top_p": 0.9, "generator": chance}
    call = partial(student.call, "model.sample", case["logits"], temperature=1.0)
    return needs_option(call, options, student)


@behaviour("option_required", GENERATE)
@cases("generate_greedy")
def behaves_needed_option_of_generate(student: Student, case: Case) -> bool:
    """With eos, a mask, a generator and on_token it runs; without one of them it raises."""
    options = {
        "eos": 0,
        "attention_mask": Tensor.of(np.ones_like(case["ids"].array)),
        "generator": student.new("labs.given.standin.seeded", 3),
        "on_token": student.new("builtins.getattr", student.new("builtins.list"), "append"),
        "top_k": 2,
    }
    call = partial(text_answer, student, case, temperature=1.0)
    return needs_option(call, options, student)


@behaviour("one_row_only", SAMPLE)
@cases("sample_greedy")
def behaves_single_row_of_sample(student: Student, case: Case) -> bool:
    """The likeliest token of one row comes, those of several do not."""

    def right(rows: int) -> bool:
        logits, y = (like(case[n], case[n].array[:rows]) for n in ("logits", "y"))
        return works(student, lambda: expect_close(student.call("model.sample", logits), y, case))

    return right(1) and not right(case["y"].shape[0])


@behaviour("one_row_only", GENERATE)
@cases("generate_greedy")
def behaves_single_row_of_generate(student: Student, case: Case) -> bool:
    """One row is continued, again and again, several are not."""
    return continued(student, case, 1, 1, case["y"].shape[0]) == [True, True, False]


@behaviour("one_cache_for_all_texts", GENERATE)
@cases("generate_greedy")
def behaves_kept_cache(student: Student, case: Case) -> bool:
    """A row is continued once, and the same row not once more."""
    return continued(student, case, 1, 1) == [True, False]


@behaviour("layer_eps_default", LAYER)
@cases("layer_core")
def behaves_fixed_eps_of_layer(student: Student, case: Case) -> bool:
    """Where one norm alone can be seen, it norms, and another eps of the config changes nothing."""

    mine = "self_attn.q_norm.weight", "self_attn.k_norm.weight"  # these have an eps of their own
    deaf = partial(deaf_to_eps, student, case)
    return deaf("self_attn.o_proj.weight") or deaf("mlp.down_proj.weight", *mine)


@behaviour("last_norm_eps_default", MODEL)
@cases("model_empty")
def behaves_fixed_eps_of_model(student: Student, case: Case) -> bool:
    """Without layers large embeddings come out right; small ones as for any other eps."""

    def answer(eps: float, factor: float) -> Result:
        made = config({**case.config, "rms_norm_eps": eps})
        name = "embed_tokens.weight"
        table = Tensor.of(case.weights[name].array * np.float32(factor))
        weights = case.weights | {name: table}
        return student.new("model.Qwen3Model", made, *STAND_INS, weights=weights)(case["ids"])

    def same() -> None:
        expect_close(answer(1e-5, 1e4), case["y"], case)
        expect_same(answer(9.0, 1e-2), answer(1e-5, 1e-2), case, WHY)

    return works(student, same)


@behaviour("tied_head_missing", LOAD)
@cases("load_tied")
def behaves_wanted_head(student: Student, case: Case) -> bool:
    """Where the head is tied, the error names the head and nothing else."""
    head = "lm_head.weight"
    return error_names(student, case, [head, *case.weights]) == [head]


@behaviour("first_shard_only", LOAD)
@cases("load_sharded")
def behaves_one_shard(student: Student, case: Case) -> bool:
    """Of several files the error names a part of the parameters, and not of layers alone."""
    named = error_names(student, case, list(case.weights)) or []
    some = 2 <= len(named) < len(case.weights)
    return some and not all(".layers." in name for name in named)


@behaviour("every_file_read", LOAD)
@cases("load_sharded")
def behaves_every_file(student: Student, case: Case) -> bool:
    """The error names what lies beside the files of the index, and no parameter."""
    beside = ["model.layers.2.", "output.weight"]
    named = error_names(student, case, [*beside, *case.weights]) or []
    return bool(named) and set(named) <= set(beside)


@behaviour("top_p_before_top_k", SAMPLE)
@cases("sample_greedy")
def behaves_top_p_of_all(student: Student, case: Case) -> bool:
    """Each filter alone is right; together, two tokens of shares 0.4 and 0.3 reach no 0.5."""
    found = partial(drawn, student, [0.4, 0.3, 0.2, 0.1], 300)
    alone = found(top_k=2), found(top_p=0.35), found(top_p=0.5)
    both = [found(top_k=2, top_p=top_p) for top_p in (0.35, 0.5)]
    return alone == ({0, 1}, {0}, {0, 1}) and both == [{0}, {0, 1}]


@behaviour("top_p_exceeded", SAMPLE)
@cases("sample_greedy")
def behaves_top_p_exceeded(student: Student, case: Case) -> bool:
    """One of two equal tokens is enough for a little less than its share, but not for its share."""
    found = partial(drawn, student, [0.5, 0.5], 300)
    return [len(found(top_p=top_p)) for top_p in (0.45, 0.5)] == [1, 2]


@behaviour("one_number_for_all_rows", SAMPLE)
@cases("sample_greedy")
def behaves_one_number(student: Student, case: Case) -> bool:
    """Rows that are alike get the same token, and another in another call."""
    chance = student.new("labs.given.standin.seeded", 3)
    calls = [drawn(student, [0.125] * 8, 64, generator=chance) for _ in range(12)]
    return all(len(tokens) == 1 for tokens in calls) and len(set.union(*calls)) > 1


@behaviour("length_counts_the_prompt", GENERATE)
@cases("generate_greedy")
def behaves_length_of_all(student: Student, case: Case) -> bool:
    """Asked for two tokens more than the prompt has, it gives two."""
    width = case["ids"].shape[1] + 2
    model = student.new(STAND_IN_MODEL, case["table"])
    y = like(case["y"], case["y"].array[:, :width])
    return works(
        student,
        lambda: expect_close(student.call("model.generate", model, case["ids"], width), y, case),
    )


@behaviour("text_filled_up_with_zeros", GENERATE)
@cases("generate_all_end")
def behaves_text_filled_up(student: Student, case: Case) -> bool:
    """It stops when all rows have ended, and the text is as long as if it had not."""
    (rows, wide), (_, width) = case["ids"].shape, case["y"].shape
    model = student.new(STAND_IN_MODEL, case["table"])

    def filled() -> None:
        call = student.call("model.generate", model, case["ids"], case["new"], eos=case["eos"])
        text = expect_shape(call, (rows, wide + case["new"]), case)
        expect_close(like(case["y"], text.array[:, :width]), case["y"], case)
        calls = student.get(model, "calls").value
        expect_value(len(calls) if isinstance(calls, list) else None, width - wide, case)

    return works(student, filled)


@behaviour("cache_written_twice", PAST)
@cases("own_attention")
def behaves_cache_written_twice(student: Student, case: Case) -> bool:
    """After one piece the cache holds each of its tokens twice."""
    cache = student.new(CACHE)
    answers(student, lambda: attention_of(student, case)(case["x"], past=cache))
    held = answers(student, lambda: student.call(cache, case["layer"], method="length"))
    return held == [2 * case["x"].shape[1]]


@behaviour("mask_does_not_grow", GENERATE)
@cases("generate_greedy")
def behaves_short_mask(student: Student, case: Case) -> bool:
    """It raises at the second new token, but not where a mask of one column fits any length."""

    def served(width: int, new: int) -> bool:
        ids = like(case["ids"], case["ids"].array[:, :width])
        mask, model = like(ids, np.ones_like(ids.array)), student.new(STAND_IN_MODEL, case["table"])
        call = partial(student.call, "model.generate", model, ids, new, attention_mask=mask)
        return bool(answers(student, call))

    return served(1, 4) and served(3, 1) and not served(3, 2)


@behaviour("cached_under_layer_0", PAST)
@cases("own_attention")
def behaves_cached_under_layer_0(student: Student, case: Case) -> bool:
    """A later layer puts its tokens into the entry of layer 0 and none into its own."""
    cache = student.new(CACHE)
    answers(student, lambda: attention_of(student, case)(case["x"], past=cache))
    lengths = (partial(student.call, cache, n, method="length") for n in (0, case["layer"]))
    return answers(student, *lengths) == [case["x"].shape[1], 0]


@behaviour("unrotated_keys_cached", PAST)
@cases("own_attention")
def behaves_unrotated_keys(student: Student, case: Case) -> bool:
    """Without a cache it is right; keys of the same token are cached alike at every place."""
    attention = attention_of(student, case)
    right = is_right(student, case, lambda: attention(case["x"]))
    return right and cached_alike(student, case, attention)


@behaviour("attention_mask_from_key_0", PAST)
@cases("own_attention_uniform")
def behaves_mask_from_key_0(student: Student, case: Case) -> bool:
    """Without a cache it is causal; a second piece comes out as the first tokens should."""
    return later_as(student, case, 4, [0, 1, 2])


@behaviour("no_causal_mask_with_cache", PAST)
@cases("own_attention_uniform")
def behaves_unmasked_piece(student: Student, case: Case) -> bool:
    """Without a cache it is causal; the tokens of a second piece all average all tokens."""
    return later_as(student, case, 2, [6] * 5)


@behaviour("no_causal_mask_with_cache", MASK)
@cases("masks_cached")
def behaves_unmasked_queries(student: Student, case: Case) -> bool:
    """Where all keys are queries it is causal; fewer queries see all that is no padding."""
    keys = case["keep"].shape[1]
    causal = hides(student, case, keys, ~np.tri(keys, dtype=bool))
    return causal and hides(student, case, 3, np.zeros((3, keys), bool))


@behaviour("queries_are_the_first", MASK)
@cases("masks_cached")
def behaves_first_queries(student: Student, case: Case) -> bool:
    """Where all keys are queries it is causal; fewer queries see what the first ones should."""
    keys = case["keep"].shape[1]
    return all(hides(student, case, n, ~np.tri(n, keys, dtype=bool)) for n in (keys, 3))


@behaviour("own_place_from_the_left", MASK)
@cases("masks_cached")
def behaves_own_place_first(student: Student, case: Case) -> bool:
    """Where all is padding, query i sees key i; without padding the mask is right."""
    hidden = partial(blocked, student, case)
    early = near(hidden([[0] * 5], 2), 1 - np.eye(2, 5)[None])
    return early and near(hidden([[1] * 5], 2), 1 - np.tri(2, 5, 3)[None])


@behaviour("padding_sees_itself_alone", MASK)
@cases("masks_right")
def behaves_lonely_padding(student: Student, case: Case) -> bool:
    """Padding on the right as a query sees no token before it, and tokens are served."""
    lonely = np.eye(5) + np.tri(5) * (np.arange(5) < 3)[:, None]
    return near(blocked(student, case, [[1, 1, 1, 0, 0]], 5), 1 - lonely.clip(max=1)[None])


@behaviour("padding_blocks_itself_after_a_cache", MASK)
@cases("masks_right")
def behaves_blocked_after_a_cache(student: Student, case: Case) -> bool:
    """Padding after one token sees itself where all keys are queries, and not where fewer are."""
    row = [1, 0, 0, 0, 0]
    hidden, others = partial(blocked, student, case, [row]), 1 - np.tile(row, (1, 5, 1))
    return near(hidden(5), others * (1 - np.eye(5))) and near(hidden(2), others[:, -2:])


@behaviour("start_after_other_layers", MODEL)
@cases("model_core")
def behaves_start_of_later_layers(student: Student, case: Case) -> bool:
    """With an empty cache one layer is right, several only where positions are given."""
    depth, at = case.config["num_hidden_layers"], Tensor.of(np.arange(case["ids"].shape[1]))

    def right(layers: int, **given: Any) -> bool:
        return first_layers(student, case, layers, past=student.new(CACHE), **given)

    return right(1) and right(depth, position_ids=at) and not right(depth)


@behaviour("start_after_other_layers", PAST)
@cases("own_attention")
def behaves_start_of_another_layer(student: Student, case: Case) -> bool:
    """Layer 0 spoils the layer where it comes before it, unless positions are given."""
    turns, own = partial(in_turn, student, case), case["layer"]
    return turns(own, 0) and turns(0, own, positions=True) and not turns(0, own)


@behaviour("given_positions_counted_on", PAST)
@cases("own_attention")
def behaves_positions_counted_on(student: Student, case: Case) -> bool:
    """With a cache, positions from 0 in every piece come out right, and the true ones do not."""
    right = partial(right_in_pieces, student, case)
    return right(true=False) and not right(true=True)


@behaviour("model_called_after_the_last", GENERATE)
@cases("generate_greedy")
def behaves_one_more_call(student: Student, case: Case) -> bool:
    """The text is right; after the prompt the model was called for every new token."""
    model = student.new(STAND_IN_MODEL, case["table"])

    def text() -> None:
        made = student.call("model.generate", model, case["ids"], case["new"])
        expect_close(made, case["y"], case)

    calls = [case["ids"].shape[1], *[1] * case["new"]]
    return works(student, text) and student.get(model, "calls").value == calls


@behaviour("last_place_counted_by_the_mask", GENERATE)
@cases("generate_padded")
def behaves_last_place(student: Student, case: Case) -> bool:
    """Where n tokens of a row are no padding, it goes on after place n; without padding, right."""
    keep, after = case["keep"].array, partial(goes_on, student, case, case["ids"].array)
    early = np.arange(keep.shape[1]) < keep.sum(1, keepdims=True)
    padded = {"attention_mask": case["keep"]}
    return after(keep * early, **padded) and not after(keep, **padded) and after(1)


@behaviour("mask_made_of_ids", GENERATE)
@cases("generate_greedy")
def behaves_mask_of_ids(student: Student, case: Case) -> bool:
    """Without a mask tokens of id 0 count for padding; with one of ones they are read."""
    ids = case["ids"].array * (np.arange(case["ids"].shape[1]) > 0)
    after, ones = partial(goes_on, student, case, ids), like(case["ids"], ids * 0 + 1)
    return after(ids != 0) and not after(1) and after(1, attention_mask=ones)
