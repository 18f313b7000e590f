"""Experiments that show a known mistake in whatever form it is written; see the author's guide."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.checks.expect import Student, Tensor, answers, behaviour, cases
from autograder.reference.cases import Case
from labs.lab7_engine.checks import experiments as ex

POOL, TABLE, PAGED = "lab7.block_pool", "lab7.block_table", "lab7.paged_attention"
ATTENTION, CHANNEL = "lab7.attention", "lab7.per_channel"
GROUPS, GROUPED, MLP = "lab7.groups", "lab7.group_linear", "lab7.mlp"
CACHE, SCHEDULER, ENGINE = "lab7.prefix_cache", "lab7.scheduler", "lab7.engine"
ACCEPT, SPECULATION = "lab7.accept", "lab7.speculation"
EIGHT, FOUR = "mlp.QuantizedLinear", "mlp.GroupQuantizedLinear"
X = np.array([[1.0, 2.0, 3.0, 4.0], [-2.0, 1.0, 0.5, 3.0]], np.float32)
AT = (3, 5)
THREE = np.concatenate((X, [[0.5, -1.0, 2.0, 1.0]])).astype(np.float32)


# Blocks: who owns them, how many there are, which are copied.


@behaviour("pool_share_of_nobodys", POOL)
@cases("pool")
def behaves_shared_nobodys(student: Student, case: Case) -> bool:
    """A block of a new pool is shared without an error."""
    return bool(answers(student, lambda: student.call(ex.pool_of_six(student), 0, method="share")))


@behaviour("pool_freed_twice", POOL)
@cases("pool")
def behaves_freed_twice(student: Student, case: Case) -> bool:
    """A block of a new pool is given back without an error."""
    return bool(answers(student, lambda: student.call(ex.pool_of_six(student), 0, method="free")))


@behaviour("table_block_early", TABLE)
@cases("table_first")
def behaves_early_block(student: Student, case: Case) -> bool:
    """A block more wherever tokens just fill theirs, and only there."""
    found = [ex.blocks_for(student, tokens) for tokens in (3, 4, 5, 8, 9)]
    return found == [1, 2, 2, 3, 3]


@behaviour("cow_never", TABLE)
@cases("fork_child")
def behaves_no_copy(student: Student, case: Case) -> bool:
    """A fork writes into the block that it shares."""
    found = ex.forked(student, 3)
    return found is not None and found[0] == found[1] and found[2] == 2


@behaviour("cow_even_alone", TABLE)
@cases("fork_child")
def behaves_needless_copy(student: Student, case: Case) -> bool:
    """After its fork has copied the last block, a table copies it as well, and owns it alone."""
    own, fork, after = ex.written_alone(student) or ([], [], [])
    return own[:1] == fork[:1] == after[:1] != [] and len({own[1], fork[1], after[1]}) == 3


@behaviour("cow_old_block_kept", TABLE)
@cases("fork_child")
def behaves_kept_block(student: Student, case: Case) -> bool:
    """A fork writes into a copy, and the old block still has two owners."""
    found = ex.forked(student, 3)
    return found is not None and found[0] != found[1] and len(found[1]) == 1 and found[2] == 2


@behaviour("cow_half_copied", TABLE)
@cases("fork_child")
def behaves_half_copy(student: Student, case: Case) -> bool:
    """In the block that a fork wrote into, all old keys stand and no old value, or vice versa."""
    return ex.copied(student) in ((True, False), (False, True))


@behaviour("cow_of_full_block", TABLE)
@cases("fork_full")
def behaves_copied_full_block(student: Student, case: Case) -> bool:
    """A fork of a full block takes two new ones, and gives the full one up."""
    found = ex.forked(student, 4)
    return (
        found is not None and len(found[1]) == 2 and found[1][0] not in found[0] and found[2] == 1
    )


# Attention: which places count, and what is stored.


@behaviour("paged_last_block_whole", PAGED)
@cases("paged_partial")
def behaves_whole_last_block(student: Student, case: Case) -> bool:
    """Eight tokens are right; of six, all places of both blocks count."""
    right = ex.near(ex.read_places(student, 8), ex.places((2, 4), (0, 4)), 1e-3)
    return right and ex.near(ex.read_places(student, 6), ex.places((2, 4), (0, 4)), 1e-3)


@behaviour("paged_partial_block_lost", PAGED)
@cases("paged_partial")
def behaves_lost_partial_block(student: Student, case: Case) -> bool:
    """Eight tokens are right; of six, those of the full block count."""
    right = ex.near(ex.read_places(student, 8), ex.places((2, 4), (0, 4)), 1e-3)
    return right and ex.near(ex.read_places(student, 6), ex.places((2, 4)), 1e-3)


@behaviour("paged_blocks_sorted", PAGED)
@cases("paged_partial")
def behaves_sorted_blocks(student: Student, case: Case) -> bool:
    """Eight tokens are right; of six, block 0 counts to its end, and block 2 does not."""
    right = ex.near(ex.read_places(student, 8), ex.places((2, 4), (0, 4)), 1e-3)
    return right and ex.near(ex.read_places(student, 6), ex.places((0, 4), (2, 2)), 1e-3)


@behaviour("paged_block_zero_skipped", PAGED)
@cases("paged_core")
def behaves_skipped_zero(student: Student, case: Case) -> bool:
    """Blocks 2 and 1 are read whole; of blocks 2 and 0, only block 2, if that does not raise."""
    right = ex.near(ex.read_places(student, 8, (2, 1)), ex.places((2, 4), (1, 4)), 1e-3)
    skipped = ex.read_places(student, 8)
    return right and (skipped is None or ex.near(skipped, ex.places((2, 4)), 1e-3))


@behaviour("paged_self_hidden", PAGED)
@cases("paged_partial")
def behaves_hidden_self(student: Student, case: Case) -> bool:
    """Of eight tokens, and of six, all count but the last one, which asks."""
    found = [ex.read_places(student, context) for context in (8, 6)]
    return ex.near(found[0], ex.places((2, 4), (0, 3)), 1e-3) and ex.near(
        found[1], ex.places((2, 4), (0, 1)), 1e-3
    )


@behaviour("attention_new_tokens_only", ATTENTION)
@cases("attention_token")
def behaves_new_tokens_only(student: Student, case: Case) -> bool:
    """Behind two tokens, a third gets a single one's value: its own, or that of the first."""
    got = ex.last_output(student, THREE, (3, 4, 5))
    return ex.near(got, THREE[2:], 1e-3) or ex.near(got, THREE[:1], 1e-3)


@behaviour("attention_values_rotated", ATTENTION)
@cases("attention_token")
def behaves_rotated_values(student: Student, case: Case) -> bool:
    """Values lie in the pool as their positions turn them."""
    return ex.near(ex.stored(student, "values", X, AT), ex.turned(X, AT), 1e-3)


@behaviour("attention_theta_fixed", ATTENTION)
@cases("attention_token")
def behaves_fixed_base(student: Student, case: Case) -> bool:
    """Another rope_theta gives the same keys, other positions do not, and rotate is right."""
    one, other = (ex.stored(student, "keys", X, AT, theta) for theta in (100.0, 7.0))
    moved = ex.stored(student, "keys", X, (4, 9))
    return ex.near(one, other) and not ex.near(one, moved) and _rotates_by(student, 1.0)


@behaviour("attention_turned_back", ATTENTION)
@cases("attention_token")
def behaves_turned_back(student: Student, case: Case) -> bool:
    """rotate turns the other way, or at the right angle with sin and cos exchanged."""
    if _rotates_by(student, -1.0):
        return True
    quarter = np.concatenate((-X[:, 2:], X[:, :2]), axis=1)
    return ex.near(_rotated(student), ex.turned(quarter, AT, -1.0), 1e-3)


@behaviour("attention_pairs_from_one", ATTENTION)
@cases("attention_token")
def behaves_pairs_from_one(student: Student, case: Case) -> bool:
    """With a base of 100, the two pairs of four numbers turn by 0.1 and 0.01 a position."""
    return _rotates_by(student, 0.1)


def _rotated(student: Student) -> Any:
    given = Tensor.of(X[:, None]), Tensor.of(np.array(AT)), 100.0
    got = ex.first(student, lambda: student.call("attention.rotate", *given))
    return got.array[:, 0] if isinstance(got, Tensor) and got.shape == (2, 1, 4) else None


def _rotates_by(student: Student, step: float) -> bool:
    return ex.near(_rotated(student), ex.turned(X, AT, step), 1e-3)


# Scales of a few numbers.

MOSTLY = np.array([[-4.0, 1.0, 2.0, 0.5], [3.0, -1.0, 0.5, 2.0]], np.float32)
ONE_SIGN = np.array([[1.0, 2.0, 3.0, 4.0], [-1.0, 0.5, 1.0, 2.0]], np.float32)


@behaviour("scales_over_128", CHANNEL)
@cases("channel")
def behaves_scales_over_128(student: Student, case: Case) -> bool:
    """The largest magnitude over 128."""
    return ex.near(ex.scales_of(student, Tensor.of(MOSTLY)), np.array([4, 3]) / 128)


@behaviour("largest_with_its_sign", CHANNEL)
@cases("channel")
def behaves_signed_largest(student: Student, case: Case) -> bool:
    """A row that goes down to -4 and up to 2 gets the scale of 2."""
    return ex.near(ex.scales_of(student, Tensor.of(MOSTLY)), np.array([2, 3]) / 127)


@behaviour("scales_in_the_weights_dtype", CHANNEL)
@cases("channel_bfloat16")
def behaves_narrow_scales(student: Student, case: Case) -> bool:
    """Right in float32; in bfloat16 the scale is the bfloat16 next to it."""
    want = np.array([4, 3]) / 127
    right = ex.near(ex.scales_of(student, Tensor.of(MOSTLY)), want)
    return right and ex.near(ex.scales_of(student, ex.in_bfloat16(MOSTLY)), ex.bfloat16(want))


@behaviour("range_without_zero", GROUPS)
@cases("groups_one_sided")
def behaves_range_without_zero(student: Student, case: Case) -> bool:
    """A group from 1 to 4 gets the scale of 3; one with both signs is right."""
    return ex.near(ex.scales_of(student, Tensor.of(ONE_SIGN), 4), np.array([[3], [3]]) / 15)


@behaviour("groups_in_the_weights_dtype", GROUPS)
@cases("groups_bfloat16")
def behaves_narrow_groups(student: Student, case: Case) -> bool:
    """Right in float32; in bfloat16 the scale is the bfloat16 next to it."""
    want = np.array([[4], [3]]) / 15
    right = ex.near(ex.scales_of(student, Tensor.of(ONE_SIGN), 4), want)
    return right and ex.near(ex.scales_of(student, ex.in_bfloat16(ONE_SIGN), 4), ex.bfloat16(want))


# The first row is tiny.
TINY = np.array([[1e-7], [1.0]], np.float32)


@behaviour("tiny_scales_replaced", CHANNEL)
@cases("channel")
def behaves_replaced_scales(student: Student, case: Case) -> bool:
    """Of two rows, the tiny one has a scale at least twice too large, and the other is right."""
    return ex.only_first_too_large(ex.scales_of(student, Tensor.of(MOSTLY * TINY)), 4e-7, 3, 127)


@behaviour("tiny_group_scales_replaced", GROUPS)
@cases("groups")
def behaves_replaced_group_scales(student: Student, case: Case) -> bool:
    """The same of two groups."""
    scales = ex.scales_of(student, Tensor.of(ONE_SIGN * TINY), 4)
    return ex.only_first_too_large(scales, 4e-7, 3, 15)


@behaviour("zero_points_not_saved", GROUPED)
@cases("grouped")
def behaves_unsaved_zero_points(student: Student, case: Case) -> bool:
    """A new layer has zero points; its state dict has bytes and scales only."""
    return ex.saved(student, "zeros") == (True, ["packed", "scales"])


# Blocks that are found again.

ONE, OTHER = [1, 2, 3, 4, 9], [5, 6, 7, 8, 9]


@behaviour("prefix_of_the_block_alone", CACHE)
@cases("cache_before")
def behaves_lonely_block(student: Student, case: Case) -> bool:
    """Behind a known beginning, a block of another text is found, and none of no text."""
    asked = (ONE, [5, 6, 3, 4, 9], [5, 6, 4, 3, 9])
    found = [("match", f"{at}", text) for at, text in enumerate(asked)]
    said = ex.played(student, 8, *ex.served("a", ONE), *ex.served("b", OTHER), *found)
    return [len(blocks) for blocks in said[-3:]] == [2, 2, 1]


@behaviour("prefix_whole_text", CACHE)
@cases("cache_before")
def behaves_whole_text(student: Student, case: Case) -> bool:
    """A text of two full blocks finds both, as one does that is a token longer."""
    found = [("match", "b", ONE[:4]), ("match", "c", ONE)]
    said = ex.played(student, 8, *ex.served("a", ONE[:4]), *found)
    return [len(blocks) for blocks in said[-2:]] == [2, 2]


@behaviour("prefix_second_block_known_instead", CACHE)
@cases("cache_twice")
def behaves_second_block(student: Student, case: Case) -> bool:
    """Of two that store the same text, the second one's blocks are found; of one text, its own."""
    stored = [line for name in "ab" for line in ex.served(name, ONE, keep=True)]
    twice = ex.played(
        student, 8, *stored[:2], *stored[3:5], stored[2], stored[5], ("match", "c", ONE)
    )
    once = ex.played(student, 8, *stored[:3], ("match", "c", ONE))
    right = bool(once) and once[-1] == once[1][:2]
    return right and bool(twice) and twice[-1] == twice[3][:2]


@behaviour("evict_in_one_line", CACHE)
@cases("cache_unknown")
def behaves_one_line(student: Student, case: Case) -> bool:
    """Unknown blocks are taken before a known one, but no more once they came back after it."""
    take = [*ex.served("a", ONE[:3]), ("allocate", "x", 3)]
    again, ask = [("release", "x", None), ("allocate", "y", 3)], ("match", "b", ONE)
    said = [
        *ex.played(student, 4, *take, ask)[-2:],
        *ex.played(student, 4, *take, *again, ask)[-2:],
    ]
    return [len(blocks) for blocks in said] == [3, 1, 3, 0]


# The engine: who goes back, who waits, what a text ends with.


@behaviour("schedule_exact_fit_refused", SCHEDULER)
@cases("schedule_one")
def behaves_refused_fit(student: Student, case: Case) -> bool:
    """Seven tokens are taken into eight places, eight are refused."""
    return [ex.refused(student, tokens) for tokens in (7, 8)] == [False, True]


@behaviour("schedule_never_fits_accepted", SCHEDULER)
@cases("schedule_one")
def behaves_accepted_misfit(student: Student, case: Case) -> bool:
    """Eight places take eight tokens, and nine."""
    return [ex.refused(student, tokens) for tokens in (8, 9)] == [False, False]


@behaviour("preempt_oldest", SCHEDULER)
@cases("schedule_tight")
def behaves_oldest_back(student: Student, case: Case) -> bool:
    """Where the oldest lacks a block it goes back; where the youngest does, it is not that one."""
    oldest, youngest = (ex.scheduled(student, (4, 2, 12, 3), 3, other) for other in (3, 4))
    gone = oldest is not None and oldest.get(0, {}) == {0: 3, 1: 3} and oldest.get(2) == {1: 1}
    return gone and (youngest is None or youngest.get(1) != {0: 1})


@behaviour("schedule_waits_for_budget", SCHEDULER)
@cases("schedule_chunks")
def behaves_waits_for_budget(student: Student, case: Case) -> bool:
    """Two short prompts come in at once; one that the rest does not hold comes a step later."""
    short, long = (ex.scheduled(student, (20, 4, 6, 3), *prompts) for prompts in ((3, 2), (4, 5)))
    if short is None or long is None or short.get(0) != {0: 3, 1: 2}:
        return False
    return long.get(0) == {0: 4} and long.get(1) == {0: 1, 1: 5}


@behaviour("schedule_passed_in_line", SCHEDULER)
@cases("schedule_room")
def behaves_passed(student: Student, case: Case) -> bool:
    """All three come in if they fit; where the second does not, the third does."""
    fits, lacks = (ex.story(student, (blocks, 2, 20, 4), 6, 5, 2)[:1] for blocks in (9, 5))
    return fits == ["0:6! 1:5! 2:2!"] and lacks == ["0:6! 2:2!"]


@behaviour("schedule_prompts_first", SCHEDULER)
@cases("schedule_decodes")
def behaves_prompts_first(student: Student, case: Case) -> bool:
    """A chunk takes the whole budget, and a token of another what the last chunk leaves."""
    return ex.story(student, (20, 4, 4, 3), 2, 8)[:3] == ["0:2! 1:2", "1:4", "0:1! 1:2!"]


# Two grow until the younger goes back, which then is computed again in chunks of two.
TIGHT = (5, 2, 2, 2), 3, 3
UNTIL = ["0:2", "0:1! 1:1", "0:1! 1:1", "0:1! 1:1!", "0:1! 1:1!", "0:1!", "1:2"]


@behaviour("schedule_decodes_by_made", SCHEDULER)
@cases("schedule_back")
def behaves_one_by_one(student: Student, case: Case) -> bool:
    """Right until somebody has come in again; then its old text goes on token by token."""
    return ex.story(student, *TIGHT)[:10] == [*UNTIL, "1:1", "1:1", "1:1!"]


@behaviour("schedule_samples_by_prompt", SCHEDULER)
@cases("schedule_back")
def behaves_early_sample(student: Student, case: Case) -> bool:
    """Right until somebody has come in again; then a token follows in the middle of its text."""
    story = ex.story(student, *TIGHT)
    return story[:8] == [*UNTIL, "1:2!"] or story[:7] == [*UNTIL[:6], "1:2!"]


@behaviour("preempt_computed_kept", SCHEDULER)
@cases("schedule_back")
def behaves_kept_count(student: Student, case: Case) -> bool:
    """Right until somebody has come in again; then its text does not begin at 0."""
    if ex.story(student, *TIGHT)[:6] != UNTIL[:6]:
        return False
    works = ex.works_of(student, *TIGHT) or []
    back = next((start for step, request, start, *_ in works if request == 1 and step > 5), 0)
    return back > 0


@behaviour("schedule_last_full_block_known", SCHEDULER)
@cases("schedule_fills")
def behaves_last_known(student: Student, case: Case) -> bool:
    """Of two blocks that become full in one step, the second is made known and not the first."""
    return ex.first_known(student, 7) == {6: 0, 9: 2, 12: 5}


@behaviour("schedule_known_too_early", SCHEDULER)
@cases("schedule_fills")
def behaves_early_known(student: Student, case: Case) -> bool:
    """Chunks, or new tokens, or both are made known a step before they are computed."""
    known = ex.first_known(student)  # 3: 0, 6: 1, 9: 2, 12: 5 is right
    early = ({6: 0}, {9: 1, 12: 4}, {6: 0, 9: 1, 12: 4})
    return known in [{3: 0, 6: 1, 9: 2, 12: 5, **one} for one in early]


@behaviour("schedule_available_before_match", SCHEDULER)
@cases("schedule_pressed")
def behaves_late_match(student: Student, case: Case) -> bool:
    """OutOfBlocks comes where all blocks that are left are found, not where none is."""
    return ex.raises_when_found(student)


@behaviour("batch_context_new_only", ENGINE)
@cases("engine_runs")
def behaves_new_context(student: Student, case: Case) -> bool:
    """Two tokens are computed, and one more: its scores are those of the first token alone."""
    return ex.two_words(student) == "DB"


@behaviour("stop_word_shown", ENGINE)
@cases("engine_stops")
def behaves_shown_stop_word(student: Student, case: Case) -> bool:
    """The scheduler hears that abc stops at b, and the text goes on to b or beyond."""
    plain, stopped = ex.stopped_text(student, "z"), ex.stopped_text(student, "b")
    return plain == ("abc", False) and stopped in {("ab", True), ("abc", True)}


@behaviour("stop_shortest_end_held", ENGINE)
@cases("engine_stops")
def behaves_short_hold(student: Student, case: Case) -> bool:
    """Of cab, two letters wait for abd; of aa, only one waits for aab."""
    heard = ex.heard(student, "cab", "abd"), ex.heard(student, "aa", "aab")
    return heard == ("c\nabcab", "a\naaa")


@behaviour("sampling_every_work", ENGINE)
@cases("engine_sampled")
def behaves_drawn_for_chunks(student: Student, case: Case) -> bool:
    """Behind a chunk, the second of two words comes that come without it."""
    plain, chunked = ex.sampled(student, True, True), ex.sampled(student, False, True)
    return len({*plain}) == len(plain) == 2 and chunked == plain[1]


# Speculation: the rule, token by token.

HALVES = [[0.5, 0.5]]


@behaviour("accept_ratio_inverted", ACCEPT)
@cases("accept_shares")
def behaves_inverted_ratio(student: Student, case: Case) -> bool:
    """What the target likes half as much always stays; what it likes more does not."""
    return ex.stays_below(student, {0: 2.0, 1: 2 / 3}, HALVES, [[0.25, 0.75], [0.5, 0.5]])


@behaviour("accept_residual_of_another_row", ACCEPT)
@cases("accept_chain")
def behaves_residual_of_another_row(student: Student, case: Case) -> bool:
    """A first token is replaced rightly; the second by what another row says."""
    q = [[0.5, 0.5, 0, 0, 0]] * 2
    p = [[0.5, 0, 0.5, 0, 0], [0.5, 0, 0, 0.5, 0], [0, 0.5, 0, 0, 0.5]]
    uniforms = [0.3, 0.3, 0.9]
    early, late = (ex.accepted(student, tokens, q, p, uniforms) for tokens in ([1, 0], [0, 1]))
    return early == [2] and late in ([0, 2], [0, 4])


@behaviour("propose_target_row_early", SPECULATION)
@cases("speculate_greedy")
def behaves_early_rows(student: Student, case: Case) -> bool:
    """What follows the last token but one comes in place of the first guess."""
    return [ex.speculated(student, text) for text in ([2, 7, 4, 1], [6, 0, 3, 5])] == [[5], [4]]


@behaviour("accept_counts_all_that_pass", ACCEPT)
@cases("accept_chain")
def behaves_counted_passes(student: Student, case: Case) -> bool:
    """The first of two does not stay, and the second row's residual comes behind one of them."""
    q, p = [[0.5, 0.5, 0, 0]] * 2, [[0.1, 0.5, 0.4, 0], [0, 0.5, 0, 0.5], [0, 1, 0, 0]]
    both, late = (ex.accepted(student, [0, 1], q, p, [one, 0.1, 0.5]) for one in (0.1, 0.5))
    return both == [0, 1, 1] and late in ([0, 3], [1, 3])


@behaviour("propose_target_row_late", SPECULATION)
@cases("speculate_greedy")
def behaves_late_rows(student: Student, case: Case) -> bool:
    """What follows the first guess comes in its place."""
    return [ex.speculated(student, text) for text in ([2, 7, 4, 1], [6, 0, 3, 5])] == [[3], [7]]


@behaviour("propose_text_extended", SPECULATION)
@cases("speculate_greedy")
def behaves_extended_text(student: Student, case: Case) -> bool:
    """Guesses stand behind the text that was handed in."""
    return (ex.speculated(student, [2, 7], after_it=True) or [])[:3] == [2, 7, 0]
