"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from functools import partial

import numpy as np

from autograder.checks.expect import (
    Literal,
    Result,
    Student,
    Tensor,
    answers,
    behaviour,
    cases,
    config,
)
from autograder.checks.experiments import is_beside
from autograder.reference.cases import Case
from labs.lab7_engine.checks.experiments import (
    accepted,
    attended,
    bfloat16,
    blocks_for,
    forked,
    in_bfloat16,
    layer_of,
    near,
    places,
    pool_of_six,
    read_places,
    scales_of,
    scheduled,
    speculated,
    stopped_text,
    stored_values,
)
from labs.lab7_engine.checks.serving import GIVEN, as_array, own_cache, plain_cache, scheduler_of

POOL, TABLE, PAGED = "lab7.block_pool", "lab7.block_table", "lab7.paged_attention"
ATTENTION, CHANNEL, LINEAR = "lab7.attention", "lab7.per_channel", "lab7.quantized_linear"
GROUPS, GROUPED, MLP = "lab7.groups", "lab7.group_linear", "lab7.mlp"
SCHEDULER, ENGINE = "lab7.scheduler", "lab7.engine"
ACCEPT, SPECULATION = "lab7.accept", "lab7.speculation"
EIGHT, FOUR = "mlp.QuantizedLinear", "mlp.GroupQuantizedLinear"
X = np.array([[1.0, 2.0, 3.0, 4.0], [-2.0, 1.0, 0.5, 3.0]], np.float32)
AT = (3, 5)


def _paged(student: Student, case: Case) -> Result:
    names = ("q", "k", "v", "tables", "contexts", "cu")
    return student.call("attention.paged_attention", *(case[name] for name in names))


def _mlp(student: Student, case: Case) -> Result:
    sizes = *case["sizes"], case["group"], case["block"]
    return student.new("mlp.Qwen3MLP", *sizes, weights=case.weights)(case["x"])


# What a call gives that ends without a return, or with more than it should.


@behaviour("tuple_returned", PAGED)
@cases("paged_core")
def behaves_tuple_of_paged(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return is_beside(student, case, lambda: _paged(student, case))


@behaviour("tuple_returned", LINEAR)
@cases("linear")
def behaves_tuple_of_linear(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return is_beside(student, case, lambda: layer_of(student, case, EIGHT)(case["x"]))


@behaviour("tuple_returned", GROUPED)
@cases("grouped")
def behaves_tuple_of_grouped(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return is_beside(student, case, lambda: layer_of(student, case, FOUR)(case["x"]))


@behaviour("tuple_returned", MLP)
@cases("mlp_eight")
def behaves_tuple_of_mlp(student: Student, case: Case) -> bool:
    """The right answer comes with something beside it."""
    return is_beside(student, case, lambda: _mlp(student, case))


@behaviour("nothing_returned", POOL)
@cases("pool")
def behaves_silent_pool(student: Student, case: Case) -> bool:
    """Blocks are asked for, or owners, and None comes."""
    pool = pool_of_six(student)
    calls = ((2, "allocate"), (0, "references"))
    return None in answers(student, *(partial(student.call, pool, n, method=m) for n, m in calls))


@behaviour("nothing_returned", PAGED)
@cases("paged_core")
def behaves_silent_paged(student: Student, case: Case) -> bool:
    """The call gives None."""
    return None in answers(student, lambda: _paged(student, case))


@behaviour("nothing_returned", ATTENTION)
@cases("attention_token")
def behaves_silent_attention(student: Student, case: Case) -> bool:
    """The call gives None."""
    return None in answers(student, attended(student, X, AT)[0])


@behaviour("nothing_returned", CHANNEL)
@cases("channel")
def behaves_silent_channel(student: Student, case: Case) -> bool:
    """The call gives None."""
    return None in answers(student, lambda: student.call("mlp.quantize_per_channel", case["w"]))


@behaviour("nothing_returned", LINEAR)
@cases("linear")
def behaves_silent_linear(student: Student, case: Case) -> bool:
    """The call gives None."""
    return None in answers(student, lambda: layer_of(student, case, EIGHT)(case["x"]))


@behaviour("nothing_returned", GROUPS)
@cases("dequantize")
def behaves_silent_groups(student: Student, case: Case) -> bool:
    """Either of both calls gives None."""
    parts = (case[name] for name in ("packed", "scales", "zeros"))
    back = partial(student.call, "mlp.dequantize_groups", *parts, case["size"])
    weight = Tensor.of(np.ones((2, 2 * case["size"]), np.float32))
    return None in answers(
        student, back, partial(student.call, "mlp.quantize_groups", weight, case["size"])
    )


@behaviour("nothing_returned", GROUPED)
@cases("grouped")
def behaves_silent_grouped(student: Student, case: Case) -> bool:
    """The call gives None."""
    return None in answers(student, lambda: layer_of(student, case, FOUR)(case["x"]))


@behaviour("nothing_returned", MLP)
@cases("mlp_eight")
def behaves_silent_mlp(student: Student, case: Case) -> bool:
    """The call gives None."""
    return None in answers(student, lambda: _mlp(student, case))


@behaviour("nothing_returned", "lab7.weight_bytes")
@cases("odd_model")
def behaves_silent_bytes(student: Student, case: Case) -> bool:
    """The call gives None, for one of the numbers of bits."""
    made = config(case["configs"][0])
    given = ((16,), (8,), (4, case["size"]))
    calls = (partial(student.call, "mlp.weight_bytes", made, *one) for one in given)
    return None in answers(student, *calls)


@behaviour("nothing_returned", "lab7.prefix_cache")
@cases("cache_runs")
def behaves_silent_cache(student: Student, case: Case) -> bool:
    """Blocks are asked for, or looked for, and None comes."""
    cache = own_cache(student, case)
    find = partial(student.call, cache, [1, 2, 3], method="match")
    return None in answers(student, find, partial(student.call, cache, 1, method="allocate"))


@behaviour("nothing_returned", SCHEDULER)
@cases("schedule_one")
def behaves_silent_scheduler(student: Student, case: Case) -> bool:
    """A step, or what becomes known after it, gives None."""
    scheduler = scheduler_of(student, case, plain_cache(student, case))
    request = student.new(f"{GIVEN}.Request", 0, Literal((1, 2)), 2)
    student.call(scheduler, request, method="add")
    step = partial(student.call, scheduler, 0, method="step")
    return None in answers(student, step, partial(student.call, scheduler, {}, method="update"))


@behaviour("nothing_returned", ACCEPT)
@cases("accept_all")
def behaves_silent_accept(student: Student, case: Case) -> bool:
    """The call gives None, whether a token stays or not."""
    given = [as_array(case[name]) for name in ("q", "p", "uniforms")]
    other = *given[:2], np.full_like(given[2], 0.999)
    calls = (partial(student.call, "engine.accept", case["tokens"], *one) for one in (given, other))
    return None in answers(student, *calls)


# Blocks: who owns them, how many there are, which are copied.


@behaviour("pool_share_of_nobodys", POOL)
@cases("pool")
def behaves_shared_nobodys(student: Student, case: Case) -> bool:
    """A block of a new pool is shared without an error."""
    return bool(answers(student, lambda: student.call(pool_of_six(student), 0, method="share")))


@behaviour("pool_freed_twice", POOL)
@cases("pool")
def behaves_freed_twice(student: Student, case: Case) -> bool:
    """A block of a new pool is given back without an error."""
    return bool(answers(student, lambda: student.call(pool_of_six(student), 0, method="free")))


@behaviour("table_block_early", TABLE)
@cases("table_first")
def behaves_early_block(student: Student, case: Case) -> bool:
    """A block more wherever tokens just fill theirs, and only there."""
    found = [blocks_for(student, tokens) for tokens in (3, 4, 5, 8, 9)]
    return found == [1, 2, 2, 3, 3]


@behaviour("cow_never", TABLE)
@cases("fork_child")
def behaves_no_copy(student: Student, case: Case) -> bool:
    """A fork writes into the block that it shares."""
    found = forked(student, 3)
    return found is not None and found[0] == found[1] and found[2] == 2


@behaviour("cow_old_block_kept", TABLE)
@cases("fork_child")
def behaves_kept_block(student: Student, case: Case) -> bool:
    """A fork writes into a copy, and the old block still has two owners."""
    found = forked(student, 3)
    return found is not None and found[0] != found[1] and len(found[1]) == 1 and found[2] == 2


@behaviour("cow_of_full_block", TABLE)
@cases("fork_full")
def behaves_copied_full_block(student: Student, case: Case) -> bool:
    """A fork of a full block takes two new ones, and gives the full one up."""
    found = forked(student, 4)
    return (
        found is not None and len(found[1]) == 2 and found[1][0] not in found[0] and found[2] == 1
    )


# Attention: which places count, and what is stored.


@behaviour("paged_last_block_whole", PAGED)
@cases("paged_partial")
def behaves_whole_last_block(student: Student, case: Case) -> bool:
    """Eight tokens are right; of six, all places of both blocks count."""
    right = near(read_places(student, 8), places((2, 4), (0, 4)), 1e-3)
    return right and near(read_places(student, 6), places((2, 4), (0, 4)), 1e-3)


@behaviour("paged_partial_block_lost", PAGED)
@cases("paged_partial")
def behaves_lost_partial_block(student: Student, case: Case) -> bool:
    """Eight tokens are right; of six, those of the full block count."""
    right = near(read_places(student, 8), places((2, 4), (0, 4)), 1e-3)
    return right and near(read_places(student, 6), places((2, 4)), 1e-3)


@behaviour("paged_blocks_sorted", PAGED)
@cases("paged_partial")
def behaves_sorted_blocks(student: Student, case: Case) -> bool:
    """Eight tokens are right; of six, block 0 counts to its end, and block 2 does not."""
    right = near(read_places(student, 8), places((2, 4), (0, 4)), 1e-3)
    return right and near(read_places(student, 6), places((0, 4), (2, 2)), 1e-3)


@behaviour("attention_values_rotated", ATTENTION)
@cases("attention_token")
def behaves_rotated_values(student: Student, case: Case) -> bool:
    """Values lie in the pool as their positions turn them."""
    angles = np.array(AT)[:, None] * np.array([1.0, 0.1])
    cos, sin = np.cos(angles), np.sin(angles)
    left, right = X[:, :2], X[:, 2:]
    turned = np.concatenate((left * cos - right * sin, right * cos + left * sin), axis=1)
    return near(stored_values(student, X, AT), turned, 1e-3)


# Scales of a few numbers.

MOSTLY = np.array([[-4.0, 1.0, 2.0, 0.5], [3.0, -1.0, 0.5, 2.0]], np.float32)
ONE_SIGN = np.array([[1.0, 2.0, 3.0, 4.0], [-1.0, 0.5, 1.0, 2.0]], np.float32)


@behaviour("scales_over_128", CHANNEL)
@cases("channel")
def behaves_scales_over_128(student: Student, case: Case) -> bool:
    """The largest magnitude over 128."""
    return near(scales_of(student, Tensor.of(MOSTLY)), np.array([4, 3]) / 128)


@behaviour("largest_with_its_sign", CHANNEL)
@cases("channel")
def behaves_signed_largest(student: Student, case: Case) -> bool:
    """A row that goes down to -4 and up to 2 gets the scale of 2."""
    return near(scales_of(student, Tensor.of(MOSTLY)), np.array([2, 3]) / 127)


@behaviour("scales_in_the_weights_dtype", CHANNEL)
@cases("channel_bfloat16")
def behaves_narrow_scales(student: Student, case: Case) -> bool:
    """Right in float32; in bfloat16 the scale is the bfloat16 next to it."""
    want = np.array([4, 3]) / 127
    right = near(scales_of(student, Tensor.of(MOSTLY)), want)
    return right and near(scales_of(student, in_bfloat16(MOSTLY)), bfloat16(want))


@behaviour("range_without_zero", GROUPS)
@cases("groups_one_sided")
def behaves_range_without_zero(student: Student, case: Case) -> bool:
    """A group from 1 to 4 gets the scale of 3; one with both signs is right."""
    return near(scales_of(student, Tensor.of(ONE_SIGN), 4), np.array([[3], [3]]) / 15)


@behaviour("groups_in_the_weights_dtype", GROUPS)
@cases("groups_bfloat16")
def behaves_narrow_groups(student: Student, case: Case) -> bool:
    """Right in float32; in bfloat16 the scale is the bfloat16 next to it."""
    want = np.array([[4], [3]]) / 15
    right = near(scales_of(student, Tensor.of(ONE_SIGN), 4), want)
    return right and near(scales_of(student, in_bfloat16(ONE_SIGN), 4), bfloat16(want))


# The engine: who goes back, who waits, what a text ends with.


@behaviour("preempt_oldest", SCHEDULER)
@cases("schedule_tight")
def behaves_oldest_back(student: Student, case: Case) -> bool:
    """Where the oldest lacks a block it goes back; where the youngest does, it is not that one."""
    oldest, youngest = (scheduled(student, (4, 2, 12, 3), 3, other) for other in (3, 4))
    gone = oldest is not None and oldest.get(0, {}) == {0: 3, 1: 3} and oldest.get(2) == {1: 1}
    return gone and (youngest is None or youngest.get(1) != {0: 1})


@behaviour("schedule_waits_for_budget", SCHEDULER)
@cases("schedule_chunks")
def behaves_waits_for_budget(student: Student, case: Case) -> bool:
    """Two short prompts come in at once; one that the rest does not hold comes a step later."""
    short, long = (scheduled(student, (20, 4, 6, 3), *prompts) for prompts in ((3, 2), (4, 5)))
    if short is None or long is None or short.get(0) != {0: 3, 1: 2}:
        return False
    return long.get(0) == {0: 4} and long.get(1) == {0: 1, 1: 5}


@behaviour("stop_word_shown", ENGINE)
@cases("engine_stops")
def behaves_shown_stop_word(student: Student, case: Case) -> bool:
    """The scheduler hears that abc stops at b, and the text goes on to b or beyond."""
    plain, stopped = stopped_text(student, "z"), stopped_text(student, "b")
    return plain == ("abc", False) and stopped in {("ab", True), ("abc", True)}


# Speculation: the rule, token by token.

HALVES = [[0.5, 0.5]]


@behaviour("accept_ratio_inverted", ACCEPT)
@cases("accept_shares")
def behaves_inverted_ratio(student: Student, case: Case) -> bool:
    """What the target likes half as much always stays; what it likes more does not."""
    for token, ratio in ((0, 2.0), (1, 2 / 3)):
        for uniform in (0.1, 0.4, 0.6, 0.8, 0.95):
            p = [[0.25, 0.75], [0.5, 0.5]]
            made = accepted(student, [token], HALVES, p, [uniform, 0.3])
            if made is None or (len(made) == 2 and made[0] == token) != (uniform < ratio):
                return False
    return True


@behaviour("accept_residual_of_another_row", ACCEPT)
@cases("accept_chain")
def behaves_residual_of_another_row(student: Student, case: Case) -> bool:
    """A first token is replaced rightly; the second by what another row says."""
    q = [[0.5, 0.5, 0, 0, 0]] * 2
    p = [[0.5, 0, 0.5, 0, 0], [0.5, 0, 0, 0.5, 0], [0, 0.5, 0, 0, 0.5]]
    uniforms = [0.3, 0.3, 0.9]
    early, late = (accepted(student, tokens, q, p, uniforms) for tokens in ([1, 0], [0, 1]))
    return early == [2] and late in ([0, 2], [0, 4])


@behaviour("propose_target_row_early", SPECULATION)
@cases("speculate_greedy")
def behaves_early_rows(student: Student, case: Case) -> bool:
    """What follows the last token but one comes in place of the first guess."""
    return [speculated(student, text) for text in ([2, 7, 4, 1], [6, 0, 3, 5])] == [[5], [4]]
