"""Which mistakes were named in graded hand-ins, and which names are wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from autograder.course.records import Certainty, Finding, HandIn

True_ = Mapping[str, Collection[str]]  # the classes of the mistakes in a hand-in, by its name


SURE = (Certainty.NAMED, Certainty.SHOWN)
# What experiments or checks show, in whatever form, and the classes of such forms among patches.
FORMS = {
    "theta_fixed": {"theta_hard_coded"},
    "eps_fixed": {"eps_hard_coded", "eps_left_at_default", "eps_of_torch", "eps_missing"},
    "intermediate_size_fixed": {"intermediate_size_guessed"},
    "positions_one_dimensional_only": {"batched_tables_not_broadcast"},
    "given_mask_taken_as_boolean": {"given_mask_inverted"},
    "argument_changed": {"layer_in_place", "loss_changes_the_logits", "queries_scaled_in_place"},
    "tuple_returned": {"pair_returned"},
}


def true_names(classes: Collection[str]) -> set[str]:
    """Whatever may be said of a hand-in with mistakes of these classes."""
    return {*classes, *(name for name, found in FORMS.items() if found & set(classes))}


def named(hand_in: HandIn) -> tuple[Finding, ...]:
    """The findings that name a mistake."""
    return tuple(f for f in hand_in.findings if f.certainty in SURE)


def hits(hand_in: HandIn, classes: Collection[str]) -> set[str]:
    """Those of ``classes`` that are named, alone or together with others of them.

    One of several that cannot be told apart does not count.
    """
    certain = (f for f in named(hand_in) if not f.either)
    return {one.id for f in certain for one in f.misconceptions} & set(classes)


def unnamed(true: True_, graded: Mapping[str, HandIn]) -> list[str]:
    """Hand-ins with a mistake of which none is named."""
    return [name for name, classes in true.items() if not hits(graded[name], classes)]


def wrongly_named(true: True_, graded: Mapping[str, HandIn]) -> Iterator[tuple[str, str]]:
    """Hand-ins with a name that none of their mistakes has.

    Where it is one of several, a right one among them is enough.
    """
    for name, classes in true.items():
        for finding in named(graded[name]):
            ids = {one.id for one in finding.misconceptions}
            if finding.either and ids & set(classes):
                continue
            for other in sorted(ids - true_names(classes)):
                yield name, other
