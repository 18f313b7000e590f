"""Lets a model that is split over ranks talk: real processes, which meet by torch's own gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from autograder.course.records import ToldError

RANK = "AUTOGRADER_CHAT_RANK"  # of a process that is one: "rank world", and where they meet
STORE = "AUTOGRADER_CHAT_STORE"
MOST = 8


class Stream(Protocol):
    """Text as tokens bring it."""

    def add(self, token: int) -> str:
        """Take a token; what is new of the text."""

    def rest(self) -> str:
        """Return what was held back."""


def is_rank(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process was started as a rank."""
    return RANK in environment


def start(ranks: int, command: Sequence[str]) -> int:
    """Run a command once per rank, and show what rank 0 says.

    Args:
        ranks: how many.
        command: the command line; it comes to :func:`join` and :func:`talk`.

    Returns:
        0, or 1 when a rank failed; what that one said is shown.

    Raises:
        ToldError: the number is out of range.
    """
    if not 1 <= ranks <= MOST:
        raise ToldError(f"RANKS={ranks}: give 1 to {MOST}.", f"RANKS={ranks}：请给 1 到 {MOST}。")
    with tempfile.TemporaryDirectory() as folder:
        processes, said = [], [Path(folder, f"said{rank}") for rank in range(ranks)]
        for rank in range(ranks):
            own = {RANK: f"{rank} {ranks}", STORE: str(Path(folder, "store"))}
            environment = os.environ | {"OMP_NUM_THREADS": "1"} | own
            hidden = subprocess.DEVNULL if rank else None
            with said[rank].open("wb") as file:
                made = subprocess.Popen(command, env=environment, stdout=hidden, stderr=file)
            processes.append(made)
        try:
            failed = _first_failed(processes)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if failed is None:
            return 0
        # The others only say that it is gone.
        print(said[failed].read_text(encoding="utf-8", errors="replace"), end="", file=sys.stderr)
        return 1


def _first_failed(processes: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Wait until all have ended, or until one has failed; which one that was."""
    while True:
        found = [process.poll() for process in processes]
        for rank, status in enumerate(found):
            if status:
                return rank
        if None not in found:
            return None
        time.sleep(0.05)


def join() -> int:
    """Become the rank that this process was started as; the number of it."""
    import torch.distributed as dist

    from autograder.worker import collective

    if not is_rank():
        collective.stand_alone()
        return 0
    rank, world = map(int, os.environ[RANK].split())
    store = Path(os.environ[STORE]).as_uri()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    return rank


def end(status: int) -> NoReturn:
    """End the rank that this process is, and nothing after it.

    Threads of gloo may still run while Python takes itself apart, and abort the process then.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def talk(
    model_cls: Callable[..., Any],
    parts: Sequence[Any],
    checkpoint: Path,
    streamed: Stream,
    prompt: str,
    tokens: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
) -> None:
    """Continue a prompt and print the text as it comes, on rank 0.

    Without a cache: every token is computed from the whole text.

    Args:
        model_cls: the student's ``Qwen3ForCausalLM``.
        parts: the classes of ``Parts``, in their order.
        checkpoint: folder in Hugging Face format.
        streamed: made of the same tokens.
        prompt: as text.
        tokens: as tokens.
        max_new_tokens: how many to add.
        temperature: 0 takes the likeliest token.
        seed: of chance.

    Raises:
        ToldError: the logits hold NaN or infinity.
    """
    import torch
    import torch.distributed as dist

    from labs.given import parallel

    raw = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    made = parallel.Parts(*parts)
    model = parallel.loaded(model_cls, checkpoint, made, raw.get("rope_scaling"))
    random = torch.Generator().manual_seed(seed)
    ids, shown = list(tokens), prompt
    with torch.no_grad():
        for _ in range(max_new_tokens):
            borders = torch.tensor([0, len(ids)], dtype=torch.int32)
            states = model(torch.tensor(ids), torch.arange(len(ids)), borders)
            logits = model.compute_logits(states, borders)[0].float()
            if not torch.isfinite(logits).all():
                raise ToldError(
                    "The logits of your model hold NaN or infinity.",
                    "你的模型的 logits 含有 NaN 或无穷大。",
                )
            if temperature:  # Gumbel-max: the largest sum is a sample of the softmax
                noise = -torch.empty(logits.shape).exponential_(generator=random).log()
                logits = logits + temperature * noise
            chosen = logits.argmax()
            dist.broadcast(chosen, 0)
            token = int(chosen)
            if token == raw.get("eos_token_id"):
                break
            ids.append(token)
            print(shown + streamed.add(token), end="", flush=True)
            shown = ""
    print(shown + streamed.rest(), file=sys.stdout, flush=True)
