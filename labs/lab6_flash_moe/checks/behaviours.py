"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from autograder.checks.expect import answers, behaviour, cases, expect_close, works
from autograder.checks.experiments import is_beside, is_right, near, normal, softmax
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from autograder.wire.messages import Tensor
from labs.lab6_flash_moe.checks.calls import (
    block_of,
    blocks_of,
    by_expert,
    experts_of,
    mixed,
    routed,
)
from labs.lab6_flash_moe.checks.experiments import (
    BUMP,
    CHOSEN,
    DOWN,
    KEY,
    LEVEL,
    ROW,
    SEEN,
    SHARES,
    UP,
    E,
    chosen_are_counted,
    chosen_of,
    counts_of,
    experts_give,
    first_query_decides,
    flat_places_turned,
    halves_are,
    loss_is_right,
    losses_are,
    made_by,
    mask_as_places,
    masked_probabilities,
    masked_shares,
    means_over_experts,
    one_by_one,
    pair_of,
    routed_by,
    sees,
    shares_of,
    square_is_right,
    token_by_token,
    total_of,
    totals_of,
    with_coefficient,
    zeroed_padding,
)

ONLINE, FLASH, ROUTER = "lab6.online_softmax", "lab6.flash_attention", "lab6.router"
EXPERTS, SPARSE, LOSS = "lab6.experts", "lab6.sparse_moe", "lab6.load_balancing"


# What a call gives that ends without a return, or with more than it should.
@behaviour("logits_left_out", SPARSE)
@cases("moe_normed")
def behaves_block_without_logits(student: Student, case: Case) -> bool:
    """The right output comes alone."""
    return works(student, lambda: expect_close(made_by(student, case), case["y"], case))


# The running softmax: one score in a block, so that a total can be told on paper.


@behaviour("online_rescaled_the_other_way", ONLINE)
@cases("scores_blocks")
def behaves_inverse_factor_online(student: Student, case: Case) -> bool:
    """Falling scores are right, and rising ones count old terms more."""
    return near(np.array(totals_of(student, DOWN, UP)), [total_of(DOWN), 1 + E + E**2])


@behaviour("online_new_terms_rescaled", ONLINE)
@cases("scores_blocks")
def behaves_late_factor_online(student: Student, case: Case) -> bool:
    """New terms shrink with the old ones; the first block's are lost, or not."""
    got = np.array(totals_of(student, UP, BUMP))
    lost = [E**-2 + E**-1, E**-2 + E**-1]
    return near(got, lost, [2 * E**-2 + E**-1, 2 * E**-2 + E**-1])


@behaviour("online_block_from_its_own_maximum", ONLINE)
@cases("scores_blocks")
def behaves_own_maximum_online(student: Student, case: Case) -> bool:
    """Rising scores are right; what lies below the maximum counts 1."""
    return near(np.array(totals_of(student, UP, DOWN, BUMP)), [total_of(UP), 3.0, 2 + E**-2])


@behaviour("online_maximum_of_the_last_block", ONLINE)
@cases("scores_blocks")
def behaves_last_maximum_online(student: Student, case: Case) -> bool:
    """The last block's maximum comes, and a total that tells of the others."""
    for scores in (UP, DOWN, BUMP):
        pair = pair_of(student, [[[score]] for score in scores])
        if pair is None or not near(pair[0], [scores[-1]]) or not pair[1].max() > 1.01:
            return False
    return True


@behaviour("online_one_maximum_for_all_rows", ONLINE)
@cases("scores_blocks")
def behaves_one_maximum_online(student: Student, case: Case) -> bool:
    """Rows alike are right; 600 below another row, nothing is left of a sum."""
    noise = normal(3, 5)

    def right(levels: Sequence[float], rows: slice) -> bool:
        scores = noise + np.array(levels, np.float32)[:, None]
        scores[:, 0] = np.array(levels) + 3  # the maximum
        pair = pair_of(student, [scores[:, :2], scores[:, 2:]])
        want = np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)[rows]
        if pair is None or pair[1].shape != (3,):
            return False
        maximum = np.broadcast_to(pair[0], (3,))[rows]
        return near(maximum, scores.max(-1)[rows]) and near(pair[1][rows], want)

    high, low = slice(0, 2), slice(2, 3)
    apart = (900.0, 900.0, 300.0)
    return right((900.0,) * 3, slice(3)) and right(apart, high) and not right(apart, low)


@behaviour("online_in_the_dtype_of_the_blocks", ONLINE)
@cases("scores_blocks")
def behaves_narrow_sums_online(student: Student, case: Case) -> bool:
    """2048 equal scores: float32 counts them, bfloat16 loses many."""
    blocks = [np.zeros((2, 4))] * 512
    wide, narrow = (pair_of(student, blocks, dtype) for dtype in ("float32", "bfloat16"))
    if wide is None or narrow is None:
        return False
    return near(wide[1], [2048.0] * 2) and bool((narrow[1] < 1900).all())


@behaviour("online_blocks_changed", ONLINE)
@cases("scores_blocks")
def behaves_changed_blocks_online(student: Student, case: Case) -> bool:
    """A block is another after the call."""
    blocks = [normal(2, 3, seed=seed) for seed in range(3)]
    given = [Tensor.of(block) for block in blocks]
    for value in answers(
        student, lambda: student.call("attention.online_softmax", given, echo=True)
    ):
        after = value[1][0]
        if isinstance(after, list) and len(after) == 3:
            pairs = zip(after, blocks, strict=True)
            return any(isinstance(one, Tensor) and not near(one.array, was) for one, was in pairs)
    return False


@behaviour("online_results_swapped", ONLINE)
@cases("scores_blocks")
def behaves_swapped_online(student: Student, case: Case) -> bool:
    """The total comes first, and the maximum after it."""
    scores = normal(2, 6)
    pair = pair_of(student, [scores[:, :2], scores[:, 2:]])
    highest = scores.max(-1)
    total = np.exp(scores - highest[:, None]).sum(-1)
    return pair is not None and near(pair[0], total) and near(pair[1], highest)


# Attention: how much each key counts for each query.


@behaviour("rescaled_the_other_way", FLASH)
@cases("flash_core")
def behaves_inverse_factor(student: Student, case: Case) -> bool:
    """Falling scores are right; of rising ones the first counts most."""
    down, up = (one_by_one(student, scores) for scores in (DOWN, UP))
    return near(down, softmax(DOWN)) and near(up, softmax(DOWN))


@behaviour("new_terms_rescaled", FLASH)
@cases("flash_core")
def behaves_late_factor(student: Student, case: Case) -> bool:
    """The tile that brings the maximum shrinks as well; the first one is lost, or not."""
    bump, level = (one_by_one(student, scores) for scores in (BUMP, LEVEL))
    lost = near(bump, shares_of(0, 1, E)) and near(level, shares_of(0, 1, 1))
    return lost or (near(bump, shares_of(1, 1, E)) and near(level, shares_of(1, 1, 1)))


@behaviour("maximum_of_the_tile", FLASH)
@cases("flash_core")
def behaves_own_maximum(student: Student, case: Case) -> bool:
    """Rising scores are right; a tile below the maximum counts as much as that of it."""
    up, down, bump = (one_by_one(student, scores) for scores in (UP, DOWN, BUMP))
    return (
        near(up, softmax(UP))
        and near(down, shares_of(1, 1, 1))
        and near(bump, shares_of(E**-2, 1, 1))
    )


@behaviour("divided_after_every_tile", FLASH)
@cases("flash_core")
def behaves_division_in_the_loop(student: Student, case: Case) -> bool:
    """Three equal keys: the sums 1, 2 and 3 divide what there is, or each tile, once too often."""
    all_so_far, each = np.array([1, 1, 2]) / 6, 1 / np.array([1, 2, 3])
    wanted = (all_so_far, all_so_far / 3, each, each / 3)
    return near(one_by_one(student, LEVEL), *wanted)


@behaviour("one_maximum_for_the_tile", FLASH)
@cases("flash_core")
def behaves_one_maximum(student: Student, case: Case) -> bool:
    """Queries alone are right; beside one that scores 600 more, nothing is left of one."""
    scores = normal(2, 4) + np.array([[900.0], [300.0]])
    alike = normal(2, 4) + 900
    want = softmax(scores.astype(np.float32))
    alone, beside = counts_of(student, scores, (1, 4)), counts_of(student, scores, (2, 4))
    right = near(alone, want) and near(counts_of(student, alike, (2, 4)), softmax(alike))
    if beside is None or not right or not near(beside[0], want[0]):
        return False
    return bool((~(np.abs(beside[1]) > 1e-3)).all())  # zeros, or NaN


@behaviour("last_keys_dropped", FLASH)
@cases("flash_core")
def behaves_dropped_keys(student: Student, case: Case) -> bool:
    """Four keys in blocks of two are right; of five the last counts nothing."""
    four, five = (counts_of(student, np.zeros((2, keys)), (2, 2)) for keys in (4, 5))
    return near(four, np.full((2, 4), 1 / 4)) and near(five, [[0.25] * 4 + [0.0]] * 2)


@behaviour("padded_keys_counted", FLASH)
@cases("flash_core")
def behaves_counted_padding(student: Student, case: Case) -> bool:
    """Four keys in blocks of two are right; five count as six."""
    four, five = (counts_of(student, np.zeros((2, keys)), (2, 2)) for keys in (4, 5))
    return near(four, np.full((2, 4), 1 / 4)) and near(five, np.full((2, 5), 1 / 6))


@behaviour("last_queries_dropped", FLASH)
@cases("flash_core")
def behaves_dropped_queries(student: Student, case: Case) -> bool:
    """Four queries in blocks of two are right; of five the last gets nothing."""
    scores = normal(5, 4)
    want = softmax(scores)
    four, five = (counts_of(student, scores[:rows], (2, 2)) for rows in (4, 5))
    return near(four, want[:4]) and near(five, np.vstack((want[:4], np.zeros((1, 4)))))


@behaviour("lengths_must_divide", FLASH)
@cases("flash_core")
def behaves_whole_blocks_only(student: Student, case: Case) -> bool:
    """Right where blocks divide the lengths; otherwise an error, or nothing that has a name."""
    scores = normal(6, 8)

    def right(rows: int, keys: int, *blocks: tuple[int, int]) -> bool:
        part = scores[:rows, :keys]
        return all(near(counts_of(student, part, block), softmax(part)) for block in blocks)

    whole = right(6, 8, (6, 8), (2, 4), (3, 2), (6, 4), (3, 8))
    named = (behaves_dropped_keys, behaves_counted_padding, behaves_dropped_queries)
    return (
        whole
        and not (right(6, 7, (3, 2), (2, 4)) and right(5, 8, (3, 2), (2, 4)))
        and not any(experiment(student, case) for experiment in named)
    )


@behaviour("rows_counted_in_blocks_of_keys", FLASH)
@cases("flash_causal")
def behaves_rows_by_keys(student: Student, case: Case) -> bool:
    """Square blocks are right; else a tile of queries stands where block_k says."""
    return square_is_right(student) and sees(student, KEY <= ROW // 3 * 2 + ROW % 3)


@behaviour("keys_counted_in_blocks_of_queries", FLASH)
@cases("flash_causal")
def behaves_keys_by_rows(student: Student, case: Case) -> bool:
    """Square blocks are right; else a tile of keys stands where block_q says."""
    found = square_is_right(student) and sees(student, KEY // 2 * 3 + KEY % 2 <= ROW)
    return found and not first_query_decides(student)


@behaviour("mask_counted_within_the_tile", FLASH)
@cases("flash_causal")
def behaves_local_mask(student: Student, case: Case) -> bool:
    """Every tile has a triangle of its own, or every one that the diagonal cuts."""
    return sees(student, KEY % 2 <= ROW % 3)


@behaviour("tiles_skipped_by_first_query", FLASH)
@cases("flash_causal")
def behaves_first_query_decides(student: Student, case: Case) -> bool:
    """No query of a tile sees keys, or tiles of keys, behind the first one; else all is right."""
    return first_query_decides(student)


@behaviour("tile_with_one_key_skipped", FLASH)
@cases("flash_causal")
def behaves_skipped_early(student: Student, case: Case) -> bool:
    """Query 2, the last of its tile, misses key 2, the first of another; otherwise all is right."""
    return square_is_right(student) and sees(student, SEEN & ~((ROW == 2) & (KEY == 2)))


@behaviour("mask_of_a_finite_number", FLASH)
@cases("flash_causal")
def behaves_finite_mask(student: Student, case: Case) -> bool:
    """Equal scores of 0 are right; those of -100000 leave nothing to a key that is seen."""
    low = counts_of(student, np.full((6, 6), -1e5), (3, 2), causal=True)
    right = near(counts_of(student, np.zeros((6, 6)), (3, 2), causal=True), SEEN / (ROW + 1))
    if low is None or not right or not near(low.sum(-1), np.ones(6)):
        return False
    hides = (low * ~SEEN).sum(-1) > 0.99
    return bool(hides.any()) and near(low[~hides], (SEEN / (ROW + 1))[~hides])


@behaviour("hidden_keys_in_the_sum", FLASH)
@cases("flash_causal")
def behaves_late_mask(student: Student, case: Case) -> bool:
    """In a single tile, equal keys count a sixth each, however few are seen."""
    return near(counts_of(student, np.zeros((6, 6)), (6, 6), causal=True), SEEN / 6)


@behaviour("computed_in_the_dtype_of_q", FLASH)
@cases("flash_core")
def behaves_narrow(student: Student, case: Case) -> bool:
    """In bfloat16 sum and output come to rest at 512, and 128.5 becomes 128."""
    return halves_are(student, (1.0, 1.0), (0.5, 0.5))


@behaviour("sum_in_the_dtype_of_q", FLASH)
@cases("flash_core")
def behaves_narrow_sum(student: Student, case: Case) -> bool:
    """In bfloat16 the sum alone comes to rest at 512."""
    return halves_are(student, (2.0, 1.0), (0.3775, 0.6225))


@behaviour("output_in_the_dtype_of_q", FLASH)
@cases("flash_core")
def behaves_narrow_output(student: Student, case: Case) -> bool:
    """In bfloat16 the output alone comes to rest at 512."""
    return halves_are(student, (0.5, 0.5), (0.3775, 0.6225))


@behaviour("scores_in_the_dtype_of_q", FLASH)
@cases("flash_core")
def behaves_narrow_scores(student: Student, case: Case) -> bool:
    """In bfloat16 128.5 becomes 128, and nothing comes to rest."""
    return halves_are(student, (1.0, 0.5), (0.5, 0.5))


# Experts: logits, weights and losses that can be told beforehand.


@behaviour("inputs_taken_as_contiguous", SPARSE)
@cases("moe_normed")
def behaves_contiguous_block(student: Student, case: Case) -> bool:
    """Tokens are served as they come; transposed, the same ones raise."""
    block, turned = block_of(student, case), case["x"].array.swapaxes(0, 1)
    x = student.new("torch.transpose", Tensor.of(np.ascontiguousarray(turned)), 0, 1)
    served = is_beside(student, case, lambda: block(case["x"]))
    return served and not answers(student, lambda: block(x))


@behaviour("inputs_taken_as_contiguous", EXPERTS)
@cases("experts_core")
def behaves_contiguous_experts(student: Student, case: Case) -> bool:
    """Right as they come; transposed, the same choices and weights raise."""
    given = [np.ascontiguousarray(case[name].array.T) for name in ("chosen", "shares")]
    chosen, shares = (student.new("torch.t", one) for one in given)
    experts = experts_of(student, case)
    served = is_right(student, case, lambda: mixed(student, case))
    return served and not answers(student, lambda: experts(case["x"], chosen, shares))


@behaviour("inputs_taken_as_contiguous", LOSS)
@cases("loss_masked")
def behaves_contiguous_loss(student: Student, case: Case) -> bool:
    """Right as it comes; transposed, the same mask raises."""
    loss = partial(student.call, "mlp.load_balancing_loss", blocks_of(case), *case["size"])
    mask = student.new("torch.t", np.ascontiguousarray(case["mask"].array.T))
    served = is_right(student, case, lambda: loss(case["mask"]), "loss")
    return served and not answers(student, lambda: loss(mask))


@behaviour("numbers_before_weights", ROUTER)
@cases("router_plain")
def behaves_numbers_first(student: Student, case: Case) -> bool:
    """Whole numbers come second, and floats third."""
    for value in answers(student, lambda: routed_by(student, case)):
        if isinstance(value, (tuple, list)) and len(value) == 3:
            kinds = [one.dtype if isinstance(one, Tensor) else "" for one in value[1:]]
            return kinds == ["int64", "float32"]
    return False


@behaviour("router_softmax_in_the_dtype_of_x", ROUTER)
@cases("router_plain")
def behaves_narrow_router(student: Student, case: Case) -> bool:
    """In float32 the largest logit is chosen; in bfloat16 a smaller one, now and then."""
    wide, narrow = (chosen_of(student, dtype) for dtype in ("float32", "bfloat16"))
    return wide == [0, 1, 2, 3] and narrow is not None and narrow != wide


@behaviour("normed_to_unit_length", ROUTER)
@cases("router_normed")
def behaves_unit_length(student: Student, case: Case) -> bool:
    """The squares of a token's weights sum to one, and not the weights."""
    _, weights, chosen = routed(student, case)
    right = case["dense"].array
    got = by_expert(weights, chosen, case).array
    return near(got, right / np.linalg.norm(right, axis=-1, keepdims=True)) and not near(got, right)


@behaviour("flat_places_read_the_wrong_way", EXPERTS)
@cases("experts_core")
def behaves_flat_places(student: Student, case: Case) -> bool:
    """Place n of the flat choices goes to token n % 3."""
    return flat_places_turned(student)


@behaviour("experts_counted_among_the_chosen", EXPERTS)
@cases("experts_core")
def behaves_counted_experts(student: Student, case: Case) -> bool:
    """Parameters 0, 1, 2 stand for the experts that are chosen, in their order."""
    return chosen_are_counted(student)


@behaviour("weights_not_sorted_along", EXPERTS)
@cases("experts_core")
def behaves_unsorted_weights(student: Student, case: Case) -> bool:
    """Expert n gets the weight that stands at place n."""
    order, flat = np.argsort(CHOSEN.ravel()).tolist(), SHARES.ravel().tolist()
    return experts_give(student, [(at // 2, n, flat[n]) for n, at in enumerate(order)])


@behaviour("experts_after_the_first_lost", EXPERTS)
@cases("experts_core")
def behaves_first_expert(student: Student, case: Case) -> bool:
    """Only what expert 0 gives to token 1 comes out."""
    return experts_give(student, [(1, 0, float(SHARES[1, 0]))])


@behaviour("loss_mask_as_places", LOSS)
@cases("loss_masked")
def behaves_mask_as_places(student: Student, case: Case) -> bool:
    """Rows 0 and 1 count, over and over."""
    return losses_are(student, mask_as_places)


@behaviour("loss_mask_in_the_shares_only", LOSS)
@cases("loss_masked")
def behaves_mask_in_shares(student: Student, case: Case) -> bool:
    """Probabilities of padding stay in their mean, or in their sum."""
    return losses_are(student, masked_shares)


@behaviour("loss_mask_in_the_probabilities_only", LOSS)
@cases("loss_masked")
def behaves_mask_in_probabilities(student: Student, case: Case) -> bool:
    """Choices of padding stay in their mean, or in their sum."""
    return losses_are(student, masked_probabilities)


@behaviour("loss_of_zeroed_padding", LOSS)
@cases("loss_masked")
def behaves_zeroed_padding(student: Student, case: Case) -> bool:
    """Padding counts with equal probabilities, and with any two experts, or all."""
    return losses_are(student, zeroed_padding)


@behaviour("loss_means_over_experts", LOSS)
@cases("loss_masked")
def behaves_means_over_experts(student: Student, case: Case) -> bool:
    """Both means leave one number per token, which the logits do not change."""
    return losses_are(student, means_over_experts)


@behaviour("loss_product_before_the_means", LOSS)
@cases("loss_masked")
def behaves_token_by_token(student: Student, case: Case) -> bool:
    """The mean of what every token gives to its own experts."""
    return losses_are(student, token_by_token)


@behaviour("loss_times_a_coefficient", LOSS)
@cases("loss_masked")
def behaves_coefficient(student: Student, case: Case) -> bool:
    """A tenth, a hundredth or a thousandth of the loss."""
    return losses_are(student, with_coefficient)


@behaviour("loss_for_several_choices_only", LOSS)
@cases("loss_unused")
def behaves_several_choices(student: Student, case: Case) -> bool:
    """Right for two experts per token; for one, an error or another number."""
    return loss_is_right(student, 2) and not loss_is_right(student, 1)
