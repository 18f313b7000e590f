"""Several workers as ranks of one hand-in: the judge hands round what they give each other.

A rank is an ordinary worker. In the middle of a request it may send ``{"call", "about"}`` with
some bytes instead of its reply: it has come to a collective and waits. When all ranks wait in the
same one, each gets everybody's bytes and goes on. So the judge knows, without believing student
code, how many collectives there were and which rank did not come to one: nobody waits for a rank
that has returned, raised or died.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from autograder.sandbox.links import Budget, Link, StudentError, WorkerLost
from autograder.sandbox.prefetcher import ForeseenRequest
from autograder.wire.frames import WireError
from autograder.wire.messages import MAX_COLLECTIVE, Tensor, pack, unpack

if TYPE_CHECKING:
    from autograder.sandbox.student import Handle, Result, Student


MOST_COLLECTIVES = 4096  # of one request
MAX_WORDS = 200  # characters of what a rank says of its call

Reply = tuple[dict[str, Any], dict[str, Tensor]]
Request = tuple[dict[str, Any], Mapping[str, Tensor]]


@dataclass(frozen=True)
class RankReplies:
    """The replies to one request to every rank.

    ``replies`` by rank: None for a rank that was left waiting since another raised. ``calls``:
    the collectives in which all ranks met, by name, in their order.
    """

    replies: tuple[Reply | None, ...]
    calls: tuple[str, ...]


class RankTransport(Protocol):
    """Executes a request on every rank of a hand-in at once."""

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        """Run the requests side by side, one per rank."""


class RankLost(WorkerLost):
    """The worker of a rank is gone; ``waiting`` tells who waits for it, and in which call."""

    def __init__(self, lost: WorkerLost, rank: int, world: int, waiting: Waiting) -> None:
        super().__init__(str(lost), timed_out=lost.timed_out, clock=lost.clock, stray=lost.stray)
        self.rank, self.world, self.waiting = rank, world, waiting


class OutOfStep(StudentError):
    """The ranks' collective calls do not fit together.

    ``gone``: ranks that returned while others wait; empty if all wait, but not in one call.
    ``waiting``: the words of the call in which each of the others waits.
    """

    def __init__(self, gone: Sequence[int], waiting: Waiting) -> None:
        kind = "RanksLeft" if gone else "RanksDiffer"
        calls = ", ".join(dict.fromkeys(waiting.values()))
        super().__init__({"stage": "ranks", "type": kind, "text": calls})
        self.gone, self.waiting = tuple(gone), waiting


class RankRaised(StudentError):
    """Another rank raised, while one in this very process waits for it."""


Waiting = Mapping[int, str]  # by rank, the call in words


class RankExchange:
    """Brings the ranks of one request together.

    Args:
        links: workers by rank; a rank without one is in this very process and calls :meth:`ask`.
        world: number of ranks.
    """

    def __init__(self, links: Mapping[int, Link], world: int) -> None:
        self._links, self._world = links, world
        self._running = list(links)
        self._waiting: dict[int, tuple[str, bytes]] = {}
        self._replies: dict[int, Reply] = {}
        self._lost: dict[int, WorkerLost] = {}
        self.raw: dict[int, bytes] = {}  # replies as they came
        self.calls: list[str] = []

    def begin(self, blobs: Mapping[int, bytes], budget: Budget) -> None:
        """Send every linked rank its request; all begin to run."""
        for rank, link in self._links.items():
            link.begin(blobs[rank], budget)

    def end(self) -> RankReplies:
        """Let them meet until all have replied.

        Raises:
            RankLost: one died, or ran out of time.
            OutOfStep: their calls do not fit together.
        """
        self._hear()
        while self._waiting:
            if self._replies:
                if any("error" in reply for reply, _ in self._replies.values()):
                    break
                gone = [rank for rank in range(self._world) if rank not in self._waiting]
                raise OutOfStep(gone, self._words())
            self._answer()
            self._hear()
        return self.met()

    def met(self) -> RankReplies:
        """Return what has become of the request so far."""
        found = tuple(self._replies.get(rank) for rank in range(self._world))
        return RankReplies(found, tuple(self.calls))

    def ask(self, rank: int, call: str, about: str, data: bytes) -> list[bytes]:
        """Let a rank in this process meet the others; what everybody gave, by rank.

        Raises:
            RankLost, OutOfStep: see :meth:`end`.
            RankRaised: another one did.
        """
        self._waiting[rank] = f"{call} {about}".strip(), data
        self._hear()
        for other, (reply, _) in sorted(self._replies.items()):
            if "error" in reply:
                told = RankRaised(reply["error"])
                told.text = f"[rank {other}] {told.text}"
                raise told
        if self._replies:
            gone = [other for other in range(self._world) if other not in self._waiting]
            raise OutOfStep(gone, self._words())
        return self._answer()

    def replied(self, rank: int, reply: Reply) -> None:
        """A rank in this process is through."""
        self._replies[rank] = reply

    def _hear(self) -> None:
        """Wait until no rank runs: one after the other, since they run side by side anyway."""
        running, self._running = self._running, []
        for rank in running:
            try:
                blob = self._links[rank].finish()
                tree, tensors = unpack(blob)
                if "call" in tree:
                    if self._links[rank].unread():
                        raise WorkerLost("it called again before it had the answer")
                    self._waiting[rank] = _said(tree), _given(tensors)
                else:
                    self._replies[rank], self.raw[rank] = (tree, tensors), blob
            except WorkerLost as error:
                self._lost[rank] = error
            except (WireError, KeyError) as error:
                self._lost[rank] = WorkerLost(str(error))
        for rank, lost in sorted(self._lost.items()):
            raise RankLost(lost, rank, self._world, self._words())

    def _answer(self) -> list[bytes]:
        """Give everybody's bytes to all who wait; each has to wait in the same call."""
        words = self._words()
        if len(set(words.values())) > 1:
            raise OutOfStep((), words)
        self.calls.append(words[0].partition(" ")[0])
        given = [self._waiting[rank][1] for rank in range(self._world)]
        if len(self.calls) > MOST_COLLECTIVES:
            lost = WorkerLost(f"more than {MOST_COLLECTIVES} collectives")
            raise RankLost(lost, 0, self._world, {})
        tensors = {str(r): Tensor("uint8", (len(data),), data) for r, data in enumerate(given)}
        answer = pack({"all": self._world}, tensors)
        self._running = [rank for rank in self._waiting if rank in self._links]
        for rank in self._running:
            try:
                self._links[rank].proceed(answer)
            except WorkerLost as error:
                raise RankLost(error, rank, self._world, {}) from None
        self._waiting.clear()
        return given

    def _words(self) -> dict[int, str]:
        return {rank: self._waiting[rank][0] for rank in sorted(self._waiting)}


class RankWorkers:
    """The workers that a hand-in has as ranks: started when needed, kept from check to check."""

    def __init__(self, begin: Callable[[Link | None], Link], budget: Budget) -> None:
        """``begin`` gives a worker that knows its sources, where it is given one: that one."""
        self._begin, self.budget = begin, budget
        self._links: list[Link] = []
        self._held = defaultdict[int, set[str]](set)  # names of tensors that a rank keeps
        self.raw: tuple[bytes, ...] = ()  # of the last request, by rank; empty where one is absent

    def fill(self, count: int, start: Callable[[], Link] | None = None) -> None:
        """Have so many workers. With ``start`` they come up side by side.

        Raises:
            NoWorker: one could not be started.
        """
        missing = count - len(self._links)
        waiting = [start() for _ in range(missing)] if start else [None] * missing
        try:
            while waiting:
                self._links.append(self._begin(waiting.pop()))
        finally:
            for link in waiting:
                if link is not None:
                    link.close()

    def exchange(self, requests: Sequence[Request], world: int = 0, first: int = 0) -> RankExchange:
        """Send the requests; call ``end`` of what comes back.

        Args:
            requests: those of the ranks from ``first`` on, for which there are workers.
            world: number of ranks; 0: as many as requests.
            first: the first rank that has a worker.
        """
        world = world or len(requests)
        links = {first + place: self._links[place] for place in range(len(requests))}
        hub = RankExchange(links, world)
        blobs = {}
        for place, (request, tensors) in enumerate(requests):
            rank = first + place
            asked = ForeseenRequest({**request, "rank": [rank, world]}, tensors)
            blobs[rank] = asked.packed(self._held[place])
        hub.begin(blobs, self.budget)
        return hub

    def prints(self) -> str:
        """Return what the ranks printed since the last call: once where all printed the same."""
        found: list[str] = []
        for link in self._links:
            try:
                found.append(link.take_prints())
            except WorkerLost:  # it printed too much; the next request will say so
                found.append("")
        if len(set(found)) <= 1:
            return found[0] if found else ""
        lines = [(r, line) for r, text in enumerate(found) for line in text.splitlines()]
        return "".join(f"[rank {rank}] {line}\n" for rank, line in lines)

    def close(self) -> None:
        """End all of them."""
        for link in self._links:
            link.close()
        self._links.clear()
        self._held.clear()


def _given(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes that a rank gives. Raises KeyError, WireError."""
    data = bytes(tensors["b"].data)
    if len(data) > MAX_COLLECTIVE:
        raise WireError(f"a collective of {len(data)} bytes; at most {MAX_COLLECTIVE} are taken")
    return data


def _said(tree: Mapping[str, Any]) -> str:
    return f"{tree['call']} {tree.get('about', '')}".strip()[:MAX_WORDS]


# A hand-in as several ranks, as checks see it: every call runs on all of them at once.

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
    """Results of the ranks, by rank; looking at one runs what is queued."""

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
