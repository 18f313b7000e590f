"""A hand-in's engine around the checkpoint: model, blocks, scheduler, and what is counted."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.course.records import Text
from autograder.worker.loader import StudentModules
from labs.commands.own_code import ChatError, class_of, few_threads

if TYPE_CHECKING:
    import torch

    from labs.given.serving import Batch, Request

ENGINE = "engine.py"
MOST_IDLE = 1000  # steps without work, one after the other, while somebody waits


@dataclass(frozen=True)
class Sizes:
    """The sizes that an engine has to live with."""

    num_blocks: int = 256
    block_size: int = 8
    token_budget: int = 128
    max_running: int = 16


class CountedScheduler:
    """A hand-in's scheduler, called as it is; counts what it decides.

    Attributes:
        steps: batches with work.
        computed: tokens in them.
        reused: tokens that were not computed, since their blocks were found.
        ended: requests that were at their end before the present step.
    """

    def __init__(self, scheduler: Any, cache: Any, num_blocks: int) -> None:
        self._scheduler, self._cache, self._num_blocks = scheduler, cache, num_blocks
        self.steps = self.computed = self.reused = 0
        self.ended: set[int] = set()
        self._ending: set[int] = set()
        self._reached: dict[int, int] = {}  # by request: up to where it is computed
        self._idle = 0

    @property
    def waiting(self) -> Any:
        """Requests that own no blocks."""
        return self._scheduler.waiting

    @property
    def running(self) -> Any:
        """Requests that own blocks."""
        return self._scheduler.running

    @property
    def lost(self) -> int:
        """Blocks that somebody still owns."""
        return self._num_blocks - int(self._cache.available)

    def add(self, request: Request) -> None:
        """Put a request in line."""
        self._scheduler.add(request)

    def step(self, now: int) -> Batch:
        """The scheduler's next batch.

        Raises:
            ChatError: there is none, again and again.
        """
        self.ended |= self._ending
        batch: Batch = self._scheduler.step(now)
        self._idle = 0 if batch.works else self._idle + 1
        if self._idle > MOST_IDLE:
            raise ChatError(
                f"Requests wait, but {MOST_IDLE} batches of your scheduler in a row are empty.",
                f"还有请求在等待，但你的调度器连续 {MOST_IDLE} 步给出的批都是空的。",
            )
        self.steps += bool(batch.works)
        for one in batch.works:
            if one.start != self._reached.get(one.request, 0):  # comes in, or comes in again
                self.reused += one.start
            self._reached[one.request] = one.start + len(one.tokens)
            self.computed += len(one.tokens)
        return batch

    def update(self, sampled: Mapping[int, int], stopped: Collection[int] = ()) -> Any:
        """Tell it what was sampled; who is at the end."""
        finished = self._scheduler.update(sampled, stopped)
        self._ending.update(finished)
        for number in finished:
            self._reached.pop(number, None)
        return finished

    def counts(self) -> Text:
        """The counts, in a line."""
        return Text(
            f"[{self.steps} steps, {self.computed} tokens computed, {self.reused} reused, "
            f"blocks lost: {self.lost}]",
            f"[共 {self.steps} 步，计算 {self.computed} 个 token，复用 {self.reused} 个，"
            f"丢失的块：{self.lost}]",
        )


@dataclass(frozen=True)
class EngineParts:
    """All that serves requests; ``engine`` is the hand-in's class, made anew wherever needed.

    Attributes:
        engine: called with model, scheduler and words.
        model: maps a flat batch to logits.
        scheduler: the hand-in's, counted.
        words: the bytes of every token, each as the character of that number: a character of
            several tokens is cut otherwise. :class:`ByteText` reads them.
        end: what the token that ends a text says, in such characters.
        longest: tokens of a text at most.
    """

    engine: Any
    model: Any
    scheduler: CountedScheduler
    words: Sequence[str]
    end: tuple[str, ...]
    longest: int


def built(modules: StudentModules, checkpoint: Path, sizes: Sizes) -> EngineParts:
    """Put a hand-in's parts together.

    Raises:
        ChatError: the checkpoint, or a name in the hand-in, is not as it must be.
    """

    from labs.given.checkpoint import CheckpointError
    from labs.given.generate import GenerationError
    from labs.given.paged import PagedQwen3, Parts
    from labs.given.tokenizer import load_vocabulary

    named = ("Qwen3Attention", "BlockPool", "BlockTable")
    attention, pool, table = (class_of(modules, "attention", name) for name in named)
    parts = Parts(attention, pool, table, class_of(modules, "mlp", "Qwen3MLP"))
    own = ("PrefixCache", "Scheduler", "Engine")
    cache_cls, scheduler_cls, engine = (class_of(modules, "engine", name) for name in own)
    try:
        paged = PagedQwen3(checkpoint, parts, sizes.num_blocks, sizes.block_size)
    except CheckpointError as error:
        raise ChatError(*str(error).split("\n", 1)) from None

    def model(*inputs: Any, **named: Any) -> torch.Tensor:
        try:
            return paged(*inputs, **named)
        except GenerationError as error:
            raise ChatError(*str(error).split("\n", 1)) from None

    few_threads(checkpoint)
    cache = cache_cls(sizes.num_blocks, sizes.block_size)
    scheduler = scheduler_cls(cache, sizes.token_budget, sizes.max_running)
    vocab = load_vocabulary(checkpoint).vocab
    words = [""] * paged.config.vocab_size
    for text, number in vocab.items():
        words[number] = in_bytes(text)
    raw = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    named_end = raw.get("eos_token_id")
    end = (words[named_end],) if isinstance(named_end, int) and words[named_end] else ()
    longest = min(paged.config.max_position_embeddings, sizes.num_blocks * sizes.block_size)
    counted = CountedScheduler(scheduler, cache, sizes.num_blocks)
    return EngineParts(engine, model, counted, words, end, longest)


def in_bytes(text: str | bytes) -> str:
    """A text with one character for each of its bytes in UTF-8."""
    return (text if isinstance(text, bytes) else text.encode()).decode("latin-1")


class ByteText:
    """Reads what :func:`in_bytes` made, piece by piece."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, piece: str) -> str:
        """The characters that are whole now."""
        return self._decoder.decode(piece.encode("latin-1", "replace"))

    def rest(self) -> str:
        """The bytes at the end that never became a character."""
        return self._decoder.decode(b"", final=True)
