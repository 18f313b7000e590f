"""Questions to the jail itself that need no grading, and so no torch."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autograder.course.labfile import ROOT
from autograder.course.records import Message
from autograder.grading.trials.records import End, Finding, State, Way, judged
from autograder.sandbox import probe
from autograder.sandbox.jail import LAYERS
from autograder.sandbox.spawned import clean_environment, command

_SECONDS = 60  # a machine may be busy; a probe takes a tenth of a second, or one


@dataclass(frozen=True)
class Layers:
    """Which layers bind around a process here, and one sentence for each that does not."""

    bound: tuple[str, ...]
    missing: Mapping[str, str]


def _started(question: str, without: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("autograder.sandbox.probe", ROOT, question, ",".join(without)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        cwd=ROOT.anchor,
        start_new_session=True,  # Ctrl-C is ours to handle
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed, and the last line of its errors."""
    with process:
        try:
            out, errors = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()[0], "it did not end"
    return out, (errors.strip().splitlines() or [""])[-1]


def layers(without: Sequence[str] = ()) -> Layers:
    """Ask which layers bind."""
    out, errors = _ended(_started("layers", without))
    try:
        told = json.loads(out)
        bound, missing = tuple(told["layers"]), dict(told["missing"])
    except (ValueError, KeyError, TypeError):
        why = f"the probe ended without an answer: {errors or 'no message'}"
        return Layers((), dict.fromkeys(LAYERS, why))
    refused = "the kernel, or the container around it, refused to bind it"
    return Layers(bound, {n: missing.get(n, refused) for n in LAYERS if n not in bound})


class Probes:
    """Two trials that run beside the scratch grading; ``findings`` waits for them."""

    def __init__(self, without: Sequence[str] = ()) -> None:
        self._asked = (
            (
                Finding("orphan", "processes", Message("doctor.trial_orphan"), State.NOT_TRIED),
                _started("orphan", without),
            ),
            (
                Finding("runaway", "cpu", Message("doctor.trial_runaway"), State.NOT_TRIED),
                _started("loop", without),
            ),
        )

    def findings(self) -> tuple[Finding, ...]:
        """What became of both."""
        return tuple(_finding(bare, *_ended(process)) for bare, process in self._asked)

    def close(self) -> None:
        """End what still runs."""
        for _, process in self._asked:
            with contextlib.suppress(OSError):
                process.kill()
            if process.returncode is None:
                _ended(process)


def _finding(bare: Finding, out: str, errors: str) -> Finding:
    said = out.split("\n")
    end, evidence = End.STOPPED, "SIGKILL"
    if probe.STARTED not in said:
        end, evidence = End.FAILED, errors or "it did not start"
    elif probe.WENT_ON in said:
        end, evidence = End.WORKED, "it went on"
    return judged(bare, [Way(bare.trial, end, evidence)])
