"""Admits requests into an engine that runs: continuous batching with a hand-in's own parts.

``Engine.stream`` takes all its requests before it begins. So every request gets an engine of its
own, which believes it is alone: its scheduler and its model are a :class:`Seat`. All seats share
one scheduler and one model. In every step the desk asks the scheduler for a batch, hands each
engine the work that is its request's, puts their calls of the model together into a single one,
and tells the scheduler what they have sampled. An engine cannot be left in the middle of a step,
so each has a thread; but only one of all these threads runs at a time, and the others wait.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from autograder.course.records import Text
from labs.commands.engine_parts import EngineParts
from labs.commands.own_code import ChatError

if TYPE_CHECKING:
    import torch

    from labs.given.serving import Batch, Request


@dataclass(frozen=True)
class TextEnd:
    """A text is over.

    Attributes:
        reason: ``stop`` or ``length``; ``error`` where student code failed, or the desk closed.
        tokens: how many were sampled.
        reused: how many of the prompt were not computed.
        said: what is the matter, for ``error``.
    """

    reason: str
    tokens: int = 0
    reused: int = 0
    said: str = ""


Tell = Callable[[str | TextEnd], None]


# What an engine does next, as its seat sees it.


@dataclass(frozen=True)
class Step:
    """It asks its scheduler for a batch."""


@dataclass(frozen=True)
class Call:
    """It calls its model: tokens, positions, cu_seqlens, block_tables, context_lens."""

    inputs: tuple[Any, ...]


@dataclass(frozen=True)
class Update:
    """It tells its scheduler what was sampled, and who has stopped."""

    sampled: Mapping[int, int]
    stopped: Collection[int]


@dataclass(frozen=True)
class Over:
    """It has nothing to do any more."""


@dataclass(frozen=True)
class Failure:
    """It raised something."""

    error: BaseException


Does = TypeVar("Does", Step, Call, Update, Over)


class Closed(BaseException):
    """Unwinds an engine that nobody needs any more; no ``except Exception`` stops it."""


class Seat:
    """One request and its engine, to which this is scheduler and model in one.

    Attributes:
        request: what is asked.
        gone: nobody listens any more.
    """

    def __init__(self, request: Request, tell: Tell) -> None:
        self.request, self.gone = request, False
        self.tell, self.tokens, self.reused = tell, 0, -1  # reused: not known yet
        self._waiting = [request]
        self._does: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    # What the desk calls.

    def begin(self, parts: EngineParts) -> None:
        """Start the engine; it is before its first step then."""
        threading.Thread(target=self._serve, args=(parts,), daemon=True).start()
        self._expected(Step)

    def go_on(self, answer: Any, until: type[Does]) -> Does:
        """Let the engine run with an answer to what it did, until it does this.

        Raises:
            ChatError: it does something else.
            BaseException: what it raises.
        """
        self._answers.put(answer)
        return self._expected(until)

    def close(self) -> None:
        """Let go of the engine."""
        self._answers.put(Closed())

    def _expected(self, until: type[Does]) -> Does:
        did = self._does.get()
        if isinstance(did, Failure):
            raise did.error
        if not isinstance(did, until):
            raise ChatError(
                f"Your engine should come to its {until.__name__} here, and came to "
                f"{type(did).__name__}: each batch with work is one step, one call of the model "
                "and one update.",
                f"你的引擎这时应该做 {until.__name__}，却做了 {type(did).__name__}："
                "每个有工作的批依次是一次 step、一次模型调用和一次 update。",
            )
        return did

    def _serve(self, parts: EngineParts) -> None:
        try:
            engine = parts.engine(self.model, self, parts.words)
            for _, piece in engine.stream([self.request]):
                self.tell(str(piece))
        except Closed:
            return
        except BaseException as error:  # a hand-in may raise anything, SystemExit too
            self._does.put(Failure(error))
        else:
            self._does.put(Over())

    # What the engine calls.

    @property
    def waiting(self) -> Sequence[Request]:
        """The request, until it is at its end."""
        return self._waiting

    @property
    def running(self) -> Sequence[Request]:
        """Nobody: who waits and who runs is known to the scheduler behind this."""
        return ()

    def add(self, request: Request) -> None:
        """It is in line already."""

    def step(self, now: int) -> Batch:
        """The next batch of the scheduler in which the request has a part: that part."""
        batch: Batch = self._did(Step())
        return batch

    def model(
        self, tokens: Any, positions: Any, cu_seqlens: Any, block_tables: Any, context_lens: Any
    ) -> torch.Tensor:
        """Logits ``[tokens of the request, vocab]``; called as the model behind this."""
        inputs = tokens, positions, cu_seqlens, block_tables, context_lens
        logits: torch.Tensor = self._did(Call(inputs))
        return logits

    def update(self, sampled: Mapping[int, int], stopped: Collection[int] = ()) -> list[int]:
        """The request's id once it is finished."""
        if not self._did(Update(sampled, stopped)):
            return []
        self._waiting = []
        return [self.request.id]

    def _did(self, what: Any) -> Any:
        self._does.put(what)
        answer = self._answers.get()
        if isinstance(answer, Closed):
            raise answer
        return answer


class Desk:
    """Takes requests from any thread; serves all of them in the thread that runs it.

    Attributes:
        longest: tokens of a text at most.
        end: a stop word of every request, see :class:`EngineParts`.
    """

    def __init__(
        self, build: Callable[[], EngineParts], explained: Callable[[BaseException], str]
    ) -> None:
        """Build the parts.

        Args:
            build: makes them; called again where student code has failed, since nobody knows
                what it left behind.
            explained: says what an exception of student code means.
        """
        self._build, self._explained = build, explained
        self._parts, self._broken = build(), False
        self.longest, self.end = self._parts.longest, self._parts.end
        self._numbers, self._now = itertools.count(), 0
        self._coming: queue.SimpleQueue[Seat | None] = queue.SimpleQueue()  # None: come to an end
        self._seats: dict[int, Seat] = {}
        self._closing = False

    def submit(self, request: Request, tell: Tell) -> Seat:
        """Put a request in line.

        Args:
            request: with any id and arrival.
            tell: called with every piece of text, and at last with how it ended.
        """
        seat = Seat(replace(request, id=next(self._numbers)), tell)
        self._coming.put(seat)
        return seat

    def close(self) -> None:
        """Let :meth:`run` come to its end, as soon as what runs has been stopped."""
        self._coming.put(None)

    def counts(self) -> Text:
        """The counts, in a line."""
        if self._broken:
            return Text(
                "[your code failed: its blocks cannot be counted]",
                "[你的代码出错了：无法统计它的块]",
            )
        return self._parts.scheduler.counts()

    def run(self) -> None:
        """Serve until it is closed."""
        while not self._closing or self._seats:
            try:
                self._admit()
                if self._seats:
                    self._step()
            except BaseException as error:  # student code may raise anything
                self._fail(self._explained(error))
        self._admit()  # who came too late hears it

    def _admit(self) -> None:
        """Let in who has come; wait for somebody where nobody is there."""
        while True:
            try:
                seat = self._coming.get(block=not self._seats and not self._closing)
            except queue.Empty:
                return
            if seat is None:
                self._closing = True
            elif self._closing:
                seat.tell(TextEnd("error", said=self._explained(_closing())))
            else:
                seat.request = replace(seat.request, arrival=self._now)
                self._seats[seat.request.id] = seat
                if self._broken:
                    self._parts, self._broken = self._build(), False
                seat.begin(self._parts)
                self._parts.scheduler.add(seat.request)

    def _step(self) -> None:
        scheduler = self._parts.scheduler
        batch = scheduler.step(self._now)
        self._now += 1
        if not batch.works:
            return
        seats = [self._seats[work.request] for work in batch.works]
        for seat, work in zip(seats, batch.works, strict=True):
            seat.reused = work.start if seat.reused < 0 else seat.reused
        calls = [
            seat.go_on(replace(batch, works=(work,)), Call)
            for seat, work in zip(seats, batch.works, strict=True)
        ]
        logits = self._parts.model(*joined([call.inputs for call in calls]))
        rows = logits.split([len(call.inputs[0]) for call in calls])
        updates = [seat.go_on(own, Update) for seat, own in zip(seats, rows, strict=True)]
        sampled: dict[int, int] = {}
        stopped: set[int] = set()
        left: set[int] = set()
        for seat, update in zip(seats, updates, strict=True):
            sampled.update(update.sampled)
            stopped.update(update.stopped)
            seat.tokens += len(update.sampled)
            if update.sampled and (seat.gone or self._closing):
                left.add(seat.request.id)
        finished = set(scheduler.update(sampled, stopped | left))
        for seat in seats:
            number = seat.request.id
            if number not in finished:
                seat.go_on(False, Step)
                continue
            seat.go_on(True, Over)
            reason = "stop" if number in stopped else "length"
            del self._seats[number]
            whole = number in stopped or seat.tokens == seat.request.max_new_tokens
            if whole:
                seat.tell(TextEnd(reason, seat.tokens, seat.reused))
            else:
                seat.tell(TextEnd("error", said=self._explained(_closing())))

    def _fail(self, said: str) -> None:
        """Tell all who are served what has happened, and begin anew."""
        for seat in self._seats.values():
            seat.tell(TextEnd("error", said=said))
            seat.close()
        self._seats, self._broken = {}, True


def _closing() -> ChatError:
    return ChatError("The server is coming to its end.", "服务器正在结束。")


def joined(calls: Iterable[Sequence[Any]]) -> list[torch.Tensor]:
    """Calls of a model as a single one: the sequences of all of them, one after the other."""
    import torch

    given = ([torch.as_tensor(one) for one in inputs] for inputs in calls)
    tokens, positions, bounds, tables, lengths = zip(*given, strict=True)
    new = torch.cat([bound.diff() for bound in bounds])  # [sequences]
    most = max(table.shape[1] for table in tables)
    wide = [
        torch.nn.functional.pad(table, (0, most - table.shape[1]), value=-1) for table in tables
    ]
    return [
        torch.cat(tokens),
        torch.cat(positions),
        torch.nn.functional.pad(new.cumsum(dim=0), (1, 0)),  # [sequences + 1]
        torch.cat(wide),
        torch.cat(lengths),
    ]
