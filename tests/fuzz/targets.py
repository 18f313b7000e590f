"""The readers that are fuzzed, and how much: ``make fuzz`` runs every one in full, tests a part."""

from __future__ import annotations

import contextlib
import time
import traceback

from tests.fuzz import class_files, growth, hand_ins, lab_files, messages, replies
from tests.fuzz.profile import Tally, Target, fuzz

INPUTS = 50_000  # at least, over the first four; of them at least half with one to three changes
DECODER = Target("messages of a worker", messages.run, 180, 27_000)
REPLIES = Target("replies to checks", replies.run, 140, 7_000)
INTAKE = Target("hand-ins", hand_ins.run, 120, 12_000)
LABS = Target("lab.toml", lab_files.run, 80, 5_000)
RECORDS = Target("class.json", class_files.run, 60, 1_500)
TARGETS = (DECODER, REPLIES, INTAKE, LABS, RECORDS)


def fuzz_all(turn: int = 0, every: int = 1) -> Tally:
    """Run every target, also where one before it failed, and say how it went.

    Args:
        turn: which part of all inputs.
        every: 1 for all of them, 3 for every third from number ``turn`` on.
    """
    tally = Tally()
    for target in TARGETS:
        started = time.process_time()
        with contextlib.suppress(Exception):  # the tally keeps it
            fuzz(target, range(turn, target.full, every), tally)
        count, spent = tally.inputs[target.name], time.process_time() - started
        print(f"{target.name}: {count} inputs, {spent:.0f} s of CPU", flush=True)
    longer = list(growth.faults(growth.MANY))
    tally.errors += [AssertionError(fault) for fault in longer if fault]
    print(f"longer and longer: {len(longer)} inputs", flush=True)
    for error in tally.errors:
        traceback.print_exception(error)
    return tally


def enough(tally: Tally, every: int = 1) -> bool:
    """Whether as many inputs were run as promised, counted truly."""
    names = [target.name for target in TARGETS if target is not RECORDS]
    inputs = sum(tally.inputs[name] for name in names)
    return inputs >= INPUTS // every and sum(tally.changed[name] for name in names) >= inputs / 2
