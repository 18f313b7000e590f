"""What a student reads when the ranks of a hand-in do not find together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autograder.course.records import CheckResult, Message, Outcome
from autograder.reference.cases import Case
from autograder.sandbox.ranks import OutOfStep, RankLost


def out_of_step(error: OutOfStep, case: Case) -> Message:
    """Ranks returned while others wait, or they wait in different calls."""
    if error.gone:
        call = next(iter(error.waiting.values())).partition(" ")[0]
        values = {"gone": _ranks(error.gone), "call": call, "waiting": _ranks([*error.waiting])}
        return Message("check.rank_left", values | {"case": case.words})
    by_call: dict[str, list[int]] = {}
    for rank, call in error.waiting.items():
        by_call.setdefault(call, []).append(rank)
    (call, first), (other_call, others), *_ = by_call.items()
    values = {"first": _ranks(first), "others": _ranks(others)}
    calls = {"call": call, "other_call": other_call, "case": case.words}
    return Message("check.ranks_differ", values | calls)


def lost(error: RankLost, case: Case, ending: Mapping[str, str]) -> CheckResult:
    """The worker of a rank died, or was stopped."""
    values = {"rank": error.rank, "world": error.world, "case": case.words}
    if error.timed_out:
        clock = {"en": error.clock, "zh": "CPU" if error.clock == "CPU" else "实际"}
        told = values | {"seconds": float(str(error)), "clock": clock}
        if not error.waiting:
            message = Message("check.rank_timed_out", told)
        else:
            message = Message("check.rank_timed_out_alone", told | _who_waits(error.waiting))
        return CheckResult("", Outcome.TIMED_OUT, message, case=case.name)
    told = values | {"text": dict(ending)}
    if not error.waiting:
        message = Message("check.rank_crashed", told)
    else:
        message = Message("check.rank_crashed_alone", told | _who_waits(error.waiting))
    return CheckResult("", Outcome.CRASHED, message, case=case.name)


def _who_waits(waiting: Mapping[int, str]) -> dict[str, object]:
    call = next(iter(waiting.values())).partition(" ")[0]
    return {"waiting": _ranks([*waiting]), "call": call}


def _ranks(ranks: Sequence[int]) -> dict[str, str]:
    """Ranks by number, in words."""
    *most, last = map(str, ranks)
    if not most:
        return {"en": f"rank {last}", "zh": f"rank {last}"}
    return {"en": f"ranks {', '.join(most)} and {last}", "zh": f"rank {'、'.join([*most, last])}"}
