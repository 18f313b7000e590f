"""Judges one hand-in from beginning to end: all checks, marks for a person, a replay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder.course.plain import (
    finding_to_plain,
    message_from_plain,
    message_to_plain,
    result_to_plain,
)
from autograder.harness import confirm, explain, marks, replay
from autograder.harness.diagnose import Known, findings
from autograder.harness.plan import Plan
from autograder.harness.runner import Runner
from autograder.sandbox.kept import KeepingTransport, KeptTransport
from autograder.sandbox.link import NoWorker, Starter
from autograder.sandbox.transport import Sources, WorkerTransport


def judged(
    plan: Plan, request: Mapping[str, Any], start: Starter, known: Known | None = None
) -> dict[str, Any]:
    """Run all checks on one hand-in.

    Args:
        plan: the lab's checks and cases.
        request: see :mod:`autograder.harness.judge`; with ``keep`` (a path) what comes back is
            kept there, with ``kept`` it is taken from there and nothing of the hand-in runs.
        start: how to get a worker.
        known: what mistakes are recognised by; without it none is looked for.

    Returns:
        ``{"record": …}``, or ``{"no_worker": why}``, or ``{"unwritten": [errno, why]}`` when what
        came back could not be kept.
    """
    lab = plan.lab
    plan = plan.shuffled(request["order"])
    problems = {name: message_from_plain(raw) for name, raw in request["problems"].items()}
    sources = Sources(request["files"], request["paths"], lab.given)
    worker = WorkerTransport(start, sources, lab.limits)
    transport: WorkerTransport | KeepingTransport | KeptTransport = worker
    if request.get("kept"):
        transport = KeptTransport(Path(request["kept"]))
    elif request.get("keep"):
        told = {name: request[name] for name in ("files", "problems", "order")}
        transport = KeepingTransport(worker, Path(request["keep"]), told)
    ahead = None if request.get("kept") else worker.ahead
    runner = Runner(plan, transport, ahead, whole=request.get("whole", True))
    try:
        results = runner.public(problems, set(request["checks"]))
        # In the worker at hand, which has seen no hidden case yet.
        with transport.aside():
            recognised = findings(plan, results, runner.answers, known, transport) if known else ()
        results = runner.hidden()
        files, ran = request["files"], runner.imported
        found = marks.forbidden(lab, files, runner.operators, ran)
        unread = marks.is_unread(files, ran)
        if request["replay"] and (unread or replay.wanted(files, request["order"])):
            by_name = {result.check: result for result in results}
            found += replay.changed(plan, by_name, worker, request["order"])
        if request["replay"] and confirm.wanted(found, request["order"]):
            with worker.aside():
                found += confirm.disagreements(plan, results, worker)
        results = explain.of_files(lab, request["files"], results)
        if isinstance(transport, KeepingTransport):
            runner.ask_the_rest()
            try:
                transport.save()
            except OSError as error:
                return {"unwritten": [error.errno, error.strerror]}
    except NoWorker as error:
        return {"no_worker": str(error)}
    finally:
        worker.renew()
    return {
        "record": {
            "results": [result_to_plain(result) for result in results],
            "marks": [message_to_plain(mark) for mark in found],
            "findings": [finding_to_plain(one) for one in recognised],
        }
    }
