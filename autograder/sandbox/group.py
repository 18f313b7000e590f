"""A hand-in as several ranks, as checks see it: every call runs on all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from autograder.sandbox.ranks import RankTransport
from autograder.sandbox.student_error import StudentError

if TYPE_CHECKING:
    from autograder.sandbox.student import Handle, Result, Student

MOST_RANKS = 8


@dataclass(frozen=True)
class Each:
    """An argument that differs from rank to rank: ``values[rank]``."""

    values: Sequence[Any]


class RankHandle:
    """An object that every rank made; calling it calls it on each."""

    def __init__(self, group: Group, handles: Sequence[Handle]) -> None:
        self._group = group
        self.handles = handles

    def __call__(self, *args: Any, **kwargs: Any) -> RankResult:
        return self._group.call(self, *args, **kwargs)


class RankResult:
    """What the ranks return, by rank; looking at it runs what is queued."""

    def __init__(self, group: Group, results: Sequence[Result]) -> None:
        self._group, self._results = group, results
        self.calls: tuple[str, ...] = ()  # collectives of a counted call, by name

    def __getitem__(self, rank: int) -> Result:
        self._group.flush()
        return self._results[rank]

    def __len__(self) -> int:
        return len(self._results)

    def settle(self) -> None:
        """Run what is queued, whatever comes back."""
        self._group.flush()

    def __iter__(self) -> Iterator[Result]:
        return (self[rank] for rank in range(len(self)))


class Group:
    """One check's view of a hand-in that runs as ``world`` ranks.

    Arguments are the same for all ranks, or :class:`Each`. Steps are queued as those of a
    :class:`Student` are.
    """

    def __init__(self, owner: Student, transport: object, world: int) -> None:
        self._owner = owner
        self._transport = cast(RankTransport, transport)
        if not 0 < world <= MOST_RANKS:
            raise ValueError(f"{world} ranks; 1 to {MOST_RANKS} can be had")
        self._students = [type(owner)(cast(Any, transport)) for _ in range(world)]
        self.world = world

    def new(
        self, path: str, *args: Any, weights: Mapping[str, Any] | Each | None = None, **kwargs: Any
    ) -> RankHandle:
        """Construct an object on every rank, see :meth:`Student.new`."""
        made = []
        for rank, student in enumerate(self._students):
            own, named = _own(rank, args, kwargs)
            state = weights.values[rank] if isinstance(weights, Each) else weights
            made.append(student.new(path, *own, weights=state, **named))
        return RankHandle(self, made)

    def call(
        self, target: str | RankHandle, *args: Any, counted: bool = False, **kwargs: Any
    ) -> RankResult:
        """Call something on every rank, see :meth:`Student.call`.

        With ``counted`` it runs at once and by itself, and the result tells its collectives.
        """
        if counted:
            self.flush()
        results = []
        for rank, student in enumerate(self._students):
            own, named = _own(rank, args, kwargs)
            on = target.handles[rank] if isinstance(target, RankHandle) else target
            results.append(self._noted(rank, student.call(on, *own, **named)))
        result = RankResult(self, results)
        if counted:
            result.calls = self.flush()
            self._owner.note(len(result.calls), rank=-1)
        return result

    def get(self, handle: RankHandle, name: str) -> RankResult:
        """Read an attribute on every rank."""
        found = [s.get(handle.handles[rank], name) for rank, s in enumerate(self._students)]
        return RankResult(self, [self._noted(rank, one) for rank, one in enumerate(found)])

    def flush(self) -> tuple[str, ...]:
        """Run what is queued; the collectives in which the ranks met meanwhile.

        Raises:
            StudentError: student code raised on some ranks; where not on all of them in the same
                way, its text names one.
            OutOfStep, RankLost: see :mod:`autograder.sandbox.ranks`.
        """
        if not self._students[0].queued:
            return ()
        packed = [student.packed() for student in self._students]
        met = self._transport.exchange_ranks([(request, tensors) for request, tensors, _ in packed])
        errors: dict[int, StudentError] = {}
        for rank, ((_, _, take), reply) in enumerate(zip(packed, met.replies, strict=True)):
            try:
                if reply is not None:
                    take(reply)
            except StudentError as error:
                errors[rank] = error
        if errors:
            rank = min(errors)
            if len(errors) < self.world or len({e.text for e in errors.values()}) > 1:
                errors[rank].text = f"[rank {rank}] {errors[rank].text}"
            raise errors[rank]
        return met.calls

    def _noted(self, rank: int, result: Result) -> Result:
        result.step = {**result.step, "rank": rank}
        self._owner.asked.append(result)
        return result


def _own(
    rank: int, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of one rank."""

    def of(value: Any) -> Any:
        value = value.values[rank] if isinstance(value, Each) else value
        return value.handles[rank] if isinstance(value, RankHandle) else value

    return [of(value) for value in args], {name: of(value) for name, value in kwargs.items()}
